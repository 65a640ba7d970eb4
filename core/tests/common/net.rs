//! The connection manager of the fake network: ids, events, private data, faults.
//!
//! Whatever the engine asks for is checked against the order librdmacm needs: a call on an id that is not ready would
//! be a crash inside the real library, and is a panic here.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::rc::Rc;

use spinwire_core::cm::event::{CmEvent, CmEventKind, PrivateData, Target};
use spinwire_core::fabric::WcStatus;
use spinwire_core::id::{ConnId, ListenerId, RequestId};

use super::MS;
use super::qp::{Cqe, Qp, QpState};
use super::random::Random;

/// How often what goes wrong, in thousandths; and how long things take.
#[derive(Clone, Debug)]
pub struct Faults {
    pub events_late: u32,
    pub events_missing: u32,
    pub events_doubled: u32,
    pub actions_fail: u32,
    pub posts_fail: u32,
    pub flushes_missing: u32,
    /// Completions of a destroyed queue pair stay in the queue, as on rxe.
    pub stale_completions: bool,
    /// Events of a destroyed id are still delivered, as by a control thread that had fetched them.
    pub stale_events: bool,
    /// One way over the wire, at most, in nanoseconds.
    pub latency: u64,
    /// From arrival to the sender's completion, at most.
    pub ack_latency: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            events_late: 0,
            events_missing: 0,
            events_doubled: 0,
            actions_fail: 0,
            posts_fail: 0,
            flushes_missing: 0,
            stale_completions: true,
            stale_events: false,
            latency: 5_000,
            ack_latency: 5_000,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    AddrResolving,
    AddrResolved,
    RouteResolving,
    RouteResolved,
    Connecting,
    Requested,
    Adopted,
    Accepted,
    Up,
    Down,
}

/// One rdma_cm id.
#[derive(Debug)]
pub struct End {
    pub node: usize,
    pub conn: Option<ConnId>,
    pub phase: Phase,
    pub peer: Option<usize>,
    pub target: usize,
    pub qp: Option<Qp>,
    pub gone: bool,
    /// This side asked to disconnect.
    pub disconnected: bool,
    /// Messages of the application that were put into its receives.
    pub arrived: u64,
    /// Sends may meet no receive here, and what comes from here need make no sense.
    pub hostile: bool,
}

/// One machine.
#[derive(Debug)]
pub struct Host {
    pub base: *mut u8,
    pub bytes: usize,
    pub listening: bool,
    pub dead: bool,
    /// The device went: its connections end at once, whatever waits in their queues.
    pub removed: bool,
    pub conns: HashMap<u64, usize>,
    pub over: HashSet<u64>,
    pub events: VecDeque<(CmEvent, Option<usize>)>,
    pub recv_cq: VecDeque<Cqe>,
    pub send_cq: VecDeque<Cqe>,
    pub recv_posted_max: usize,
    pub send_slots: u64,
    /// The n-th action of this name from now fails.
    pub fail: Option<(&'static str, u32)>,
    pub accepted: u32,
    pub rejected: u32,
}

#[derive(Debug)]
pub enum Due {
    Event(usize, Box<CmEvent>, Option<usize>),
    Arrive(usize),
    Ack(usize, u64),
    Flush(usize),
}

#[derive(Debug)]
pub struct Wire {
    pub now: u64,
    pub random: Random,
    pub faults: Faults,
    pub hosts: Vec<Host>,
    pub ends: Vec<End>,
    pub due: BTreeMap<(u64, u64), Due>,
    pub serial: u64,
    /// No credits are counted: sends may meet no receive.
    pub raw: bool,
    /// Events of these kinds never reach these machines.
    pub lost: Vec<(usize, CmEventKind)>,
    /// A sender that hears nothing tries for ever (retry_cnt 7 on some devices).
    pub tries_for_ever: bool,
}

/// The network, shared by all engines on it.
#[derive(Clone, Debug)]
pub struct Net(pub Rc<RefCell<Wire>>);

impl Net {
    pub fn new(seed: u64, faults: Faults) -> Self {
        Net(Rc::new(RefCell::new(Wire {
            now: 0,
            random: Random(seed),
            faults,
            hosts: Vec::new(),
            ends: Vec::new(),
            due: BTreeMap::new(),
            serial: 0,
            raw: false,
            lost: Vec::new(),
            tries_for_ever: false,
        })))
    }

