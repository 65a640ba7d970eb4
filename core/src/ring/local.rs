//! What rings in memory of this program have in common: any item, and a peer that is our own code.

use core::marker::PhantomData;
use core::ptr::NonNull;

use super::RingError;
use super::header::Header;
use super::index::Capacity;
use super::memory::Sealed;

/// Memory of this program that is lent to a ring's halves for `'m`, as slots of kind `S`:
/// [`batch::Slot`](super::batch::Slot) or [`latency::Slot`](super::latency::Slot).
pub struct Local<'m, S> {
    pub(super) header: &'m Header,
    pub(super) capacity: Capacity,
    slots: NonNull<S>,
    /// Invariant in the items, and an owner of them as far as dropping is concerned.
    _slots: PhantomData<&'m mut [S]>,
}

impl<'m, S> Local<'m, S> {
    /// Takes the memory for a ring that starts with item `start`.
    pub(super) fn lend(header: &'m mut Header, slots: &'m mut [S], start: u64) -> Result<Self, RingError> {
        let capacity = Capacity::new(slots.len())?;
        header.reset(start);
        Ok(Local { header, capacity, slots: NonNull::from(slots).cast(), _slots: PhantomData })
    }

    /// The slot at `index`.
    ///
    /// # Safety
    /// `index` is below the capacity.
    #[inline(always)]
    pub(super) unsafe fn slot_at(&self, index: usize) -> NonNull<S> {
        // SAFETY: the capacity is the number of slots that were given to `lend`.
        unsafe { self.slots.add(index) }
    }

    /// The slot of item `number`.
    #[inline(always)]
    pub(super) fn slot(&self, number: u64) -> NonNull<S> {
        // SAFETY: `Capacity::slot` is below the capacity.
        unsafe { self.slot_at(self.capacity.slot(number)) }
    }

    /// The lap of item `number`. Its slots begin somewhere else: see [`Lap::slot`].
    #[inline(always)]
    pub(super) fn lap_of(&self, number: u64) -> Lap<S> {
        Lap(self.slot(number).as_ptr().wrapping_sub(number as usize))
    }

    /// The slots of `count` items from `number` on, as two pieces of memory: start and length. The second is empty
    /// unless they go over the end. `count` must not be above the capacity.
    #[inline(always)]
    pub(super) fn parts(&self, number: u64, count: usize) -> [(NonNull<S>, usize); 2] {
        let first = self.capacity.first_part(number, count);
        [(self.slot(number), first), (self.slots, count - first)]
    }
}

/// A lap: once round the slots, from the first to the last.
pub struct Lap<S>(*mut S);

impl<S> Lap<S> {
    /// The slot of an item of this lap.
    #[inline(always)]
    pub(super) fn slot(self, number: u64) -> *mut S {
        // Wherever the lap is said to begin, the slot is as many slots on, the wrap of addresses included.
        self.0.wrapping_add(number as usize)
    }
}

impl<S> Clone for Lap<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Lap<S> {}

// SAFETY: only an address. What is there is reached through `Local`, which says who may send it where.
unsafe impl<S> Send for Lap<S> {}

// For the two halves of a ring, and for a half that works on a copy in registers.
impl<S> Clone for Local<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Local<'_, S> {}

impl<S> Sealed for Local<'_, S> {}
