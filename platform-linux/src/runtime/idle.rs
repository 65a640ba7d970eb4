//! What a loop does when a turn found nothing to do.

use std::time::Duration;

use spinwire_core::time::{Instant, Nanos};

/// The policy, as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Idle {
    /// The next turn at once.
    #[default]
    Spin,
    /// After so long without work, one pause instruction between turns (some 40-140 cycles on x86): leaves more of the
    /// core to its other hardware thread. With `after` zero it can also shorten round trips over shared memory: a line that is polled
    /// less often is less often taken from the peer while it writes it. On an AMD EPYC an echo between CPUs without a common cache
    /// took 14 % less time, and one between CPUs that share a cache 6 % more.
    Pause {
        /// Time without work before the first pause.
        after: Duration,
    },
    /// After so long without work, wait in the kernel for a connection event, at most `at_most` at a time. Messages do
    /// not end the wait, so this adds up to `at_most` to their latency.
    Block {
        /// Time without work before the first wait.
        after: Duration,
        /// Longest wait, rounded up to whole milliseconds.
        at_most: Duration,
    },
}

/// What to do before the next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    Pause,
    /// Wait for a connection event, at most so long.
    Wait(Duration),
}

impl Idle {
    /// After a turn at `now` that found nothing, when the last work was at `last_work` and the engine has to run again
    /// at `deadline`.
    #[inline]
    pub(super) fn step(self, now: Instant, last_work: Instant, deadline: Instant) -> Step {
        match self {
            Idle::Spin => Step::Nothing,
            Idle::Pause { after } if now.since(last_work) >= Nanos::from(after) => Step::Pause,
            Idle::Block { after, at_most } if now.since(last_work) >= Nanos::from(after) => {
                let left = Duration::from_nanos(deadline.since(now).get());
                if left.is_zero() { Step::Nothing } else { Step::Wait(at_most.min(left)) }
            }
            Idle::Pause { .. } | Idle::Block { .. } => Step::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn spinning_never_waits() {
        assert_eq!(Idle::Spin.step(at(9), at(0), Instant::NEVER), Step::Nothing);
    }

    #[test]
    fn the_others_wait_for_a_while_without_work() {
        let (pause, block) = (Idle::Pause { after: 2 * MS }, Idle::Block { after: 2 * MS, at_most: 5 * MS });
        for (now, paused, waited) in [
            (1, Step::Nothing, Step::Nothing),
            (2, Step::Pause, Step::Wait(5 * MS)),
            (9, Step::Pause, Step::Wait(5 * MS)),
        ] {
            assert_eq!(pause.step(at(now), at(0), Instant::NEVER), paused);
            assert_eq!(block.step(at(now), at(0), Instant::NEVER), waited);
        }
    }

    #[test]
    fn no_wait_goes_past_a_deadline() {
        let block = Idle::Block { after: MS, at_most: 50 * MS };
        assert_eq!(block.step(at(10), at(0), at(13)), Step::Wait(3 * MS));
        assert_eq!(block.step(at(10), at(0), at(10)), Step::Nothing);
    }
}
