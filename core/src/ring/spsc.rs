//! The two halves, one item at a time. Batches are in [`batch`](super::batch).

use core::fmt;

use super::layout::{CONSUMER_LEFT, Header, Memory, PRODUCER_LEFT};
use super::{Drain, Reserve, RingError};
use crate::sync::{Ordering, Slot};

/// Makes a ring over `header` and `slots` and returns its two halves. Its capacity is the number of slots.
///
/// Both pieces of memory are lent to the halves for `'m`. What `slots` held before is overwritten, never dropped.
///
/// # Errors
/// [`RingError::NotPowerOfTwo`] if `slots.len()` is not a power of two.
pub fn split<'m, T>(
    header: &'m mut Header,
    slots: &'m mut [Slot<T>],
) -> Result<(Producer<'m, T>, Consumer<'m, T>), RingError> {
    split_starting_at(header, slots, 0)
}

/// Like [`split`], with both indices at `start`. Lets a test reach the wrap of the indices at once; a program has no
/// use for it.
///
/// # Errors
/// As [`split`].
pub fn split_starting_at<'m, T>(
    header: &'m mut Header,
    slots: &'m mut [Slot<T>],
    start: usize,
) -> Result<(Producer<'m, T>, Consumer<'m, T>), RingError> {
    let [memory, consumer_memory] = Memory::take(header, slots, start)?;
    Ok((
        Producer { memory, tail: start, head_seen: start },
        Consumer { memory: consumer_memory, head: start, tail_seen: start },
    ))
}

/// Why an item was not pushed. The item comes back.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PushError<T> {
    /// Every slot holds an item that was not popped yet.
    #[error("ring is full")]
    Full(T),
    /// The ring was full and the consumer is gone: nobody will make room.
    #[error("ring is closed: its consumer is gone")]
    Closed(T),
}

/// Why no item was popped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PopError {
    /// Nothing waits now; the producer may push more.
    #[error("ring is empty")]
    Empty,
    /// The producer is gone and everything it pushed was popped.
    #[error("ring is closed: its producer is gone and nothing is left")]
    Closed,
}

/// The half that pushes. `Send` when `T` is, never `Sync`. Dropping it closes the ring.
///
/// ```compile_fail,E0277
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<spinwire_core::ring::Producer<'static, u32>>();
/// ```
pub struct Producer<'m, T> {
    pub(super) memory: Memory<'m, T>,
    /// Own index, exact.
    pub(super) tail: usize,
    /// The consumer's index as last seen: maybe old, never ahead of the true one.
    head_seen: usize,
}

/// The half that pops. `Send` when `T` is, never `Sync`. Dropping it closes the ring.
///
/// ```compile_fail,E0277
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<spinwire_core::ring::Consumer<'static, u32>>();
/// ```
pub struct Consumer<'m, T> {
    pub(super) memory: Memory<'m, T>,
    /// Own index, exact. Ahead of the header's while a [`Drain`] is at work.
    pub(super) head: usize,
    /// The producer's index as last seen: maybe old, never ahead of the true one.
    tail_seen: usize,
}

// SAFETY: a half reaches only slots that the indices give to it, and items cross threads by T1/T2, so `T: Send` is
// all that is needed. The header is made of atomics.
unsafe impl<T: Send> Send for Producer<'_, T> {}
// SAFETY: as for `Producer`; slots come back by H1/H2.
unsafe impl<T: Send> Send for Consumer<'_, T> {}

impl<'m, T> Producer<'m, T> {
    /// Appends `item`. Never waits: a few instructions, plus one fetch of the consumer's cache line when the ring
    /// seems full.
    ///
    /// # Errors
    /// [`PushError::Full`] or, if the consumer is gone as well, [`PushError::Closed`]; both give `item` back. While
    /// there is room, items are taken even if the consumer is gone: ask [`is_closed`](Self::is_closed) to know earlier.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), PushError<T>> {
        if self.free_for(1) == 0 {
            return Err(if self.is_closed() { PushError::Closed(item) } else { PushError::Full(item) });
        }
        // SAFETY: one slot is free, so item number `tail` has its slot to itself: the consumer emptied it before H1,
        // seen by our H2, and does not look at it again before T1 in `publish`.
        unsafe { self.memory.slot(self.tail) }.write(item);
        self.publish(1);
        Ok(())
    }

    /// Reserves up to `max` free slots, to be filled and committed together. May be fewer, or none.
    #[inline]
    pub fn reserve(&mut self, max: usize) -> Reserve<'_, 'm, T> {
        let count = self.free_for(max).min(max);
        Reserve::new(self, count)
    }

    /// Appends as many of `items` as there is room for and returns how many, with one store for all of them.
    #[inline]
    pub fn push_slice(&mut self, items: &[T]) -> usize
    where
        T: Copy,
    {
        let mut reserve = self.reserve(items.len());
        reserve.extend_from_slice(items);
        reserve.commit()
    }

    /// Free slots, `0..=capacity`. At least so many pushes will succeed. Reads the consumer's cache line.
    pub fn free(&mut self) -> usize {
        self.free_for(usize::MAX)
    }

    /// Number of slots.
    pub fn capacity(&self) -> usize {
        self.memory.capacity.get()
    }

    /// Whether the consumer is gone, so that nothing pushed from now on will ever be popped.
    pub fn is_closed(&self) -> bool {
        self.memory.has_left(CONSUMER_LEFT)
    }

    /// Free slots as last seen, looked up afresh if they are fewer than `wanted`.
    #[inline(always)]
    fn free_for(&mut self, wanted: usize) -> usize {
        let free = self.memory.capacity.free(self.head_seen, self.tail);
        if free >= wanted {
            return free;
        }
        // H2, pairs with H1: slots before this index are empty.
        self.head_seen = self.memory.header.head.0.load(Ordering::Acquire);
        self.memory.capacity.free(self.head_seen, self.tail)
    }

    /// Makes `count` written slots visible.
    #[inline(always)]
    pub(super) fn publish(&mut self, count: usize) {
        self.tail = self.tail.wrapping_add(count);
        // T1, pairs with T2: the items are written before the index says so.
        self.memory.header.tail.0.store(self.tail, Ordering::Release);
    }
}

