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
    /// The last call failed: polls that wait in the submission queue are not armed, or completions wait in the kernel.
    behind: bool,
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
        Ok(PollRing { pending, ring, watched: Vec::new(), failure: None, behind: false })
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
        self.push_poll(index);
        self.submit()?;
        Ok(1 << index)
    }

    /// Whether a descriptor may have become readable. Cost: three loads, no system call.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty() && !self.behind
    }

    /// Takes the changes seen and gives one bit per descriptor that should be drained now, until `EAGAIN`.
    ///
    /// A poll that the kernel ended, for whatever reason, is started again, and counts as a change, because nothing
    /// watched meanwhile. If it cannot be started now, the next call tries again, and [`is_idle`](Self::is_idle) is
    /// false until that has succeeded.
    ///
    /// # Errors
    /// The error of `io_uring_enter`, if there is no change to tell. What was seen is never lost.
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
        self.catch_up(ready, ended, overflowed)
    }

    /// Starts the polls of `ended` again, and what an earlier call could not; gives `ready` and what is ready besides.
    fn catch_up(&mut self, ready: u32, ended: u32, overflowed: bool) -> Result<u32, CallError> {
        for index in (0..self.watched.len()).filter(|index| ended & (1 << index) != 0) {
            self.push_poll(index);
        }
        // After an overflow, completions wait in the kernel for room; the call brings them in.
        let missed = overflowed || self.behind;
        if !missed && ended == 0 {
            return Ok(ready);
        }
        match self.submit() {
            // Drain all rather than guess what was missed.
            Ok(()) if missed => Ok(u32::MAX >> (32 - self.watched.len())),
            Err(error) if ready == 0 => Err(error),
            _ => Ok(ready),
        }
    }

    /// What a poll failed with, if one did.
    pub(crate) fn failure(&self) -> Option<CallError> {
        self.failure
    }

    /// Puts the poll of a descriptor into the submission queue. It is there once at most: it cannot end before it was
    /// taken from there.
    fn push_poll(&mut self, index: usize) {
        let fd = types::Fd(self.watched[index].as_raw_fd());
        let poll = opcode::PollAdd::new(fd, libc::POLLIN as u32).multi(true).build().user_data(index as u64);
        // SAFETY: a poll refers to no memory of ours, and the descriptor is open: we own it.
        unsafe { self.ring.submission().push(&poll) }.expect("one slot for each descriptor");
    }

    /// Hands the submission queue to the kernel. What it does not take stays there.
    fn submit(&mut self) -> Result<(), CallError> {
        let result = self.ring.submit();
        self.behind = result.is_err() || !self.ring.submission().is_empty();
        result.map(drop).map_err(|e| call_error("io_uring_enter", &e))
    }
}

fn call_error(call: &'static str, error: &std::io::Error) -> CallError {
    CallError { call, errno: Errno(error.raw_os_error().unwrap_or(0)) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Makes the ring's descriptor number mean `file`.
    fn replace(ring: &PollRing, file: BorrowedFd<'_>) {
        // SAFETY: dup2 touches no memory; the number stays open, as the ring expects.
        assert!(unsafe { libc::dup2(file.as_raw_fd(), ring.ring.as_raw_fd()) } >= 0);
    }

    #[test]
    fn a_poll_that_could_not_be_started_again_is_tried_again_and_what_was_seen_is_told() {
        let mut ring = match PollRing::new() {
            Ok(ring) => ring,
            Err(error) => return println!("not tested, io_uring cannot be had here: {error}"),
        };
        let pair = UnixStream::pair().unwrap();
        let bit = ring.watch(pair.0.try_clone().unwrap().into()).unwrap();
        // SAFETY: the ring's descriptor is open.
        let kept = unsafe { BorrowedFd::borrow_raw(ring.ring.as_raw_fd()) }.try_clone_to_owned().unwrap();
        let other = std::fs::File::open("/dev/null").unwrap();

        replace(&ring, other.as_fd());
        assert_eq!(ring.catch_up(bit, bit, false), Ok(bit), "what was seen before the failure is told");
        assert!(!ring.is_idle());
        for _ in 0..100 {
            assert_eq!(ring.take_ready().unwrap_err().call, "io_uring_enter");
        }
        replace(&ring, kept.as_fd());
        assert_eq!(ring.take_ready(), Ok(bit), "nothing watched meanwhile");
        assert!(ring.is_idle());
        (&pair.1).write_all(b"x").unwrap();
        assert_eq!(ring.take_ready(), Ok(bit));
    }
}
