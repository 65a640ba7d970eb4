//! One-sided operations: reading and changing memory that a peer has exposed, without its program noticing.
//!
//! The application asks through [`Cx`], the flush posts, and each operation that was taken comes back exactly once, as
//! [`Handler::on_done`](super::Handler::on_done), in the order in which they were asked on the connection; at the latest
//! right before [`Handler::on_close`](super::Handler::on_close).
//!
//! **What is ordered.** Operations of a connection are carried out in the order they were asked. A message that is sent
//! after a write arrives when the bytes are there. The other way round nothing is promised: an operation needs no credit
//! and overtakes messages that wait for one.

mod post;

use super::{Core, Cx};
use crate::config::Mode;
use crate::conn::{Conn, Due, MessageKind, OpQueue};
use crate::fabric::{OneSidedOp, OneSidedWr, WcStatus};
use crate::id::{ConnId, WorkId, WorkKind};
use crate::remote::{RemotePlace, Rights};

/// What an engine keeps the one-sided operations of its connections in. They also need send buffers:
/// [`OneSidedMemory::buffers`].
#[derive(Debug, Default)]
pub struct OneSidedMemory<'m> {
    /// One for each connection.
    pub queues: &'m mut [OpQueue],
    /// The same number for each connection, a power of two; start them as [`OneSidedWr::EMPTY`].
    pub slots: &'m mut [OneSidedWr],
}

impl OneSidedMemory<'_> {
    /// Send buffers that so many slots need in [`Memory::send`](super::Memory::send), beyond those of the sends: one for each,
    /// and one that a callback has in its hands while the slot may be used again.
    pub const fn buffers(slots: usize) -> usize {
        if slots == 0 { 0 } else { slots + 1 }
    }
}

/// An operation was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OneSidedError {
    /// As many operations as there are slots are not done, or as many reads and atomics as the two devices agreed on. Back-pressure, not a fault: the next
    /// [`Handler::on_done`](super::Handler::on_done) makes room. A write with immediate needs room for a message as well,
    /// which [`Handler::on_writable`](super::Handler::on_writable) tells of.
    #[error("the queue of one-sided operations is full")]
    WouldBlock,
    /// The connection is not up (not yet, not any more, or the handle is of an earlier life).
    #[error("the connection is not established")]
    NotOpen,
    /// The engine was set up without room for one-sided operations.
    #[error("this engine was set up for 0 one-sided operations per connection")]
    NotSetUp,
    /// The peer's device, or the own, serves no reads and no atomics.
    #[error("no reads and no atomics are possible on this connection: the two devices agreed on 0")]
    NoReads,
    /// It reaches beyond the region.
    #[error("{len} bytes from offset {offset} are not inside a region of {region} bytes")]
    OutOfRange {
        /// Where it begins.
        offset: u64,
        /// How long it is, in bytes.
        len: u32,
        /// Length of the region in bytes.
        region: u64,
    },
    /// The region was not exposed for that.
    #[error("the region allows {allowed}, not {needed}")]
    NotAllowed {
        /// What the operation needs.
        needed: Rights,
        /// What the owner allows.
        allowed: Rights,
    },
    /// An atomic on a word that is not aligned to 8 bytes.
    #[error("an atomic at offset {offset} is not on a word that is aligned to 8 bytes")]
    NotAligned {
        /// Where it is.
        offset: u64,
    },
    /// More bytes than one operation takes, or none.
    #[error("an operation of {asked} bytes is out of range: 1 to {max}")]
    Length {
        /// Bytes asked.
        asked: u64,
        /// Bytes possible.
        max: u32,
    },
    /// A write with immediate to a peer in raw mode, which would not know what to make of it.
    #[error("a write with immediate needs a peer that is a spinwire")]
    Raw,
}

/// What an operation brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done<'b> {
    /// The bytes are in the peer's memory.
    Written,
    /// The bytes that were read. Valid until the callback returns.
    Read(&'b [u8]),
    /// What the word was before the compare-and-swap or the fetch-and-add. A compare-and-swap has swapped if that is what
    /// was expected.
    Was(u64),
}

