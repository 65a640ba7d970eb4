//! The receives posted on a connection.

use spinwire_core::fabric::RecvWr;
use spinwire_core::id::WorkId;

use super::local::LocalMemory;
use super::slot;

/// A posted receive: into a whole buffer of the receive pool, all of which are as long.
#[derive(Clone, Copy)]
pub(super) struct Posted {
    pub(super) wr_id: WorkId,
    pub(super) to: *mut u8,
}

/// Posted receives, first in, first out.
pub(super) struct RecvQueue {
    queue: Box<[Posted]>,
    posted: u32,
    taken: u32,
}

impl RecvQueue {
    pub(super) fn new(recv_posted: u32) -> Self {
        let empty = Posted { wr_id: WorkId::from_bits(0), to: core::ptr::null_mut() };
        Self { queue: vec![empty; recv_posted.next_power_of_two() as usize].into(), posted: 0, taken: 0 }
    }

    /// Appends one; `false` when the queue is full.
    #[inline]
    pub(super) fn post(&mut self, wr: &RecvWr, local: &LocalMemory<'_>) -> bool {
        if self.posted.wrapping_sub(self.taken) as usize == self.queue.len() {
            return false;
        }
        let mask = self.queue.len() - 1;
        self.queue[self.posted as usize & mask] = Posted { wr_id: wr.wr_id(), to: local.receive(wr) };
        self.posted = self.posted.wrapping_add(1);
        true
    }

    /// The oldest.
    #[inline]
    pub(super) fn first(&self) -> Option<Posted> {
        let mask = self.queue.len() - 1;
        (self.posted != self.taken).then(|| self.queue[self.taken as usize & mask])
    }

    /// Asks for the entry of the oldest.
    #[inline]
    pub(super) fn prefetch(&self) {
        slot::prefetch(self.queue.as_ptr().wrapping_add(self.taken as usize & (self.queue.len() - 1)));
    }

    /// Takes the oldest out, which must be there.
    #[inline]
    pub(super) fn pop(&mut self) {
        debug_assert_ne!(self.posted, self.taken);
        self.taken = self.taken.wrapping_add(1);
    }
}
