//! Messages on the wire: reliable, in order, into posted receives or not at all.

use super::MS;
use super::coverage::Fault;
use super::cq::Side;
use super::memory::{BufferName, DeviceMemory, touch};
use super::net::{Due, Wire};
use super::qp::QpState;
use super::record;
use crate::conn::{Imm, MessageKind};
use crate::fabric::{Outcome, WcStatus};
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
        if self.random.chance(self.faults.messages_lost) {
            record::fault(Fault::MessageLost);
            return self.try_again(end, attempts, ACK_WAIT, WcStatus::RETRY_EXC_ERR);
        }
        let operates = self.is_operation_next(end);
        if !operates && self.random.chance(self.faults.receivers_not_ready) {
            record::fault(Fault::ReceiverNotReady);
            return self.try_again(end, attempts, RNR_WAIT, WcStatus::RNR_RETRY_EXC_ERR);
        }
        let ready = peer.filter(|&peer| !self.ends[peer].gone).and_then(|peer| self.ends[peer].qp.as_ref());
        match ready.map(|qp| (qp.state, qp.recvs.is_empty())) {
            Some((QpState::Rts, no_receive)) if operates || !no_receive => {}
            Some((QpState::Init, _)) if attempts < 100 => return self.after(100_000, Due::Arrive(end)),
            Some((QpState::Rts, _)) => {
                let hostile = self.ends[end].hostile || peer.is_some_and(|peer| self.ends[peer].hostile);
                assert!(self.raw || hostile, "a message was sent to a receive that is not there");
                record::fault(Fault::ReceiverNotReady);
                return self.try_again(end, attempts, RNR_WAIT, WcStatus::RNR_RETRY_EXC_ERR);
            }
            _ => return self.try_again(end, attempts, ACK_WAIT, WcStatus::RETRY_EXC_ERR),
        }
        let qp = self.ends[end].qp.as_mut().expect("checked above");
        qp.attempts = 0;
        let flight = &mut qp.sends[qp.arrived];
        qp.arrived += 1;
        let (serial, imm, len) = (flight.serial, flight.imm, flight.len as usize);
        let operation = flight.operation;
        let payload = match flight.buffer.zip(conn) {
            Some((buffer, conn)) => touch(memory, (node, conn), buffer, |bytes| bytes[..len].to_vec()),
            None => std::mem::take(&mut flight.payload),
        };
        let peer = peer.expect("checked above");
        let refused = match operation {
            Some(operation) => self.carry_out(end, peer, operation, (&payload, len)),
            None => (!self.put(peer, &payload, payload.len() as u32, imm, memory)).then_some(WcStatus(9)),
        };
        if let Some(status) = refused {
            self.ends[end].qp.as_mut().expect("checked above").arrived -= 1;
            self.bring_all(end, memory);
            return self.fail_send(end, status);
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

    /// A send did not get through: it is sent again after `wait` nanoseconds or, after too many tries, fails.
    fn try_again(&mut self, end: usize, attempts: u32, wait: u64, status: WcStatus) {
        let no_receive = status == WcStatus::RNR_RETRY_EXC_ERR;
        if attempts <= RETRIES || (self.tries_for_ever && !no_receive) {
            return self.after(wait, Due::Arrive(end));
        }
        record::fault(if no_receive { Fault::RnrExceeded } else { Fault::RetriesExceeded });
        self.fail_send(end, status);
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
        // Half of them take the oldest, as a device does, the others the newest, as shared memory does.
        let taken = if end.is_multiple_of(2) { qp.recvs.pop_front() } else { qp.recvs.pop_back() };
        let (wr_id, index) = taken.expect("a posted receive");
        let mut room = 0;
        let fits = touch(memory, (node, conn), BufferName { from: Direction::Recv, index }, |bytes| {
            room = bytes.len();
            bytes.get_mut(..payload.len()).map(|bytes| bytes.copy_from_slice(payload)).is_some()
        });
        if !fits {
            record::fault(Fault::MessageTooLong);
            let outcome = Outcome::Failed { status: WcStatus::LOC_LEN_ERR, vendor: 9 };
            self.complete(end, Side::Recv, 0, wr_id, outcome);
            self.break_qp(end);
            return false;
        }
        let kind = if self.raw { Some(MessageKind::Data) } else { imm.and_then(Imm::from_bits).map(|imm| imm.kind) };
        let believed = match kind {
            Some(MessageKind::Data) => claimed as usize <= room,
            Some(MessageKind::WriteImm) => claimed == 4,
            Some(_) => claimed == 0,
            None => false,
        };
        if !believed {
            self.ends[end].lies.push(wr_id);
        }
        record::note(|| std::format!("{conn}: {} bytes arrive, {kind:?}, immediate data {imm:x?}", payload.len()));
        self.ends[end].arrived += u64::from(matches!(kind, Some(MessageKind::Data | MessageKind::WriteImm)));
        self.ends[end].goodbye |= kind == Some(MessageKind::Goodbye);
        self.complete(end, Side::Recv, 0, wr_id, Outcome::Done { bytes: claimed, imm });
        true
    }

    /// The sender learns that a send arrived.
    pub(super) fn acknowledge(&mut self, end: usize, serial: u64, memory: &mut dyn DeviceMemory) {
        let Some(qp) = &mut self.ends[end].qp else { return };
        // In the error state it comes back flushed, although it arrived.
        if qp.state != QpState::Rts || qp.sends.front().is_none_or(|flight| flight.serial != serial) {
            return;
        }
        let flight = qp.sends.pop_front().expect("just seen");
        qp.arrived -= 1;
        self.bring(end, &flight, memory);
        if flight.signaled {
            self.complete(end, Side::Send, serial, flight.wr_id, Outcome::Done { bytes: 0, imm: None });
        }
    }
}
