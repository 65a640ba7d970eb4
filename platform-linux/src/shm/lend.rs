//! Who may read this core's buffers.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::arenas::may_be_lent;
use super::control::ShmControl;
use super::layout::Geometry;
use super::socket::{Credentials, FDS_MAX};
use super::wire::Terms;
use crate::mem::Arena;

impl ShmControl<'_> {
    /// Lets processes of the own user read `arena`, the memory that sends are posted from. (Others are not let: they would
    /// see what belongs to third parties. A process of the same user can read this one's memory in any case, as far as the
    /// kernel lets it trace.)
    pub(super) fn lend(&mut self, arena: &Arena) {
        self.arena = may_be_lent(arena).map(|fd| (Arc::clone(fd), arena.len() as u64));
    }

    /// What a peer is told and given of this side's memory.
    pub(super) fn terms(&self, geometry: Geometry, peer: Option<Credentials>) -> (Terms, Option<BorrowedFd<'_>>) {
        match self.arena.as_ref().filter(|_| self.is_own(peer)) {
            Some((fd, bytes)) => (Terms { geometry, arena_bytes: *bytes }, Some(fd.as_fd())),
            None => (Terms { geometry, arena_bytes: 0 }, None),
        }
    }

    /// Whether a peer is a process of this one's user.
    pub(super) fn is_own(&self, peer: Option<Credentials>) -> bool {
        peer.is_some_and(|peer| peer.uid == self.options.users.own())
    }

    /// What goes along with a request or an accept.
    pub(super) fn descriptors<'a>(&'a self, segment: &'a OwnedFd, arena: Option<BorrowedFd<'a>>) -> Descriptors<'a> {
        [segment.as_fd(), self.pulse.fd().as_fd()].into_iter().chain(arena).collect()
    }
}

/// What goes along with a packet.
pub(super) type Descriptors<'a> = heapless::Vec<BorrowedFd<'a>, FDS_MAX>;
