//! One engine's data side, which asserts that nothing is posted that a device would refuse.

use std::format;
use std::vec::Vec;

use super::coverage::Fault;
use super::cq::Side;
use super::host::Phase;
use super::memory::BufferName;
use super::net::{Due, Net, Wire};
use super::qp::{Flight, QpState};
use super::record;
use super::witness::{Cause, EVENTS, FLUSH};
use crate::fabric::{Batch, BufferMap, Fabric, OneSidedWr, Outcome, PostError, RecvWr, SendWr, WcStatus};
use crate::id::ConnId;
use crate::pool::Direction;

/// One engine's data side.
#[derive(Debug)]
pub struct SimFabric {
    pub(super) net: Net,
    pub(super) node: usize,
    pub(super) buffers: BufferMap,
}

impl SimFabric {
    fn poll(&mut self, side: Side, out: &mut Batch) {
        let wire = &mut *self.net.wire();
        while !out.is_full() {
            let Some(completion) = wire.take_completion(self.node, side) else { break };
            out.push(completion).expect("it is not full");
        }
    }
}

impl Fabric for SimFabric {
    fn prepare(&mut self, buffers: &BufferMap) {
        self.buffers = *buffers;
    }

    fn poll_recv(&mut self, out: &mut Batch) {
        self.poll(Side::Recv, out);
    }

    fn poll_send(&mut self, out: &mut Batch) {
        self.poll(Side::Send, out);
    }

    fn post_recv(&mut self, conn: ConnId, chain: &[RecvWr]) -> Result<(), PostError> {
        let wire = &mut *self.net.wire();
        let end = wire.end_of(self.node, conn).expect("a receive was posted without an id");
        let taken = wire.cut(chain.len());
        record::note(|| format!("{conn}: posts {} receives, {taken} are taken", chain.len()));
        let disconnected = wire.ends[end].disconnected;
        let qp = wire.ends[end].qp.as_mut().expect("a receive was posted without a queue pair");
        assert!(qp.state != QpState::Err || !disconnected, "a receive was posted after disconnect");
        for wr in &chain[..taken] {
            let index = wr.wr_id().index();
            assert!(!qp.held_recvs.contains(&index), "receive buffer {index} was posted twice");
            qp.recvs.push_back((wr.wr_id(), index));
            qp.held_recvs.push(index);
        }
        qp.recvs_fresh += taken;
        assert!(qp.recvs.len() <= wire.hosts[self.node].recv_posted_max, "more receives than the queue has");
        wire.hosts[self.node].posted.push(end);
        self.taken(wire, conn, "receive", taken, chain.len())
    }

    fn post_send(&mut self, conn: ConnId, (first, second): (&[SendWr], &[SendWr])) -> Result<(), PostError> {
        assert!(!first.is_empty(), "a doorbell for nothing");
        let wire = &mut *self.net.wire();
        let end = wire.end_of(self.node, conn).expect("a send was posted without an id");
        assert!(matches!(wire.ends[end].phase, Phase::Up | Phase::Accepted), "a send on a connection that is not up");
        let count = first.len() + second.len();
        let taken = wire.cut(count);
        record::note(|| format!("{conn}: posts {count} sends, {taken} are taken"));
        for wr in first.iter().chain(second).take(taken) {
            self.send(wire, end, wr);
        }
        wire.set_off(self.node, end);
        self.taken(wire, conn, "send", taken, count)
    }

    fn post_one_sided(&mut self, conn: ConnId, chain: &[OneSidedWr]) -> Result<(), PostError> {
        self.post_operations(conn, chain)
    }

    fn reads_max(&self, _: ConnId) -> u32 {
        self.net.wire().reads_max
    }

    fn qp_num(&self, conn: ConnId) -> Option<u32> {
        let wire = self.net.wire();
        let end = wire.end_of(self.node, conn)?;
        wire.ends[end].qp.as_ref().map(|qp| qp.number)
    }
}

impl SimFabric {
    /// One send is posted.
    fn send(&self, wire: &mut Wire, end: usize, wr: &SendWr) {
        let slots = wire.hosts[self.node].send_slots;
        let qp = wire.ends[end].qp.as_mut().expect("a send was posted without a queue pair");
        assert!(wr.len <= wr.buf.as_ref().map_or(0, |buf| self.buffers.capacity(buf)), "a payload beyond its buffer");
        let (serial, wr_id) = (qp.posted, wr.wr_id);
        qp.posted += 1;
        assert!(qp.posted - qp.retired <= slots, "a send was posted to a full queue: ENOMEM on a card");
        let buffer = wr.buf.as_ref().map(|buf| BufferName { from: buf.from(), index: buf.index() });
        if let Some(buffer) = buffer {
            let twice = qp.held_sends.iter().any(|(_, held)| *held == buffer)
                || (buffer.from == Direction::Recv && qp.held_recvs.contains(&buffer.index));
            assert!(!twice, "{buffer:?} was posted twice");
            qp.held_sends.push_back((serial, buffer));
        }
        if qp.state == QpState::Err {
            let outcome = Outcome::Failed { status: WcStatus::WR_FLUSH_ERR, vendor: 1 };
            return wire.complete(end, Side::Send, serial, wr_id, outcome);
        }
        qp.sends.push_back(Flight {
            serial,
            wr_id,
            buffer: buffer.filter(|_| wr.len > 0),
            inline: self.buffers.is_inline(wr.len),
            payload: Vec::new(),
            len: wr.len,
            imm: wr.imm,
            signaled: wr.signaled,
            operation: None,
        });
        qp.sends_fresh += 1;
    }

    pub(super) fn taken(
        &self,
        wire: &mut Wire,
        conn: ConnId,
        what: &'static str,
        taken: usize,
        of: usize,
    ) -> Result<(), PostError> {
        if taken == of {
            return Ok(());
        }
        // An answer may be posted as soon as its message was handled, before the events of the turn are seen.
        let step = Some(wire.hosts[self.node].step).filter(|&step| step < EVENTS).unwrap_or(FLUSH);
        wire.saw(self.node, conn, step, Cause::Post(what));
        Err(PostError { taken: taken as u32, errno: 12 })
    }
}

impl Wire {
    /// Something was posted on `end`: the next of it is on its way, if nothing is yet.
    pub(super) fn set_off(&mut self, node: usize, end: usize) {
        self.hosts[node].posted.push(end);
        let delay = self.hop();
        if let Some(qp) = self.ends[end].qp.as_mut().filter(|qp| !qp.moving && qp.state == QpState::Rts) {
            qp.moving = true;
            self.after(delay, Due::Arrive(end));
        }
    }

    /// How many of a chain of `count` are taken: all, or fewer by way of the faults.
    pub(super) fn cut(&mut self, count: usize) -> usize {
        if !self.random.chance(self.faults.posts_fail) {
            return count;
        }
        record::fault(Fault::PostCut);
        self.random.below(count as u64) as usize
    }
}
