//! Long tests of shared memory: processes that are killed and stopped, and a peer that lies. Small here, full size by `ci/soak`.
//!
//! The processes are this test program again, with a scene to play. What was counted and timed is printed on lines that begin
//! with `soak:`.

mod child;
mod deaths;
mod hostile;
mod kills;
mod liar;
mod lies;
mod lying_server;
mod pattern;
mod scene;
mod stops;
mod visitor;

pub(super) use deaths::reach;

use std::time::Duration;

/// A number from the environment: how much of a test is run.
fn size(name: &str, small: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => small,
    }
}

/// Whether this is the full size, whose limits hold for the worst and not for the middle one only.
fn is_full() -> bool {
    std::env::var_os("SPINWIRE_SOAK").is_some()
}

/// Where a test's randomness comes from: printed, and the same again if `SPINWIRE_SOAK_SEED` says so.
fn seed() -> u64 {
    size("SPINWIRE_SOAK_SEED", crate::clock::now().as_nanos() | 1)
}

/// The `n`th CPU this process may use, or the last.
fn cpu(n: usize) -> u32 {
    let allowed = crate::cpu::AllowedCpus::snapshot().unwrap();
    let all = allowed.as_slice();
    all[n.min(all.len() - 1)]
}

/// The worst and the middle one.
fn worst_and_median(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort();
    (times[times.len() - 1], times[times.len() / 2])
}

/// Marsaglia's xorshift: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        // Neighbouring seeds begin far from each other; 0 would stay 0.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Whether something that happens once in `n` times happens.
    fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
