//! What a half needs of the memory it lives in, and the two ways to tell the consumer of an item.

use super::PeerFault;
use super::header::Header;
use super::index::Capacity;
use crate::sync::{AtomicU64, Ordering, PREFETCH_BYTES, Prefetch};

/// The memory of a ring as a half sees it: where items are put, how they are announced, and whether the other half is
/// believed. There are four, two layouts each for [own memory](super::Local) and [shared memory](super::shared::Words).
///
/// Sealed: what the trait asks for is an internal matter and changes.
pub trait Memory: Sealed + Copy {
    /// What the ring carries.
    type Item;
    /// What the other half can be found guilty of: [`PeerFault`], or nothing at all
    /// ([`Infallible`](core::convert::Infallible)).
    type Fault: Copy;

    #[doc(hidden)]
    fn header(&self) -> &Header;

    #[doc(hidden)]
    fn capacity(&self) -> Capacity;

    /// Puts an item into the slot at `index`.
    ///
    /// # Safety
    /// `index` is below the capacity. The slot is the caller's by the protocol: free as seen by H2, and not announced
    /// since.
    #[doc(hidden)]
    unsafe fn write_at(&self, index: usize, item: Self::Item);

    /// Takes the item out of the slot at `index`.
    ///
    /// # Safety
    /// `index` is below the capacity. The slot is the caller's by the protocol: announced as seen by T2 or S2, and not
    /// given back since. The item is taken once.
    #[doc(hidden)]
    unsafe fn take_at(&self, index: usize) -> Self::Item;

    /// Puts item `number` into its slot.
    ///
    /// # Safety
    /// As [`write_at`](Self::write_at); every number has a slot.
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn write(&self, number: u64, item: Self::Item) {
        // SAFETY: `Capacity::slot` is below the capacity; the rest is the caller's duty.
        unsafe { self.write_at(self.capacity().slot(number), item) };
    }

    /// Takes item `number` out of its slot.
    ///
    /// # Safety
    /// As [`take_at`](Self::take_at); every number has a slot.
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn take(&self, number: u64) -> Self::Item {
        // SAFETY: as in `write`.
        unsafe { self.take_at(self.capacity().slot(number)) }
    }

    /// Puts `items`, the first of which is `number`, into their slots.
    ///
    /// # Safety
    /// As [`write`](Self::write), for all of them.
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn write_all(&self, number: u64, items: &[Self::Item])
    where
        Self::Item: Copy,
    {
        for (i, item) in (0..).zip(items) {
            // SAFETY: the caller's duty, item by item.
            unsafe { self.write(number.wrapping_add(i), *item) };
        }
    }

    /// Takes items out of their slots, `number` first, until `items` is full.
    ///
    /// # Safety
    /// As [`take`](Self::take), for all of them.
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn take_all(&self, number: u64, items: &mut [Self::Item])
    where
        Self::Item: Copy,
    {
        for (i, item) in (0..).zip(items) {
            // SAFETY: the caller's duty, item by item.
            *item = unsafe { self.take(number.wrapping_add(i)) };
        }
    }

    /// Makes the `count` items from `tail` on, which are written, visible to the consumer, all at once.
    #[doc(hidden)]
    fn announce(&self, tail: u64, count: u64);

    /// Whether one look may find more than was asked for, so that it is worth remembering.
    #[doc(hidden)]
    const REMEMBERS: bool;

    /// How many items from `head` on are ready. Looks for `wanted`, which is at most the capacity; may find more.
    #[doc(hidden)]
    fn look(&self, head: u64, wanted: u64) -> Result<u64, PeerFault>;

    /// Where a lap begins: finds the slots of its items without the mask. Nothing where that saves nothing.
    #[doc(hidden)]
    type Lap: Copy;

    /// The lap of item `number`.
    #[doc(hidden)]
    fn lap(&self, number: u64) -> Self::Lap;

    /// Puts item `number` into its slot and makes it visible to the consumer.
    ///
    /// # Safety
    /// As [`write`](Self::write); and `lap` is the item's.
    #[doc(hidden)]
    unsafe fn put(&self, lap: Self::Lap, number: u64, item: Self::Item);

