//! One-sided operations: each machine exposes one region, and its device carries out what peers ask for, all at once.

use std::format;
use std::vec::Vec;

use super::coverage::Fault;
use super::cq::Side;
use super::fabric::SimFabric;
use super::host::Phase;
use super::memory::{BufferName, DeviceMemory, touch};
use super::net::Wire;
use super::qp::{Flight, QpState};
use super::record;
use crate::fabric::{BufferMap, OneSidedOp, OneSidedWr, Outcome, PostError, WcStatus};
use crate::id::ConnId;
use crate::remote::{RemoteRegion, Rights};

/// A one-sided operation on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    op: OneSidedOp,
    addr: u64,
    key: u32,
    /// Where what it brings goes.
    pub(super) into: Option<BufferName>,
}

/// Where the exposed region of every machine begins.
const EXPOSED_AT: u64 = 0x10_0000;

impl SimFabric {
    /// One-sided operations are posted.
    pub(super) fn post_operations(&self, conn: ConnId, chain: &[OneSidedWr]) -> Result<(), PostError> {
        assert!(!chain.is_empty(), "a doorbell for nothing");
        let wire = &mut *self.net.wire();
        let end = wire.end_of(self.node, conn).expect("an operation was posted without an id");
        assert!(
            matches!(wire.ends[end].phase, Phase::Up | Phase::Accepted),
            "an operation on a connection that is not up"
        );
        let taken = wire.cut(chain.len());
        record::note(|| format!("{conn}: posts {} operations, {taken} are taken", chain.len()));
        for wr in &chain[..taken] {
            post(wire, &self.buffers, (self.node, end), wr);
        }
        wire.set_off(self.node, end);
        self.taken(wire, conn, "one-sided operation", taken, chain.len())
    }
}

fn post(wire: &mut Wire, buffers: &BufferMap, (node, end): (usize, usize), wr: &OneSidedWr) {
    let (slots, reads_max) = (wire.hosts[node].send_slots, wire.reads_max);
    let qp = wire.ends[end].qp.as_mut().expect("an operation was posted without a queue pair");
    let (serial, wr_id, len) = (qp.posted, wr.wr_id, wr.len);
    let lease = wr.buf.as_ref().expect("an operation was posted without a buffer");
    assert!(0 < len && len <= buffers.capacity(lease), "an operation beyond its buffer");
    let is_atomic = wr.op.needs() == Rights::ATOMIC;
    assert!(!is_atomic || (len == 8 && wr.addr.is_multiple_of(8)), "an atomic on no word");
    qp.posted += 1;
    assert!(qp.posted - qp.retired <= slots, "an operation was posted to a full queue: ENOMEM on a card");
    let buffer = BufferName { from: lease.from(), index: lease.index() };
    assert!(!qp.held_sends.iter().any(|(_, held)| *held == buffer), "{buffer:?} was posted twice");
    qp.held_sends.push_back((serial, buffer));
    if qp.state == QpState::Err {
        let outcome = Outcome::Failed { status: WcStatus::WR_FLUSH_ERR, vendor: 1 };
        return wire.complete(end, Side::Send, serial, wr_id, outcome);
    }
    let brings = wr.op.brings();
    let into = brings.then_some(buffer);
    qp.sends.push_back(Flight {
        serial,
        wr_id,
        buffer: (!brings).then_some(buffer),
        inline: wr.inline,
        payload: Vec::new(),
        len,
        imm: None,
        signaled: true,
        operation: Some(Operation { op: wr.op, addr: wr.addr, key: wr.key, into }),
    });
    qp.sends_fresh += 1;
    let reads = qp.sends.iter().filter(|flight| flight.operation.is_some_and(|operation| operation.into.is_some()));
    assert!(reads.count() as u32 <= reads_max, "more reads and atomics than the two devices agreed on");
}

impl Wire {
    /// The token of what `node` has exposed.
    ///
    /// # Panics
    /// It has exposed more than there is.
    pub fn exposed_by(&self, node: usize) -> RemoteRegion {
        let len = self.hosts[node].exposed.len() as u64;
        RemoteRegion::new(EXPOSED_AT, len, node as u32 + 1, Rights::ALL).expect("a region of a machine")
    }

    /// Whether the next send of `end` is an operation.
    pub(super) fn is_operation_next(&self, end: usize) -> bool {
        let qp = self.ends[end].qp.as_ref();
        qp.and_then(|qp| qp.sends.get(qp.arrived)).is_some_and(|flight| flight.operation.is_some())
    }

    /// The device of `peer` does what the oldest operation of `end` asks for, with `payload`, on `len` bytes. Or refuses.
    pub(super) fn carry_out(
        &mut self,
        end: usize,
        peer: usize,
        Operation { op, addr, key, .. }: Operation,
        (payload, len): (&[u8], usize),
    ) -> Option<WcStatus> {
        let node = self.ends[peer].node;
        let exposed = &mut self.hosts[node].exposed;
        let at = addr.checked_sub(EXPOSED_AT).map_or(usize::MAX, |at| at as usize);
        let place = exposed.get_mut(at..at.saturating_add(len)).filter(|_| key == node as u32 + 1);
        let Some(place) = place else {
            record::fault(Fault::AccessRefused);
            self.break_qp(peer);
            return Some(WcStatus::REM_ACCESS_ERR);
        };
        let before = Vec::from(&*place);
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        match op {
            OneSidedOp::Write => place.copy_from_slice(payload),
            OneSidedOp::Read => {}
            OneSidedOp::CompareSwap { expected, new } => {
                if word(place) == expected {
                    place.copy_from_slice(&new.to_ne_bytes());
                }
            }
            OneSidedOp::FetchAdd { add } => {
                let sum = word(place).wrapping_add(add);
                place.copy_from_slice(&sum.to_ne_bytes());
            }
        }
        record::note(|| format!("{op:?} of {len} bytes at {at} of node {node}"));
        let qp = self.ends[end].qp.as_mut().expect("it has just sent something");
        let flight = &mut qp.sends[qp.arrived - 1];
        flight.payload = if op.brings() { before } else { Vec::new() };
        None
    }

    /// What has arrived of `end` has also brought back what it was to: an answer to what came after it says so.
    pub(super) fn bring_all(&mut self, end: usize, memory: &mut dyn DeviceMemory) {
        let Some(qp) = &mut self.ends[end].qp else { return };
        let arrived = qp.arrived;
        let mut sends = std::mem::take(&mut qp.sends);
        for flight in sends.iter_mut().take(arrived) {
            self.bring(end, flight, memory);
            if let Some(operation) = &mut flight.operation {
                operation.into = None;
            }
        }
        if let Some(qp) = &mut self.ends[end].qp {
            qp.sends = sends;
        }
    }

    /// An operation of `end` is confirmed: what it brought is put into its buffer.
    pub(super) fn bring(&mut self, end: usize, flight: &Flight, memory: &mut dyn DeviceMemory) {
        let (node, Some(conn)) = (self.ends[end].node, self.ends[end].conn) else { return };
        if let Some(into) = flight.operation.and_then(|operation| operation.into) {
            touch(memory, (node, conn), into, |bytes| bytes[..flight.payload.len()].copy_from_slice(&flight.payload));
        }
    }
}
