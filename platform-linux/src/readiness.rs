//! Seeing that a connection event or a device event waits, without asking the kernel each time.
//!
//! Fetching an event when none waits costs an allocation and a system call, `poll(2)` half a microsecond: too much for
//! every turn of a polling loop. An io_uring with a multishot poll makes the check two memory loads. Where the kernel
//! is too old or a container forbids io_uring, a `poll(2)` on a budget of time takes its place: the budget is read
//! from the turn's stamp, never counted in turns, so that it means the same on every machine and at every load.

use core::fmt;
use core::time::Duration;
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

use spinwire_core::time::{Instant, Nanos};

use crate::sys::os::{CallError, Errno, PollSet};
use crate::sys::uring::PollRing;

/// Time between two checks where io_uring cannot be had. 200 us adds at most that to the set-up of a connection and
/// costs a loop about 0.3 % of its time.
pub const TIMED_DEFAULT: Duration = Duration::from_micros(200);

/// Which way of watching to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// io_uring where it works, else [`Wish::Timed`] with [`TIMED_DEFAULT`].
    Best,
    /// Check by a system call, at most once in this time.
    Timed(Duration),
}

/// Which way of watching is used, to be reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// A memory load per check.
    IoUring,
    /// A system call per `every`.
    Timed {
        /// Time between two checks.
        every: Duration,
        /// Why not io_uring.
        reason: Reason,
    },
}

/// Why io_uring is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The user said so.
    Asked,
    /// The kernel said no: too old (`ENOSYS`, `EINVAL`), or forbidden (`EPERM`), as in many containers.
    Refused(CallError),
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Readiness::IoUring => f.write_str("io_uring"),
            Readiness::Timed { every, reason: Reason::Asked } => write!(f, "poll every {every:?} (as asked)"),
            Readiness::Timed { every, reason: Reason::Refused(error) } => write!(f, "poll every {every:?} ({error})"),
        }
    }
}

/// Watches descriptors and tells which to drain. At most 32.
pub struct Watch {
    means: Means,
    readiness: Readiness,
}

// One per core, and boxing the ring would put another load into every turn.
#[expect(clippy::large_enum_variant)]
enum Means {
    Ring(PollRing),
    Timed { set: PollSet, every: Nanos, next: Instant },
}

impl Watch {
    /// Sets up the way wished, or the one that works.
    pub fn new(wish: Wish) -> Watch {
        let wish_is_timed = match wish {
            Wish::Best => None,
            Wish::Timed(every) => Some((every, Reason::Asked)),
        };
        let (every, reason) = match wish_is_timed {
            Some(timed) => timed,
            None => match probe() {
                Ok(ring) => {
                    return Watch { means: Means::Ring(ring), readiness: Readiness::IoUring };
                }
                Err(error) => (TIMED_DEFAULT, Reason::Refused(error)),
            },
        };
        let means = Means::Timed { set: PollSet::default(), every: every.into(), next: Instant::ZERO };
        Watch { means, readiness: Readiness::Timed { every, reason } }
    }

    /// Which way is used.
    pub fn readiness(&self) -> Readiness {
        self.readiness
    }

    /// Adds a descriptor and gives the bit that stands for it. It is watched until this is dropped, also if closed
    /// elsewhere meanwhile.
    ///
    /// # Errors
    /// What duplicating the descriptor or starting to poll it gave.
    ///
    /// # Panics
    /// With more than 32 descriptors.
    pub fn add(&mut self, fd: BorrowedFd<'_>) -> Result<u32, CallError> {
        let duplicate = fd.try_clone_to_owned().map_err(|error| CallError {
            call: "fcntl(F_DUPFD_CLOEXEC)",
            errno: Errno(error.raw_os_error().unwrap_or(0)),
        })?;
        match &mut self.means {
            Means::Ring(ring) => ring.watch(duplicate),
            Means::Timed { set, .. } => Ok(set.add(duplicate)),
        }
    }

