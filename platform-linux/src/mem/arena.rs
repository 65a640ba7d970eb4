//! The arena: allocate once, carve, register once.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use super::RAISE_MEMLOCK;
use super::carver::Carver;
use super::hugepage::Refused;
use super::map::Mapping;
use super::memfd;
use super::page::{PageKind, PagePolicy};
use super::placement::{Limit, List, Placement};
use super::stable::StableMemory;
use crate::signals::{self, Stop};
use crate::sys::os::{CallError, Errno, memlock_limit};
use crate::words::Bytes;

/// What an arena should be.
#[derive(Clone, Debug, Default)]
pub struct ArenaConfig {
    /// Size in bytes, at least 1; rounded up to whole pages.
    pub bytes: usize,
    /// Kinds of pages allowed, in the order to try them.
    pub pages: PagePolicy,
    /// The NUMA node the pages should come from, for instance the device's; `None` where it is not known (-1 in sysfs).
    pub node: Option<u32>,
    /// Lock the pages into memory. Not needed if they are registered with a device, which locks them too.
    pub lock: bool,
    /// Make it memory that other processes can be allowed to read, and nobody but this one to write: see
    /// [`Arena::memfd`].
    pub shared: bool,
    /// Ends the work early if a signal came. The default never does.
    pub stop: Stop,
}

/// One piece of zeroed memory of this process, present in full. Unmapped on drop.
#[derive(Debug)]
pub struct Arena {
    mapping: Mapping,
    memfd: Option<Arc<OwnedFd>>,
    placement: Placement,
}

/// Why there is no arena. Nothing is left behind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArenaError {
    /// The size is 0, or more than the address space.
    #[error("an arena of {bytes} bytes cannot be made")]
    Size {
        /// The size asked for.
        bytes: usize,
    },
    /// No kind of page that is allowed could be had.
    #[error("no memory for an arena of {}:{}", Bytes(*.bytes as u64), List(.refused))]
    NoPages {
        /// The size asked for.
        bytes: usize,
        /// What was tried, with the reasons.
        refused: Vec<Refused>,
    },
    /// [`ArenaConfig::stop`] said so.
    #[error("an arena of {} was being made when {} came", Bytes(*.bytes as u64), signals::name(*.signal))]
    Stopped {
        /// The size asked for.
        bytes: usize,
        /// The number of the signal.
        signal: u8,
    },
    /// The process may not lock that much memory.
    #[error("lock an arena of {}: limit of locked memory of this process is {}, may be raised to {}; {RAISE_MEMLOCK}",
        Bytes(*.bytes as u64), Limit(*.soft), Limit(*.hard))]
    Memlock {
        /// The size that was to be locked, in bytes.
        bytes: usize,
        /// The limit that holds, in bytes; `None` is unlimited.
        soft: Option<u64>,
        /// How far the process may raise it itself, in bytes; `None` is unlimited.
        hard: Option<u64>,
    },
    /// Locking failed for another reason.
    #[error("lock an arena of {}: {cause}", Bytes(*.bytes as u64))]
    Lock {
        /// The size that was to be locked, in bytes.
        bytes: usize,
        /// The call, and what it said.
        cause: CallError,
    },
}

impl Arena {
    /// Maps the memory on the first kind of page that can be had, makes every page present, and says what was got.
    ///
    /// Cost: the kernel clears the memory, 0.1-0.3 s per GiB. To be done at the start, not in a loop. [`ArenaConfig::stop`] is
    /// looked at every 8 MiB, or every page of 1 GiB.
    ///
    /// # Errors
    /// [`ArenaError`]; each names the limit and what lifts it.
    pub fn allocate(config: &ArenaConfig) -> Result<Self, ArenaError> {
        let mut refused = Vec::new();
        for &kind in config.pages.kinds() {
            let page_bytes = kind.page_bytes();
            let len = config.bytes.checked_next_multiple_of(page_bytes).filter(|&len| len > 0 && len <= LEN_MAX);
            let len = len.ok_or(ArenaError::Size { bytes: config.bytes })?;
            match place(kind, len, config) {
                Ok((mapping, memfd, bind_refused)) => {
                    if config.lock {
                        mapping.lock().map_err(|cause| explain_lock(len, cause, memlock_limit()))?;
                    }
                    let placement = Placement {
                        kind,
                        page_bytes,
                        pages: len / page_bytes,
                        node: mapping.node(),
                        bind_refused,
                        locked: config.lock,
                        refused,
                    };
                    return Ok(Arena { mapping, memfd: memfd.map(Arc::new), placement });
                }
                Err(reason) => refused.push(reason),
            }
            if let Some(signal) = config.stop.signal() {
                return Err(ArenaError::Stopped { bytes: config.bytes, signal });
            }
        }
        Err(ArenaError::NoPages { bytes: config.bytes, refused })
    }

    /// What the kernel gave.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The first byte, for registration. Valid as long as the arena is.
    pub fn base(&self) -> NonNull<u8> {
        self.mapping.base()
    }

    /// Size in bytes: what was asked for, rounded up to whole pages.
    #[expect(clippy::len_without_is_empty, reason = "an arena is never empty")]
    pub fn len(&self) -> usize {
        self.mapping.len()
    }

    /// The descriptor of memory that was asked for as shared. It is sealed: who gets it can map it for reading only, and
    /// nobody can take pages away. Whoever has it can read everything in the arena, for as long as they keep it.
    pub fn memfd(&self) -> Option<&Arc<OwnedFd>> {
        self.memfd.as_ref()
    }

    /// All of the memory.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is present, initialised by the kernel (zeroes) and lives as long as `self`, which is
        // borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.mapping.base().as_ptr(), self.mapping.len()) }
    }

    /// Hands the memory out piece by piece, from the beginning. A second carver begins anew, when the first one's
    /// pieces are gone.
    pub fn carver(&mut self) -> Carver<'_> {
        Carver::new(self.bytes())
    }
}

