//! Descriptors that a peer may pass: sound ones, and every way in which they can be unfit.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::super::memory::OwnMemory;
use super::super::pulse::Pulse;
use super::super::socket::Socket;
use super::input::Input;

/// Makes the descriptor that the next byte of the input asks for; `bytes` is what a sound segment has.
pub(super) fn make(input: &mut Input<'_>, bytes: usize) -> Option<OwnedFd> {
    const ALL: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_FUTURE_WRITE;
    match input.byte() % 12 {
        0..=2 => OwnMemory::new(bytes, false).ok()?.take_fd(),
        3 => pulse(),
        4 => memfd(bytes, true, ALL & !libc::F_SEAL_SHRINK),
        5 => memfd(bytes, true, [libc::F_SEAL_GROW, libc::F_SEAL_WRITE, 0, ALL][input.byte() as usize % 4]),
        6 => memfd(bytes, false, ALL),
        7 => memfd(usize::from(input.u16()) * 16, true, ALL),
        8 => File::open("/dev/zero").ok().map(Into::into),
        9 => File::open("/proc/self").ok().map(Into::into),
        10 => Socket::new().ok().map(Socket::into_fd),
        // Sealed and present, and opened again for reading only.
        _ => {
            let fd = memfd(bytes, true, ALL)?;
            File::open(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok().map(Into::into)
        }
    }
}

/// A sound pulse.
pub(super) fn pulse() -> Option<OwnedFd> {
    Pulse::new().ok()?.fd().try_clone().ok()
}

fn memfd(bytes: usize, is_present: bool, seals: libc::c_int) -> Option<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: a C string, and numbers.
    let raw = unsafe { libc::memfd_create(c"fuzz".as_ptr(), flags) };
    if raw < 0 {
        return None;
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    let len = bytes.next_multiple_of(4_096) as libc::off_t;
    // SAFETY: calls on our own descriptor that touch no memory of ours. One that fails leaves it as unfit as it is.
    unsafe {
        libc::ftruncate(raw, len);
        if is_present && len > 0 {
            libc::fallocate(raw, 0, 0, len);
        }
        libc::fcntl(raw, libc::F_ADD_SEALS, seals);
    }
    Some(fd)
}
