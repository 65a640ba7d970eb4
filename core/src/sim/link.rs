//! Messages on the wire: reliable, in order, into posted receives or not at all.

use super::MS;
use super::memory::{BufferName, DeviceMemory, touch};
use super::net::{Due, Wire};
use super::qp::{Cqe, QpState};
use crate::conn::{Imm, MessageKind};
use crate::fabric::{Completion, Outcome, WcStatus};
use crate::pool::Direction;

/// Retries of a sender that hears nothing, or that finds no receive.
const RETRIES: u32 = 6;
/// Between two tries when there is no receive, in nanoseconds.
const RNR_WAIT: u64 = 640_000;
/// Between two tries when nobody answers, in nanoseconds.
const ACK_WAIT: u64 = 60 * MS;

impl Wire {
    /// The next send of `end` reaches the far side, and is taken or not.
    pub(super) fn arrive(&mut self, end: usize, memory: &mut dyn DeviceMemory) {
        let (node, conn, peer) = (self.ends[end].node, self.ends[end].conn, self.ends[end].peer);
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
        let (serial, imm, len) = (flight.serial, flight.imm, flight.len as usize);
        let payload = match flight.buffer.zip(conn) {
            Some((buffer, conn)) => touch(memory, (node, conn), buffer, |bytes| bytes[..len].to_vec()),
            None => std::mem::take(&mut flight.payload),
        };
        let peer = peer.expect("checked above");
        if !self.put(peer, &payload, payload.len() as u32, imm, memory) {
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
    ///
    /// # Panics
    /// There is no receive.
    pub fn put(
        &mut self,
        end: usize,
        payload: &[u8],
        claimed: u32,
        imm: Option<u32>,
        memory: &mut dyn DeviceMemory,
    ) -> bool {
        let (node, conn) = (self.ends[end].node, self.ends[end].conn.expect("a queue pair has an owner"));
        let qp = self.ends[end].qp.as_mut().expect("a queue pair");
        let (wr_id, index) = qp.recvs.pop_front().expect("a posted receive");
        let qp_num = qp.number;
        let fits = touch(memory, (node, conn), BufferName { from: Direction::Recv, index }, |bytes| {
            bytes.get_mut(..payload.len()).map(|bytes| bytes.copy_from_slice(payload)).is_some()
        });
        if !fits {
            let outcome = Outcome::Failed { status: WcStatus::LOC_LEN_ERR, vendor: 9 };
            let completion = Completion { wr_id, qp_num, outcome };
            self.hosts[node].recv_cq.push_back(Cqe { end, serial: 0, completion });
            self.break_qp(end);
            return false;
        }
        let is_data = self.raw || imm.and_then(Imm::from_bits).is_some_and(|imm| imm.kind == MessageKind::Data);
        self.ends[end].arrived += u64::from(is_data);
        let completion = Completion { wr_id, qp_num, outcome: Outcome::Done { bytes: claimed, imm } };
        self.hosts[node].recv_cq.push_back(Cqe { end, serial: 0, completion });
        true
    }

    /// The sender learns that a send arrived.
    pub(super) fn acknowledge(&mut self, end: usize, serial: u64) {
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