/// An operation that did not succeed. Of what it was to do nothing, a part or all may have been done. The connection is
/// about to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OneSidedFailure {
    /// The connection ended first.
    #[error("the connection ended before it was confirmed")]
    Flushed,
    /// This operation failed, and the connection with it.
    #[error("{} (status {}, vendor code {vendor:#x})", status.words(), status.0)]
    Failed {
        /// The status.
        status: WcStatus,
        /// The vendor's code.
        vendor: u32,
    },
}

impl Cx<'_, '_> {
    /// Writes `bytes` into a region of the peer's. `user` comes back with
    /// [`Handler::on_done`](super::Handler::on_done). The bytes are copied, so the slice is free again at once.
    ///
    /// # Errors
    /// See [`OneSidedError`]; nothing was queued.
    pub fn write(&mut self, conn: ConnId, to: RemotePlace, bytes: &[u8], user: u64) -> Result<(), OneSidedError> {
        let len = bytes.len() as u64;
        self.core.ask_for(conn, OneSidedOp::Write, (to, len), user, |buf| buf.copy_from_slice(bytes))
    }

    /// [`write`](Self::write), and the peer is told: its [`Handler::on_write_imm`](super::Handler::on_write_imm) is called
    /// with `imm` when the bytes are there. It takes one of the peer's receives and comes in order with messages.
    ///
    /// On the wire it is a write and a message of 4 bytes behind it, not `IBV_WR_RDMA_WRITE_WITH_IMM`: the 32 bits of that
    /// would have to hold the credits as well.
    ///
    /// # Errors
    /// See [`OneSidedError`]; nothing was queued.
    pub fn write_imm(
        &mut self,
        conn: ConnId,
        to: RemotePlace,
        bytes: &[u8],
        imm: u32,
        user: u64,
    ) -> Result<(), OneSidedError> {
        self.core.room_to_tell(conn)?;
        self.write(conn, to, bytes, user)?;
        let told = self.core.queue_message(conn, MessageKind::WriteImm, &imm.to_le_bytes());
        debug_assert_eq!(told, Ok(()), "there was room");
        Ok(())
    }

    /// Reads `len` bytes of a region of the peer's. [`Handler::on_done`](super::Handler::on_done) brings
    /// them.
    ///
    /// # Errors
    /// See [`OneSidedError`]; nothing was queued.
    pub fn read(&mut self, conn: ConnId, from: RemotePlace, len: u32, user: u64) -> Result<(), OneSidedError> {
        self.core.ask_for(conn, OneSidedOp::Read, (from, len.into()), user, |_| {})
    }

    /// Puts `new` into the aligned word of 8 bytes there, if it is `expected`.
    /// [`Handler::on_done`](super::Handler::on_done) says what it was.
    ///
    /// Atomic against other such operations of peers; see `ExposedRegion` of the platform for what its owner may do.
    ///
    /// # Errors
    /// See [`OneSidedError`]; nothing was queued.
    pub fn compare_swap(
        &mut self,
        conn: ConnId,
        at: RemotePlace,
        (expected, new): (u64, u64),
        user: u64,
    ) -> Result<(), OneSidedError> {
        self.core.ask_for(conn, OneSidedOp::CompareSwap { expected, new }, (at, 8), user, |_| {})
    }

    /// Adds to the aligned word of 8 bytes there, wrapping. [`Handler::on_done`](super::Handler::on_done) says what
    /// it was. Atomic as [`compare_swap`](Self::compare_swap) is.
    ///
    /// # Errors
    /// See [`OneSidedError`]; nothing was queued.
    pub fn fetch_add(&mut self, conn: ConnId, at: RemotePlace, add: u64, user: u64) -> Result<(), OneSidedError> {
        self.core.ask_for(conn, OneSidedOp::FetchAdd { add }, (at, 8), user, |_| {})
    }

