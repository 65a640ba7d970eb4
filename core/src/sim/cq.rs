//! Completion queues: what a device puts into them, in which order, and with how much nonsense around it.

use std::collections::VecDeque;

use super::coverage::Fault;
use super::net::Wire;
use super::record;
use crate::fabric::{Completion, Outcome};
use crate::id::WorkId;

/// A completion in a queue.
#[derive(Clone, Debug)]
pub struct Cqe {
    /// The id it is of; `None` for one that is nobody's.
    pub end: Option<usize>,
    /// Of a send: its serial number.
    pub serial: u64,
    /// It cannot be polled before then, in nanoseconds.
    pub shown_at: u64,
    /// What the engine will see.
    pub completion: Completion,
}

/// Which of a machine's two completion queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Recv,
    Send,
}

impl Wire {
    /// A work request of `end` completes; nothing happens when it has no queue pair any more.
    pub(super) fn complete(&mut self, end: usize, side: Side, serial: u64, wr_id: WorkId, outcome: Outcome) {
        let Some(qp_num) = self.ends[end].qp.as_ref().map(|qp| qp.number) else { return };
        let node = self.ends[end].node;
        if self.random.chance(self.faults.completions_forged) {
            record::fault(Fault::CompletionForged);
            let outcome = Outcome::Done { bytes: self.random.next() as u32, imm: None };
            let completion = Completion { wr_id, qp_num: qp_num ^ 0x80_0000, outcome };
            self.queue(node, side).push_back(Cqe { end: None, serial: 0, shown_at: 0, completion });
        }
        let outcome = match (side, outcome) {
            // Of a send that succeeded neither means anything.
            (Side::Send, Outcome::Done { .. }) if self.random.chance(self.faults.completions_garbage) => {
                record::fault(Fault::CompletionGarbage);
                Outcome::Done { bytes: self.random.next() as u32, imm: Some(self.random.next() as u32) }
            }
            _ => outcome,
        };
        let mut place = self.queue(node, side).len();
        if self.random.chance(self.faults.completions_reordered) {
            // Never before another of its own queue pair.
            let behind = self.queue(node, side).iter().rev().take_while(|other| other.end != Some(end)).count();
            let earlier = self.random.below(behind as u64 + 1) as usize;
            if earlier > 0 {
                record::fault(Fault::CompletionReordered);
            }
            place -= earlier;
        }
        let mut shown_at = 0;
        if self.random.chance(self.faults.completions_late) {
            record::fault(Fault::CompletionLate);
            shown_at = self.now + self.random.below(4 * self.faults.latency);
        }
        let completion = Completion { wr_id, qp_num, outcome };
        let cqe = Cqe { end: Some(end), serial, shown_at, completion };
        self.queue(node, side).insert(place, cqe);
    }

    /// The next completion of a queue, as the program takes it: what it gives back is the program's again.
    pub(super) fn take_completion(&mut self, node: usize, side: Side) -> Option<Completion> {
        let now = self.now;
        let queue = self.queue(node, side);
        queue.front().filter(|cqe| cqe.shown_at <= now)?;
        let Cqe { end, serial, completion, .. } = queue.pop_front()?;
        record::note(|| std::format!("{:?}: {:?}", completion.wr_id, completion.outcome));
        let Some(end) = end else { return Some(completion) };
        let Some(qp) = self.ends[end].qp.as_mut().filter(|qp| qp.number == completion.qp_num) else {
            record::fault(Fault::CompletionStale);
            return Some(completion);
        };
        match side {
            Side::Recv => qp.held_recvs.retain(|&index| index != completion.wr_id.index()),
            Side::Send => {
                qp.retired = qp.retired.max(serial + 1);
                while qp.held_sends.front().is_some_and(|&(held, _)| held <= serial) {
                    qp.held_sends.pop_front();
                }
            }
        }
        self.see_completion(end, side, &completion);
        Some(completion)
    }

    fn queue(&mut self, node: usize, side: Side) -> &mut VecDeque<Cqe> {
        match side {
            Side::Recv => &mut self.hosts[node].recv_cq,
            Side::Send => &mut self.hosts[node].send_cq,
        }
    }
}