impl<'m, T> Consumer<'m, T> {
    /// Takes the oldest item. Never waits: a few instructions, plus one fetch of the producer's cache line when the
    /// ring seems empty.
    ///
    /// # Errors
    /// [`PopError::Empty`], or [`PopError::Closed`] once the producer is gone and all its items were popped.
    #[inline]
    pub fn pop(&mut self) -> Result<T, PopError> {
        if self.ready_for(1) == 0 {
            return Err(if self.is_closed() { PopError::Closed } else { PopError::Empty });
        }
        // SAFETY: an item is ready, so T1, seen by our T2, came after it was written. The slot is ours until H1 in
        // `publish`, and `take_next` moves on, so it is taken once.
        let item = unsafe { self.take_next() };
        self.publish();
        Ok(item)
    }

    /// Takes up to `max` items that are ready now, as an iterator. Their slots go back together when it is dropped;
    /// items it has not yielded by then stay in the ring.
    #[inline]
    pub fn drain(&mut self, max: usize) -> Drain<'_, 'm, T> {
        let count = self.ready_for(max).min(max);
        Drain::new(self, count)
    }

    /// Copies out as many items as are ready and fit into `items`, and returns how many, with one store for all.
    #[inline]
    pub fn pop_slice(&mut self, items: &mut [T]) -> usize
    where
        T: Copy,
    {
        self.drain(items.len()).copy_to(items)
    }

    /// Items ready, `0..=capacity`. At least so many pops will succeed. Reads the producer's cache line.
    pub fn ready(&mut self) -> usize {
        self.ready_for(usize::MAX)
    }

    /// Number of slots.
    pub fn capacity(&self) -> usize {
        self.memory.capacity.get()
    }

    /// Whether the producer is gone and everything it pushed was popped.
    pub fn is_closed(&mut self) -> bool {
        // The mark first (L2), then the index (T2): the other way round, an item pushed between the two looks would be
        // lost.
        self.memory.has_left(PRODUCER_LEFT) && self.ready_for(usize::MAX) == 0
    }

    /// Items ready as last seen, looked up afresh if they are fewer than `wanted`.
    #[inline(always)]
    fn ready_for(&mut self, wanted: usize) -> usize {
        let ready = self.memory.capacity.used(self.head, self.tail_seen);
        if ready >= wanted {
            return ready;
        }
        // T2, pairs with T1: items before this index are written.
        self.tail_seen = self.memory.header.tail.0.load(Ordering::Acquire);
        self.memory.capacity.used(self.head, self.tail_seen)
    }

    /// Moves out the item at `head` and steps over it, without telling the producer.
    ///
    /// # Safety
    /// `head` is before `tail_seen`.
    #[inline(always)]
    pub(super) unsafe fn take_next(&mut self) -> T {
        // SAFETY: the caller says that the item is ready (T2), so its slot is full and ours until H1.
        let item = unsafe { self.memory.slot(self.head).take() };
        self.head = self.head.wrapping_add(1);
        item
    }

    /// Gives the slots before `head` back to the producer.
    #[inline(always)]
    pub(super) fn publish(&mut self) {
        // H1, pairs with H2: the items are out before the index says so.
        self.memory.header.head.0.store(self.head, Ordering::Release);
    }
}

impl<T> Drop for Producer<'_, T> {
    fn drop(&mut self) {
        if self.memory.leave(PRODUCER_LEFT) {
            // Relaxed: the consumer stored its last value before its L1, which our L1 has seen.
            let head = self.memory.header.head.0.load(Ordering::Relaxed);
            // SAFETY: the consumer is gone and popped everything before `head`; we pushed everything before `tail`. We
            // are the last half, so nobody else touches these items.
            unsafe { self.memory.drop_items(head, self.tail) };
        }
    }
}

impl<T> Drop for Consumer<'_, T> {
    fn drop(&mut self) {
        // A forgotten `Drain` leaves items taken that were never given back; the producer must not drop them.
        self.publish();
        if self.memory.leave(CONSUMER_LEFT) {
            // Relaxed: the producer stored its last value before its L1, which our L1 has seen.
            let tail = self.memory.header.tail.0.load(Ordering::Relaxed);
            // SAFETY: the producer is gone and pushed everything before `tail`; we popped everything before `head`. We
            // are the last half, so nobody else touches these items.
            unsafe { self.memory.drop_items(self.head, tail) };
        }
    }
}

impl<T> fmt::Debug for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PushError::Full(_) => "Full(..)",
            PushError::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> fmt::Debug for Producer<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("tail", &self.tail).field("head_seen", &self.head_seen).finish()
    }
}

impl<T> fmt::Debug for Consumer<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("head", &self.head).field("tail_seen", &self.tail_seen).finish()
    }
}
