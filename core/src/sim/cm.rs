//! The connection manager of the network: how events come about, and what the kernel does with requests.

use std::boxed::Box;

use super::MS;
use super::coverage::Fault;
use super::faults::Faults;
use super::host::{End, Phase};
use super::net::{Due, Wire};
use super::qp::QpState;
use super::record;
use crate::cm::event::{CmEvent, CmEventKind, PrivateData, Target};
use crate::id::{ListenerId, RequestId};

/// An event without private data. Its target is filled in when it is shown.
pub fn bare(kind: CmEventKind, status: i32) -> CmEvent {
    CmEvent { target: Target::Device, kind, status, private_data: PrivateData::new(), peer: None }
}

/// Private data as it arrives: zero-padded.
pub(super) fn padded(data: &[u8], len: usize) -> PrivateData {
    let mut out = PrivateData::from_slice(data).expect("at most 196 bytes");
    out.resize(len, 0).expect("at most 196 bytes");
    out
}

impl Wire {
    /// An event reaches its machine's queue, if there is anybody to take it.
    pub(super) fn show(&mut self, node: usize, mut event: CmEvent, end: Option<usize>) {
        let gone = end.is_some_and(|end| self.ends[end].gone);
        if self.hosts[node].dead || (gone && !self.faults.stale_events) {
            return;
        }
        if let (Some(end), false) = (end, matches!(event.target, Target::Request(..))) {
            // An id nobody has adopted: its events have no owner yet.
            let Some(conn) = self.ends[end].conn else { return };
            event.target = Target::Conn(conn);
        }
        if let Some(end) = end.filter(|&end| self.faults.fetched_early && !self.ends[end].gone) {
            self.fetched(event.kind, end);
        }
        self.hosts[node].events.push_back((event, end));
    }

    /// An event for `end`, by way of the faults.
    pub(super) fn tell(&mut self, end: usize, delay: u64, event: CmEvent) {
        let Faults { events_late, events_missing, events_doubled, .. } = self.faults;
        let node = self.ends[end].node;
        if self.random.chance(events_missing) || self.lost.contains(&(node, event.kind)) {
            return record::fault(Fault::EventLost);
        }
        let late = if self.random.chance(events_late) { self.random.below(200 * MS) } else { 0 };
        if late > 0 {
            record::fault(Fault::EventLate);
        }
        if self.random.chance(events_doubled) && !matches!(event.target, Target::Request(..)) {
            record::fault(Fault::EventDoubled);
            let again = self.random.below(MS);
            self.after(delay + late + again, Due::Event(node, Box::new(event.clone()), Some(end)));
        }
        self.after(delay + late, Due::Event(node, Box::new(event), Some(end)));
    }

    /// Private data from `end` as the far side gets it: zero-padded, and changed by way of the faults.
    pub(super) fn private_data(&mut self, end: usize, data: &[u8], len: usize) -> PrivateData {
        let mut out = padded(data, len);
        if !self.random.chance(self.faults.private_data_forged) {
            return out;
        }
        record::fault(Fault::PrivateDataForged);
        for end in [Some(end), self.ends[end].peer].into_iter().flatten() {
            self.ends[end].hostile = true;
            self.ends[end].misled = true;
        }
        let before = out.clone();
        match self.random.below(5) {
            0 => out.clear(),
            1 => out.truncate(self.random.below(16) as usize),
            2 => out[self.random.below(4) as usize] ^= 1 << self.random.below(8),
            3 => out[4] = self.random.next() as u8,
            // Version, kind, length, or a number.
            _ => out[4 + self.random.below(12) as usize] = self.random.next() as u8,
        }
        // Without magic, version and kind there is no telling what the rest would mean.
        if out.get(..6) != before.get(..6)
            && let Some(peer) = self.ends[end].peer
        {
            self.ends[peer].unreadable = true;
        }
        out
    }

    /// An event for the far side of `end`, after a hop.
    pub(super) fn tell_peer(&mut self, end: usize, event: CmEvent) {
        let Some(peer) = self.ends[end].peer else { return };
        if !self.ends[peer].gone {
            let delay = self.hop();
            self.tell(peer, delay, event);
        }
    }

    /// The id goes, or its program does: the kernel tells the far side.
    pub(super) fn say_goodbye(&mut self, end: usize) {
        match self.ends[end].phase {
            Phase::Requested | Phase::Adopted => {
                let event = CmEvent { private_data: padded(&[], 148), ..bare(CmEventKind::Rejected, 28) };
                self.tell_peer(end, event);
            }
            Phase::Accepted | Phase::Up => self.tell_peer(end, bare(CmEventKind::Disconnected, 0)),
            _ => {}
        }
        self.ends[end].phase = Phase::Down;
    }

