//! What a run measures while it runs.

use std::fmt;

use spinwire_core::stats::Stats;
use spinwire_core::time::{Instant, Nanos};

use crate::histogram::Latencies;
use crate::load::Sent;
use crate::units::{Grouped, counted};

/// Latencies and counters of the measured messages. All its memory is allocated by [`Measure::new`].
#[derive(Clone, Debug)]
pub struct Measure {
    /// From the planned time of sending to the reply.
    pub response: Latencies,
    /// From the real time of sending to the reply. The same as `response` in a run without a rate.
    pub service: Latencies,
    /// Replies so far.
    pub replies: u64,
    /// Messages sent when the one after them was already due.
    pub sent_late: u64,
    /// Messages without a reply when the run ended: those of the warm-up, if it ended in there.
    pub left: Left,
    /// The run ended in its warm-up, after so many replies.
    pub ended_in_warmup: Option<u64>,
    /// Messages planned for the run that could not be sent in its time.
    pub unsent: u64,
    /// Longest time from the start of one turn to the start of the next.
    pub turn_longest: Nanos,
    /// Messages the server has receives for at one time on a connection, where it says so.
    pub server_window: Option<u32>,
    /// Connections that did not come up for good.
    pub connects_failed: u64,
    from: Option<Instant>,
    until: Instant,
    last_turn: Option<Instant>,
    stats_from: Stats,
    stats_until: Stats,
}

impl Measure {
    /// Nothing measured yet.
    pub fn new() -> Self {
        Self {
            response: Latencies::new(),
            service: Latencies::new(),
            replies: 0,
            sent_late: 0,
            left: Left::default(),
            ended_in_warmup: None,
            unsent: 0,
            turn_longest: Nanos::ZERO,
            server_window: None,
            connects_failed: 0,
            from: None,
            until: Instant::ZERO,
            last_turn: None,
            stats_from: Stats::default(),
            stats_until: Stats::default(),
        }
    }

    /// Whether no measured message was sent yet.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.from.is_none()
    }

    /// The next message is the first that counts, unless this is said again: counters are taken from here, without it.
    pub fn begin(&mut self, stats: &Stats) {
        self.stats_from = *stats;
    }

    /// A measured message was sent.
    #[inline]
    pub fn sent(&mut self, sent: &Sent, late: bool) {
        if self.from.is_none() {
            self.from = Some(sent.planned);
        }
        self.sent_late += u64::from(late);
    }

    /// Its reply came.
    #[inline]
    pub fn reply(&mut self, sent: &Sent, now: Instant) {
        self.response.record(now.since(sent.planned));
        self.service.record(now.since(sent.at));
        self.replies += 1;
        self.until = now;
    }

    /// A turn of the loop began at `now`.
    #[inline]
    pub fn turn(&mut self, now: Instant) {
        if self.from.is_some() {
            let last = self.last_turn.replace(now).unwrap_or(now);
            self.turn_longest = self.turn_longest.max(now.since(last));
        }
    }

    /// The run did all it was to do, and that took until `end`, though the last reply may have come before.
    pub fn complete(&mut self, end: Instant) {
        self.until = self.until.max(end);
    }

    /// The run is over, with such messages without a reply and so many never sent.
    pub fn end(&mut self, stats: &Stats, left: Left, unsent: u64) {
        self.unsent = unsent;
        self.left = left;
        self.stats_until = *stats;
        if self.from.is_none() {
            self.stats_from = *stats;
        }
    }

    /// From the first measured message to the last reply, or to the end of the time that was asked for.
    pub fn elapsed(&self) -> Nanos {
        self.from.map_or(Nanos::ZERO, |from| self.until.since(from))
    }

    /// Replies per second over [`Measure::elapsed`]; zero when nothing was measured.
    pub fn rate_per_s(&self) -> f64 {
        match self.elapsed().get() {
            0 => 0.0,
            nanos => self.replies as f64 * 1e9 / nanos as f64,
        }
    }

    /// Attempts to connect that failed, from the start of the loop: those that were followed by another and those that were not.
    pub fn attempts_failed(&self) -> u64 {
        self.stats_until.attempts_failed + self.connects_failed
    }

    /// What the loop did meanwhile.
    pub fn counts(&self) -> Counts {
        difference(&self.stats_from, &self.stats_until)
    }
}

/// Messages without a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Those that were sent.
    pub outstanding: u64,
    /// Those that wait at this side, because the server has no receive for them yet.
    pub queued: u64,
}

impl fmt::Display for Left {
    /// `10 messages without a reply`, or `10 messages without a reply and 54 still queued at this side`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} without a reply", counted(self.outstanding, "message"))?;
        match self.queued {
            0 => Ok(()),
            some => write!(f, " and {} still queued at this side", Grouped(some)),
        }
    }
}

impl Default for Measure {
    fn default() -> Self {
        Self::new()
    }
}

/// Counters between two points of a run.
fn difference(from: &Stats, to: &Stats) -> Counts {
    Counts {
        turns: to.turns - from.turns,
        turns_empty: to.turns_empty - from.turns_empty,
        doorbells: to.doorbells - from.doorbells,
        receives_posted: to.receives_posted - from.receives_posted,
        sends_signaled: to.sends_signaled - from.sends_signaled,
        credit_messages: to.credit_messages - from.credit_messages,
        credit_stalls: to.credit_stalls - from.credit_stalls,
        bytes_sent: to.bytes_sent - from.bytes_sent,
        bytes_received: to.bytes_received - from.bytes_received,
    }
}

/// What the loop did while the run was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Turns of the loop.
    pub turns: u64,
    /// Turns that found nothing to do.
    pub turns_empty: u64,
    /// Chains of sends handed to the device.
    pub doorbells: u64,
    /// Receives posted.
    pub receives_posted: u64,
    /// Sends that asked for a completion.
    pub sends_signaled: u64,
    /// Messages that carried credits and nothing else.
    pub credit_messages: u64,
    /// Turns in which a connection had something to send but no credit of the peer.
    pub credit_stalls: u64,
    /// Payload bytes sent.
    pub bytes_sent: u64,
    /// Payload bytes received.
    pub bytes_received: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_queued_is_told_from_what_was_sent() {
        let words = |outstanding, queued| Left { outstanding, queued }.to_string();
        assert_eq!(words(1, 0), "1 message without a reply");
        assert_eq!(words(1_000, 54), "1,000 messages without a reply and 54 still queued at this side");
    }
}
