//! Memory with a descriptor: what one process writes and others may map for reading.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::{PageKind, pieces};
use crate::signals::Stop;
use crate::sys::os::{CallError, Errno, check};
use crate::words::Bytes;

/// What must be promised of memory that is passed on: nobody takes a page away, and nobody maps it for writing who has not
/// yet. (A memfd of Linux 5.1 or later.)
pub(crate) const SEALS: libc::c_int = SIZE_SEALS | libc::F_SEAL_FUTURE_WRITE;

/// The same of memory that whoever gets it may change.
pub(crate) const SIZE_SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

/// A memfd of `len` bytes, a multiple of the page size. It has no name and no pages yet.
pub(crate) fn create(kind: PageKind, len: usize) -> Result<OwnedFd, CallError> {
    let fd = open(kind)?;
    let raw = fd.as_raw_fd();
    let size = size(len, "ftruncate")?;
    // It counts as a file, and beyond the limit the call would end the process with SIGXFSZ.
    if len as u64 > limit(libc::RLIMIT_FSIZE).rlim_cur {
        return Err(CallError { call: "ftruncate", errno: Errno(libc::EFBIG) });
    }
    // SAFETY: a call on our own descriptor that touches no memory of ours.
    check("ftruncate", || unsafe { libc::ftruncate(raw, size) })?;
    Ok(fd)
}

/// Takes all pages, which are of `kind`, or says that there are none, where touching them would be a bus error. Ends early if
/// `stop` says so ([`pieces::STOPPED`]).
pub(crate) fn fill(fd: BorrowedFd<'_>, kind: PageKind, len: usize, stop: &Stop) -> Result<(), CallError> {
    pieces::each(len, kind.page_bytes(), stop, |offset, len| {
        let (offset, len) = (size(offset, "fallocate")?, size(len, "fallocate")?);
        // SAFETY: as above.
        check("fallocate", || unsafe { libc::fallocate(fd.as_raw_fd(), 0, offset, len) })
    })
}

/// Seals it for good. What is mapped for writing stays so.
pub(crate) fn seal(fd: BorrowedFd<'_>, seals: libc::c_int) -> Result<(), CallError> {
    let seals = seals | libc::F_SEAL_SEAL;
    // SAFETY: as above.
    check("fcntl(F_ADD_SEALS)", || unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) })
}

/// A limit of this process.
pub(crate) fn limit(of: libc::__rlimit_resource_t) -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is ours and large enough.
    unsafe { libc::getrlimit(of, &mut limit) };
    limit
}

/// What to say behind `ENOMEM` if the address space is limited, and nothing if it is not.
pub(crate) fn space_hint() -> String {
    match limit(libc::RLIMIT_AS).rlim_cur {
        libc::RLIM_INFINITY => String::new(),
        bytes => {
            format!("; the limit of address space is {}, raise it with `ulimit -v unlimited`", Bytes(bytes))
        }
    }
}

fn size(len: usize, call: &'static str) -> Result<libc::off_t, CallError> {
    libc::off_t::try_from(len).map_err(|_| CallError { call, errno: Errno(libc::EFBIG) })
}

fn open(kind: PageKind) -> Result<OwnedFd, CallError> {
    let huge = match kind {
        PageKind::OneGib => libc::MFD_HUGETLB | libc::MFD_HUGE_1GB,
        PageKind::TwoMib => libc::MFD_HUGETLB | libc::MFD_HUGE_2MB,
        PageKind::Transparent | PageKind::Small => 0,
    };
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | huge;
    // Kernels before 6.3 do not know that a memfd may be told never to hold a program, later ones want to be told.
    for flags in [flags | libc::MFD_NOEXEC_SEAL, flags] {
        // SAFETY: the name is a C string; the call touches no other memory.
        let fd = unsafe { libc::memfd_create(c"spinwire".as_ptr(), flags) };
        if fd >= 0 {
            // SAFETY: a fresh descriptor that nobody else owns.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        if Errno::last() != Errno(libc::EINVAL) {
            break;
        }
    }
    Err(CallError { call: "memfd_create", errno: Errno::last() })
}
