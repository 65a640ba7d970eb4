//! When the next message is to be sent, and which ones count.

use spinwire_core::time::{Instant, Nanos};

/// How messages follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// A new message as soon as a reply made room.
    Closed,
    /// So many messages per second, whatever the replies do. A message that cannot go out in time keeps its planned
    /// time, and latency is measured from that.
    Rate(u64),
}

/// How long a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// So many measured messages.
    Count(u64),
    /// From the first measured message, so long.
    Span(Nanos),
}

/// The plan of a run: messages are numbered from 0 in the order they are sent; the first `warmup` do not count.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pace: Pace,
    extent: Extent,
    warmup: u64,
    sent: u64,
    /// The planned time of message 0, and from the first measured one on, of that.
    base: Instant,
    /// The number of the message planned at `base`.
    base_number: u64,
    measured_from: Option<Instant>,
}

/// One message that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When it should have gone out. Without a rate, when it did.
    pub planned: Instant,
    /// When it did.
    pub at: Instant,
    /// Whether it counts.
    pub measured: bool,
}

impl Load {
    /// A plan that begins at `start`.
    pub fn new(pace: Pace, extent: Extent, warmup: u64, start: Instant) -> Self {
        Self { pace, extent, warmup, sent: 0, base: start, base_number: 0, measured_from: None }
    }

    /// The planned time of the next message if it is to go out by `now`; `None` when it is too early or all are sent.
    #[inline]
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let planned = self.planned(now);
        (planned <= now && !self.is_over(planned, now)).then_some(planned)
    }

    /// Notes that the message [`Load::due`] spoke of was handed over.
    #[inline]
    pub fn sent(&mut self, now: Instant) -> Sent {
        let planned = self.planned(now);
        let measured = self.sent >= self.warmup;
        if measured && self.measured_from.is_none() {
            self.measured_from = Some(planned);
        }
        self.sent += 1;
        if self.sent == self.warmup {
            // What the warm-up is behind its plan is not charged to the messages that count.
            (self.base, self.base_number) = (self.planned(now).max(now), self.sent);
        }
        Sent { planned, at: now, measured }
    }

    /// Whether the next message is the first that counts.
    #[inline]
    pub fn is_before_first(&self) -> bool {
        self.sent == self.warmup
    }

    /// The first message that counts goes out at `now` at the earliest: what it waited for is not charged to it.
    pub fn put_off(&mut self, now: Instant) {
        debug_assert!(self.is_before_first());
        self.base = self.base.max(now);
    }

    /// Whether nothing more is to be sent, and the time that was asked for is over.
    pub fn exhausted(&self, now: Instant) -> bool {
        self.is_over(self.planned(now), now) && self.span_end().is_none_or(|end| now >= end)
    }

    /// Where a span ends that has begun.
    pub fn span_end(&self) -> Option<Instant> {
        match self.extent {
            Extent::Count(_) => None,
            Extent::Span(span) => self.measured_from.map(|from| from + span),
        }
    }

    /// When the first measured message was (planned to be) sent.
    pub fn measured_from(&self) -> Option<Instant> {
        self.measured_from
    }

    /// Whether the message went out later than the plan allows: when the one after it was already due.
    pub fn is_late(&self, sent: &Sent) -> bool {
        match self.pace {
            Pace::Closed => false,
            Pace::Rate(per_second) => sent.at.since(sent.planned) >= offset(1, per_second),
        }
    }

    fn planned(&self, now: Instant) -> Instant {
        match self.pace {
            Pace::Closed => now,
            Pace::Rate(per_second) => self.base + offset(self.sent - self.base_number, per_second),
        }
    }

    fn is_over(&self, planned: Instant, now: Instant) -> bool {
        match self.extent {
            Extent::Count(count) => self.sent >= self.warmup.saturating_add(count),
            Extent::Span(_) => self.span_end().is_some_and(|end| planned >= end || now >= end + CATCH_UP),
        }
    }

    /// Messages planned for a span that were not sent in it: the rate was too high for the peer or for this side.
    pub fn unsent(&self) -> u64 {
        match (self.extent, self.pace) {
            (Extent::Span(span), Pace::Rate(per_second)) => {
                let planned = (u128::from(span.get()) * u128::from(per_second)).div_ceil(1_000_000_000);
                let planned = u64::try_from(planned).unwrap_or(u64::MAX);
                planned.saturating_sub(self.sent.saturating_sub(self.warmup))
            }
            _ => 0,
        }
    }
}