    /// The far side of a connection.
    pub fn peer_of(&self, node: usize, conn: ConnId) -> Option<(usize, u64)> {
        let wire = self.0.borrow();
        let end = &wire.ends[*wire.hosts[node].conns.get(&conn.to_bits())?];
        let peer = &wire.ends[end.peer?];
        Some((peer.node, peer.conn?.to_bits()))
    }

    pub fn with_end<R>(&self, node: usize, conn: ConnId, act: impl FnOnce(&mut End) -> R) -> Option<R> {
        let mut wire = self.0.borrow_mut();
        let end = *wire.hosts[node].conns.get(&conn.to_bits())?;
        Some(act(&mut wire.ends[end]))
    }

    /// An event out of nowhere. Not one that the state waits for: the library would have done its part for that.
    pub fn event(&self, node: usize, conn: ConnId, kind: CmEventKind, status: i32) {
        let mut wire = self.0.borrow_mut();
        wire.hosts[node].removed |= kind == CmEventKind::DeviceRemoval;
        let phase = wire.hosts[node].conns.get(&conn.to_bits()).map(|&end| wire.ends[end].phase);
        let awaited = match kind {
            CmEventKind::AddrResolved => Phase::AddrResolving,
            CmEventKind::RouteResolved => Phase::RouteResolving,
            CmEventKind::Established => Phase::Connecting,
            _ => Phase::Requested,
        };
        if phase != Some(awaited) {
            let event = CmEvent { target: Target::Conn(conn), ..bare(kind, status) };
            wire.hosts[node].events.push_back((event, None));
        }
    }

    /// An event of the whole device.
    pub fn device_event(&self, node: usize, kind: CmEventKind) {
        let mut wire = self.0.borrow_mut();
        wire.hosts[node].removed |= kind == CmEventKind::DeviceRemoval;
        wire.hosts[node].events.push_back((CmEvent { target: Target::Device, ..bare(kind, 0) }, None));
    }

    /// The queue pair fails by itself: the oldest send, if any, with `status`, everything else flushed.
    pub fn break_qp(&self, node: usize, conn: ConnId, status: WcStatus) {
        let mut wire = self.0.borrow_mut();
        if let Some(&end) = wire.hosts[node].conns.get(&conn.to_bits()) {
            wire.fail_send(end, status);
        }
    }

    /// A message no honest peer sends arrives, if there is a receive for it. Says whether there was.
    pub fn forge(&self, node: usize, conn: ConnId, claimed: u32, imm: Option<u32>) -> bool {
        let mut wire = self.0.borrow_mut();
        let Some(&end) = wire.hosts[node].conns.get(&conn.to_bits()) else { return false };
        let ready = wire.ends[end].qp.as_ref().is_some_and(|qp| qp.state == QpState::Rts && !qp.recvs.is_empty());
        if ready {
            wire.ends[end].hostile = true;
            wire.put(end, &[0xee; 64][..claimed.min(64) as usize], claimed, imm);
        }
        ready
    }