    /// Operations of a connection that are not done; 0 for a dead handle.
    pub fn operations_outstanding(&self, conn: ConnId) -> u32 {
        if self.core.conns.get(conn).is_some() { self.core.operations(conn.slot()) } else { 0 }
    }
}

impl<'m> Core<'m> {
    /// The operations of the connection in `slot` that are not done.
    pub(super) fn operations(&self, slot: usize) -> u32 {
        self.one_sided.queues.get(slot).map_or(0, OpQueue::outstanding)
    }

    /// The counters and the ring of the connection in `slot`; `None` where there are none.
    fn operations_of<'o>(
        one_sided: &'o mut OneSidedMemory<'m>,
        slot: usize,
    ) -> Option<(&'o mut OpQueue, &'o mut [OneSidedWr])> {
        let each = one_sided.slots.len().checked_div(one_sided.queues.len())?;
        Some((one_sided.queues.get_mut(slot)?, one_sided.slots.get_mut(slot * each..slot * each + each)?))
    }

    fn ask_for(
        &mut self,
        id: ConnId,
        op: OneSidedOp,
        (RemotePlace { region, offset }, len): (RemotePlace, u64),
        user: u64,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), OneSidedError> {
        let conn = self.conns.get_mut(id).filter(|conn| conn.flows()).ok_or(OneSidedError::NotOpen)?;
        let (queue, ring) = Self::operations_of(&mut self.one_sided, id.slot()).ok_or(OneSidedError::NotSetUp)?;
        let max = self.send_pool.buffer_bytes();
        let fits = u32::try_from(len).ok().filter(|len| (1..=max).contains(len));
        let len = fits.ok_or(OneSidedError::Length { asked: len, max })?;
        let (needed, allowed) = (op.needs(), region.rights());
        if !allowed.allow(needed) {
            return Err(OneSidedError::NotAllowed { needed, allowed });
        }
        let beyond = OneSidedError::OutOfRange { offset, len, region: region.len() };
        let addr = region.place(offset, len).ok_or(beyond)?;
        if needed == Rights::ATOMIC && !addr.is_multiple_of(8) {
            return Err(OneSidedError::NotAligned { offset });
        }
        if op.brings() && queue.reads_max() == 0 {
            return Err(OneSidedError::NoReads);
        }
        if queue.outstanding() as usize >= ring.len() || (op.brings() && !queue.takes_read()) {
            return Err(OneSidedError::WouldBlock);
        }
        // The pool has a buffer for each slot, and one for the callback we may be in.
        let Some(mut buf) = self.send_pool.take() else { return Err(OneSidedError::WouldBlock) };
        fill(&mut buf[..len as usize]);
        let inline = op == OneSidedOp::Write && len <= self.config.inline_bytes_max;
        let buf = Some(self.send_pool.lend(buf, op_work(conn)));
        let wr = OneSidedWr { op, addr, key: region.key(), buf, len, inline, user, ..OneSidedWr::EMPTY };
        queue.push(ring, op_work(conn), wr);
        conn.want(Due::OPERATIONS);
        self.dirty.mark(id.slot());
        Ok(())
    }

    /// Whether a write with immediate can be told of.
    fn room_to_tell(&mut self, id: ConnId) -> Result<(), OneSidedError> {
        let conn = self.conns.get_mut(id).filter(|conn| conn.flows()).ok_or(OneSidedError::NotOpen)?;
        if self.config.mode == Mode::Raw {
            return Err(OneSidedError::Raw);
        }
        if conn.send_bytes_max < IMM_BYTES {
            return Err(OneSidedError::Length { asked: IMM_BYTES.into(), max: conn.send_bytes_max });
        }
        if conn.sends.app() >= self.sizing.app_slots {
            conn.starved = true;
            return Err(OneSidedError::WouldBlock);
        }
        Ok(())
    }
}

/// The work id of a connection's operations, but for the index.
fn op_work(conn: &Conn) -> WorkId {
    WorkId::new(conn.link, WorkKind::OneSided, 0)
}

/// The payload of the message that tells of a write with immediate.
const IMM_BYTES: u32 = 4;
