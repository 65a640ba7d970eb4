//! The queue pairs of the fake network: reliable, in order, into posted receives or not at all.
//!
//! Payload that is not inline is read from the sender's memory when it arrives, and a posted receive is filled with
//! rubbish at once: a buffer that is touched while the device has it does not go unnoticed.

use std::collections::VecDeque;

use spinwire_core::conn::{Imm, MessageKind};
use spinwire_core::fabric::{Batch, Completion, Fabric, Outcome, PostError, RecvWr, SendWr, WcStatus};
use spinwire_core::id::{ConnId, WorkId, WorkKind};

use super::MS;
use super::net::{Due, Net, Phase, Wire};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpState {
    Init,
    Rts,
    Err,
}

#[derive(Debug)]
pub struct Qp {
    pub number: u32,
    pub state: QpState,
    pub recvs: VecDeque<(WorkId, usize, u32)>,
    pub sends: VecDeque<Flight>,
    /// Of `sends`, how many have arrived and wait for their acknowledgement.
    pub arrived: usize,
    /// Sends posted, and sends a polled completion has retired.
    pub posted: u64,
    pub retired: u64,
    pub attempts: u32,
    /// The arrival of the next send is scheduled.
    pub moving: bool,
    pub acked_at: u64,
}

impl Qp {
    pub fn new(number: u32) -> Self {
        Self {
            number,
            state: QpState::Init,
            recvs: VecDeque::new(),
            sends: VecDeque::new(),
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
    pub serial: u64,
    pub wr_id: WorkId,
    pub inline: Option<Vec<u8>>,
    pub offset: usize,
    pub len: u32,
    pub imm: Option<u32>,
    pub signaled: bool,
}

/// A completion in a queue.
#[derive(Clone, Debug)]
pub struct Cqe {
    pub end: usize,
    pub serial: u64,
    pub completion: Completion,
}

impl Net {
    /// Flushed receives of a connection that is no more, as some devices leave them in the queue.
    pub fn leave_behind(&self, node: usize, conn: ConnId, count: usize) {
        let wr_id = WorkId::new(conn, WorkKind::Recv, 0);
        let outcome = Outcome::Failed { status: WcStatus::WR_FLUSH_ERR, vendor: 0 };
        let cqe = Cqe { end: usize::MAX, serial: 0, completion: Completion { wr_id, qp_num: 0, outcome } };
        self.0.borrow_mut().hosts[node].recv_cq.extend(core::iter::repeat_n(cqe, count));
    }
}

/// One engine's data side.
#[derive(Debug)]
pub struct SimFabric {
    pub net: Net,
    pub node: usize,
}

/// Retries of a sender that hears nothing, or that finds no receive.
const RETRIES: u32 = 6;
const RNR_WAIT: u64 = 640_000;
const ACK_WAIT: u64 = 60 * MS;

impl Wire {
    fn memory(&self, node: usize, offset: usize, len: usize) -> *mut u8 {
        let host = &self.hosts[node];
        assert!(offset + len <= host.bytes, "outside the registered region");
        // SAFETY: within the region, as just checked; the region outlives the net (both belong to one test).
        unsafe { host.base.add(offset) }
    }

    pub fn read(&self, node: usize, offset: usize, len: usize) -> Vec<u8> {
        // SAFETY: `memory` has checked the range. The engine has lent the buffer and so does not write it; a byte is
        // valid whatever it is, and no reference to these bytes lives while one thread runs here.
        unsafe { std::slice::from_raw_parts(self.memory(node, offset, len), len) }.to_vec()
    }

    pub fn write(&self, node: usize, offset: usize, bytes: &[u8]) {
        let to = self.memory(node, offset, bytes.len());
        // SAFETY: as in `read`, for a posted receive: the device may write it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

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

    pub fn flush(&mut self, end: usize) {
        let node = self.ends[end].node;
        let Some(qp) = &mut self.ends[end].qp else { return };
        let outcome = Outcome::Failed { status: WcStatus::WR_FLUSH_ERR, vendor: 0xdead };
        let number = qp.number;
        let host = &mut self.hosts[node];
        for flight in qp.sends.drain(..) {
            let completion = Completion { wr_id: flight.wr_id, qp_num: number, outcome };
            host.send_cq.push_back(Cqe { end, serial: flight.serial, completion });
        }
        for (wr_id, ..) in qp.recvs.drain(..) {
            host.recv_cq.push_back(Cqe { end, serial: 0, completion: Completion { wr_id, qp_num: number, outcome } });
        }
        qp.arrived = 0;
    }

    /// The oldest send fails: its completion says why, the rest is flushed.
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

    /// The next send of `end` reaches the far side, and is taken or not.
    pub fn arrive(&mut self, end: usize) {
        let (node, peer) = (self.ends[end].node, self.ends[end].peer);
        let Some(qp) = &mut self.ends[end].qp else { return };
        qp.moving = false;
        if qp.state != QpState::Rts || qp.arrived >= qp.sends.len() {
            return;
        }
        qp.attempts += 1;
        let attempts = qp.attempts;
        qp.moving = true;
        let ready = peer.filter(|&peer| !self.ends[peer].gone).and_then(|peer| self.ends[peer].qp.as_ref());
        match ready.map(|qp| (qp.state, qp.recvs.is_empty())) {
            Some((QpState::Rts, false)) => {}
            Some((QpState::Init, _)) if attempts < 100 => return self.after(100_000, Due::Arrive(end)),
            Some((QpState::Rts, true)) => {
                let hostile = self.ends[end].hostile || peer.is_some_and(|peer| self.ends[peer].hostile);
                assert!(self.raw || hostile, "a message was sent to a receive that is not there");
                if attempts > RETRIES {
                    return self.fail_send(end, WcStatus::RNR_RETRY_EXC_ERR);
                }
                return self.after(RNR_WAIT, Due::Arrive(end));
            }
            _ if attempts > RETRIES && !self.tries_for_ever => return self.fail_send(end, WcStatus::RETRY_EXC_ERR),
            _ => return self.after(ACK_WAIT, Due::Arrive(end)),
        }
        let qp = self.ends[end].qp.as_mut().expect("checked above");
        qp.attempts = 0;
        let flight = &mut qp.sends[qp.arrived];
        qp.arrived += 1;
        let (serial, imm, offset, len, inline) =
            (flight.serial, flight.imm, flight.offset, flight.len, flight.inline.take());
        let payload = inline.unwrap_or_else(|| self.read(node, offset, len as usize));
        let peer = peer.expect("checked above");
        if !self.put(peer, &payload, payload.len() as u32, imm) {
            self.ends[end].qp.as_mut().expect("checked above").arrived -= 1;
            return self.fail_send(end, WcStatus(9));
        }
        let (now, most, wire) = (self.now, self.faults.ack_latency, self.faults.latency);
        let ack = now + 1 + self.random.below(most);
        let next = 1 + self.random.below(wire / 4);
        let qp = self.ends[end].qp.as_mut().expect("checked above");
        qp.acked_at = qp.acked_at.max(ack);
        let wait = qp.acked_at - now;
        self.after(wait, Due::Ack(end, serial));
        self.after(next, Due::Arrive(end));
    }

    /// Puts a message into the next receive of `end` and claims that it had `claimed` bytes. `false`: too long for it.
    pub fn put(&mut self, end: usize, payload: &[u8], claimed: u32, imm: Option<u32>) -> bool {
        let node = self.ends[end].node;
        let qp = self.ends[end].qp.as_mut().expect("a queue pair");
        let (wr_id, offset, capacity) = qp.recvs.pop_front().expect("a posted receive");
        let qp_num = qp.number;
        if payload.len() > capacity as usize {
            let outcome = Outcome::Failed { status: WcStatus::LOC_LEN_ERR, vendor: 9 };
            let completion = Completion { wr_id, qp_num, outcome };
            self.hosts[node].recv_cq.push_back(Cqe { end, serial: 0, completion });
            self.break_qp(end);
            return false;
        }
        self.write(node, offset, payload);
        let is_data = self.raw || imm.and_then(Imm::from_bits).is_some_and(|imm| imm.kind == MessageKind::Data);
        self.ends[end].arrived += u64::from(is_data);
        let completion = Completion { wr_id, qp_num, outcome: Outcome::Done { bytes: claimed, imm } };
        self.hosts[node].recv_cq.push_back(Cqe { end, serial: 0, completion });
        true
    }

    pub fn acknowledge(&mut self, end: usize, serial: u64) {
        let node = self.ends[end].node;
        let Some(qp) = &mut self.ends[end].qp else { return };
        // In the error state it comes back flushed, although it arrived.
        if qp.state != QpState::Rts || qp.sends.front().is_none_or(|flight| flight.serial != serial) {
            return;
        }
        let flight = qp.sends.pop_front().expect("just seen");
        qp.arrived -= 1;
        if flight.signaled {
            let outcome = Outcome::Done { bytes: 0, imm: None };
            let completion = Completion { wr_id: flight.wr_id, qp_num: qp.number, outcome };
            self.hosts[node].send_cq.push_back(Cqe { end, serial, completion });
        }
    }
}

impl Fabric for SimFabric {
    fn poll_recv(&mut self, out: &mut Batch) {
        let wire = &mut *self.net.0.borrow_mut();
        while !out.is_full() {
            let Some(cqe) = wire.hosts[self.node].recv_cq.pop_front() else { break };
            out.push(cqe.completion).unwrap();
        }
    }

    fn poll_send(&mut self, out: &mut Batch) {
        let wire = &mut *self.net.0.borrow_mut();
        while !out.is_full() {
            let Some(cqe) = wire.hosts[self.node].send_cq.pop_front() else { break };
            if let Some(qp) = wire.ends[cqe.end].qp.as_mut().filter(|qp| qp.number == cqe.completion.qp_num) {
                qp.retired = qp.retired.max(cqe.serial + 1);
            }
            out.push(cqe.completion).unwrap();
        }
    }

    fn post_recv(&mut self, conn: ConnId, chain: &[RecvWr]) -> Result<(), PostError> {
        let wire = &mut *self.net.0.borrow_mut();
        let end = wire.hosts[self.node].conns[&conn.to_bits()];
        let fails = wire.faults.posts_fail;
        let taken =
            if wire.random.chance(fails) { wire.random.below(chain.len() as u64) as usize } else { chain.len() };
        for wr in &chain[..taken] {
            wire.write(self.node, wr.buf.offset() as usize, &vec![0xdb; wr.buf.capacity() as usize]);
            let qp = wire.ends[end].qp.as_mut().expect("a receive was posted without a queue pair");
            assert!(qp.state != QpState::Err || !wire.ends[end].disconnected, "a receive was posted after disconnect");
            let qp = wire.ends[end].qp.as_mut().expect("as before");
            qp.recvs.push_back((wr.wr_id, wr.buf.offset() as usize, wr.buf.capacity()));
            assert!(qp.recvs.len() <= wire.hosts[self.node].recv_posted_max, "more receives than the queue has");
        }
        if taken < chain.len() { Err(PostError { taken: taken as u32, errno: 12 }) } else { Ok(()) }
    }

    fn post_send(&mut self, conn: ConnId, (first, second): (&[SendWr], &[SendWr])) -> Result<(), PostError> {
        assert!(!first.is_empty(), "a doorbell for nothing");
        let wire = &mut *self.net.0.borrow_mut();
        let end = wire.hosts[self.node].conns[&conn.to_bits()];
        assert!(matches!(wire.ends[end].phase, Phase::Up | Phase::Accepted), "a send on a connection that is not up");
        let (fails, count) = (wire.faults.posts_fail, first.len() + second.len());
        let taken = if wire.random.chance(fails) { wire.random.below(count as u64) as usize } else { count };
        for wr in first.iter().chain(second).take(taken) {
            let offset = wr.buf.as_ref().map_or(0, |buf| buf.offset() as usize);
            assert!(wr.len <= wr.buf.as_ref().map_or(0, |buf| buf.capacity()));
            let inline = (wr.inline || wr.len == 0).then(|| wire.read(self.node, offset, wr.len as usize));
            let (slots, qp) = (wire.hosts[self.node].send_slots, wire.ends[end].qp.as_mut().expect("a queue pair"));
            let (serial, wr_id) = (qp.posted, wr.wr_id);
            let flight = Flight { serial, wr_id, inline, offset, len: wr.len, imm: wr.imm, signaled: wr.signaled };
            qp.posted += 1;
            assert!(qp.posted - qp.retired <= slots, "a send was posted to a full queue: ENOMEM on a card");
            if qp.state == QpState::Err {
                let outcome = Outcome::Failed { status: WcStatus::WR_FLUSH_ERR, vendor: 1 };
                let completion = Completion { wr_id, qp_num: qp.number, outcome };
                wire.hosts[self.node].send_cq.push_back(Cqe { end, serial, completion });
                continue;
            }
            qp.sends.push_back(flight);
        }
        let most = wire.faults.latency;
        let delay = 1 + wire.random.below(most);
        if let Some(qp) = wire.ends[end].qp.as_mut().filter(|qp| !qp.moving && qp.state == QpState::Rts) {
            qp.moving = true;
            wire.after(delay, Due::Arrive(end));
        }
        if taken < count { Err(PostError { taken: taken as u32, errno: 12 }) } else { Ok(()) }
    }

    fn qp_num(&self, conn: ConnId) -> Option<u32> {
        let wire = self.net.0.borrow();
        let end = wire.hosts[self.node].conns.get(&conn.to_bits())?;
        wire.ends[*end].qp.as_ref().map(|qp| qp.number)
    }
}
