//! Memory that two processes see: written by the one that made it, mapped for reading by the other.
//!
//! It is a memfd: nothing has a name, so nothing is left when the process ends, however it ends. All pages are present
//! before the descriptor is given away, and the seals keep it so: `SHRINK`, `GROW` and `FUTURE_WRITE` forbid the maker to
//! take a page away (a hole cannot be punched either) and everybody else to map it for writing. A memfd without these
//! seals, with another size or with pages missing is not mapped: it could end this process with a bus error.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};

use super::unmap;
use crate::mem::memfd::{self, limit};
use crate::mem::{PageKind, Refused, pieces};
use crate::signals::Stop;
use crate::sys::os::{CallError, Errno, check};
use crate::words::Bytes;

/// Memory of this process's making, readable and writable here. Unmapped on drop.
pub(super) struct OwnMemory {
    map: Map,
    kind: PageKind,
    /// Until it is given to the peer.
    fd: Option<OwnedFd>,
}

/// Memory of the peer's making, readable here. Unmapped on drop.
pub(super) struct PeerMemory {
    map: Map,
}

/// No memory to share.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no shared memory of {}: {}{}", Bytes(*.bytes as u64), Reasons(.refused), hint(.cause))]
pub struct ShareError {
    /// Bytes wanted.
    pub bytes: usize,
    /// Kinds of pages that were tried, with the reason of each.
    pub refused: Vec<Refused>,
    /// The last call that failed.
    pub cause: CallError,
}

/// What a peer passed cannot be mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// It is not as it must be. The peer's fault.
    #[error("the peer's shared memory {0}")]
    Unfit(&'static str),
    /// A call failed. Ours, or the machine's.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl OwnMemory {
    /// Makes `bytes` of zeroes, rounded up to whole pages: on pages of 2 MiB if `hugepages` and if they can be had, else
    /// on small ones. All are present when it returns.
    pub(super) fn new(bytes: usize, hugepages: bool) -> Result<Self, ShareError> {
        Self::large(bytes, hugepages, &Stop::default())
    }

    /// The same, for what takes a while: fails if `stop` says so.
    pub(super) fn large(bytes: usize, hugepages: bool, stop: &Stop) -> Result<Self, ShareError> {
        let mut refused = Vec::new();
        let kinds = [PageKind::TwoMib, PageKind::Small];
        for kind in kinds.into_iter().skip(usize::from(!hugepages)) {
            let len = bytes.next_multiple_of(kind.page_bytes());
            if let Err(short) = not_short(kind, len) {
                refused.push(short);
                return Err(ShareError { bytes, refused, cause: SHORT });
            }
            match Self::on(kind, len, memfd::SEALS, stop) {
                Ok(memory) => return Ok(memory),
                Err(cause) => {
                    refused.push(Refused::call(kind, (len / kind.page_bytes()) as u64, cause));
                    if kind == PageKind::Small {
                        return Err(ShareError { bytes, refused, cause });
                    }
                }
            }
        }
        unreachable!("small pages are tried last, and their failure is returned")
    }

    /// Makes `bytes` of zeroes that the peer may change: on small pages, which it can give back and not take away. Fails if
    /// `stop` says so.
    pub(super) fn changeable(bytes: usize, stop: &Stop) -> Result<Self, ShareError> {
        let kind = PageKind::Small;
        let len = bytes.next_multiple_of(kind.page_bytes());
        not_short(kind, len).map_err(|short| ShareError { bytes, refused: vec![short], cause: SHORT })?;
        Self::on(kind, len, memfd::SIZE_SEALS, stop).map_err(|cause| ShareError {
            bytes,
            refused: vec![Refused::call(kind, (len / kind.page_bytes()) as u64, cause)],
            cause,
        })
    }

    fn on(kind: PageKind, len: usize, seals: libc::c_int, stop: &Stop) -> Result<Self, CallError> {
        let fd = memfd::create(kind, len)?;
        let map = Map::new(fd.as_fd(), len, libc::PROT_READ | libc::PROT_WRITE)?;
        memfd::fill(fd.as_fd(), kind, len, stop)?;
        map.populate(libc::MADV_POPULATE_WRITE, kind, stop)?;
        memfd::seal(fd.as_fd(), seals)?;
        Ok(Self { map, kind, fd: Some(fd) })
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.map.base
    }

    pub(super) fn len(&self) -> usize {
        self.map.len
    }

    /// The kind of page it is on.
    pub(super) fn kind(&self) -> PageKind {
        self.kind
    }

    /// The descriptor, once, to be passed on. The mapping stays.
    pub(super) fn take_fd(&mut self) -> Option<OwnedFd> {
        self.fd.take()
    }
}

