//! The half that pushes, for every kind of memory. Batches are in [`Reserve`].

use core::fmt;

use super::header::{CONSUMER, PRODUCER};
use super::index::is_reached;
use super::{Memory, PushError, Reserve};
use crate::sync::{Ordering, Prefetch};

/// The half that pushes. `Send` when the items are, never shared between threads. Dropping it closes the ring.
///
/// Named for what it lives in: [`latency::Producer`](super::latency::Producer),
/// [`batch::Producer`](super::batch::Producer) and the two of [`shared`](super::shared).
///
/// ```compile_fail,E0277
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<spinwire_core::ring::batch::Producer<'static, u32>>();
/// ```
// Aligned, so that two halves side by side in memory, which two threads use, share no cache line.
#[repr(align(128))]
pub struct Producer<M: Memory> {
    pub(super) memory: M,
    /// Own index, exact: items ever pushed.
    pub(super) tail: u64,
    /// The first item number there was no room for when last looked: the consumer's index as last seen (maybe old,
    /// never ahead of the true one) plus the capacity.
    limit: u64,
    /// The next item number that takes more than the least: `limit`, or the next multiple of a step, which is no further
    /// than slots are fetched ahead. Never behind `tail`.
    check: u64,
    /// The lap of the items before `check`. (A lap is a multiple of a step.)
    lap: M::Lap,
    /// A step, less one: both are powers of two.
    within_step: u64,
    /// What the consumer did wrong. Once it is set, there is no room any more.
    fault: Option<M::Fault>,
}

impl<M: Memory> Producer<M> {
    /// `memory` is for this half alone and its ring starts, empty, with item `start`.
    pub(super) fn new(memory: M, start: u64) -> Self {
        let capacity = memory.capacity().get();
        let within_step = capacity.min(M::AHEAD) - 1;
        let (limit, lap) = (start.wrapping_add(capacity), memory.lap(start));
        Producer { memory, tail: start, limit, check: start, lap, within_step, fault: None }
    }

    /// Appends `item`. Never waits: a few instructions, plus one fetch of the consumer's cache line when the ring
    /// seems full.
    ///
    /// # Errors
    /// [`PushError::Full`] or, if the consumer is gone as well, [`PushError::Closed`]; in shared memory
    /// [`PushError::Peer`]. All give `item` back. While there is room, items are taken even if the consumer is gone:
    /// ask [`is_closed`](Self::is_closed) to know earlier.
    #[inline(always)]
    pub fn push(&mut self, item: M::Item) -> Result<(), PushError<M::Item, M::Fault>> {
        if self.tail == self.check && !self.pass() {
            return Err(self.refuse(item));
        }
        let tail = self.tail;
        self.tail = tail.wrapping_add(1);
        // SAFETY: it is before `check`. So one slot is free, and item number `tail` has its slot to itself: the consumer
        // emptied it before H1, seen by our H2, and does not look at it again before it is announced. And `lap` is right.
        unsafe { self.memory.put(self.lap, tail, item) };
        Ok(())
    }

