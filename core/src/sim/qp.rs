//! Queue pairs: what is posted on them, and how they break.

use std::collections::VecDeque;
use std::vec::Vec;

use super::MS;
use super::coverage::Fault;
use super::cq::{Cqe, Side};
use super::memory::BufferName;
use super::net::{Due, Net, Wire};
use super::one_sided::Operation;
use super::record;
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
    /// Its number. Used again as soon as it is destroyed.
    pub number: u32,
    /// Its state.
    pub state: QpState,
    /// Posted receives: work id and buffer of the receive pool.
    pub recvs: VecDeque<(WorkId, u32)>,
    /// Posted sends that have not completed.
    pub sends: VecDeque<Flight>,
    /// Buffers the device has until the program takes a completion: of the receive pool, and of sends by serial number.
    pub(super) held_recvs: Vec<u32>,
    pub(super) held_sends: VecDeque<(u64, BufferName)>,
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
            held_recvs: Vec::new(),
            held_sends: VecDeque::new(),
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
    /// A one-sided operation and no message.
    pub(super) operation: Option<Operation>,
}

impl Net {
    /// Flushed receives of a connection that is no more, as some devices leave them in the queue.
    pub fn leave_behind(&self, node: usize, conn: ConnId, count: usize) {
        let wr_id = WorkId::new(conn, WorkKind::Recv, 0);
        let outcome = Outcome::Failed { status: WcStatus::WR_FLUSH_ERR, vendor: 0 };
        let cqe = Cqe { end: None, serial: 0, shown_at: 0, completion: Completion { wr_id, qp_num: 0, outcome } };
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
            if self.random.chance(missing) {
                return record::fault(Fault::FlushLost);
            }
            let delay = self.random.below(MS);
            self.after(delay, Due::Flush(end));
        }
    }

    /// What is posted comes back.
    pub(super) fn flush(&mut self, end: usize) {
        let Some(qp) = &mut self.ends[end].qp else { return };
        qp.arrived = 0;
        let (sends, recvs) = (std::mem::take(&mut qp.sends), std::mem::take(&mut qp.recvs));
        let outcome = Outcome::Failed { status: WcStatus::WR_FLUSH_ERR, vendor: 0xdead };
        for flight in sends {
            self.complete(end, Side::Send, flight.serial, flight.wr_id, outcome);
        }
        for (wr_id, _) in recvs {
            self.complete(end, Side::Recv, 0, wr_id, outcome);
        }
    }

    /// The oldest send that has not arrived fails: its completion says why, the rest is flushed.
    pub fn fail_send(&mut self, end: usize, status: WcStatus) {
        let Some(qp) = &mut self.ends[end].qp else { return };
        // What arrived before it succeeded, whether or not the acknowledgement is seen: completions come in order.
        // But an answer that brings something has to be there for that.
        let arrived = qp.sends.iter().take(std::mem::take(&mut qp.arrived));
        let confirmed = arrived.take_while(|flight| flight.operation.is_none_or(|operation| operation.into.is_none()));
        let confirmed = confirmed.count();
        let arrived: Vec<_> = qp.sends.drain(..confirmed).collect();
        let failed = qp.sends.pop_front();
        for flight in arrived.iter().filter(|flight| flight.signaled) {
            self.complete(end, Side::Send, flight.serial, flight.wr_id, Outcome::Done { bytes: 0, imm: None });
        }
        if let Some(flight) = failed {
            self.complete(end, Side::Send, flight.serial, flight.wr_id, Outcome::Failed { status, vendor: 7 });
        }
        self.break_qp(end);
    }
}
