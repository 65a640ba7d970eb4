//! This side's buffers: memory that only this process sees.

use core::marker::PhantomData;
use core::ptr::NonNull;

use spinwire_core::fabric::BufferMap;

use crate::mem::Arena;
use crate::mem::StableMemory;

/// What the fabric needs to reach the buffers of an engine. Holds the arena's borrow, so that nobody but the pools made
/// from the same [`LocalMemory::split`] can touch the bytes.
#[derive(Debug)]
pub(super) struct LocalMemory<'m> {
    base: NonNull<u8>,
    len: u64,
    buffers: BufferMap,
    arena: PhantomData<&'m mut [u8]>,
}

impl<'m> LocalMemory<'m> {
    /// The two halves of using the arena: this for the fabric, the bytes for the buffer pools.
    pub(super) fn split(arena: &'m mut Arena) -> (Self, &'m mut [u8]) {
        let (base, len) = (StableMemory::base(arena), StableMemory::len(arena));
        let local = LocalMemory { base, len: len as u64, buffers: BufferMap::default(), arena: PhantomData };
        // SAFETY: mapped and initialised for as long as the arena lives, which is borrowed for 'm; that borrow makes this
        // the only reference. `local` makes none: it is for raw copies into and out of leased buffers.
        (local, unsafe { core::slice::from_raw_parts_mut(base.as_ptr(), len) })
    }

    /// Where the buffers lie in the arena; all at its start, and empty, until that was [told](LocalMemory::prepare).
    #[inline]
    pub(super) fn buffers(&self) -> &BufferMap {
        &self.buffers
    }

    /// See [`Fabric::prepare`](spinwire_core::fabric::Fabric::prepare).
    pub(super) fn prepare(&mut self, buffers: &BufferMap) {
        self.buffers = *buffers;
    }

    /// The address of `len` bytes from `offset`, which a lease names: nobody has a reference to them while it is lent.
    ///
    /// # Panics
    /// When they are not inside the arena: the lease is of another one.
    #[inline]
    pub(super) fn address(&self, offset: u64, len: u32) -> *mut u8 {
        let end = offset.checked_add(u64::from(len));
        assert!(end.is_some_and(|end| end <= self.len), "a lease of another arena was posted");
        // SAFETY: `offset <= len` of the mapping, checked above.
        unsafe { self.base.as_ptr().add(offset as usize) }
    }
}
