//! What the short way of a message does to a queue of sends.

use super::SendQueue;
use crate::conn::Imm;
use crate::fabric::SendWr;
use crate::id::WorkId;
use crate::pool::{Direction, Lease};
use crate::sync::prefetch_items;

impl SendQueue {
    /// Queues an answer in place, which is numbered after `work`, and clears it, while nothing waits: as
    /// [`SendQueue::push`] and [`SendQueue::clear`] would. There is room for it: a slot for each receive buffer. Returns its
    /// sequence number, and where it lies.
    #[inline(always)]
    pub(crate) fn push_answer<'r>(
        &mut self,
        rings: &'r mut [SendWr],
        work: WorkId,
        buf: Lease,
        len: u32,
    ) -> (u32, &'r mut SendWr) {
        debug_assert!(self.waiting() == 0 && buf.from() == Direction::Recv);
        debug_assert!(self.occupied() <= self.mask, "a send queue took more than its slots");
        let seq = self.cleared;
        let wr = &mut rings[self.slot(seq)];
        self.cleared = seq.wrapping_add(1);
        *wr = SendWr { wr_id: work.at(seq), imm: Some(Imm::DATA), buf: Some(buf), len, signaled: false };
        (seq, wr)
    }

    /// Whether `seq` is all that is ready: it was cleared last.
    #[inline]
    pub(crate) fn is_all(&self, seq: u32) -> bool {
        debug_assert!(seq.wrapping_add(1) == self.cleared);
        self.posted == seq
    }

    /// Asks for the slot of the send that is queued next.
    #[inline]
    pub(crate) fn prefetch(&self, rings: &[SendWr]) {
        prefetch_items(rings.as_ptr().wrapping_add(self.slot(self.tail())), 1);
    }
}