    /// Ends a machine's program without a word from it; `frozen`: its kernel says nothing either.
    pub fn kill(&self, node: usize, frozen: bool) {
        let mut wire = self.0.borrow_mut();
        wire.hosts[node].dead = true;
        for end in 0..wire.ends.len() {
            if wire.ends[end].node == node && !wire.ends[end].gone {
                wire.ends[end].qp = None;
                if !frozen {
                    wire.say_goodbye(end);
                    wire.ends[end].gone = true;
                }
            }
        }
    }
}

pub fn bare(kind: CmEventKind, status: i32) -> CmEvent {
    CmEvent { target: Target::Device, kind, status, private_data: PrivateData::new(), peer: None }
}

pub(super) fn padded(data: &[u8], len: usize) -> PrivateData {
    let mut out = PrivateData::from_slice(data).unwrap();
    out.resize(len, 0).unwrap();
    out
}

impl Wire {
    pub fn after(&mut self, delay: u64, due: Due) {
        self.serial += 1;
        self.due.insert((self.now + delay, self.serial), due);
    }

    /// What is due by now happens.
    pub fn advance(&mut self, now: u64) {
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((at, _), due) = entry.remove_entry();
            self.now = self.now.max(at);
            match due {
                Due::Event(node, event, end) => self.show(node, *event, end),
                Due::Arrive(end) => self.arrive(end),
                Due::Ack(end, serial) => self.acknowledge(end, serial),
                Due::Flush(end) => self.flush(end),
            }
        }
        self.now = self.now.max(now);
    }

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
        self.hosts[node].events.push_back((event, end));
    }

    /// An event for `end`, by way of the faults.
    pub(super) fn tell(&mut self, end: usize, delay: u64, event: CmEvent) {
        let Faults { events_late, events_missing, events_doubled, .. } = self.faults;
        let node = self.ends[end].node;
        if self.random.chance(events_missing) || self.lost.contains(&(node, event.kind)) {
            return;
        }
        let late = if self.random.chance(events_late) { self.random.below(200 * MS) } else { 0 };
        if self.random.chance(events_doubled) && !matches!(event.target, Target::Request(..)) {
            let again = self.random.below(MS);
            self.after(delay + late + again, Due::Event(node, Box::new(event.clone()), Some(end)));
        }
        self.after(delay + late, Due::Event(node, Box::new(event), Some(end)));
    }

    pub(super) fn hop(&mut self) -> u64 {
        let most = self.faults.latency;
        1 + self.random.below(most)
    }

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
            Phase::Accepted | Phase::Up => {
                let event = bare(CmEventKind::Disconnected, 0);
                self.tell_peer(end, event);
            }
            _ => {}
        }
        self.ends[end].phase = Phase::Down;
    }

    pub(super) fn new_end(&mut self, node: usize, phase: Phase, target: usize) -> usize {
        self.ends.push(End {
            node,
            conn: None,
            phase,
            peer: None,
            target,
            qp: None,
            gone: false,
            disconnected: false,
            arrived: 0,
            hostile: false,
        });
        self.ends.len() - 1
    }

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
            private_data: padded(data, 56),
            ..bare(CmEventKind::ConnectRequest, 0)
        };
        self.tell(asked, delay, event);
    }

    pub(super) fn accept(&mut self, end: usize, data: &[u8]) {
        assert!(data.len() <= 196);
        self.ends[end].phase = Phase::Accepted;
        self.hosts[self.ends[end].node].accepted += 1;
        if let Some(qp) = &mut self.ends[end].qp {
            qp.state = QpState::Rts;
        }
        let peer = self.ends[end].peer.expect("a request has a peer");
        if self.ends[peer].gone || self.ends[peer].phase != Phase::Connecting {
            let delay = self.hop();
            self.tell(end, delay, bare(CmEventKind::Rejected, 28));
        } else {
            self.tell_peer(end, CmEvent { private_data: padded(data, 196), ..bare(CmEventKind::Established, 0) });
        }
    }

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

    /// The program takes an event: the library moves the queue pair on the way.
    pub(super) fn fetched(&mut self, kind: CmEventKind, end: usize) {
        if kind == CmEventKind::Established && self.ends[end].phase == Phase::Connecting {
            self.ends[end].phase = Phase::Up;
            if let Some(qp) = &mut self.ends[end].qp {
                qp.state = QpState::Rts;
            }
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
}