impl PeerMemory {
    /// Maps what a peer passed, if it is at least `bytes` long and can be read without a signal for ever.
    pub(super) fn map(fd: OwnedFd, bytes: usize) -> Result<Self, AttachError> {
        Self::map_as(fd, bytes, memfd::SEALS, usize::MAX)
    }

    /// Maps a region that a peer has exposed, and that this side may change or only read. The page tables of a long one
    /// are not filled, for that would hold up the loop: there each page costs a fault at its first touch.
    pub(super) fn map_region(fd: OwnedFd, bytes: usize, changeable: bool) -> Result<Self, AttachError> {
        let needed = if changeable { memfd::SIZE_SEALS } else { memfd::SEALS };
        Self::map_as(fd, bytes, needed, POPULATE_MAX)
    }

    fn map_as(fd: OwnedFd, bytes: usize, needed: libc::c_int, populate_max: usize) -> Result<Self, AttachError> {
        let raw = fd.as_raw_fd();
        // SAFETY: a call on our own descriptor that touches no memory, and asks no file system: what has no seals is not
        // looked at further, for a file's server may not answer.
        let seals = unsafe { libc::fcntl(raw, libc::F_GET_SEALS) };
        if seals < 0 || seals & needed != needed {
            return Err(AttachError::Unfit(match needed {
                memfd::SEALS => "is no memfd sealed against shrinking, growing and writing",
                _ => "is no memfd sealed against shrinking and growing",
            }));
        }
        let stat = stat(&fd)?;
        let (len, page) = (stat.st_size, stat.st_blksize);
        if needed == memfd::SIZE_SEALS && page != PageKind::Small.page_bytes() as i64 {
            return Err(AttachError::Unfit("can be changed and is not on small pages"));
        }
        let longest = bytes.next_multiple_of(usize::try_from(page).unwrap_or(0).clamp(4096, 2 << 20));
        match usize::try_from(len) {
            Ok(len) if (bytes..=longest).contains(&len) => {}
            _ => return Err(AttachError::Unfit("has another size than was said")),
        }
        if stat.st_blocks.saturating_mul(512) < len {
            return Err(AttachError::Unfit("is not present in full"));
        }
        // The whole length: part of a huge page cannot be mapped.
        let write = if needed == memfd::SEALS { 0 } else { libc::PROT_WRITE };
        let map = Map::new(fd.as_fd(), longest.min(len as usize), libc::PROT_READ | write)?;
        if map.len <= populate_max {
            map.populate(libc::MADV_POPULATE_READ, PageKind::Small, &Stop::default())?;
        }
        Ok(Self { map })
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.map.base
    }

    /// The bytes that are mapped.
    pub(super) fn len(&self) -> usize {
        self.map.len
    }
}

/// Whether there can be so much memory; asked where it is much, for the asking reads files.
fn not_short(kind: PageKind, len: usize) -> Result<(), Refused> {
    if len < ASK_FROM { Ok(()) } else { Refused::short(kind, (len / kind.page_bytes()) as u64) }
}

/// What stands for the call that was not made.
const SHORT: CallError = CallError { call: "fallocate (not called: memory is short)", errno: Errno(libc::ENOMEM) };

/// From so many bytes on: they take some 7 ms to be had, the asking less than 1.
const ASK_FROM: usize = 4 << 20;

/// Tells one memfd from another, for as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    number: u64,
}

