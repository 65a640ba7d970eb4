//! [`Fabric`] over shared memory: the data path of one core.

mod asking;
mod looking;

use std::os::fd::OwnedFd;

use spinwire_core::config::{Config, Sizing};
use spinwire_core::fabric::{Batch, BufferMap, Fabric, OneSidedWr, PostError, RecvWr, SendWr};
use spinwire_core::id::ConnId;

use super::conn::Offer;
use super::exposed::PeerRegion;
use super::layout::Geometry;
use super::link::Link;
use super::local::LocalMemory;
use super::memory::ShareError;
use super::watch::Watch;
use crate::sys::os::{CallError, Errno};

/// Connections' rings in shared memory. Posts and polls allocate nothing and make no system call.
pub struct ShmFabric<'m> {
    links: Vec<Option<(ConnId, Box<Link>)>>,
    /// The links that there are, to be looked at.
    watch: Watch,
    /// Slots with sends under way whose peer is asked how far it is.
    sending: Vec<u16>,
    send_cursor: usize,
    /// The same whose peer has told it lately by answers, and is asked seldom.
    answered: Vec<u16>,
    answered_cursor: usize,
    /// Polls since one has found something to receive.
    quiet_polls: u32,
    /// Polls so far, to do some things in some of them.
    polls: u32,
    /// Slots that were visited in the last poll: they may owe their peer an acknowledgement, or have had one with what came.
    visited: Vec<u16>,
    /// What to look for next at one of them is not said yet.
    is_said_late: bool,
    local: LocalMemory<'m>,
    geometry: Geometry,
    sizing: Sizing,
    hugepages: bool,
    /// One-sided operations that a connection may have under way.
    operations: usize,
    last_qp_num: u32,
}

impl<'m> ShmFabric<'m> {
    /// A fabric for the buffers in `local` and a connection table of `slots`.
    ///
    /// What is posted on it must be leases of pools over the bytes that were split off together with `local`, with their
    /// true offsets, and none may be reclaimed before its completion was polled or its connection is destroyed: else one
    /// connection's message may land in a buffer that is used for another.
    pub(super) fn new(local: LocalMemory<'m>, config: &Config, slots: usize, hugepages: bool) -> Self {
        ShmFabric {
            links: std::iter::repeat_with(|| None).take(slots).collect(),
            watch: Watch::with_capacity(slots),
            sending: Vec::with_capacity(slots),
            send_cursor: 0,
            answered: Vec::with_capacity(slots),
            answered_cursor: 0,
            quiet_polls: 0,
            polls: 0,
            visited: Vec::with_capacity(slots),
            is_said_late: false,
            local,
            geometry: Geometry::of(config),
            sizing: config.sizing(),
            hugepages,
            operations: 0,
            last_qp_num: 0,
        }
    }

    /// With room for so many one-sided operations on each connection.
    pub(super) fn with_operations(mut self, operations: usize) -> Self {
        self.operations = operations;
        self
    }

    /// Gives the peer's exposed regions to `conn`.
    pub(super) fn attach_regions(&mut self, conn: ConnId, regions: Vec<PeerRegion>) {
        if let Some(link) = self.link(conn) {
            link.attach_regions(regions);
        }
    }

    /// How this side's segment of `conn` is laid out.
    pub(super) fn geometry(&self, conn: ConnId) -> Option<Geometry> {
        let (id, link) = self.links.get(conn.slot())?.as_ref()?;
        (*id == conn).then(|| link.geometry())
    }

    /// Makes the segment and the queues of `conn`. Takes the kernel some 100 us per MiB to clear them.
    pub(super) fn open(&mut self, conn: ConnId) -> Result<(), OpenError> {
        let slot = self.links.get_mut(conn.slot()).ok_or(OpenError::Slot(libc::ENOSPC))?;
        if slot.is_some() {
            return Err(OpenError::Slot(libc::EBUSY));
        }
        self.last_qp_num = self.last_qp_num.wrapping_add(1);
        let geometry = self.geometry.beginning_at(self.last_qp_num);
        let sizes = (&self.sizing, self.operations);
        let link = Link::new(geometry, sizes, self.hugepages, self.last_qp_num)?;
        *slot = Some((conn, Box::new(link)));
        self.watch.add(conn.slot() as u16);
        Ok(())
    }

    /// The descriptor of the segment of `conn`, once.
    pub(super) fn take_fd(&mut self, conn: ConnId) -> Option<OwnedFd> {
        self.link(conn)?.take_fd()
    }

    /// Gives the peer's memory to `conn`. `lends` says that the peer has this core's arena, so that long messages need not
    /// be copied into the segment.
    pub(super) fn attach(&mut self, conn: ConnId, offer: Offer, lends: bool) -> Result<(), CallError> {
        let missing = CallError { call: "mmap", errno: Errno(libc::ENOTCONN) };
        self.link(conn).ok_or(missing)?.attach(offer, lends);
        self.say(conn.slot());
        Ok(())
    }

