//! What became of the sends: what the peer has taken, and the completions for it.

use core::sync::atomic::{AtomicU64, Ordering, fence};

use spinwire_core::fabric::{Batch, Completion, Outcome, WcStatus};

use super::super::receiver::Lie;
use super::super::word::ACK_MASK;
use super::Sender;

impl Sender {
    /// The peer says with an answer how many descriptors it has taken (low 20 bits). The answer may be older than what its
    /// counter has said, but no more than a ring is long: each answer is read, in order. Tells whether it says of more.
    #[inline]
    pub(in super::super) fn on_answer(&mut self, consumed: u32) -> Result<bool, Lie> {
        let more = consumed.wrapping_sub(self.acked as u32) & ACK_MASK;
        // Older: less than nothing, which is more than there can be: the ring is far smaller than half the range.
        if u64::from(more) > self.sent - self.acked && more > ACK_MASK / 2 {
            Ok(false)
        } else {
            self.take_off(more.into())
        }
    }

    /// The peer says the same by its counter, in full: it may be older by any number of answers. Tells whether it says of more.
    #[inline]
    pub(in super::super) fn on_counter(&mut self, consumed: u64) -> Result<bool, Lie> {
        self.take_off(consumed.saturating_sub(self.acked))
    }

    /// The peer has taken so many more; whether that is any.
    #[inline]
    fn take_off(&mut self, more: u64) -> Result<bool, Lie> {
        if more > self.sent - self.acked {
            return Err(Lie::Acknowledgement);
        }
        self.acked += more;
        Ok(more > 0)
    }

    /// Descriptors published.
    #[inline]
    pub(in super::super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether something was posted that is not done.
    #[inline]
    pub(in super::super) fn is_busy(&self) -> bool {
        self.completed != self.posted
    }

    /// Whether something waits for room in the ring.
    #[inline]
    pub(in super::super) fn is_waiting(&self) -> bool {
        self.launched != self.posted
    }

    /// Whether the oldest send waits for the peer.
    #[inline]
    pub(in super::super) fn waits_for_ack(&self) -> bool {
        self.acked != self.sent
    }

    /// Reports what is done, as far as `out` has room.
    #[inline]
    pub(in super::super) fn complete(&mut self, out: &mut Batch, qp_num: u32) {
        let mask = self.queue.len() - 1;
        while self.completed != self.launched {
            let entry = &self.queue[self.completed as usize & mask];
            if entry.end > self.acked {
                return;
            }
            if entry.signaled {
                let outcome = Outcome::Done { bytes: 0, imm: None };
                if out.push(Completion { wr_id: entry.wr_id, qp_num, outcome }).is_err() {
                    return;
                }
            }
            self.completed = self.completed.wrapping_add(1);
        }
        self.rewind();
    }

    /// Nothing is under way: the next goes to the front of the queue again, which is warm, also where a thousand connections
    /// have a queue each.
    #[inline]
    fn rewind(&mut self) {
        if !self.is_busy() {
            (self.posted, self.launched, self.completed) = (0, 0, 0);
        }
    }

    /// Says that lent buffers may be used again, before they are: what the peer has not taken by then it does not take.
    #[cold]
    fn revoke(&mut self) {
        if self.lends && self.completed != self.launched {
            // SAFETY: inside our own segment, which outlives this, and aligned; the peer only reads it.
            let revoked = unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(self.geometry.revoked()).cast()) };
            revoked.store(1, Ordering::Relaxed);
            // V1, pairs with V2: who has read what a buffer is used for next sees that it was revoked.
            fence(Ordering::SeqCst);
        }
    }

    /// Reports everything posted as flushed, as far as `out` has room: the connection is over.
    pub(in super::super) fn flush(&mut self, out: &mut Batch, qp_num: u32) {
        self.revoke();
        let mask = self.queue.len() - 1;
        while self.is_busy() {
            let wr_id = self.queue[self.completed as usize & mask].wr_id;
            let outcome = Outcome::Failed { status: WcStatus::WR_FLUSH_ERR, vendor: 0 };
            if out.push(Completion { wr_id, qp_num, outcome }).is_err() {
                return;
            }
            self.completed = self.completed.wrapping_add(1);
        }
        self.launched = self.posted;
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.revoke();
    }
}
