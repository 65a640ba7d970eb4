//! Where a ring lives: the shared header, and access to the slots by item number.

use core::marker::PhantomData;
use core::ptr::NonNull;
use core::slice;

use super::RingError;
use super::index::Capacity;
use crate::sync::{AtomicU32, AtomicUsize, CacheLine, Ordering, Slot};

/// The shared part of a ring: both indices and the marks of who has left, on cache lines of their own (384 bytes).
///
/// One header serves one ring at a time. It can be used again once both halves are gone.
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    pub(super) tail: CacheLine<AtomicUsize>,
    pub(super) head: CacheLine<AtomicUsize>,
    pub(super) left: CacheLine<AtomicU32>,
}

/// The producer was dropped.
pub(super) const PRODUCER_LEFT: u32 = 1 << 0;
/// The consumer was dropped.
pub(super) const CONSUMER_LEFT: u32 = 1 << 1;

impl Header {
    /// A header for a ring yet to be made.
    pub fn new() -> Self {
        Header {
            tail: CacheLine(AtomicUsize::new(0)),
            head: CacheLine(AtomicUsize::new(0)),
            left: CacheLine(AtomicU32::new(0)),
        }
    }
}

impl Default for Header {
    fn default() -> Self {
        Header::new()
    }
}

/// What both halves hold of the memory they were given for `'m`.
pub(super) struct Memory<'m, T> {
    pub(super) header: &'m Header,
    pub(super) capacity: Capacity,
    slots: NonNull<Slot<T>>,
    /// Invariant in `T`, and an owner of `T` as far as dropping is concerned.
    _slots: PhantomData<&'m mut [Slot<T>]>,
}

impl<'m, T> Memory<'m, T> {
    /// Takes the memory and sets both indices to `start`. Returns one view for each half.
    pub(super) fn take(header: &'m mut Header, slots: &'m mut [Slot<T>], start: usize) -> Result<[Self; 2], RingError> {
        let capacity = Capacity::new(slots.len())?;
        // Relaxed, because the header is ours alone here; whatever sends a half to another thread orders the rest.
        header.tail.0.store(start, Ordering::Relaxed);
        header.head.0.store(start, Ordering::Relaxed);
        header.left.0.store(0, Ordering::Relaxed);
        let (header, slots) = (&*header, NonNull::from(slots).cast());
        Ok([(); 2].map(|()| Memory { header, capacity, slots, _slots: PhantomData }))
    }

    /// The slot of item number `index`.
    ///
    /// # Safety
    /// The caller owns that slot by the protocol of the indices, and holds no other reference to it.
    #[inline(always)]
    pub(super) unsafe fn slot<'a>(&self, index: usize) -> &'a mut Slot<T>
    where
        'm: 'a,
    {
        // SAFETY: `Capacity::slot` is below the number of slots, which were lent exclusively for `'m`; the caller
        // owns this one.
        unsafe { self.slots.add(self.capacity.slot(index)).as_mut() }
    }

    /// The slots of `count` items from number `index` on, in order. The second part is empty unless they go over the
    /// end of the memory.
    ///
    /// # Safety
    /// `count` is at most the capacity; the caller owns these slots and holds no other reference to them.
    #[inline(always)]
    pub(super) unsafe fn slots<'a>(&self, index: usize, count: usize) -> (&'a mut [Slot<T>], &'a mut [Slot<T>])
    where
        'm: 'a,
    {
        let (first, second) = self.capacity.parts(index, count);
        // SAFETY: the first part ends at or before the last slot, and the second starts at slot 0 and is no longer
        // than what `count <= capacity` leaves, so the two are inside the memory and do not overlap. The caller owns
        // them.
        unsafe {
            let from = self.slots.add(self.capacity.slot(index));
            (slice::from_raw_parts_mut(from.as_ptr(), first), slice::from_raw_parts_mut(self.slots.as_ptr(), second))
        }
    }

    /// Sets the caller's bit and says whether the other half had left before, so that the caller is the last one.
    pub(super) fn leave(&self, bit: u32) -> bool {
        // L1. Release: the other half sees our last index when it sees our bit. Acquire: if its bit is set, we see
        // its last index. One of the two comes second in the order of this word, and only that one gets `true`.
        self.header.left.0.fetch_or(bit, Ordering::AcqRel) & !bit != 0
    }

    /// Whether the half of `bit` has left. Ask *before* loading its index (L2, pairs with L1): then the index is final.
    #[inline(always)]
    pub(super) fn has_left(&self, bit: u32) -> bool {
        self.header.left.0.load(Ordering::Acquire) & bit != 0
    }

    /// Drops the items from number `from` up to but not including number `to`.
    ///
    /// # Safety
    /// These slots hold items, which belong to the caller and are used by nobody afterwards.
    pub(super) unsafe fn drop_items(&self, from: usize, to: usize) {
        if !core::mem::needs_drop::<T>() {
            return;
        }
        let mut index = from;
        while index != to {
            // SAFETY: the caller owns the slots and says that they are full; each is visited once.
            drop(unsafe { self.slot(index).take() });
            index = index.wrapping_add(1);
        }
    }
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Header>() == 384 && align_of::<Header>() == 128);
    assert!(core::mem::offset_of!(Header, tail) == 0);
    assert!(core::mem::offset_of!(Header, head) == 128);
    assert!(core::mem::offset_of!(Header, left) == 256);
};