    /// The connection is down: what has arrived is still taken, then posted work comes back flushed.
    pub(super) fn disconnect(&mut self, conn: ConnId) {
        let Some((_, link)) = self.links.get_mut(conn.slot()).and_then(Option::as_mut).filter(|(id, _)| *id == conn)
        else {
            return;
        };
        link.disconnect();
        if !std::mem::replace(&mut link.is_sending, true) {
            self.sending.push(conn.slot() as u16);
        }
        self.say(conn.slot());
    }

    /// What to look for at a link has changed otherwise than by a visit.
    #[cold]
    fn say(&mut self, slot: usize) {
        if let Some(Some((_, link))) = self.links.get(slot) {
            // SAFETY: the slot is in the peer's segment, which the link holds; `close` removes it here before that.
            unsafe { self.watch.say(slot as u16, link.next()) };
        }
    }

    /// Lets go of the segments and queues of `conn`, if it has any. Its buffers are not touched any more.
    pub(super) fn close(&mut self, conn: ConnId) {
        let Some(slot) = self.links.get_mut(conn.slot()).filter(|slot| matches!(slot, Some((id, _)) if *id == conn))
        else {
            return;
        };
        let gone = conn.slot() as u16;
        self.watch.remove(gone);
        *slot = None;
        for list in [&mut self.sending, &mut self.answered, &mut self.visited] {
            list.retain(|&slot| slot != gone);
        }
    }

    #[inline]
    fn link(&mut self, conn: ConnId) -> Option<&mut Link> {
        match self.links.get_mut(conn.slot()) {
            Some(Some((id, link))) if *id == conn => Some(link),
            _ => None,
        }
    }

    /// Puts a link with sends under way on the list where it belongs.
    #[inline(never)]
    fn list(&mut self, slot: u16) {
        let Some(Some((_, link))) = self.links.get_mut(slot as usize) else { return };
        let (list, is_listed) = match link.is_asked() {
            true => (&mut self.sending, &mut link.is_sending),
            false => (&mut self.answered, &mut link.is_answered),
        };
        if !std::mem::replace(is_listed, true) {
            list.push(slot);
        }
    }
}

impl Fabric for ShmFabric<'_> {
    fn prepare(&mut self, buffers: &BufferMap) {
        self.local.prepare(buffers);
    }

    #[inline(always)]
    fn poll_recv(&mut self, out: &mut Batch) {
        self.acknowledge();
        let before = out.len();
        if self.watch.is_one_hot() {
            self.visit_only(out);
        } else {
            self.look_around(out);
        }
        self.quiet_polls = if out.len() == before { self.quiet_polls.saturating_add(1) } else { 0 };
    }

    #[inline(always)]
    fn poll_send(&mut self, out: &mut Batch) {
        for &slot in &self.visited {
            let Some((_, link)) = &mut self.links[slot as usize] else { continue };
            link.complete(out);
            if out.is_full() && !std::mem::replace(&mut link.is_sending, true) {
                // There may be more of it.
                self.sending.push(slot);
            }
        }
        self.ask_peers(out);
    }

    fn post_one_sided(&mut self, conn: ConnId, chain: &[OneSidedWr]) -> Result<(), PostError> {
        let Some(Some((id, link))) = self.links.get_mut(conn.slot()) else { return Err(NO_LINK) };
        if *id != conn {
            return Err(NO_LINK);
        }
        let result = link.post_one_sided(chain, &self.local);
        if !std::mem::replace(&mut link.is_sending, true) {
            self.sending.push(conn.slot() as u16);
        }
        result
    }

    /// As many as are posted: each is carried out at once.
    fn reads_max(&self, _: ConnId) -> u32 {
        u32::MAX
    }

    fn qp_num(&self, conn: ConnId) -> Option<u32> {
        let (id, link) = self.links.get(conn.slot())?.as_ref()?;
        (*id == conn).then(|| link.qp_num())
    }

    #[inline(always)]
    fn post_recv(&mut self, conn: ConnId, chain: &[RecvWr]) -> Result<(), PostError> {
        let Some(Some((id, link))) = self.links.get_mut(conn.slot()) else { return Err(NO_LINK) };
        if *id != conn {
            return Err(NO_LINK);
        }
        link.post_recv(chain, &self.local)
    }

    #[inline(always)]
    fn post_send(&mut self, conn: ConnId, chain: (&[SendWr], &[SendWr])) -> Result<(), PostError> {
        let Some(Some((id, link))) = self.links.get_mut(conn.slot()) else { return Err(NO_LINK) };
        if *id != conn {
            return Err(NO_LINK);
        }
        let result = link.post_send(chain, &self.local);
        if !(link.is_sending || link.is_answered && !link.is_asked()) {
            self.list(conn.slot() as u16);
        }
        result
    }
}

const NO_LINK: PostError = PostError { taken: 0, errno: libc::ENOTCONN };

/// A connection's memory cannot be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    /// Its slot is taken, or beyond the table.
    #[error("no slot for the connection (errno {0})")]
    Slot(i32),
    /// There is no memory to share.
    #[error(transparent)]
    Share(#[from] ShareError),
}

impl OpenError {
    /// The call behind it.
    pub(super) fn cause(&self) -> CallError {
        match self {
            OpenError::Slot(errno) => CallError { call: "shm segment", errno: Errno(*errno) },
            OpenError::Share(error) => error.cause,
        }
    }
}