    /// Whether item `number`, the next one to be popped, is there. Asked where looks are not remembered.
    ///
    /// # Safety
    /// `lap` is the item's.
    #[doc(hidden)]
    unsafe fn is_there(&self, lap: Self::Lap, number: u64) -> bool;

    /// Takes item `number` out of its slot.
    ///
    /// # Safety
    /// As [`take`](Self::take); and `lap` is the item's.
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn take_of(&self, _lap: Self::Lap, number: u64) -> Self::Item {
        // SAFETY: the caller's duty.
        unsafe { self.take(number) }
    }

    /// Slots that are fetched ahead of time together: [`PREFETCH_BYTES`] bytes of them, and a power of two.
    #[doc(hidden)]
    const AHEAD: u64;

    /// Fetches [`AHEAD`](Self::AHEAD) slots from that of item `number` on. Only a hint, so it may go over the end of
    /// the memory.
    #[doc(hidden)]
    fn prefetch(&self, number: u64, what: Prefetch);

    /// What is said of a peer that broke the rules.
    #[doc(hidden)]
    fn blame(fault: PeerFault) -> Self::Fault;
}

/// How many slots of `bytes` bytes are fetched together.
pub(super) const fn ahead(bytes: usize) -> u64 {
    if bytes == 0 || bytes >= PREFETCH_BYTES { 1 } else { 1 << (PREFETCH_BYTES / bytes).ilog2() }
}

/// Only this crate's memories are [`Memory`].
pub trait Sealed {}

/// The batch layout: `tail` in the header says how many items were ever pushed.
pub(super) mod indexed {
    use super::*;

    #[inline(always)]
    pub(in super::super) fn announce(header: &Header, tail: u64, count: u64) {
        // T1, pairs with T2: the items are written before the index says so.
        header.tail.0.store(tail.wrapping_add(count), Ordering::Release);
    }

    #[inline(always)]
    pub(in super::super) fn look(header: &Header, capacity: Capacity, head: u64) -> Result<u64, PeerFault> {
        // T2, pairs with T1: items before this index are written.
        let tail = header.tail.0.load(Ordering::Acquire);
        capacity.used(head, tail)
    }
}

/// The latency layout: a stamp in each slot says which item is in it. Item `n` has stamp `n + 1`, so it differs from the
/// one before it in that slot, `n + 1 - capacity`, for every capacity and over the wrap; and memory that is all zero
/// holds no item.
///
/// `stamp` finds the stamp of an item's slot.
pub(super) mod stamped {
    use super::*;

    #[inline(always)]
    pub(in super::super) fn announce<'a>(stamp: impl Fn(u64) -> &'a AtomicU64, tail: u64, count: u64) {
        // Last item first: who sees the first one sees them all.
        for i in (0..count).rev() {
            let number = tail.wrapping_add(i);
            // S1, pairs with S2: this item and all behind it are written before the stamp says so.
            stamp(number).store(number.wrapping_add(1), Ordering::Release);
        }
    }

    #[inline(always)]
    pub(in super::super) fn look<'a>(
        stamp: impl Fn(u64) -> &'a AtomicU64,
        capacity: Capacity,
        head: u64,
        wanted: u64,
    ) -> Result<u64, PeerFault> {
        for ready in 0..wanted {
            let number = head.wrapping_add(ready);
            let due = number.wrapping_add(1);
            // S2, pairs with S1: the item is written.
            let found = stamp(number).load(Ordering::Acquire);
            if found != due {
                // Not written yet: the stamp of a lap ago, or of memory never used.
                let before = found == due.wrapping_sub(capacity.get()) || found == 0;
                return if before { Ok(ready) } else { Err(PeerFault::Stamp { number, stamp: found }) };
            }
        }
        Ok(wanted)
    }

    /// Sets the stamps for a ring whose first item is `start`.
    pub(in super::super) fn reset<'a>(stamp: impl Fn(u64) -> &'a AtomicU64, capacity: Capacity, start: u64) {
        for i in 0..capacity.get() {
            let number = start.wrapping_add(i);
            // Relaxed: as for the header, nobody else looks yet.
            stamp(number).store(number.wrapping_add(1).wrapping_sub(capacity.get()), Ordering::Relaxed);
        }
    }
}
