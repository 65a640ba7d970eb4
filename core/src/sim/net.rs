//! The network: what is under way, and what a test or a scenario does to it.

use std::boxed::Box;
use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::vec::Vec;

use super::cm::bare;
use super::coverage::Fault;
use super::faults::Faults;
use super::host::{End, Host, Phase};
use super::memory::DeviceMemory;
use super::random::Random;
use super::record;
use crate::cm::event::{CmEvent, CmEventKind, Target};
use crate::fabric::WcStatus;
use crate::id::{ConnId, ListenerId};

/// Something that happens at its time.
#[derive(Debug)]
pub enum Due {
    /// An event reaches a machine; of an id, if it is one's.
    Event(usize, Box<CmEvent>, Option<usize>),
    /// The next send of an id reaches the far side.
    Arrive(usize),
    /// A send of an id, by its serial number, is acknowledged.
    Ack(usize, u64),
    /// What is posted on an id's broken queue pair comes back.
    Flush(usize),
}

/// The state of the network. Ids are numbered by their place in `ends`, machines by theirs in `hosts`.
#[derive(Debug)]
pub struct Wire {
    /// Virtual time in nanoseconds.
    pub now: u64,
    /// Whatever is left to chance on the way.
    pub random: Random,
    /// What goes wrong.
    pub faults: Faults,
    /// The machines.
    pub hosts: Vec<Host>,
    /// Every id there ever was.
    pub ends: Vec<End>,
    /// What is under way, by time and by number.
    pub due: BTreeMap<(u64, u64), Due>,
    /// Counts what was ever put under way, and queue pairs.
    pub serial: u64,
    /// Reads and atomics that a queue pair may have under way.
    pub reads_max: u32,
    /// No credits are counted: sends may meet no receive.
    pub raw: bool,
    /// Events of these kinds never reach these machines.
    pub lost: Vec<(usize, CmEventKind)>,
    /// Every wire is cut, and no event comes any more.
    pub frozen: bool,
    /// A sender that hears nothing tries for ever (retry_cnt 7 on some devices).
    pub tries_for_ever: bool,
}

/// The network, shared by the seams of all engines on it and by whoever plays with it.
#[derive(Clone, Debug)]
pub struct Net(Rc<RefCell<Wire>>);

impl Net {
    /// A network without machines.
    pub fn new(seed: u64, faults: Faults) -> Self {
        Net(Rc::new(RefCell::new(Wire {
            now: 0,
            random: Random(seed),
            faults,
            hosts: Vec::new(),
            ends: Vec::new(),
            due: BTreeMap::new(),
            serial: 0,
            reads_max: 16,
            raw: false,
            lost: Vec::new(),
            frozen: false,
            tries_for_ever: false,
        })))
    }

