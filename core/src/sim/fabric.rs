//! One engine's data side, which asserts that nothing is posted that a device would refuse.

use std::vec::Vec;

use super::host::Phase;
use super::memory::BufferName;
use super::net::{Due, Net};
use super::qp::{Cqe, Flight, QpState};
use crate::fabric::{Batch, Completion, Fabric, Outcome, PostError, RecvWr, SendWr, WcStatus};
use crate::id::ConnId;

/// One engine's data side.
#[derive(Debug)]
pub struct SimFabric {
    pub(super) net: Net,
    pub(super) node: usize,
}

impl Fabric for SimFabric {
    fn poll_recv(&mut self, out: &mut Batch) {
        let wire = &mut *self.net.wire();
        while !out.is_full() {
            let Some(cqe) = wire.hosts[self.node].recv_cq.pop_front() else { break };
            out.push(cqe.completion).expect("it is not full");
        }
    }

    fn poll_send(&mut self, out: &mut Batch) {
        let wire = &mut *self.net.wire();
        while !out.is_full() {
            let Some(cqe) = wire.hosts[self.node].send_cq.pop_front() else { break };
            if let Some(qp) = wire.ends[cqe.end].qp.as_mut().filter(|qp| qp.number == cqe.completion.qp_num) {
                qp.retired = qp.retired.max(cqe.serial + 1);
            }
            out.push(cqe.completion).expect("it is not full");
        }
    }

    fn post_recv(&mut self, conn: ConnId, chain: &[RecvWr]) -> Result<(), PostError> {
        let wire = &mut *self.net.wire();
        let end = wire.end_of(self.node, conn).expect("a receive was posted without an id");
        let fails = wire.faults.posts_fail;
        let taken =
            if wire.random.chance(fails) { wire.random.below(chain.len() as u64) as usize } else { chain.len() };
        let disconnected = wire.ends[end].disconnected;
        let qp = wire.ends[end].qp.as_mut().expect("a receive was posted without a queue pair");
        assert!(qp.state != QpState::Err || !disconnected, "a receive was posted after disconnect");
        qp.recvs.extend(chain[..taken].iter().map(|wr| (wr.wr_id, wr.buf.index())));
        qp.recvs_fresh += taken;
        assert!(qp.recvs.len() <= wire.hosts[self.node].recv_posted_max, "more receives than the queue has");
        wire.hosts[self.node].posted.push(end);
        if taken < chain.len() { Err(PostError { taken: taken as u32, errno: 12 }) } else { Ok(()) }
    }

    fn post_send(&mut self, conn: ConnId, (first, second): (&[SendWr], &[SendWr])) -> Result<(), PostError> {
        assert!(!first.is_empty(), "a doorbell for nothing");
        let wire = &mut *self.net.wire();
        let end = wire.end_of(self.node, conn).expect("a send was posted without an id");
        assert!(matches!(wire.ends[end].phase, Phase::Up | Phase::Accepted), "a send on a connection that is not up");
        let (fails, count) = (wire.faults.posts_fail, first.len() + second.len());
        let taken = if wire.random.chance(fails) { wire.random.below(count as u64) as usize } else { count };
        let slots = wire.hosts[self.node].send_slots;
        let qp = wire.ends[end].qp.as_mut().expect("a send was posted without a queue pair");
        for wr in first.iter().chain(second).take(taken) {
            assert!(wr.len <= wr.buf.as_ref().map_or(0, |buf| buf.capacity()), "a payload beyond its buffer");
            let serial = qp.posted;
            qp.posted += 1;
            assert!(qp.posted - qp.retired <= slots, "a send was posted to a full queue: ENOMEM on a card");
            if qp.state == QpState::Err {
                let outcome = Outcome::Failed { status: WcStatus::WR_FLUSH_ERR, vendor: 1 };
                let completion = Completion { wr_id: wr.wr_id, qp_num: qp.number, outcome };
                wire.hosts[self.node].send_cq.push_back(Cqe { end, serial, completion });
                continue;
            }
            let buffer = wr.buf.as_ref().map(|buf| BufferName { from: buf.from(), index: buf.index() });
            qp.sends.push_back(Flight {
                serial,
                wr_id: wr.wr_id,
                buffer: buffer.filter(|_| wr.len > 0),
                inline: wr.inline,
                payload: Vec::new(),
                len: wr.len,
                imm: wr.imm,
                signaled: wr.signaled,
            });
            qp.sends_fresh += 1;
        }
        wire.hosts[self.node].posted.push(end);
        let most = wire.faults.latency;
        let delay = 1 + wire.random.below(most);
        if let Some(qp) = wire.ends[end].qp.as_mut().filter(|qp| !qp.moving && qp.state == QpState::Rts) {
            qp.moving = true;
            wire.after(delay, Due::Arrive(end));
        }
        if taken < count { Err(PostError { taken: taken as u32, errno: 12 }) } else { Ok(()) }
    }

    fn qp_num(&self, conn: ConnId) -> Option<u32> {
        let wire = self.net.wire();
        let end = wire.end_of(self.node, conn)?;
        wire.ends[end].qp.as_ref().map(|qp| qp.number)
    }
}