/// After a span at a rate, messages that are late may still go out for so long. Without a limit, a run at ten times the
/// possible rate would take ten times its span.
pub const CATCH_UP: Nanos = Nanos::from_secs(1);

/// `n` messages at `per_second`, in time. Computed from the start for each message, so no rounding adds up.
fn offset(n: u64, per_second: u64) -> Nanos {
    let nanos = u128::from(n) * 1_000_000_000 / u128::from(per_second.max(1));
    Nanos::new(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The warm-up when none is asked for: a tenth of the run where its length is known, at most 1,000 messages and, where
/// that is more than 10 of them, 64 MiB.
pub fn default_warmup(pace: Pace, extent: Extent, message_bytes: u32) -> u64 {
    let most = ((64 << 20) / u64::from(message_bytes.max(1))).clamp(10, 1_000);
    match (extent, pace) {
        (Extent::Count(count), _) => (count / 10).min(most),
        (Extent::Span(span), Pace::Rate(per_second)) => {
            let messages = u128::from(span.get()) * u128::from(per_second) / 1_000_000_000;
            u64::try_from(messages / 10).unwrap_or(most).min(most)
        }
        (Extent::Span(_), Pace::Closed) => most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// Sends all that is due and returns the sends.
    fn drain(load: &mut Load, now: Instant) -> Vec<Sent> {
        let mut sent = Vec::new();
        while load.due(now).is_some() {
            sent.push(load.sent(now));
        }
        sent
    }

    #[test]
    fn a_stall_is_charged_to_every_message_it_delayed() {
        // One message each ms; an answer takes 0.1 ms; the loop stands still from 0 to 10 ms.
        let mut load = Load::new(Pace::Rate(1_000), Extent::Count(100), 0, at(0));
        let first = drain(&mut load, at(0));
        assert_eq!(first.len(), 1);
        let late = drain(&mut load, at(10 * MS));
        assert_eq!(late.len(), 10, "the ones planned at 1, 2 ... 10 ms");
        let answered = at(10 * MS + MS / 10);
        let latencies: Vec<u64> = first.iter().chain(&late).map(|s| answered.since(s.planned).get()).collect();
        for (n, &latency) in latencies.iter().enumerate().take(10) {
            let right = (10 - n as u64) * MS;
            assert!(latency.abs_diff(right) <= MS / 5, "message {n}: {latency} ns, right is about {right}");
        }
        assert_eq!(latencies.len(), 11, "each is one sample, none is made up");
        let services = late.iter().map(|s| answered.since(s.at).get());
        assert!(services.into_iter().all(|nanos| nanos == MS / 10), "service time hides the stall");
        assert_eq!(late.iter().filter(|s| load.is_late(s)).count(), 9);
        assert!(drain(&mut load, at(10 * MS + MS / 2)).is_empty(), "back on plan");
    }

    #[test]
    fn the_rate_does_not_drift() {
        let mut load = Load::new(Pace::Rate(3), Extent::Count(u64::MAX), 0, at(0));
        assert_eq!(drain(&mut load, at(1_000_000_000_000 - 1)).len(), 3_000);
        assert_eq!(load.due(at(1_000_000_000_000)), Some(at(1_000_000_000_000)));
    }

    #[test]
    fn only_what_follows_the_warm_up_counts() {
        let mut load = Load::new(Pace::Closed, Extent::Count(3), 2, at(0));
        let measured: Vec<bool> = (0..5).map(|n| load.sent(at(n)).measured).collect();
        assert_eq!(measured, [false, false, true, true, true]);
        assert!(load.exhausted(at(9)) && load.due(at(9)).is_none());
        assert_eq!(load.measured_from(), Some(at(2)));
    }

    #[test]
    fn a_span_is_counted_from_the_first_measured_message() {
        let mut load = Load::new(Pace::Closed, Extent::Span(Nanos::new(10)), 1, at(0));
        load.sent(at(100));
        assert!(!load.exhausted(at(1_000)), "the warm-up does not eat the time");
        load.sent(at(2_000));
        assert!(load.due(at(2_009)).is_some() && load.due(at(2_010)).is_none());
    }

    #[test]
    fn a_span_at_a_rate_plans_every_message_in_it() {
        let mut load = Load::new(Pace::Rate(1_000), Extent::Span(Nanos::from_secs(1)), 10, at(0));
        let sent: Vec<Sent> = (0..1_500).flat_map(|ms| drain(&mut load, at(ms * MS))).collect();
        assert_eq!(sent.iter().filter(|s| s.measured).count(), 1_000);
    }

    #[test]
    fn a_span_lasts_as_long_as_was_asked_also_after_its_last_message() {
        let mut load = Load::new(Pace::Rate(1), Extent::Span(Nanos::from_secs(1)), 0, at(0));
        assert_eq!(drain(&mut load, at(0)).len(), 1);
        assert!(!load.exhausted(at(1)) && !load.exhausted(at(1_000 * MS - 1)));
        assert!(load.exhausted(at(1_000 * MS)) && drain(&mut load, at(1_000 * MS)).is_empty());
    }

    #[test]
    fn a_slow_warm_up_is_not_charged_to_what_is_measured() {
        let mut load = Load::new(Pace::Rate(1_000), Extent::Count(10), 5, at(0));
        assert_eq!(drain(&mut load, at(300 * MS)).iter().filter(|s| s.measured).count(), 1);
        assert_eq!(load.measured_from(), Some(at(300 * MS)));
        assert_eq!(load.due(at(301 * MS)), Some(at(301 * MS)));
        let mut prompt = Load::new(Pace::Rate(1_000), Extent::Count(10), 5, at(0));
        (0..5).for_each(|n| drain(&mut prompt, at(n * MS)).clear());
        assert_eq!(prompt.due(at(5 * MS)), Some(at(5 * MS)), "a warm-up in time changes nothing");
        assert_eq!(prompt.due(at(5 * MS - 1)), None);
    }

    #[test]
    fn waiting_for_the_last_replies_of_the_warm_up_is_not_charged_either() {
        let mut load = Load::new(Pace::Rate(1_000), Extent::Count(10), 2, at(0));
        load.sent(at(0));
        assert!(!load.is_before_first());
        load.sent(at(MS));
        assert!(load.is_before_first());
        load.put_off(at(7 * MS));
        assert_eq!(load.sent(at(7 * MS)), Sent { planned: at(7 * MS), at: at(7 * MS), measured: true });
        assert_eq!(load.due(at(8 * MS)), Some(at(8 * MS)));
        assert!(!load.is_before_first());
    }

    #[test]
    fn a_rate_out_of_reach_ends_the_span_in_time_and_counts_what_was_not_sent() {
        let mut load = Load::new(Pace::Rate(1_000), Extent::Span(Nanos::from_secs(2)), 0, at(0));
        // One message each 10 ms is all that goes.
        let mut now = 0;
        while !load.exhausted(at(now)) {
            assert!(load.due(at(now)).is_some());
            load.sent(at(now));
            now += 10 * MS;
        }
        assert_eq!(now, 3_000 * MS, "the span and a second to catch up");
        assert_eq!(load.unsent(), 2_000 - 300);
        let mut met = Load::new(Pace::Rate(1_000), Extent::Span(Nanos::from_secs(2)), 5, at(0));
        (0..2_500).for_each(|ms| drain(&mut met, at(ms * MS)).clear());
        assert_eq!(met.unsent(), 0);
    }

    #[test]
    fn the_default_warm_up_is_a_tenth_but_bounded() {
        let rate = Pace::Rate(100);
        let span = Extent::Span(Nanos::from_secs(2));
        assert_eq!(default_warmup(Pace::Closed, Extent::Count(1), 64), 0);
        assert_eq!(default_warmup(Pace::Closed, Extent::Count(5_000), 64), 500);
        assert_eq!(default_warmup(rate, Extent::Count(1_000_000), 0), 1_000);
        assert_eq!(default_warmup(rate, span, 64), 20);
        assert_eq!(default_warmup(Pace::Closed, span, 64 << 10), 1_000);
        assert_eq!(default_warmup(Pace::Closed, span, 1 << 20), 64);
        assert_eq!(default_warmup(Pace::Closed, span, 8 << 20), 10, "not 8 GB before the first that counts");
    }
}
