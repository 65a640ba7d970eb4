//! A batch to be pushed: filled slot by slot or in place, visible all at once.

use core::fmt;
use core::mem;

use super::producer::drop_items;
use super::{Memory, Producer, batch};

/// Free slots reserved by [`Producer::reserve`]. Nothing is visible to the consumer before [`commit`](Self::commit).
///
/// Dropping it without a commit drops the items written so far and leaves the ring as it was.
///
/// ```
/// # use spinwire_core::ring::{Header, batch};
/// # let mut header = Header::new();
/// # let mut slots: [batch::Slot<u32>; 4] = Default::default();
/// # let (mut producer, mut consumer) = batch::split(&mut header, &mut slots)?;
/// let mut reserve = producer.reserve(3);
/// for item in 0..3 {
///     reserve.push(item).unwrap();
/// }
/// assert_eq!(consumer.ready(), 0);
/// assert_eq!(reserve.commit(), 3);
/// assert!(consumer.drain(8).eq([0, 1, 2]));
/// # Ok::<(), spinwire_core::ring::RingError>(())
/// ```
pub struct Reserve<'p, M: Memory> {
    producer: &'p mut Producer<M>,
    count: usize,
    written: usize,
}

impl<'p, M: Memory> Reserve<'p, M> {
    /// `count` slots from the producer's `tail` on must be free.
    #[inline(always)]
    pub(super) fn new(producer: &'p mut Producer<M>, count: usize) -> Self {
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
    #[inline(always)]
    pub fn push(&mut self, item: M::Item) -> Result<(), M::Item> {
        if self.remaining() == 0 {
            return Err(item);
        }
        // SAFETY: the slot is one of the `count` that H2 found free, and not announced yet.
        unsafe { self.producer.memory.write(self.next(), item) };
        self.written += 1;
        Ok(())
    }

    /// Writes items of `items` to the next slots until either ends, and returns how many. Makes what can be made in
    /// place without a copy, and without a look at the ring's end for each item.
    #[inline(always)]
    pub fn extend(&mut self, items: impl IntoIterator<Item = M::Item>) -> usize {
        let (memory, capacity, before) = (self.producer.memory, self.producer.memory.capacity(), self.written);
        let (next, remaining) = (self.next(), self.remaining());
        let (start, first) = (capacity.slot(next), capacity.first_part(next, remaining));
        (start..start + first).chain(0..remaining - first).zip(items).for_each(|(index, item)| {
            // SAFETY: these are the slots of the rest of the `count` items that H2 found free, not announced yet.
            unsafe { memory.write_at(index, item) };
            self.written += 1;
        });
        self.written - before
    }

    /// Copies in as many of `items` as there are slots remaining and returns how many.
    #[inline(always)]
    pub fn extend_from_slice(&mut self, items: &[M::Item]) -> usize
    where
        M::Item: Copy,
    {
        let count = items.len().min(self.remaining());
        // SAFETY: these slots are among the `count` that H2 found free, and not announced yet.
        unsafe { self.producer.memory.write_all(self.next(), &items[..count]) };
        self.written += count;
        count
    }

    /// Makes the items written so far visible, all at once, and returns how many. Slots not written stay free.
    #[inline(always)]
    pub fn commit(mut self) -> usize {
        // Nothing is left for the drop that follows.
        let written = mem::take(&mut self.written);
        if written > 0 {
            self.producer.announce(written);
        }
        written
    }

    /// The number of the next item to be written.
    #[inline(always)]
    fn next(&self) -> u64 {
        self.producer.tail.wrapping_add(self.written as u64)
    }
}

impl<T> Reserve<'_, super::Local<'_, batch::Slot<T>>> {
    /// The slots not written yet, in order, to be filled in place. The second slice is empty unless they go over the
    /// end of the ring's memory. Tell what was filled with [`assume_written`](Self::assume_written).
    #[inline(always)]
    pub fn slots(&mut self) -> (&mut [batch::Slot<T>], &mut [batch::Slot<T>]) {
        // SAFETY: these are the rest of the `count` slots that H2 found free, not announced yet; the borrow of `self`
        // keeps a second reference to them from being made.
        unsafe { self.producer.memory.slices(self.next(), self.count - self.written) }
    }

    /// Counts the first `count` of [`slots`](Self::slots) as written.
    ///
    /// # Safety
    /// Each of them was written since the reserve was made.
    ///
    /// # Panics
    /// If `count` is more than [`remaining`](Self::remaining).
    #[inline(always)]
    pub unsafe fn assume_written(&mut self, count: usize) {
        assert!(count <= self.remaining());
        self.written += count;
    }
}

impl<M: Memory> Drop for Reserve<'_, M> {
    #[inline]
    fn drop(&mut self) {
        let tail = self.producer.tail;
        // SAFETY: these slots were written through this reserve and never announced, so they are ours alone.
        unsafe { drop_items(&self.producer.memory, tail, tail.wrapping_add(self.written as u64)) };
    }
}

impl<M: Memory> fmt::Debug for Reserve<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reserve").field("count", &self.count).field("written", &self.written).finish()
    }
}
