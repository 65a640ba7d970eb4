//! The half that pops, for every kind of memory. Batches are in [`Drain`].

use core::fmt;
use core::mem;

use super::header::{CONSUMER, PRODUCER};
use super::index::is_reached;
use super::producer::drop_items;
use super::{Drain, Memory, PopError};
use crate::sync::{Ordering, Prefetch};

/// The half that pops. `Send` when the items are, never shared between threads. Dropping it closes the ring.
///
/// Named for what it lives in: [`latency::Consumer`](super::latency::Consumer),
/// [`batch::Consumer`](super::batch::Consumer) and the two of [`shared`](super::shared).
///
/// ```compile_fail,E0277
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<spinwire_core::ring::batch::Consumer<'static, u32>>();
/// ```
// Aligned, so that two halves side by side in memory, which two threads use, share no cache line.
#[repr(align(128))]
pub struct Consumer<M: Memory> {
    pub(super) memory: M,
    /// Own index, exact: items ever popped.
    pub(super) head: u64,
    /// Items before this number are ready: the producer's index as last seen (maybe old, never ahead). Only kept where
    /// a look [is worth remembering](Memory::REMEMBERS).
    seen: u64,
    /// What the producer knows of `head`: slots before this number were given back.
    given_back: u64,
    /// The next item number that takes more than the least: the next multiple of a step, which is no further than slots
    /// are fetched ahead, or given back. Always past `head`.
    pub(super) check: u64,
    /// The lap of the items before `check`. (A lap is a multiple of a step.)
    pub(super) lap: M::Lap,
    /// A step, less one: both are powers of two.
    within_step: u64,
    /// How many popped items the producer need not know of at a check, for there is another before they are
    /// [too many](super::index::Capacity::lazy).
    slack: u64,
    /// Whether nothing was found at some look since the last check.
    dry: bool,
    /// What the producer did wrong. Once it is set, nothing is ready any more.
    fault: Option<M::Fault>,
}

impl<M: Memory> Consumer<M> {
    /// `memory` is for this half alone and its ring starts, empty, with item `start`.
    pub(super) fn new(memory: M, start: u64) -> Self {
        let lazy = memory.capacity().lazy();
        let step = lazy.min(M::AHEAD);
        Consumer {
            memory,
            head: start,
            seen: start,
            given_back: start,
            check: (start | (step - 1)).wrapping_add(1),
            lap: memory.lap(start),
            within_step: step - 1,
            slack: lazy - step,
            dry: true,
            fault: None,
        }
    }

    /// Takes the oldest item. Never waits: a few instructions, plus one fetch of a cache line that the producer wrote
    /// when the ring seems empty.
    ///
    /// # Errors
    /// [`PopError::Empty`], or [`PopError::Closed`] once the producer is gone and all its items were popped; in shared
    /// memory [`PopError::Peer`].
    #[inline(always)]
    pub fn pop(&mut self) -> Result<M::Item, PopError<M::Fault>> {
        // Copies that stay in registers: nothing may be remembered of `self` across an acquiring load.
        let (memory, head) = (self.memory, self.head);
        let there = if M::REMEMBERS {
            self.ready_for(1) > 0
        } else {
            // After a fault nothing is there any more, whatever the peer says.
            // SAFETY: `head` is before `check`, so `lap` is right.
            self.fault.is_none() && unsafe { memory.is_there(self.lap, head) }
        };
        if !there {
            self.look_again()?;
        }
        // SAFETY: an item is ready, so it was written before it was announced, and we have seen that. The slot is ours until
        // H1 in `give_back`, and `head` moves on, so it is taken once. `lap` is right, as before.
        let item = unsafe { memory.take_of(self.lap, head) };
        self.head = head.wrapping_add(1);
        // `check` was past the old one.
        if self.head == self.check {
            self.pass();
        }
        Ok(item)
    }