// SAFETY: the mapping neither moves nor changes its length before it is dropped, whatever happens to the value, and the
// kernel has zeroed it. Its bytes are reached through `&mut Arena` only, which the owner of a registration gives to
// nobody.
unsafe impl StableMemory for Arena {
    fn base(&self) -> NonNull<u8> {
        self.mapping.base()
    }

    fn len(&self) -> usize {
        self.mapping.len()
    }
}

/// A mapping, its descriptor if it is shared, and why the node was not made binding, if so.
type Placed = (Mapping, Option<OwnedFd>, Option<CallError>);

/// Maps `len` bytes on `kind`, present in full.
fn place(kind: PageKind, len: usize, config: &ArenaConfig) -> Result<Placed, Refused> {
    let wanted = (len / kind.page_bytes()) as u64;
    Refused::short(kind, wanted)?;
    let refuse = |cause| Refused::call(kind, wanted, cause);
    let (mapping, memfd) = match config.shared {
        true => Mapping::shared(kind, len).map(|(mapping, fd)| (mapping, Some(fd))),
        false => Mapping::new(kind, len).map(|mapping| (mapping, None)),
    }
    .map_err(refuse)?;
    mapping.keep_from_children().map_err(refuse)?;
    let bind_refused = config.node.and_then(|node| mapping.bind(node).err());
    mapping.populate(kind, &config.stop).map_err(refuse)?;
    if kind == PageKind::Transparent && huge_bytes(&mapping) < len {
        mapping.collapse(&config.stop);
        let got = huge_bytes(&mapping);
        if got < len {
            return Err(Refused::transparent(wanted, got as u64, config.shared));
        }
    }
    if let Some(fd) = &memfd {
        // Every page is there: a hole would be no error to a reader, but to be seen by nobody.
        let filled = memfd::fill(fd.as_fd(), kind, len, &config.stop);
        filled.and_then(|()| memfd::seal(fd.as_fd(), memfd::SEALS)).map_err(refuse)?;
    }
    Ok((mapping, memfd, bind_refused))
}

/// Bytes of the mapping that the kernel says are on transparent hugepages.
fn huge_bytes(mapping: &Mapping) -> usize {
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let begin = format!("{:x}-", mapping.base().as_ptr().addr());
    let entry = smaps.lines().skip_while(|line| !line.starts_with(&begin));
    let entry = entry.skip(1).take_while(|line| !line.starts_with("VmFlags:"));
    // Private memory is in the first line, a memfd's in the second.
    let names = ["AnonHugePages:", "ShmemPmdMapped:"];
    let kib = |line: &str| {
        names.iter().find_map(|name| line.strip_prefix(name)?.trim().strip_suffix(" kB")?.trim().parse().ok())
    };
    entry.filter_map(kib).map(|kib: usize| kib << 10).sum()
}

/// A lock is refused with one of three numbers when the limit is too low.
fn explain_lock(bytes: usize, cause: CallError, (soft, hard): (Option<u64>, Option<u64>)) -> ArenaError {
    match cause.errno {
        Errno(libc::ENOMEM | libc::EPERM | libc::EAGAIN) if soft.is_some() => ArenaError::Memlock { bytes, soft, hard },
        _ => ArenaError::Lock { bytes, cause },
    }
}

/// No object in Rust may be longer; guards need a little room as well.
const LEN_MAX: usize = isize::MAX as usize - (4 << 30);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::Refusal;

    /// Without the question the kernel would look for a process to end; the stop keeps it from that here.
    #[test]
    fn more_than_the_machine_has_is_refused_before_it_is_asked_for() {
        let stop = Stop::default();
        stop.set(libc::SIGTERM as u8);
        for shared in [true, false] {
            let config = ArenaConfig { shared, stop: stop.clone(), ..ArenaConfig::default() };
            for kind in [PageKind::Small, PageKind::Transparent] {
                let refused = place(kind, 1 << 46, &config).unwrap_err();
                assert!(matches!(refused.reason, Refusal::Short(_)), "{refused}");
            }
        }
    }

    #[test]
    fn a_lock_limit_is_named_with_the_size_and_the_way_to_raise_it() {
        let cause = CallError { call: "mlock", errno: Errno(libc::ENOMEM) };
        let text = explain_lock(8 << 20, cause, (Some(64 << 10), Some(1 << 20))).to_string();
        for part in ["arena of 8 MiB", "is 64 KiB", "raised to 1 MiB", "ulimit -l", "LimitMEMLOCK=", "--ulimit memlock"]
        {
            assert!(text.contains(part), "{part:?} is missing in: {text}");
        }
        assert_eq!(explain_lock(1, cause, (None, None)), ArenaError::Lock { bytes: 1, cause });
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        for bytes in [0, usize::MAX, isize::MAX as usize] {
            let error = Arena::allocate(&ArenaConfig { bytes, ..ArenaConfig::default() }).unwrap_err();
            assert_eq!(error, ArenaError::Size { bytes });
        }
    }

    #[test]
    fn an_arena_that_is_not_to_be_made_any_more_is_not_made() {
        let stop = Stop::default();
        stop.set(libc::SIGTERM as u8);
        for shared in [false, true] {
            let config = ArenaConfig { bytes: 1, shared, stop: stop.clone(), ..ArenaConfig::default() };
            let error = Arena::allocate(&config).unwrap_err();
            assert_eq!(error, ArenaError::Stopped { bytes: 1, signal: libc::SIGTERM as u8 });
            assert_eq!(error.to_string(), "an arena of 1 bytes was being made when SIGTERM came");
        }
    }
}
