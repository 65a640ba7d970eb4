//! Batches: one index load and one index store for many items.

use core::fmt;
use core::mem;

use super::spsc::{Consumer, Producer};
use crate::sync::Slot;

/// Free slots reserved by [`Producer::reserve`]. Nothing is visible to the consumer before [`commit`](Self::commit).
///
/// Dropping it without a commit drops the items written so far and leaves the ring as it was.
///
/// ```
/// # use spinwire_core::ring::{Header, Slot, split};
/// # let mut header = Header::new();
/// # let mut slots: [Slot<u32>; 4] = Default::default();
/// # let (mut producer, mut consumer) = split(&mut header, &mut slots)?;
/// let mut reserve = producer.reserve(3);
/// for item in 0..3 {
///     reserve.push(item).unwrap();
/// }
/// assert_eq!(consumer.ready(), 0);
/// assert_eq!(reserve.commit(), 3);
/// assert!(consumer.drain(8).eq([0, 1, 2]));
/// # Ok::<(), spinwire_core::ring::RingError>(())
/// ```
pub struct Reserve<'p, 'm, T> {
    producer: &'p mut Producer<'m, T>,
    count: usize,
    written: usize,
}

impl<'p, 'm, T> Reserve<'p, 'm, T> {
    /// `count` slots from the producer's `tail` on must be free.
    #[inline(always)]
    pub(super) fn new(producer: &'p mut Producer<'m, T>, count: usize) -> Self {
        Reserve { producer, count, written: 0 }
    }

    /// Slots reserved and not written yet.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.count - self.written
    }

    /// Writes the next slot.
    ///
    /// # Errors
    /// Gives `item` back when every reserved slot is written.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.remaining() == 0 {
            return Err(item);
        }
        let index = self.producer.tail.wrapping_add(self.written);
        // SAFETY: the slot is one of the `count` that H2 found free, and not published yet.
        unsafe { self.producer.memory.slot(index) }.write(item);
        self.written += 1;
        Ok(())
    }

    /// Copies in as many of `items` as there are slots remaining and returns how many.
    #[inline]
    pub fn extend_from_slice(&mut self, items: &[T]) -> usize
    where
        T: Copy,
    {
        let count = items.len().min(self.remaining());
        let (first, second) = self.slots();
        let (to_first, to_second) = items[..count].split_at(count.min(first.len()));
        // Part by part and not chained, so that each part compiles to one copy of memory.
        for (slots, items) in [(first, to_first), (second, to_second)] {
            for (slot, item) in slots.iter_mut().zip(items) {
                slot.write(*item);
            }
        }
        self.written += count;
        count
    }

    /// The slots not written yet, in order, to be filled in place. The second slice is empty unless they go over the
    /// end of the ring's memory. Tell what was filled with [`assume_written`](Self::assume_written).
    #[inline]
    pub fn slots(&mut self) -> (&mut [Slot<T>], &mut [Slot<T>]) {
        let index = self.producer.tail.wrapping_add(self.written);
        // SAFETY: these are the rest of the `count` slots that H2 found free, not published yet; the borrow of `self`
        // keeps a second reference to them from being made.
        unsafe { self.producer.memory.slots(index, self.count - self.written) }
    }

    /// Counts the first `count` of [`slots`](Self::slots) as written.
    ///
    /// # Safety
    /// Each of them was written since the reserve was made.
    ///
    /// # Panics
    /// If `count` is more than [`remaining`](Self::remaining).
    #[inline]
    pub unsafe fn assume_written(&mut self, count: usize) {
        assert!(count <= self.remaining());
        self.written += count;
    }

    /// Makes the items written so far visible, all at once, and returns how many. Slots not written stay free.
    #[inline]
    pub fn commit(mut self) -> usize {
        // Nothing is left for the drop that follows.
        let written = mem::take(&mut self.written);
        if written > 0 {
            self.producer.publish(written);
        }
        written
    }
}

/// Items taken by [`Consumer::drain`]: an iterator over what was ready when it was made.
pub struct Drain<'c, 'm, T> {
    consumer: &'c mut Consumer<'m, T>,
    left: usize,
    taken: bool,
}

impl<'c, 'm, T> Drain<'c, 'm, T> {
    /// `count` items from the consumer's `head` on must be ready.
    #[inline(always)]
    pub(super) fn new(consumer: &'c mut Consumer<'m, T>, count: usize) -> Self {
        Drain { consumer, left: count, taken: false }
    }

    /// Moves items to the start of `items` until one of the two ends, and returns how many.
    #[inline]
    pub(super) fn copy_to(mut self, items: &mut [T]) -> usize
    where
        T: Copy,
    {
        let count = self.left.min(items.len());
        // SAFETY: `new` was told that these items are ready, and the slots are ours until H1.
        let (first, second) = unsafe { self.consumer.memory.slots(self.consumer.head, count) };
        let (to_first, to_second) = items[..count].split_at_mut(first.len());
        for (slots, items) in [(first, to_first), (second, to_second)] {
            for (slot, item) in slots.iter_mut().zip(items) {
                // SAFETY: each of the slots is full, and `head` steps over all of them below.
                *item = unsafe { slot.take() };
            }
        }
        self.consumer.head = self.consumer.head.wrapping_add(count);
        self.left -= count;
        self.taken |= count > 0;
        count
    }
}

impl<T> Iterator for Drain<'_, '_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        self.taken = true;
        // SAFETY: `new` was told that this many items are ready, and `left` counts them down.
        Some(unsafe { self.consumer.take_next() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for Drain<'_, '_, T> {}

impl<T> Drop for Drain<'_, '_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.taken {
            self.consumer.publish();
        }
    }
}

impl<T> Drop for Reserve<'_, '_, T> {
    #[inline]
    fn drop(&mut self) {
        let tail = self.producer.tail;
        // SAFETY: these slots were written through this reserve and never published, so they are ours alone.
        unsafe { self.producer.memory.drop_items(tail, tail.wrapping_add(self.written)) };
    }
}

impl<T> fmt::Debug for Reserve<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reserve").field("count", &self.count).field("written", &self.written).finish()
    }
}

impl<T> fmt::Debug for Drain<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain").field("left", &self.left).finish()
    }
}
