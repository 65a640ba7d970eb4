//! A batch that is popped: what was ready at one look, or what is ready look by look.

use core::fmt;

use super::{Consumer, Memory};

/// Items taken by [`Consumer::drain`]: an iterator over what was ready when it was made.
pub struct Drain<'c, M: Memory> {
    consumer: &'c mut Consumer<M>,
    left: usize,
}

impl<M: Memory> Consumer<M> {
    /// Hands up to `max` items that are ready to `take`, and returns how many. For a burst that is mostly short: where looks
    /// are not remembered, each item is looked for when its turn comes, and not all of them twice.
    #[inline(always)]
    pub(super) fn take_up_to(&mut self, max: usize, mut take: impl FnMut(M::Item)) -> usize {
        if M::REMEMBERS {
            let drain = self.drain(max);
            let count = drain.len();
            drain.for_each(take);
            return count;
        }
        // Finding nothing gives slots back, and tells whether the producer did something wrong.
        if max == 0 || self.ready_for(1) == 0 {
            return 0;
        }
        // SAFETY: it is ready.
        take(unsafe { self.take_next() });
        let mut count = 1;
        // SAFETY: `head` is before `check`, so `lap` is right.
        while count < max && unsafe { self.memory.is_there(self.lap, self.head) } {
            // SAFETY: it is there, and `head` moves on; `lap` is right.
            let item = unsafe { self.memory.take_of(self.lap, self.head) };
            self.popped(1);
            count += 1;
            take(item);
        }
        count
    }
}

impl<'c, M: Memory> Drain<'c, M> {
    /// `count` items from the consumer's `head` on must be ready.
    #[inline(always)]
    pub(super) fn new(consumer: &'c mut Consumer<M>, count: usize) -> Self {
        Drain { consumer, left: count }
    }
}

impl<M: Memory> Iterator for Drain<'_, M> {
    type Item = M::Item;

    #[inline(always)]
    fn next(&mut self) -> Option<M::Item> {
        self.left = self.left.checked_sub(1)?;
        // SAFETY: `new` was told that this many items are ready, and `left` counts them down.
        Some(unsafe { self.consumer.take_next() })
    }

    // Also what `for_each`, `count`, `sum` and the like come down to. Where slots lie side by side, so do the loads.
    #[inline(always)]
    fn fold<B, F: FnMut(B, M::Item) -> B>(self, init: B, mut f: F) -> B {
        let (memory, capacity) = (self.consumer.memory, self.consumer.memory.capacity());
        let (start, first) = (capacity.slot(self.consumer.head), capacity.first_part(self.consumer.head, self.left));
        // Steps over what was taken also if `f` panics.
        let mut taken = Taken { consumer: self.consumer, count: 0 };
        (start..start + first).chain(0..self.left - first).fold(init, |sum, index| {
            taken.count += 1;
            // SAFETY: these are the slots of `left` items from `head` on, which are ready, and `head` moves on.
            f(sum, unsafe { memory.take_at(index) })
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

/// Steps over `count` items of the consumer at its end.
struct Taken<'c, M: Memory> {
    consumer: &'c mut Consumer<M>,
    count: usize,
}

impl<M: Memory> Drop for Taken<'_, M> {
    #[inline(always)]
    fn drop(&mut self) {
        self.consumer.popped(self.count);
    }
}

impl<M: Memory> ExactSizeIterator for Drain<'_, M> {}

impl<M: Memory> fmt::Debug for Drain<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain").field("left", &self.left).finish()
    }
}