    /// A new id on `node`.
    pub(super) fn new_end(&mut self, node: usize, phase: Phase, target: usize) -> usize {
        self.ends.push(End::new(node, phase, target));
        self.ends.len() - 1
    }

    /// rdma_connect: the request travels, or is refused by the far kernel.
    pub(super) fn connect(&mut self, end: usize, data: &[u8]) {
        assert!(data.len() <= 56, "connect with {} bytes of private data is EINVAL", data.len());
        let target = self.ends[end].target;
        let delay = self.hop();
        let host = &self.hosts[target];
        if host.dead {
            return;
        }
        if !host.listening {
            return self.tell(end, delay, CmEvent { private_data: padded(&[], 148), ..bare(CmEventKind::Rejected, 8) });
        }
        let asked = self.new_end(target, Phase::Requested, self.ends[end].node);
        self.ends[asked].peer = Some(end);
        self.ends[end].peer = Some(asked);
        let event = CmEvent {
            target: Target::Request(ListenerId(0), RequestId(asked as u32)),
            private_data: self.private_data(end, data, 56),
            ..bare(CmEventKind::ConnectRequest, 0)
        };
        self.tell(asked, delay, event);
    }

    /// rdma_accept.
    pub(super) fn accept(&mut self, end: usize, data: &[u8]) {
        assert!(data.len() <= 196, "accept with {} bytes of private data is EINVAL", data.len());
        self.ends[end].phase = Phase::Accepted;
        self.hosts[self.ends[end].node].accepted += 1;
        self.ready(end);
        let peer = self.ends[end].peer.expect("a request has a peer");
        if self.ends[peer].gone || self.ends[peer].phase != Phase::Connecting {
            let delay = self.hop();
            self.tell(end, delay, bare(CmEventKind::Rejected, 28));
        } else {
            let private_data = self.private_data(end, data, 196);
            self.tell_peer(end, CmEvent { private_data, ..bare(CmEventKind::Established, 0) });
        }
    }

    /// The library moves a queue pair that is not broken to the state in which it sends and receives.
    fn ready(&mut self, end: usize) {
        if let Some(qp) = self.ends[end].qp.as_mut().filter(|qp| qp.state == QpState::Init) {
            qp.state = QpState::Rts;
        }
    }

    /// rdma_disconnect.
    pub(super) fn disconnect(&mut self, end: usize) {
        assert!(!self.ends[end].disconnected, "disconnected twice");
        self.ends[end].disconnected = true;
        self.ends[end].phase = Phase::Down;
        self.break_qp(end);
        self.tell_peer(end, bare(CmEventKind::Disconnected, 0));
        if self.ends[end].peer.is_some_and(|peer| self.ends[peer].disconnected) {
            for end in [Some(end), self.ends[end].peer].into_iter().flatten() {
                self.tell(end, 2 * MS, bare(CmEventKind::Disconnected, 0));
                self.tell(end, 2_200 * MS, bare(CmEventKind::TimewaitExit, 0));
            }
        }
    }

    /// The program takes an event, or a thread of its own does so for it: the library moves the queue pair on the way.
    pub(super) fn fetched(&mut self, kind: CmEventKind, end: usize) {
        if kind == CmEventKind::Established && self.ends[end].phase == Phase::Connecting {
            self.ends[end].phase = Phase::Up;
            self.ready(end);
            self.tell_peer(end, bare(CmEventKind::Established, 0));
        } else if kind == CmEventKind::Established && self.ends[end].phase == Phase::Accepted {
            self.ends[end].phase = Phase::Up;
        }
        match (kind, &mut self.ends[end].phase) {
            (CmEventKind::AddrResolved, phase @ Phase::AddrResolving) => *phase = Phase::AddrResolved,
            (CmEventKind::RouteResolved, phase @ Phase::RouteResolving) => *phase = Phase::RouteResolved,
            _ => {}
        }
    }

    /// Whether this event is one that its connection waits for, and so one that the library has a part in.
    pub(super) fn is_awaited(&self, node: usize, event: &CmEvent) -> bool {
        let Target::Conn(conn) = event.target else { return false };
        let Some(end) = self.end_of(node, conn) else { return false };
        let phase = match event.kind {
            CmEventKind::AddrResolved => Phase::AddrResolving,
            CmEventKind::RouteResolved => Phase::RouteResolving,
            CmEventKind::Established => Phase::Connecting,
            _ => return false,
        };
        self.ends[end].phase == phase
    }
}
