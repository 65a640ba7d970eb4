//! This side's buffers: memory that only this process sees.

use core::marker::PhantomData;
use core::ptr::NonNull;

use spinwire_core::fabric::{BufferMap, RecvWr, SendWr};
use spinwire_core::pool::{Direction, Layout, Lease};

use super::slot::INLINE_MAX;
use crate::mem::Arena;
use crate::mem::StableMemory;

/// What the fabric needs to reach the buffers of an engine. Holds the arena's borrow, so that nobody but the pools made
/// from the same [`LocalMemory::split`] can touch the bytes.
#[derive(Debug)]
pub(super) struct LocalMemory<'m> {
    recv: Buffers,
    send: Buffers,
    /// The length of a receive's buffer, as far as a slot has payload.
    room_inline: u32,
    base: NonNull<u8>,
    len: usize,
    arena: PhantomData<&'m mut [u8]>,
}

/// The buffers of a pool: so many, each inside the arena.
#[derive(Clone, Copy, Debug)]
struct Buffers {
    first: NonNull<u8>,
    stride: u32,
    len: u32,
    count: u32,
}

impl<'m> LocalMemory<'m> {
    /// The two halves of using the arena: this for the fabric, the bytes for the buffer pools.
    pub(super) fn split(arena: &'m mut Arena) -> (Self, &'m mut [u8]) {
        let (base, len) = (StableMemory::base(arena), StableMemory::len(arena));
        let none = Buffers { first: base, stride: 0, len: 0, count: 0 };
        let local = LocalMemory { recv: none, send: none, room_inline: 0, base, len, arena: PhantomData };
        // SAFETY: mapped and initialised for as long as the arena lives, which is borrowed for 'm; that borrow makes this
        // the only reference. `local` makes none: it is for raw copies into and out of leased buffers.
        (local, unsafe { core::slice::from_raw_parts_mut(base.as_ptr(), len) })
    }

    /// See [`Fabric::prepare`](spinwire_core::fabric::Fabric::prepare). Before that there are no buffers.
    pub(super) fn prepare(&mut self, buffers: &BufferMap) {
        (self.recv, self.send) = (self.buffers(&buffers.recv), self.buffers(&buffers.send));
        self.room_inline = self.recv.len.min(INLINE_MAX as u32);
    }

    /// Those of a pool that are inside the arena.
    fn buffers(&self, layout: &Layout) -> Buffers {
        let (stride, len) = (layout.stride.max(1), layout.len);
        let begin = usize::try_from(layout.region_offset).unwrap_or(usize::MAX);
        let count = match self.len.checked_sub(begin).and_then(|room| room.checked_sub(len as usize)) {
            Some(beyond_first) => u32::try_from(1 + beyond_first / stride as usize).unwrap_or(u32::MAX),
            None => 0,
        };
        // SAFETY: inside the arena, or at its end.
        let first = unsafe { self.base.add(begin.min(self.len)) };
        Buffers { first, stride, len, count }
    }

    /// The buffer of a receive, all of it: [`room`](Self::room) bytes. Nobody has a reference to them while it is lent.
    ///
    /// # Panics
    /// When it is not inside the arena: it is of another one.
    #[inline]
    pub(super) fn receive(&self, wr: &RecvWr) -> *mut u8 {
        self.recv.at(wr.wr_id().index())
    }

    /// The length of each receive's buffer in bytes.
    #[inline]
    pub(super) fn room(&self) -> u32 {
        self.recv.len
    }

    /// The same, or [`INLINE_MAX`] if that is less.
    #[inline]
    pub(super) fn room_inline(&self) -> u32 {
        self.room_inline
    }

    /// The bytes that are to be sent, and how many.
    ///
    /// # Panics
    /// As [`lease`](Self::lease).
    #[inline]
    pub(super) fn payload(&self, wr: &SendWr) -> (*const u8, u32) {
        match &wr.buf {
            Some(lease) => (self.lease(lease, wr.len), wr.len),
            None => (self.base.as_ptr(), 0),
        }
    }

    /// The first `len` bytes of a leased buffer: nobody has a reference to them while it is lent.
    ///
    /// # Panics
    /// When it has not as many, or is not inside the arena: then it is of another one.
    #[inline(always)]
    pub(super) fn lease(&self, lease: &Lease, len: u32) -> *mut u8 {
        let buffers = match lease.from() {
            Direction::Recv => &self.recv,
            Direction::Send => &self.send,
        };
        assert!(len <= buffers.len, "what is posted is longer than its buffer");
        buffers.at(lease.index())
    }

    /// Where in the arena an address of it is.
    pub(super) fn offset(&self, address: *const u8) -> u64 {
        (address.addr() - self.base.addr().get()) as u64
    }
}

impl Buffers {
    #[inline]
    fn at(&self, index: u32) -> *mut u8 {
        assert!(index < self.count, "a lease of another arena was posted");
        // SAFETY: inside the arena, of which there are `count` (see `LocalMemory::buffers`).
        unsafe { self.first.as_ptr().add(index as usize * self.stride as usize) }
    }
}
