//! Telling a peer that is stopped from one that has nothing to say.
//!
//! Each process has one page that its peers map for reading, and writes the time into it as long as its loop turns. A peer
//! judges by what it sees itself: the time during which it looked and the page did not change. Looks that are far apart
//! count for no more than a short interval, because it may have been this process that was paused.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use spinwire_core::time::{Instant, Nanos};

use super::memory::{AttachError, OwnMemory, PeerMemory, ShareError};

/// This process's own.
pub(super) struct Pulse {
    memory: OwnMemory,
    fd: OwnedFd,
}

/// A peer's.
pub(super) struct PeerPulse {
    memory: PeerMemory,
    seen: u64,
    looked: Instant,
    silent: Nanos,
}

/// A pulse takes one word of a page.
const BYTES: usize = 8;

/// What one look may add to a silence, at most.
const LOOK_COUNTS_MAX: Nanos = Nanos::from_millis(500);

impl Pulse {
    pub(super) fn new() -> Result<Self, ShareError> {
        let mut memory = OwnMemory::new(BYTES, false)?;
        let fd = memory.take_fd().expect("a fresh memory has its descriptor");
        Ok(Self { memory, fd })
    }

    /// To be passed to peers.
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// The loop turns.
    pub(super) fn beat(&self, now: Instant) {
        // SAFETY: the beginning of our own page, aligned; peers only read it.
        let word = unsafe { AtomicU64::from_ptr(self.memory.base().as_ptr().cast()) };
        // Relaxed: a sign of life orders nothing.
        word.store(now.as_nanos(), Ordering::Relaxed);
    }
}

impl PeerPulse {
    pub(super) fn attach(fd: OwnedFd, now: Instant) -> Result<Self, AttachError> {
        Ok(Self { memory: PeerMemory::map(fd, BYTES)?, seen: 0, looked: now, silent: Nanos::ZERO })
    }

    /// Looks, and tells for how long nothing has changed.
    pub(super) fn look(&mut self, now: Instant) -> Nanos {
        // SAFETY: the beginning of the peer's mapped page, aligned; read as an atomic, for the peer writes it.
        let word = unsafe { AtomicU64::from_ptr(self.memory.base().as_ptr().cast()) };
        // Relaxed: as in `beat`.
        let seen = word.load(Ordering::Relaxed);
        let passed = now.since(self.looked).min(LOOK_COUNTS_MAX);
        self.looked = now;
        if seen == self.seen {
            self.silent += passed;
        } else {
            (self.seen, self.silent) = (seen, Nanos::ZERO);
        }
        self.silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn only_time_in_which_this_side_looked_counts_as_silence() {
        let pulse = Pulse::new().unwrap();
        let mut peer = PeerPulse::attach(pulse.fd().try_clone().unwrap(), at(0)).unwrap();
        pulse.beat(at(1));
        assert_eq!(peer.look(at(100)), Nanos::ZERO);
        assert_eq!(peer.look(at(350)), Nanos::from_millis(250));
        assert_eq!(peer.look(at(3_600_000)), Nanos::from_millis(750), "this process was paused for an hour");
        pulse.beat(at(3_600_001));
        assert_eq!(peer.look(at(3_600_100)), Nanos::ZERO);
    }
}
