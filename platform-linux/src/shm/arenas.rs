//! Peers' buffers, mapped for reading: once for each process, however many connections it has to this core.

use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use super::memory::{AttachError, FileId, PeerMemory};
use super::socket::Credentials;
use crate::mem::Arena;

/// The longest arena that is lent. The peer maps it in its loop, which takes the kernel some 10 ms for 1 GiB of small pages;
/// longer ones are not lent, and long messages then go through the segment.
const ARENA_BYTES_MAX: u64 = 1 << 30;

/// The descriptor of an arena that peers may be let read: it was made as shared, and is not too long.
pub(crate) fn may_be_lent(arena: &Arena) -> Option<&Arc<OwnedFd>> {
    arena.memfd().filter(|_| arena.len() as u64 <= ARENA_BYTES_MAX)
}

/// The arenas that peers lend at present.
#[derive(Default)]
pub(super) struct PeerArenas {
    mapped: Vec<(Key, Weak<PeerMemory>)>,
}

/// A memfd of a process. Another process's with the same number would be another one: what is lent is for the connections
/// of the process that lent it.
type Key = (u32, FileId);

impl PeerArenas {
    /// Maps what `peer` lends, `bytes` long, or finds it mapped.
    pub(super) fn map(&mut self, fd: OwnedFd, bytes: u64, peer: Credentials) -> Result<Rc<PeerMemory>, AttachError> {
        let bytes = usize::try_from(bytes.min(ARENA_BYTES_MAX + 1)).unwrap_or(usize::MAX);
        if bytes as u64 > ARENA_BYTES_MAX {
            return Err(AttachError::Unfit("is longer than what may be lent"));
        }
        let key = (peer.pid, FileId::of(&fd)?);
        let known = self.mapped.iter().find(|(known, _)| *known == key).and_then(|(_, memory)| memory.upgrade());
        if let Some(memory) = known.filter(|memory| memory.len() >= bytes) {
            return Ok(memory);
        }
        let memory = Rc::new(PeerMemory::map(fd, bytes)?);
        self.mapped.retain(|(_, memory)| memory.strong_count() > 0);
        self.mapped.push((key, Rc::downgrade(&memory)));
        Ok(memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::{ArenaConfig, PageKind, PagePolicy};

    fn lent() -> (Arena, OwnedFd, u64) {
        let pages = PagePolicy::new([PageKind::Small]).unwrap();
        let arena =
            Arena::allocate(&ArenaConfig { bytes: 9_000, pages, shared: true, ..ArenaConfig::default() }).unwrap();
        let fd = arena.memfd().unwrap().try_clone().unwrap();
        let bytes = arena.len() as u64;
        (arena, fd, bytes)
    }

    #[test]
    fn an_arena_is_mapped_once_for_each_process_and_goes_with_its_last_connection() {
        let (_arena, fd, bytes) = lent();
        let again = || fd.try_clone().unwrap();
        let (one, other) = (Credentials { pid: 1, uid: 0 }, Credentials { pid: 2, uid: 0 });
        let mut arenas = PeerArenas::default();
        let first = arenas.map(again(), bytes, one).unwrap();
        let second = arenas.map(again(), bytes, one).unwrap();
        assert!(Rc::ptr_eq(&first, &second));
        assert!(!Rc::ptr_eq(&first, &arenas.map(again(), bytes, other).unwrap()));
        drop((first, second));
        drop(arenas.map(again(), bytes, one).unwrap());
        assert_eq!(arenas.mapped.len(), 1, "those that are gone are forgotten");
    }

    #[test]
    fn an_arena_that_is_not_as_it_was_said_is_not_mapped() {
        let (_arena, fd, bytes) = lent();
        let peer = Credentials { pid: 1, uid: 0 };
        let why = |bytes| match PeerArenas::default().map(fd.try_clone().unwrap(), bytes, peer) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        assert_eq!(why(bytes), "");
        assert!(why(bytes + 1).contains("size"));
        assert!(why(ARENA_BYTES_MAX + 1).contains("longer") && why(u64::MAX).contains("longer"));
    }
}
