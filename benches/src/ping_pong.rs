//! The bare cache line: what nothing that two threads share gets below, and what tells how far apart two CPUs are.

use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Cache lines to themselves, and away from the next pair that the processor may prefetch.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// Two cache lines, each written by one side and polled by the other.
#[derive(Debug, Default)]
pub struct PingPong {
    ping: Line,
    pong: Line,
}

impl PingPong {
    /// Sends numbers `from + 1 ..= from + rounds` and waits for each to come back; calls `each` after each.
    pub fn ping(&self, from: u64, rounds: u64, mut each: impl FnMut()) {
        for round in from + 1..=from + rounds {
            self.ping.0.store(round, Ordering::Release);
            while self.pong.0.load(Ordering::Acquire) != round {
                hint::spin_loop();
            }
            each();
        }
    }

    /// The number sent last, to go on from.
    pub fn last(&self) -> u64 {
        self.ping.0.load(Ordering::Relaxed)
    }

    /// Sends back what has come, if anything has.
    #[inline]
    pub fn serve_what_came(&self, seen: &mut u64) {
        let round = self.ping.0.load(Ordering::Acquire);
        if round != *seen {
            *seen = round;
            self.pong.0.store(round, Ordering::Release);
        }
    }

    /// The other side of [`ping`](Self::ping), with the same arguments.
    pub fn serve(&self, from: u64, rounds: u64) {
        for round in from + 1..=from + rounds {
            while self.ping.0.load(Ordering::Acquire) != round {
                hint::spin_loop();
            }
            self.pong.0.store(round, Ordering::Release);
        }
    }

    /// Nanoseconds of a round trip, as [`ping`](Self::ping) makes them.
    pub fn time_pings(&self, from: u64, rounds: u64) -> f64 {
        let start = Instant::now();
        self.ping(from, rounds, || ());
        start.elapsed().as_nanos() as f64 / rounds as f64
    }
}

/// Round trips that tell how far apart two CPUs are: 30 to 100 us.
pub const CHECK: u64 = 256;