    /// The state, to look at or to change. For one statement: an engine's turn needs it too.
    ///
    /// # Panics
    /// While another borrow of it lives.
    pub fn wire(&self) -> RefMut<'_, Wire> {
        self.0.borrow_mut()
    }

    /// The far side of a connection: its machine, and the handle's bits there.
    pub fn peer_of(&self, node: usize, conn: ConnId) -> Option<(usize, u64)> {
        let wire = self.wire();
        let peer = &wire.ends[wire.ends[wire.end_of(node, conn)?].peer?];
        Some((peer.node, peer.handle.or(peer.conn)?.to_bits()))
    }

    /// Whether either end of a connection was sent something that its peer did not send. What such an end says in good faith can
    /// be a lie to the other: a credit for a receive that no message of the other's has used.
    pub fn was_lied_to(&self, node: usize, conn: ConnId) -> bool {
        let wire = self.wire();
        let Some(end) = wire.end_of(node, conn).map(|end| &wire.ends[end]) else { return false };
        end.hostile || end.peer.is_some_and(|peer| wire.ends[peer].hostile)
    }

    /// From now on the application's `handle` names the id that the engine calls `link`.
    pub fn open(&self, node: usize, handle: ConnId, link: ConnId) {
        let mut wire = self.wire();
        if let Some(end) = wire.end_of(node, link) {
            wire.ends[end].handle = Some(handle);
            wire.hosts[node].conns.insert(handle.to_bits(), end);
        }
    }

    /// Calls `act` with the id of a connection, if it ever had one.
    pub fn with_end<R>(&self, node: usize, conn: ConnId, act: impl FnOnce(&mut End) -> R) -> Option<R> {
        let mut wire = self.wire();
        let end = wire.end_of(node, conn)?;
        Some(act(&mut wire.ends[end]))
    }

    /// An event out of nowhere. If the state waits for just that when it is fetched, it is dropped: the library would
    /// have done its part for it.
    pub fn event(&self, node: usize, conn: ConnId, kind: CmEventKind, status: i32) {
        let mut wire = self.wire();
        let up = wire.end_of(node, conn).is_some_and(|end| wire.ends[end].phase == Phase::Up);
        let unreachable = kind == CmEventKind::Unreachable && up;
        record::fault(if unreachable { Fault::UnreachableWhileUp } else { Fault::EventForged });
        let event = CmEvent { target: Target::Conn(conn), ..bare(kind, status) };
        wire.hosts[node].events.push_back((event, None));
    }

    /// An event of the whole device.
    pub fn device_event(&self, node: usize, kind: CmEventKind) {
        let mut wire = self.wire();
        let removed = kind == CmEventKind::DeviceRemoval;
        record::fault(if removed { Fault::DeviceRemoved } else { Fault::DeviceFatal });
        wire.hosts[node].events.push_back((CmEvent { target: Target::Device, ..bare(kind, 0) }, None));
    }

    /// An event of the listener on `node`.
    pub fn listener_event(&self, node: usize, kind: CmEventKind) {
        record::fault(Fault::ListenerEvent);
        let event = CmEvent { target: Target::Listener(ListenerId(0)), ..bare(kind, 0) };
        self.wire().hosts[node].events.push_back((event, None));
    }

    /// The queue pair fails by itself: the oldest send, if any, with `status`, everything else flushed.
    pub fn break_qp(&self, node: usize, conn: ConnId, status: WcStatus) {
        let mut wire = self.wire();
        if let Some(end) = wire.end_of(node, conn) {
            record::fault(Fault::QpBroken);
            wire.fail_send(end, status);
        }
    }

    /// Ends a machine's program without a word from it; `frozen`: its kernel says nothing either.
    pub fn kill(&self, node: usize, frozen: bool) {
        let mut wire = self.wire();
        record::fault(if frozen { Fault::PeerFrozen } else { Fault::PeerKilled });
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

impl Wire {
    /// The id of a connection of `node`, if it ever had one.
    pub fn end_of(&self, node: usize, conn: ConnId) -> Option<usize> {
        self.hosts[node].conns.get(&conn.to_bits()).copied()
    }

    /// Puts something under way that happens after `delay` nanoseconds.
    pub fn after(&mut self, delay: u64, due: Due) {
        self.serial += 1;
        if self.frozen {
            return;
        }
        self.due.insert((self.now + delay, self.serial), due);
    }

    /// From now on nothing arrives anywhere: no message, no event, no completion.
    pub fn freeze(&mut self) {
        record::fault(Fault::WorldFrozen);
        self.frozen = true;
        self.due.clear();
    }

    /// What is due by `now` happens.
    pub fn advance(&mut self, now: u64, memory: &mut dyn DeviceMemory) {
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((at, _), due) = entry.remove_entry();
            self.now = self.now.max(at);
            record::at(self.now, None);
            match due {
                Due::Event(node, event, end) => self.show(node, *event, end),
                Due::Arrive(end) => self.arrive(end, memory),
                Due::Ack(end, serial) => self.acknowledge(end, serial, memory),
                Due::Flush(end) => self.flush(end),
            }
        }
        self.now = self.now.max(now);
    }

    /// How long the next thing takes over the wire, in nanoseconds.
    pub(super) fn hop(&mut self) -> u64 {
        let most = self.faults.latency;
        1 + self.random.below(most)
    }
}
