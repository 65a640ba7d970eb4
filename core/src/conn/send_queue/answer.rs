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
        debug_assert!(buf.from() == Direction::Recv);
        let wr = SendWr { wr_id: work, imm: Some(Imm::DATA), buf: Some(buf), len, signaled: false };
        self.push_cleared(rings, wr)
    }

    /// Queues a message of the application's like [`SendQueue::push_answer`], in one of the slots that are for those.
    #[inline(always)]
    pub(crate) fn push_app<'r>(&mut self, rings: &'r mut [SendWr], wr: SendWr) -> &'r mut SendWr {
        self.app += u32::from(wr.is_app());
        self.push_cleared(rings, wr).1
    }

    #[inline(always)]
    fn push_cleared<'r>(&mut self, rings: &'r mut [SendWr], wr: SendWr) -> (u32, &'r mut SendWr) {
        debug_assert!(self.waiting() == 0);
        debug_assert!(self.occupied() <= self.mask, "a send queue took more than its slots");
        let seq = self.cleared;
        let slot = &mut rings[self.slot(seq)];
        self.cleared = seq.wrapping_add(1);
        *slot = SendWr { wr_id: wr.wr_id.at(seq), ..wr };
        (seq, slot)
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