    /// The descriptors that should be drained now, until they have nothing more: one bit each.
    ///
    /// With io_uring a change is told once, so what is not drained is not told again. Cost when nothing happened: three
    /// loads; or, timed, a comparison, and a system call when the time has come.
    ///
    /// # Errors
    /// What the kernel gave; the descriptors are still watched.
    #[inline]
    pub fn check(&mut self, now: Instant) -> Result<u32, CallError> {
        match &mut self.means {
            Means::Ring(ring) if ring.is_idle() => Ok(0),
            Means::Ring(ring) => ring.take_ready(),
            Means::Timed { next, .. } if now < *next => Ok(0),
            Means::Timed { set, every, next } => {
                *next = now + *every;
                set.readable()
            }
        }
    }
}

/// How long a completion may take to be seen while probing. A shared machine can be slow; a kernel or sandbox that
/// needs a call to show completions never gets there.
const PROBE_LIMIT: Duration = Duration::from_millis(50);

/// Makes a ring that was seen to work: some kernels and sandboxes make one but know no multishot polls, or show
/// completions only to a thread that makes calls.
fn probe() -> Result<PollRing, CallError> {
    let mut trial = PollRing::new()?;
    let pair_error =
        |error: std::io::Error| CallError { call: "socketpair", errno: Errno(error.raw_os_error().unwrap_or(0)) };
    let (reader, mut writer) = UnixStream::pair().map_err(pair_error)?;
    trial.watch(reader.into())?;
    writer.write_all(&[0]).map_err(pair_error)?;
    let started = std::time::Instant::now();
    while trial.is_idle() {
        if started.elapsed() > PROBE_LIMIT {
            return Err(CallError { call: "io_uring poll", errno: Errno(libc::ETIME) });
        }
        core::hint::spin_loop();
    }
    trial.take_ready()?;
    match trial.failure() {
        Some(failure) => Err(failure),
        None => PollRing::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;

    fn stamp(micros: u64) -> Instant {
        Instant::ZERO + Nanos::from_micros(micros)
    }

    #[test]
    fn the_timed_way_asks_once_per_budget_of_time_however_many_turns() {
        let mut watch = Watch::new(Wish::Timed(Duration::from_micros(200)));
        assert_eq!(watch.readiness(), Readiness::Timed { every: Duration::from_micros(200), reason: Reason::Asked });
        let (reader, mut writer) = UnixStream::pair().unwrap();
        let bit = watch.add(reader.as_fd()).unwrap();
        assert_eq!(watch.check(stamp(0)), Ok(0), "nothing is there yet");
        writer.write_all(b"x").unwrap();
        for turn in 0..1_000 {
            assert_eq!(watch.check(stamp(turn * 199 / 999)), Ok(0), "the time has not come");
        }
        assert_eq!(watch.check(stamp(200)), Ok(bit));
        assert_eq!(watch.check(stamp(100_000)), Ok(bit), "still unread: told again");
    }

    #[test]
    fn the_best_way_shows_each_change_and_reports_itself() {
        let mut watch = Watch::new(Wish::Best);
        let (mut reader, mut writer) = UnixStream::pair().unwrap();
        let (other, _other_writer) = UnixStream::pair().unwrap();
        let other_bit = watch.add(other.as_fd()).unwrap();
        let bit = watch.add(reader.as_fd()).unwrap();
        assert_ne!(bit, other_bit);
        for round in 0..100 {
            writer.write_all(b"x").unwrap();
            let started = std::time::Instant::now();
            let seen = loop {
                let now = Instant::ZERO + started.elapsed().into() + Nanos::from_secs(round);
                match watch.check(now).unwrap() {
                    0 => assert!(started.elapsed() < Duration::from_secs(5), "{} never shows it", watch.readiness()),
                    bits => break bits,
                }
            };
            assert_eq!(seen, bit);
            reader.read_exact(&mut [0]).unwrap();
        }
        println!("readiness used here: {}", watch.readiness());
    }

    #[test]
    fn a_poll_that_ended_is_armed_again() {
        // Closing the other end makes the kernel end a multishot poll on some versions and repeat it on others; either
        // way the watch has to keep telling and never fail.
        let mut watch = Watch::new(Wish::Best);
        let (reader, writer) = UnixStream::pair().unwrap();
        let bit = watch.add(reader.as_fd()).unwrap();
        drop(writer);
        let started = std::time::Instant::now();
        while watch.check(Instant::ZERO + started.elapsed().into()).unwrap() != bit {
            assert!(started.elapsed() < Duration::from_secs(5), "the end of the stream is never shown");
        }
    }
}
