//! Which failures to connect are tried again, and after which pause.

use super::event::CmEventKind;
use super::reason::CloseReason;
use crate::config::Retry;
use crate::time::Nanos;

/// Whether a failure may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It may: the same attempt can succeed a moment later.
    Transient,
    /// The peer holds an earlier connection for alive. It drops that now, so the next attempt succeeds.
    Stale,
    /// Nobody listens. Whether that may pass only the application knows.
    NobodyListens,
    /// The same attempt would end the same way.
    Permanent,
}

impl Failure {
    /// What kind of failure ended an attempt.
    pub fn of(reason: &CloseReason) -> Failure {
        use CmEventKind as Kind;
        match *reason {
            CloseReason::Event { event: Kind::Unreachable, .. } | CloseReason::TimedOut { .. } => Failure::Transient,
            CloseReason::Event { event: Kind::AddrError | Kind::RouteError | Kind::ConnectError, status, .. }
                if may_pass(status.saturating_neg()) =>
            {
                Failure::Transient
            }
            CloseReason::Call { errno, .. } if may_pass(errno) => Failure::Transient,
            CloseReason::Rejected { code: REJECT_STALE } => Failure::Stale,
            CloseReason::Rejected { code: REJECT_NO_RESOURCES | REJECT_TIMEOUT } => Failure::Transient,
            CloseReason::NobodyListens => Failure::NobodyListens,
            _ => Failure::Permanent,
        }
    }
}

impl Retry {
    /// Attempts in all that a failure of this kind allows.
    pub fn attempts_for(&self, failure: Failure) -> u32 {
        match failure {
            Failure::Transient => self.attempts,
            Failure::Stale => self.attempts_stale.max(self.attempts),
            Failure::NobodyListens if self.nobody_listens => self.attempts,
            Failure::NobodyListens | Failure::Permanent => 1,
        }
    }

    /// The pause after the `failed`-th attempt, counted from 1: doubling from the first pause up to the longest, then
    /// cut at random by up to half. `seed` decides the cut: the same seed, the same pause.
    pub fn pause(&self, failed: u32, seed: u64) -> Nanos {
        let doublings = failed.saturating_sub(1).min(63);
        let full = self.pause_first.get().saturating_mul(1 << doublings).min(self.pause_longest.get());
        Nanos::new(full - mix(seed) % (full / 2 + 1))
    }
}

/// Spreads a seed over all bits: SplitMix64's output function.
fn mix(seed: u64) -> u64 {
    let mut word = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Errors that say how things are at the moment: no memory or ports left, a network that is down, a neighbour or a
/// route that is missing, no answer. Linux numbers (errno(3)).
fn may_pass(errno: i32) -> bool {
    const EAGAIN: i32 = 11;
    const ENOMEM: i32 = 12;
    const ENETDOWN: i32 = 100;
    const ENETUNREACH: i32 = 101;
    const ENOBUFS: i32 = 105;
    const ETIMEDOUT: i32 = 110;
    const EHOSTUNREACH: i32 = 113;
    matches!(errno, EAGAIN | ENOMEM | ENETDOWN | ENETUNREACH | ENOBUFS | ETIMEDOUT | EHOSTUNREACH)
}

/// "No resources available", "timeout" and "stale connection": IBTA volume 1, table 111.
const REJECT_NO_RESOURCES: i32 = 3;
const REJECT_TIMEOUT: i32 = 4;
const REJECT_STALE: i32 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cm::hello::Refusal;
    use crate::cm::table::State;

    #[test]
    fn what_may_pass_is_told_from_what_does_not() {
        let step = State::Connecting;
        let event = |event, status| Failure::of(&CloseReason::Event { step, event, status });
        for (failure, expected) in [
            (event(CmEventKind::AddrError, -110), Failure::Transient),
            (event(CmEventKind::AddrError, -19), Failure::Permanent),
            (event(CmEventKind::RouteError, -113), Failure::Transient),
            (event(CmEventKind::RouteError, -22), Failure::Permanent),
            (event(CmEventKind::Unreachable, -110), Failure::Transient),
            (event(CmEventKind::ConnectError, -110), Failure::Transient),
            (event(CmEventKind::ConnectError, -1), Failure::Permanent),
            (event(CmEventKind::ConnectError, i32::MIN), Failure::Permanent),
            (event(CmEventKind::ConnectResponse, -110), Failure::Permanent),
            (Failure::of(&CloseReason::TimedOut { step, limit: Nanos::ZERO }), Failure::Transient),
            (Failure::of(&CloseReason::Rejected { code: 10 }), Failure::Stale),
            (Failure::of(&CloseReason::Rejected { code: 28 }), Failure::Permanent),
            (Failure::of(&CloseReason::Rejected { code: 3 }), Failure::Transient),
            (Failure::of(&CloseReason::NobodyListens), Failure::NobodyListens),
            (Failure::of(&CloseReason::Refused(Refusal::ShuttingDown)), Failure::Permanent),
            (Failure::of(&CloseReason::DeviceRemoved), Failure::Permanent),
            (Failure::of(&CloseReason::Local), Failure::Permanent),
            (Failure::of(&CloseReason::Call { step, call: "rdma_create_qp", errno: 12 }), Failure::Transient),
            (Failure::of(&CloseReason::Call { step, call: "rdma_create_qp", errno: 22 }), Failure::Permanent),
        ] {
            assert_eq!(failure, expected);
        }
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_are_cut_by_at_most_half() {
        let retry = Retry::default();
        let (mut shortest, mut longest) = ([u64::MAX; 8], [0; 8]);
        for seed in 0..1_000 {
            for failed in 1..=8 {
                let (pause, n) = (retry.pause(failed, seed).get(), failed as usize - 1);
                (shortest[n], longest[n]) = (shortest[n].min(pause), longest[n].max(pause));
            }
        }
        for (n, full) in [100, 200, 400, 800, 1_600, 2_000, 2_000, 2_000].into_iter().enumerate() {
            let full = Nanos::from_millis(full).get();
            assert!(shortest[n] >= full / 2 && shortest[n] < full * 51 / 100, "{}", shortest[n]);
            assert!(longest[n] <= full && longest[n] > full * 99 / 100, "{}", longest[n]);
        }
        assert!(retry.pause(u32::MAX, 7).get() >= 1_000_000_000, "no overflow however many attempts");
        assert_eq!(retry.pause(3, 42), retry.pause(3, 42));
    }

    #[test]
    fn without_being_asked_only_a_stale_connection_is_tried_again() {
        let retry = Retry::default();
        let kinds = [Failure::Transient, Failure::Stale, Failure::NobodyListens, Failure::Permanent];
        assert_eq!(kinds.map(|kind| retry.attempts_for(kind)), [1, 5, 1, 1]);
        let patient = Retry { attempts: 9, nobody_listens: true, ..retry };
        assert_eq!(kinds.map(|kind| patient.attempts_for(kind)), [9, 9, 9, 1]);
    }
}
