//! A batch that was popped: what was ready at one look.

use core::fmt;

use super::{Consumer, Memory};

/// Items taken by [`Consumer::drain`]: an iterator over what was ready when it was made.
pub struct Drain<'c, M: Memory> {
    consumer: &'c mut Consumer<M>,
    left: usize,
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

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<M: Memory> ExactSizeIterator for Drain<'_, M> {}

impl<M: Memory> Drop for Drain<'_, M> {
    #[inline(always)]
    fn drop(&mut self) {
        self.consumer.popped();
    }
}

impl<M: Memory> fmt::Debug for Drain<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain").field("left", &self.left).finish()
    }
}