impl FileId {
    pub(super) fn of(fd: &OwnedFd) -> Result<Self, CallError> {
        stat(fd).map(|stat| Self { device: stat.st_dev, number: stat.st_ino })
    }
}

fn stat(fd: &OwnedFd) -> Result<libc::stat, CallError> {
    // SAFETY: all zeroes is a valid stat, and the call fills it.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is ours and large enough.
    check("fstat", || unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) })?;
    Ok(stat)
}

/// A shared mapping, kept out of children.
struct Map {
    base: NonNull<u8>,
    len: usize,
}

impl Map {
    fn new(fd: BorrowedFd<'_>, len: usize, protection: libc::c_int) -> Result<Self, CallError> {
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(CallError { call: "mmap", errno: Errno::last() });
        }
        let base = NonNull::new(base.cast()).ok_or(CallError { call: "mmap", errno: Errno(libc::EFAULT) })?;
        let map = Map { base, len };
        map.advise("madvise(MADV_DONTFORK)", libc::MADV_DONTFORK, 0, len)?;
        Ok(map)
    }

    /// Fills the page tables, so that the first touch costs no fault. Before Linux 5.14 the first touch does.
    fn populate(&self, advice: libc::c_int, kind: PageKind, stop: &Stop) -> Result<(), CallError> {
        let part = |offset, len| match self.advise("madvise(MADV_POPULATE)", advice, offset, len) {
            Err(CallError { errno: Errno(libc::EINVAL), .. }) => Ok(()),
            result => result,
        };
        pieces::each(self.len, kind.page_bytes(), stop, part)
    }

    fn advise(&self, call: &'static str, advice: libc::c_int, offset: usize, len: usize) -> Result<(), CallError> {
        debug_assert!(offset + len <= self.len);
        // SAFETY: the range is our own mapping, and none of the advices used here changes the content of pages.
        check(call, || unsafe { libc::madvise(self.base.as_ptr().add(offset).cast(), len, advice) })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: made by `mmap` with this length; its owner is going, and with it all that refers to it.
        unsafe { unmap::unmap(self.base, self.len) };
    }
}

/// What the error number alone does not say.
pub(crate) fn hint(cause: &CallError) -> String {
    match cause.errno {
        Errno(libc::EMFILE) => limit_hint(libc::EMFILE),
        Errno(libc::EFBIG) => {
            let limit = Bytes(limit(libc::RLIMIT_FSIZE).rlim_cur);
            format!(
                "; the limit of file sizes, which shared memory counts for, is {limit}, raise it with `ulimit -f unlimited`"
            )
        }
        Errno(libc::ENOMEM | libc::ENOSPC) => {
            "; memory is short: fewer connections, a smaller depth or message size, or a higher memory limit of the \
            container or the process"
                .to_owned()
        }
        Errno(libc::EAGAIN) if cause.call.starts_with("clone") => threads_hint(),
        Errno(libc::EINVAL) if cause.call == "fcntl(F_ADD_SEALS)" => "; this needs Linux 5.1".to_owned(),
        _ => String::new(),
    }
}

/// Why a thread cannot be started, to be put behind `EAGAIN`.
pub fn threads_hint() -> String {
    format!("; too many threads (`ulimit -u` tells how many there may be), or too little memory{}", memfd::space_hint())
}

/// Which limit of this process an error number may be about, and how to lift it, to be put behind its words; nothing for
/// most numbers.
pub fn limit_hint(errno: i32) -> String {
    match errno {
        libc::EMFILE => {
            let libc::rlimit { rlim_cur: limit, rlim_max: most } = limit(libc::RLIMIT_NOFILE);
            format!("; the limit of open files is {limit}, raise it with `ulimit -n` (up to {most})")
        }
        libc::ENOMEM => memfd::space_hint(),
        _ => String::new(),
    }
}

struct Reasons<'a>(&'a [Refused]);

impl std::fmt::Display for Reasons<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (n, refused) in self.0.iter().enumerate() {
            write!(f, "{}{refused}", if n > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}

/// 64 MiB: its page tables take some 2 ms.
const POPULATE_MAX: usize = 64 << 20;
