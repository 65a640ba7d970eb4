//! Seeing that a descriptor became readable by looking at memory: an io_uring with multishot polls.
//!
//! Default ring flags: with `DEFER_TASKRUN` the kernel adds completions only inside a call, so a loop that makes none
//! never sees them.

use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::cqueue::{self, CompletionStatus};
use io_uring::{IoUring, opcode, types};

use super::os::{CallError, Errno};

/// Slots of the completion ring. A poll adds one completion per change of readiness, and only after the descriptor
/// was drained can it add another, so a few per descriptor are plenty.
const RING_ENTRIES: u32 = 32;

/// Polls descriptors for input without a system call per check.
pub(crate) struct PollRing {
    // Before `ring`: it points into it.
    pending: CompletionStatus,
    ring: IoUring,
    watched: Vec<OwnedFd>,
    failure: Option<CallError>,
}

impl PollRing {
    /// Makes a ring.
    ///
    /// # Errors
    /// The error of `io_uring_setup`: `ENOSYS` without support, `EPERM` where it is forbidden.
    pub(crate) fn new() -> Result<Self, CallError> {
        let mut ring = IoUring::new(RING_ENTRIES).map_err(|e| call_error("io_uring_setup", &e))?;
        // SAFETY: `pending` lives in the same struct as the ring and is never handed out. Moving the struct does not
        // move the mapping that it points into.
        let pending = unsafe { ring.completion().status() };
        Ok(PollRing { pending, ring, watched: Vec::new(), failure: None })
    }

    /// Starts to watch `fd` and gives the bit that [`take_ready`](Self::take_ready) sets for it. At most 32.
    ///
    /// The descriptor is kept (give a duplicate), so its number cannot come to mean another file.
    ///
    /// # Errors
    /// The error of `io_uring_enter`. What the poll itself fails with (`EINVAL` where multishot polls are not known) is
    /// seen later, by [`failure`](Self::failure).
    pub(crate) fn watch(&mut self, fd: OwnedFd) -> Result<u32, CallError> {
        assert!(self.watched.len() < 32, "a poll ring watches at most 32 descriptors");
        let index = self.watched.len();
        self.watched.push(fd);
        self.arm(index)?;
        Ok(1 << index)
    }

    /// Whether a descriptor may have become readable. Cost: two loads, no system call.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes the changes seen and gives one bit per descriptor that should be drained now, until `EAGAIN`.
    ///
    /// A poll that the kernel ended, for whatever reason, is started again, and counts as a change, because nothing
    /// watched meanwhile.
    ///
    /// # Errors
    /// The error of `io_uring_enter`.
    pub(crate) fn take_ready(&mut self) -> Result<u32, CallError> {
        let mut ready = 0;
        let mut ended = 0;
        let overflowed = self.ring.submission().cq_overflow();
        for entry in self.ring.completion() {
            let bit = 1 << entry.user_data();
            ready |= bit;
            if !cqueue::more(entry.flags()) {
                ended |= bit;
            }
            if entry.result() < 0 {
                self.failure = Some(CallError { call: "io_uring poll", errno: Errno(-entry.result()) });
            }
        }
        if overflowed {
            // Completions wait in the kernel for room. Bring them in, and drain all rather than guess.
            self.ring.submit_and_wait(0).map_err(|e| call_error("io_uring_enter", &e))?;
            ready = u32::MAX >> (32 - self.watched.len());
        }
        for index in (0..self.watched.len()).filter(|index| ended & (1 << index) != 0) {
            self.arm(index)?;
        }
        Ok(ready)
    }

    /// What a poll failed with, if one did.
    pub(crate) fn failure(&self) -> Option<CallError> {
        self.failure
    }

    fn arm(&mut self, index: usize) -> Result<(), CallError> {
        let fd = types::Fd(self.watched[index].as_raw_fd());
        let poll = opcode::PollAdd::new(fd, libc::POLLIN as u32).multi(true).build().user_data(index as u64);
        // SAFETY: a poll refers to no memory of ours, and the descriptor is open: we own it.
        unsafe { self.ring.submission().push(&poll) }.expect("the queue is emptied by every arm");
        self.ring.submit().map_err(|e| call_error("io_uring_enter", &e))?;
        Ok(())
    }
}

fn call_error(call: &'static str, error: &std::io::Error) -> CallError {
    CallError { call, errno: Errno(error.raw_os_error().unwrap_or(0)) }
}