    /// Reserves up to `max` free slots, to be filled and committed together. May be fewer, or none.
    #[inline(always)]
    pub fn reserve(&mut self, max: usize) -> Reserve<'_, M> {
        let count = self.free_for(max as u64).min(max as u64);
        Reserve::new(self, count as usize)
    }

    /// Appends as many of `items` as there is room for, visible all at once, and returns how many.
    #[inline(always)]
    pub fn push_slice(&mut self, items: &[M::Item]) -> usize
    where
        M::Item: Copy,
    {
        let count = self.free_for(items.len() as u64).min(items.len() as u64) as usize;
        // SAFETY: these slots are free, as seen by H2, and not announced yet; `count` is at most the length.
        unsafe { self.memory.write_all(self.tail, items.get_unchecked(..count)) };
        self.announce(count);
        count
    }

    /// Free slots, `0..=capacity`. At least so many pushes will succeed. Reads the consumer's cache line.
    pub fn free(&mut self) -> usize {
        self.free_for(u64::MAX) as usize
    }

    /// Number of slots.
    pub fn capacity(&self) -> usize {
        self.memory.capacity().get() as usize
    }

    /// Whether nothing pushed from now on will ever be popped: the consumer is gone, or broke the rules.
    pub fn is_closed(&self) -> bool {
        self.fault.is_some() || self.memory.header().has_left(CONSUMER)
    }

    /// What the consumer did wrong, if it did. Only possible in shared memory.
    pub fn fault(&self) -> Option<M::Fault> {
        self.fault
    }

    /// Closes the ring: the consumer pops what was pushed and then learns of it. Dropping does the same.
    pub fn close(self) {}

    /// Free slots as last seen, looked up afresh if they are fewer than `wanted`.
    #[inline(always)]
    fn free_for(&mut self, wanted: u64) -> u64 {
        let free = self.limit.wrapping_sub(self.tail);
        if free >= wanted { free } else { self.look() }
    }

    /// Free slots, looked up afresh.
    #[inline(never)]
    fn look(&mut self) -> u64 {
        if self.fault.is_some() {
            return 0;
        }
        // H2, pairs with H1: slots before this index are empty.
        let head = self.memory.header().head.0.load(Ordering::Acquire);
        let capacity = self.memory.capacity();
        // A peer's index may go back, and `limit` with it; `check` must not stay above.
        self.check = self.tail;
        match capacity.used(head, self.tail) {
            Ok(used) => {
                self.limit = head.wrapping_add(capacity.get());
                capacity.get() - used
            }
            Err(fault) => {
                self.limit = self.tail;
                self.fault = Some(M::blame(fault));
                0
            }
        }
    }

    /// Makes the `count` items behind `tail`, which are written, visible.
    #[inline(always)]
    pub(super) fn announce(&mut self, count: usize) {
        let tail = self.tail;
        self.tail = tail.wrapping_add(count as u64);
        self.memory.announce(tail, count as u64);
        if is_reached(self.check, self.tail) {
            self.pass();
        }
    }

    /// Every so many items: makes sure that there is room for one more, and fetches slots ahead. `false`: there is none.
    #[inline(never)]
    fn pass(&mut self) -> bool {
        let free = self.free_for(1);
        let to_next = (!self.tail & self.within_step) + 1;
        self.check = self.tail.wrapping_add(free.min(to_next));
        self.lap = self.memory.lap(self.tail);
        if free > M::AHEAD {
            self.memory.prefetch(self.tail.wrapping_add(M::AHEAD), Prefetch::Write);
        }
        free > 0
    }

    #[inline(never)]
    fn refuse(&self, item: M::Item) -> PushError<M::Item, M::Fault> {
        match self.fault {
            Some(fault) => PushError::Peer(item, fault),
            None if self.is_closed() => PushError::Closed(item),
            None => PushError::Full(item),
        }
    }
}

impl<M: Memory> Drop for Producer<M> {
    fn drop(&mut self) {
        let header = self.memory.header();
        if header.leave(PRODUCER) {
            // Relaxed: the consumer stored its last value before its L1, which our L1 has seen.
            let head = header.head.0.load(Ordering::Relaxed);
            // SAFETY: the consumer is gone and popped everything before `head`; we pushed everything before `tail`. We
            // are the last half, so nobody else touches these items.
            unsafe { drop_items(&self.memory, head, self.tail) };
        }
    }
}

/// Drops the items from number `from` up to but not including number `to`.
///
/// # Safety
/// Nobody else uses these items any more. If they need dropping, the numbers are true, so that these slots are full.
pub(super) unsafe fn drop_items<M: Memory>(memory: &M, from: u64, to: u64) {
    if !core::mem::needs_drop::<M::Item>() {
        return;
    }
    let mut number = from;
    while number != to {
        // SAFETY: the slot is full and the caller's, and is visited once.
        drop(unsafe { memory.take(number) });
        number = number.wrapping_add(1);
    }
}

impl<M: Memory> fmt::Debug for Producer<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("tail", &self.tail).field("limit", &self.limit).finish_non_exhaustive()
    }
}
