//! The latency layout: a stamp beside each item, in the same cache line, says that it is there. See [`ring`](super) for
//! the picture and for when to take it.

use core::convert::Infallible;

use super::header::Header;
use super::index::Capacity;
use super::local::Lap;
use super::memory::{Memory, ahead, stamped};
use super::{Local, PeerFault, RingError};
use crate::sync::{self, AtomicU64, Ordering, Prefetch, prefetch};

/// Room for one item of the latency layout, with the stamp that says which one is in it.
///
/// A slot of 16, 32 or 64 bytes never lies across two cache lines if the first one does not: items of 8, up to 24 and up
/// to 56 bytes, in slots that are aligned as [`CacheLine`](crate::sync::CacheLine) does. Others work too, more slowly.
#[repr(C, align(16))]
pub struct Slot<T> {
    stamp: AtomicU64,
    item: sync::Slot<T>,
}

/// The half that pushes.
pub type Producer<'m, T> = super::Producer<Local<'m, Slot<T>>>;
/// The half that pops.
pub type Consumer<'m, T> = super::Consumer<Local<'m, Slot<T>>>;

/// Makes a ring over `header` and `slots` and returns its two halves. Its capacity is the number of slots.
///
/// Both pieces of memory are lent to the halves for `'m`. What `slots` held before is overwritten, never dropped.
/// Cost: one store for each slot.
///
/// # Errors
/// [`RingError::NotPowerOfTwo`] if `slots.len()` is not a power of two.
pub fn split<'m, T>(
    header: &'m mut Header,
    slots: &'m mut [Slot<T>],
) -> Result<(Producer<'m, T>, Consumer<'m, T>), RingError> {
    split_starting_at(header, slots, 0)
}

/// Like [`split`], with the first item numbered `start`. Lets a test reach the wrap of the counters at once; a
/// program has no use for it.
///
/// # Errors
/// As [`split`].
pub fn split_starting_at<'m, T>(
    header: &'m mut Header,
    slots: &'m mut [Slot<T>],
    start: u64,
) -> Result<(Producer<'m, T>, Consumer<'m, T>), RingError> {
    let memory = Local::lend(header, slots, start)?;
    stamped::reset(|number| memory.stamp(number), memory.capacity, start);
    Ok((super::Producer::new(memory, start), super::Consumer::new(memory, start)))
}

impl<T> Slot<T> {
    /// An empty slot.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Slot { stamp: AtomicU64::new(0), item: sync::Slot::new() }
    }

    /// An empty slot.
    #[cfg(loom)]
    pub fn new() -> Self {
        Slot { stamp: AtomicU64::new(0), item: sync::Slot::new() }
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Slot::new()
    }
}

impl<T> core::fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Slot")
    }
}

// SAFETY: a half reaches only slots that the protocol gives to it, and items cross threads by S1/S2, so that they are
// `Send` is all that is needed. The header and the stamps are atomics.
unsafe impl<T: Send> Send for Local<'_, Slot<T>> {}

impl<T> Local<'_, Slot<T>> {
    #[inline(always)]
    fn stamp(&self, number: u64) -> &AtomicU64 {
        // SAFETY: the slot is inside the memory that we hold, and stamps are only ever used by shared reference.
        unsafe { &(*self.slot(number).as_ptr()).stamp }
    }

    /// # Safety
    /// As for [`Memory::write_at`]; no other reference to the item is held for `'a`.
    #[inline(always)]
    unsafe fn item<'a>(&self, index: usize) -> &'a mut sync::Slot<T>
    where
        Self: 'a,
    {
        // SAFETY: inside the memory that we hold; the caller owns the item. The stamp is not part of this reference.
        unsafe { &mut (*self.slot_at(index).as_ptr()).item }
    }
}

impl<T> Memory for Local<'_, Slot<T>> {
    type Item = T;
    type Fault = Infallible;
    type Lap = Lap<Slot<T>>;

    const AHEAD: u64 = ahead(size_of::<Slot<T>>());
    const REMEMBERS: bool = false;

    #[inline(always)]
    fn header(&self) -> &Header {
        self.header
    }

    #[inline(always)]
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    #[inline(always)]
    unsafe fn write_at(&self, index: usize, item: T) {
        // SAFETY: the slot is the caller's.
        unsafe { self.item(index) }.write(item);
    }

    #[inline(always)]
    unsafe fn take_at(&self, index: usize) -> T {
        // SAFETY: as in `write_at`; the caller says that it is full and taken once.
        unsafe { self.item(index).take() }
    }

    #[inline(always)]
    fn announce(&self, tail: u64, count: u64) {
        stamped::announce(|number| self.stamp(number), tail, count);
    }

    #[inline(always)]
    fn look(&self, head: u64, wanted: u64) -> Result<u64, PeerFault> {
        stamped::look(|number| self.stamp(number), self.capacity, head, wanted)
    }

    #[inline(always)]
    fn lap(&self, number: u64) -> Lap<Slot<T>> {
        self.lap_of(number)
    }

    #[inline(always)]
    unsafe fn put(&self, lap: Lap<Slot<T>>, number: u64, item: T) {
        let slot = lap.slot(number);
        // SAFETY: it is the slot of item `number`, so it is inside the memory, and the caller's.
        unsafe { (*slot).item.write(item) };
        // SAFETY: as before; stamps are only ever used by shared reference.
        // S1, pairs with S2: the item is written before the stamp says so.
        unsafe { (*slot).stamp.store(number.wrapping_add(1), Ordering::Release) };
    }

    #[inline(always)]
    unsafe fn is_there(&self, lap: Lap<Slot<T>>, number: u64) -> bool {
        // SAFETY: it is the slot of item `number`, inside the memory, and stamps are only ever used by shared reference.
        // S2, pairs with S1.
        unsafe { (*lap.slot(number)).stamp.load(Ordering::Acquire) == number.wrapping_add(1) }
    }

    #[inline(always)]
    unsafe fn take_of(&self, lap: Lap<Slot<T>>, number: u64) -> T {
        // SAFETY: it is the slot of item `number`, inside the memory; the caller says that it is full and taken once.
        unsafe { (*lap.slot(number)).item.take() }
    }

    #[inline(always)]
    fn prefetch(&self, number: u64, what: Prefetch) {
        prefetch(self.slot(number).as_ptr(), what);
    }

    fn blame(fault: PeerFault) -> Infallible {
        panic!("the memory of a ring was overwritten: {fault}");
    }
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Slot<u64>>() == 16 && size_of::<Slot<[u64; 7]>>() == 64);
    assert!(core::mem::offset_of!(Slot<u64>, stamp) == 0);
};
