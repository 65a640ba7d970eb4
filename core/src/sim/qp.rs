//! Queue pairs: what is posted on them, and how they break.

use std::collections::VecDeque;
use std::vec::Vec;

use super::MS;
use super::memory::BufferName;
use super::net::{Due, Net, Wire};
use crate::fabric::{Completion, Outcome, WcStatus};
use crate::id::{ConnId, WorkId, WorkKind};

/// The states of a queue pair that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpState {
    /// Made; receives may be posted.
    Init,
    /// Up.
    Rts,
    /// Broken: whatever is posted comes back flushed.
    Err,
}

/// One queue pair.
#[derive(Debug)]
pub struct Qp {
    /// Its number, never used twice.
    pub number: u32,
    /// Its state.
    pub state: QpState,
    /// Posted receives: work id and buffer of the receive pool.
    pub recvs: VecDeque<(WorkId, u32)>,
    /// Posted sends that have not completed.
    pub sends: VecDeque<Flight>,
    /// Of `recvs` and of `sends`, how many at their ends are of this turn.
    pub(super) recvs_fresh: usize,
    pub(super) sends_fresh: usize,
    /// Of `sends`, how many have arrived and wait for their acknowledgement.
    pub arrived: usize,
    /// Sends ever posted.
    pub posted: u64,
    /// Sends a polled completion has retired.
    pub retired: u64,
    /// How often the next send was tried.
    pub attempts: u32,
    /// The arrival of the next send is scheduled.
    pub moving: bool,
    /// When the latest acknowledgement comes, in nanoseconds: they come in order.
    pub acked_at: u64,
}

impl Qp {
    /// A queue pair in its first state.
    pub fn new(number: u32) -> Self {
        Self {
            number,
            state: QpState::Init,
            recvs: VecDeque::new(),
            sends: VecDeque::new(),
            recvs_fresh: 0,
            sends_fresh: 0,
            arrived: 0,
            posted: 0,
            retired: 0,
            attempts: 0,
            moving: false,
            acked_at: 0,
        }
    }
}

/// A send on its way.
#[derive(Debug)]
pub struct Flight {
    /// Counts the sends of its queue pair, from 0.
    pub serial: u64,
    /// Comes back with the completion.
    pub wr_id: WorkId,
    /// Where the payload is read from when it arrives; `None` when it was copied, or there is none.
    pub buffer: Option<BufferName>,
    /// Copied at post time.
    pub inline: bool,
    /// The copy.
    pub payload: Vec<u8>,
    /// Payload length in bytes.
    pub len: u32,
    /// Immediate data.
    pub imm: Option<u32>,
    /// A completion was asked for.
    pub signaled: bool,
}

/// A completion in a queue.
#[derive(Clone, Debug)]
pub struct Cqe {
    /// The id it is of.
    pub end: usize,
    /// Of a send: its serial number.
    pub serial: u64,
    /// What the engine will see.
    pub completion: Completion,
}

impl Net {
    /// Flushed receives of a connection that is no more, as some devices leave them in the queue.
    pub fn leave_behind(&self, node: usize, conn: ConnId, count: usize) {
        let wr_id = WorkId::new(conn, WorkKind::Recv, 0);
        let outcome = Outcome::Failed { status: WcStatus::WR_FLUSH_ERR, vendor: 0 };
        let cqe = Cqe { end: usize::MAX, serial: 0, completion: Completion { wr_id, qp_num: 0, outcome } };
        self.wire().hosts[node].recv_cq.extend(core::iter::repeat_n(cqe, count));
    }
}

impl Wire {
    /// The queue pair goes to the error state: what is posted comes back flushed, sooner or later or never.
    pub fn break_qp(&mut self, end: usize) {
        let Some(qp) = &mut self.ends[end].qp else { return };
        if qp.state != QpState::Err {
            qp.state = QpState::Err;
            let missing = self.faults.flushes_missing;
            if !self.random.chance(missing) {
                let delay = self.random.below(MS);
                self.after(delay, Due::Flush(end));
            }
        }
    }

    /// What is posted comes back.
    pub(super) fn flush(&mut self, end: usize) {
        let node = self.ends[end].node;
        let Some(qp) = &mut self.ends[end].qp else { return };
        let outcome = Outcome::Failed { status: WcStatus::WR_FLUSH_ERR, vendor: 0xdead };
        let number = qp.number;
        let host = &mut self.hosts[node];
        for flight in qp.sends.drain(..) {
            let completion = Completion { wr_id: flight.wr_id, qp_num: number, outcome };
            host.send_cq.push_back(Cqe { end, serial: flight.serial, completion });
        }
        for (wr_id, _) in qp.recvs.drain(..) {
            host.recv_cq.push_back(Cqe { end, serial: 0, completion: Completion { wr_id, qp_num: number, outcome } });
        }
        qp.arrived = 0;
    }

    /// The oldest send that has not arrived fails: its completion says why, the rest is flushed.
    pub fn fail_send(&mut self, end: usize, status: WcStatus) {
        let node = self.ends[end].node;
        let Some(qp) = &mut self.ends[end].qp else { return };
        // What arrived before it succeeded, whether or not the acknowledgement is seen: completions come in order.
        for flight in qp.sends.drain(..std::mem::take(&mut qp.arrived)).filter(|flight| flight.signaled) {
            let outcome = Outcome::Done { bytes: 0, imm: None };
            let completion = Completion { wr_id: flight.wr_id, qp_num: qp.number, outcome };
            self.hosts[node].send_cq.push_back(Cqe { end, serial: flight.serial, completion });
        }
        if let Some(flight) = qp.sends.pop_front() {
            let outcome = Outcome::Failed { status, vendor: 7 };
            let completion = Completion { wr_id: flight.wr_id, qp_num: qp.number, outcome };
            self.hosts[node].send_cq.push_back(Cqe { end, serial: flight.serial, completion });
        }
        self.break_qp(end);
    }
}