    /// Takes up to `max` items that are ready now, as an iterator. Items it has not yielded when it is dropped stay in
    /// the ring.
    #[inline(always)]
    pub fn drain(&mut self, max: usize) -> Drain<'_, M> {
        let count = self.ready_up_to(max);
        Drain::new(self, count)
    }

    /// Copies out as many items as are ready and fit into `items`, and returns how many.
    #[inline(always)]
    pub fn pop_slice(&mut self, items: &mut [M::Item]) -> usize
    where
        M::Item: Copy,
    {
        let count = self.ready_up_to(items.len());
        // SAFETY: these items are ready, and `head` steps over all of them; `count` is at most the length.
        unsafe { self.memory.take_all(self.head, items.get_unchecked_mut(..count)) };
        self.popped(count);
        count
    }

    /// Items ready, `0..=capacity`. At least so many pops will succeed. Cost: one load of the producer's cache line in
    /// the batch layout; one load for each item in the latency layout.
    pub fn ready(&mut self) -> usize {
        self.ready_for(self.memory.capacity().get()) as usize
    }

    /// Number of slots.
    pub fn capacity(&self) -> usize {
        self.memory.capacity().get() as usize
    }

    /// Whether nothing will ever be popped again: the producer is gone and everything it pushed was popped, or it broke
    /// the rules.
    pub fn is_closed(&mut self) -> bool {
        // The mark first: see `look_again`.
        self.fault.is_some() || self.memory.header().has_left(PRODUCER) && self.ready_for(1) == 0
    }

    /// What the producer did wrong, if it did. Only possible in shared memory.
    pub fn fault(&self) -> Option<M::Fault> {
        self.fault
    }

    /// Closes the ring: the producer learns of it. Items not popped are dropped once it is gone too. Dropping does the
    /// same.
    pub fn close(self) {}

    /// Gives the slots of all popped items back to the producer now. A consumer that goes on popping need not call
    /// this; see "Giving back" in the [module's docs](super).
    #[inline]
    pub fn give_back(&mut self) {
        if self.given_back != self.head {
            self.publish();
        }
    }

    #[inline(always)]
    fn publish(&mut self) {
        self.given_back = self.head;
        // H1, pairs with H2: the items are out before the index says so.
        self.memory.header().head.0.store(self.head, Ordering::Release);
    }

    /// Steps over the `count` items at `head`, which were taken.
    #[inline(always)]
    pub(super) fn popped(&mut self, count: usize) {
        self.head = self.head.wrapping_add(count as u64);
        if is_reached(self.check, self.head) {
            self.pass();
        }
    }

    /// Every so many items: gives slots back if they are worth a store, and fetches slots ahead.
    #[inline(never)]
    fn pass(&mut self) {
        self.check = (self.head | self.within_step).wrapping_add(1);
        self.lap = self.memory.lap(self.head);
        if self.head.wrapping_sub(self.given_back) > self.slack {
            self.publish();
        }
        // Only what was written: a line that the producer is about to write would be taken from it. A stamp does not say
        // how far that is, but the producer is well ahead if nothing ran dry since the last check.
        let written =
            if M::REMEMBERS { self.seen.wrapping_sub(self.head) >= 2 * M::AHEAD } else { !mem::take(&mut self.dry) };
        if written {
            self.memory.prefetch(self.head.wrapping_add(M::AHEAD), Prefetch::Read);
        }
    }

    /// Items ready as last seen, looked up afresh if they are fewer than `wanted`, which is at most the capacity.
    #[inline(always)]
    pub(super) fn ready_for(&mut self, wanted: u64) -> u64 {
        if M::REMEMBERS {
            let ready = self.seen.wrapping_sub(self.head);
            if ready >= wanted {
                return ready;
            }
        }
        if self.fault.is_some() {
            return 0;
        }
        match self.memory.look(self.head, wanted) {
            Ok(ready) => {
                if M::REMEMBERS {
                    self.seen = self.head.wrapping_add(ready);
                }
                if ready == 0 {
                    self.dry = true;
                    self.give_back();
                }
                ready
            }
            Err(fault) => {
                self.seen = self.head;
                self.fault = Some(M::blame(fault));
                0
            }
        }
    }

    /// At most `max` of the items that are ready.
    #[inline(always)]
    fn ready_up_to(&mut self, max: usize) -> usize {
        // A stamp is looked for item by item: never for more than the capacity, whatever a peer goes on stamping.
        let max = if M::REMEMBERS { max as u64 } else { (max as u64).min(self.memory.capacity().get()) };
        self.ready_for(max).min(max) as usize
    }

    /// Moves out the item at `head`.
    ///
    /// # Safety
    /// `head` is before `seen`.
    #[inline(always)]
    pub(super) unsafe fn take_next(&mut self) -> M::Item {
        // SAFETY: the caller says that the item is ready, so its slot is full and ours until H1.
        let item = unsafe { self.memory.take(self.head) };
        self.popped(1);
        item
    }

    /// [`pop`](Self::pop) when it seemed that there is nothing: `Ok` if there is something after all. It returns no item,
    /// which would have to go through memory.
    #[inline(never)]
    fn look_again(&mut self) -> Result<(), PopError<M::Fault>> {
        // The mark first (L2), then the items (T2, S2): the other way round, an item pushed between the two looks would
        // be lost.
        let left = self.memory.header().has_left(PRODUCER);
        if self.ready_for(1) > 0 {
            return Ok(());
        }
        Err(match self.fault {
            Some(fault) => PopError::Peer(fault),
            None if left => PopError::Closed,
            None => PopError::Empty,
        })
    }
}

impl<M: Memory> Drop for Consumer<M> {
    fn drop(&mut self) {
        // Always: the producer must not drop what was popped and not given back yet.
        self.give_back();
        let header = self.memory.header();
        if header.leave(CONSUMER) && mem::needs_drop::<M::Item>() {
            // The producer is gone: what can be seen now is all there is.
            let capacity = self.memory.capacity().get();
            if let Ok(ready) = self.memory.look(self.head, capacity) {
                // SAFETY: the producer pushed these and is gone; we popped everything before them. We are the last
                // half, so nobody else touches them.
                unsafe { drop_items(&self.memory, self.head, self.head.wrapping_add(ready)) };
            }
        }
    }
}

impl<M: Memory> fmt::Debug for Consumer<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("head", &self.head)
            .field("seen", &self.seen)
            .field("given_back", &self.given_back)
            .finish_non_exhaustive()
    }
}
