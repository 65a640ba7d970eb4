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
mod tests;
