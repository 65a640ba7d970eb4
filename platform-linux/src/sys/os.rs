//! What we ask of the kernel outside of RDMA, and how a failed call is reported.

use core::fmt;
#[cfg(feature = "rdma")]
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// An error number of the operating system. Prints as the system's text for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Errno({}: {self})", self.0)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // A library that fails without setting errno would otherwise print as "Success".
            0 => f.write_str("failed without giving an error number"),
            n => write!(f, "{}", io::Error::from_raw_os_error(n)),
        }
    }
}

impl Errno {
    /// The calling thread's `errno`.
    pub(crate) fn last() -> Self {
        Errno(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

/// A C call that failed: its name and the error number that belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {errno}")]
pub struct CallError {
    /// The C function that failed.
    pub call: &'static str,
    /// The reason it gave.
    pub errno: Errno,
}

/// Sets `errno` to 0, so that a failing call that leaves it alone is not blamed on an older failure.
fn clear_errno() {
    // SAFETY: the location of the calling thread's errno is always valid to write.
    unsafe { *libc::__errno_location() = 0 }
}

/// Runs a C function that gives 0 for success and otherwise -1 with `errno` set, the error number, or its negative.
///
/// Providers and libraries differ in which of the three they use.
pub(crate) fn check(call: &'static str, run: impl FnOnce() -> i32) -> Result<(), CallError> {
    clear_errno();
    check_code(call, run())
}

/// As [`check`], for a call that was made already, without clearing `errno` before it: for the hot path.
#[inline]
pub(crate) fn check_code(call: &'static str, code: i32) -> Result<(), CallError> {
    match code {
        0 => Ok(()),
        -1 => Err(CallError { call, errno: Errno::last() }),
        n => Err(CallError { call, errno: Errno(n.saturating_abs()) }),
    }
}

/// As [`check`], again for as long as a signal interrupts the call; `EAGAIN`, that nothing waits, is `false`.
#[cfg_attr(not(feature = "rdma"), allow(dead_code))]
pub(crate) fn check_waiting(call: &'static str, mut run: impl FnMut() -> i32) -> Result<bool, CallError> {
    loop {
        match check(call, &mut run) {
            Ok(()) => return Ok(true),
            Err(CallError { errno: Errno(libc::EINTR), .. }) => {}
            Err(CallError { errno: Errno(libc::EAGAIN), .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// Runs a C function that gives a null pointer with `errno` set on failure.
#[cfg_attr(not(feature = "rdma"), allow(dead_code))]
pub(crate) fn check_ptr<T>(
    call: &'static str,
    run: impl FnOnce() -> *mut T,
) -> Result<core::ptr::NonNull<T>, CallError> {
    clear_errno();
    core::ptr::NonNull::new(run()).ok_or_else(|| CallError { call, errno: Errno::last() })
}

#[cfg(feature = "rdma")]
static FAILED_DESTROYS: AtomicU64 = AtomicU64::new(0);

/// How often releasing a library object failed in this process. Anything but 0 is a fault worth reporting.
#[cfg(feature = "rdma")]
pub fn failed_destroys() -> u64 {
    // Relaxed: a count on its own, it orders nothing.
    FAILED_DESTROYS.load(Ordering::Relaxed)
}

/// Takes the result of releasing `object` where it cannot be returned: counts a failure and prints the first one.
#[cfg(feature = "rdma")]
pub(crate) fn note_destroy(object: fmt::Arguments<'_>, result: Result<(), CallError>) {
    if let Err(error) = result {
        // Relaxed: a count on its own, it orders nothing.
        if FAILED_DESTROYS.fetch_add(1, Ordering::Relaxed) == 0 {
            eprintln!("spinwire: could not release {object}: {error} (further failures are only counted)");
        }
    }
}

/// Makes reads from `fd` return `EAGAIN` instead of waiting.
#[cfg(feature = "rdma")]
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> Result<(), CallError> {
    let fail = || CallError { call: "fcntl", errno: Errno::last() };
    // SAFETY: `fd` is open for the length of the borrow; these commands touch no memory of ours.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    if flags < 0 {
        return Err(fail());
    }
    // SAFETY: as above.
    match unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) } {
        0.. => Ok(()),
        _ => Err(fail()),
    }
}

/// Sleeps until one of `fds` can be read, a signal comes, or `limit` (rounded up to milliseconds) is over.
pub(crate) fn wait_readable<const N: usize>(fds: [BorrowedFd<'_>; N], limit: Duration) {
    let mut polled = fds.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    let millis = i32::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
    // SAFETY: `polled` holds N entries and lives through the call; the descriptors are open for as long as the borrows.
    // The outcome is not looked at: whoever waits looks for events afterwards in any case.
    unsafe { libc::poll(polled.as_mut_ptr(), N as libc::nfds_t, millis) };
}

/// Descriptors to be asked for readability together. Allocates when one is added, never when asked.
#[derive(Default)]
pub(crate) struct PollSet {
    owned: Vec<OwnedFd>,
    polled: Vec<libc::pollfd>,
}

impl PollSet {
    /// Adds a descriptor and gives the bit that [`readable`](Self::readable) sets for it. At most 32.
    ///
    /// # Panics
    /// With a 33rd descriptor.
    pub(crate) fn add(&mut self, fd: OwnedFd) -> u32 {
        let index = self.owned.len();
        assert!(index < 32, "at most 32 descriptors fit the answer");
        self.polled.push(libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
        self.owned.push(fd);
        1 << index
    }

    /// Tells which descriptors can be read, without waiting. One system call.
    pub(crate) fn readable(&mut self) -> Result<u32, CallError> {
        let count = self.polled.len() as libc::nfds_t;
        // SAFETY: `polled` holds `count` entries, and their descriptors are open: we own them.
        if unsafe { libc::poll(self.polled.as_mut_ptr(), count, 0) } < 0 {
            return match Errno::last() {
                Errno(libc::EINTR) => Ok(0),
                errno => Err(CallError { call: "poll", errno }),
            };
        }
        Ok(self.polled.iter().enumerate().fold(0, |bits, (i, entry)| bits | (u32::from(entry.revents != 0) << i)))
    }
}

/// Whether the process ignores this signal. `false` for a number that is no signal.
pub(crate) fn is_ignored(signal: i32) -> bool {
    // SAFETY: a sigaction of zeros is a valid one: default handler, no flags, no signals blocked.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is set, and `action` is ours and large enough for what is told.
    let told = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) } == 0;
    told && action.sa_sigaction == libc::SIG_IGN
}

/// The process's limit of locked memory in bytes: what holds now, and how far it may be raised. `None` = unlimited.
pub(crate) fn memlock_limit() -> (Option<u64>, Option<u64>) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is ours and large enough. The call cannot fail with a known resource and a valid pointer.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    let finite = |value: libc::rlim_t| (value != libc::RLIM_INFINITY).then_some(value);
    (finite(limit.rlim_cur), finite(limit.rlim_max))
}

/// The bytes that devices have pinned of this process's memory, which the kernel holds against the limit of locked
/// memory. 0 if the kernel does not tell.
#[cfg(feature = "rdma")]
pub(crate) fn pinned_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmPin:")?.trim().strip_suffix(" kB")?.parse().ok());
    kib.unwrap_or(0_u64) * 1_024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_told_from_others() {
        // Rust's own start-up ignores SIGPIPE in every program.
        assert!(is_ignored(libc::SIGPIPE) && !is_ignored(libc::SIGWINCH) && !is_ignored(-1));
    }

    #[test]
    fn a_wait_ends_with_data_or_at_its_limit() {
        use std::io::Write;
        use std::os::fd::AsFd;
        let (reader, mut writer) = std::io::pipe().unwrap();
        let begun = std::time::Instant::now();
        wait_readable([reader.as_fd()], Duration::from_micros(2_100));
        assert!(begun.elapsed() >= Duration::from_micros(2_900), "rounded up to 3 ms: {:?}", begun.elapsed());
        writer.write_all(b"x").unwrap();
        wait_readable([reader.as_fd()], Duration::from_secs(60));
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn every_error_convention_is_understood() {
        assert_eq!(check("f", || 0), Ok(()));
        let set_and_minus_one = || {
            // SAFETY: errno of this thread.
            unsafe { *libc::__errno_location() = libc::ENOMEM };
            -1
        };
        let enomem = Err(CallError { call: "f", errno: Errno(libc::ENOMEM) });
        assert_eq!(check("f", set_and_minus_one), enomem);
        assert_eq!(check("f", || libc::ENOMEM), enomem);
        assert_eq!(check("f", || -libc::ENOMEM), enomem);
        // What a post returned, likewise.
        assert_eq!(check_code("f", set_and_minus_one()), enomem);
        assert_eq!(
            [check_code("f", libc::ENOMEM), check_code("f", -libc::ENOMEM), check_code("f", 0)],
            [enomem, enomem, Ok(())]
        );
    }

    #[test]
    fn a_signal_does_not_hide_what_waits() {
        let run = |codes: &[i32]| {
            let mut codes = codes.iter();
            let result = check_waiting("f", || *codes.next().unwrap());
            (result, codes.len())
        };
        assert_eq!(run(&[libc::EINTR, libc::EINTR, 0]), (Ok(true), 0), "asked until there is an answer");
        assert_eq!(run(&[libc::EINTR, libc::EAGAIN]), (Ok(false), 0));
        assert_eq!(run(&[libc::EIO, 0]), (Err(CallError { call: "f", errno: Errno(libc::EIO) }), 1));
    }

    #[test]
    fn a_failure_never_reads_as_success() {
        // SAFETY: errno of this thread.
        unsafe { *libc::__errno_location() = libc::EBUSY };
        let error = check_ptr::<u8>("ibv_create_qp", core::ptr::null_mut).unwrap_err();
        assert_eq!(error.errno, Errno(0), "an older errno must not be blamed on this call");
        assert_eq!(error.to_string(), "ibv_create_qp: failed without giving an error number");
        // SAFETY: errno of this thread.
        unsafe { *libc::__errno_location() = libc::EBUSY };
        assert_eq!(check("ibv_modify_qp", || -1).unwrap_err().errno, Errno(0), "nor on this one");
    }

    #[test]
    fn readiness_is_seen_without_waiting() {
        use std::io::Write;
        let (reader, mut writer) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut set = PollSet::default();
        assert_eq!(set.add(reader.into()), 1);
        assert_eq!(set.readable(), Ok(0));
        writer.write_all(b"x").unwrap();
        assert_eq!(set.readable(), Ok(1));
    }
}
