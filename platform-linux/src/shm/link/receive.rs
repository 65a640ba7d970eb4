//! What has come is taken into the posted receives.

use spinwire_core::fabric::{Batch, Completion, Outcome, WcStatus};

use super::super::receiver::{Lie, Taken};
use super::{End, Link, LocalMemory};

/// Parts of long messages taken in one visit, so that one link does not hold up the others: each is 16 KiB at most, so
/// together at most 128 KiB.
const PARTS_PER_VISIT: u32 = 8;

impl Link {
    /// Takes what has come into the posted receives.
    #[inline(always)]
    pub(in super::super) fn receive(&mut self, local: &LocalMemory<'_>, out: &mut Batch) {
        if self.answers {
            self.sender.expect(self.receiver.is_wide());
        }
        if !self.take_short(local, out) {
            self.take_any(local, out);
        }
    }

    /// Takes whole messages out of their slots, which is nearly all there is to do on most links; `false` where something
    /// else comes next, of which nothing is done then.
    #[inline(always)]
    fn take_short(&mut self, local: &LocalMemory<'_>, out: &mut Batch) -> bool {
        if self.end != End::No {
            return false;
        }
        let receiver = &mut self.receiver;
        while let Some(word) = receiver.peek() {
            let Some(bytes) = receiver.whole(word, local.room_inline()) else { return false };
            let Some(receive) = self.recvs.next().filter(|_| !out.is_full()) else { return false };
            match self.sender.on_answer(word.consumed()) {
                Ok(more) => self.told_by_answer |= more,
                Err(_) => return false,
            }
            // SAFETY: as many bytes as `whole` said, and the buffer has room for them: it was asked above. It is lent to us.
            unsafe { receiver.copy_whole(bytes, receive.to) };
            self.recvs.pop();
            let outcome = Outcome::Done { bytes, imm: word.imm() };
            let _ = out.push(Completion { wr_id: receive.wr_id, qp_num: self.qp_num, outcome });
        }
        true
    }

    /// Takes whatever comes, and flushes what is posted where nothing comes any more.
    #[inline(never)]
    fn take_any(&mut self, local: &LocalMemory<'_>, out: &mut Batch) {
        let mut is_drained = true;
        if let End::No | End::Draining = self.end {
            let receiver = &mut self.receiver;
            let mut parts = 0;
            while let Some(word) = receiver.peek() {
                is_drained = false;
                let Some(receive) = self.recvs.next() else { break };
                if out.is_full() || parts == PARTS_PER_VISIT {
                    break;
                }
                let taken = self.sender.on_answer(word.consumed()).and_then(|more| {
                    self.told_by_answer |= more;
                    receiver.take(word, receive.to, local.room())
                });
                let (bytes, imm) = match taken {
                    Ok(Taken::Part) => {
                        self.recvs.begin();
                        parts += 1;
                        is_drained = true;
                        continue;
                    }
                    Ok(Taken::Message { bytes, imm }) => (bytes, imm),
                    Ok(Taken::Revoked) => {
                        self.end = End::Flushing;
                        break;
                    }
                    Ok(Taken::TooLong { bytes, imm }) => {
                        self.end = End::Flushing;
                        (bytes, imm)
                    }
                    Err(lie) => {
                        self.end = End::Fault(lie);
                        break;
                    }
                };
                self.recvs.pop();
                let outcome = Outcome::Done { bytes, imm };
                // There is room: it was asked above.
                let _ = out.push(Completion { wr_id: receive.wr_id, qp_num: self.qp_num, outcome });
                if self.end == End::Flushing {
                    break;
                }
                is_drained = true;
            }
        }
        if self.end != End::No {
            self.flush_recvs(out, is_drained);
        }
    }

    #[cold]
    fn flush_recvs(&mut self, out: &mut Batch, is_drained: bool) {
        if self.end == End::Draining && !is_drained && self.recvs.next().is_some() {
            return;
        }
        while let Some(receive) = self.recvs.next() {
            let outcome = match self.end {
                End::Fault(lie) => Outcome::Failed { status: Lie::STATUS, vendor: lie as u32 },
                _ => Outcome::Failed { status: WcStatus::WR_FLUSH_ERR, vendor: 0 },
            };
            if out.push(Completion { wr_id: receive.wr_id, qp_num: self.qp_num, outcome }).is_err() {
                return;
            }
            self.recvs.pop();
            if matches!(self.end, End::Fault(_)) {
                self.end = End::Flushing;
            }
        }
    }
}
