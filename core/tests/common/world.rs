//! Drives engines over the fake network, as an idle policy that blocks would: an engine whose last turn did nothing
//! runs again only when something is in one of its queues or its deadline has come. A lost wake-up is a stuck test.

use spinwire_core::config::{Config, Mode, Timeouts};
use spinwire_core::conn::{Conn, Slot};
use spinwire_core::fabric::SendWr;
use spinwire_core::id::{ConnId, EndpointId};
use spinwire_core::pool::PoolSlot;
use spinwire_core::time::Instant;
use spinwire_core::turn::{Cx, DirtySlot, Engine, Handler, Memory, Needs, PoolMemory};

use super::app::{App, Book, Plan};
use super::control::SimControl;
use super::net::{Faults, Host, Net};
use super::qp::SimFabric;

/// Rounds of busy turns in which nothing happens on the net before a run counts as a livelock: 0.4 ms.
const IDLE_ROUNDS_MAX: u32 = 2_000;

pub fn config(depth: u32) -> Config {
    Config { mode: Mode::Spinwire, depth, message_bytes_max: 64, inline_bytes_max: 16, timeouts: Timeouts::default() }
}

/// The memory of one engine.
pub struct Space {
    config: Config,
    conns: Vec<Slot<Conn>>,
    dirty: Vec<DirtySlot>,
    sends: Vec<SendWr>,
    recv_slots: Vec<PoolSlot>,
    send_slots: Vec<PoolSlot>,
    bytes: Vec<u8>,
    base: *mut u8,
}

impl Space {
    pub fn new(config: Config, conns: usize) -> Self {
        let needs = Needs::of(&config, conns);
        let mut bytes = vec![0; (needs.recv_buffers + needs.send_buffers) * config.message_bytes_max as usize];
        Self {
            config,
            conns: (0..conns).map(|_| Slot::EMPTY).collect(),
            dirty: vec![DirtySlot::default(); conns],
            sends: (0..needs.sends).map(|_| SendWr::EMPTY).collect(),
            recv_slots: vec![PoolSlot::default(); needs.recv_buffers],
            send_slots: vec![PoolSlot::default(); needs.send_buffers],
            base: bytes.as_mut_ptr(),
            bytes,
        }
    }
}

/// Two engines on a net without faults: node 0 connects, node 1 listens.
pub fn pair(spaces: &mut [Space], seed: u64, client: Plan, server: Plan) -> World<'_, App> {
    let book = Book::default();
    World::new((seed, Faults::default()), spaces, &[1], |node, net| {
        App::new(node, net, &book, if node == 1 { server } else { client })
    })
}

/// The memory for [`pair`].
pub fn spaces(depth: u32, conns: usize) -> [Space; 2] {
    [Space::new(config(depth), conns), Space::new(config(depth), conns)]
}

pub struct Node<'m, H> {
    pub engine: Engine<'m, SimControl>,
    pub app: H,
    pub alive: bool,
    worked: bool,
    base: *mut u8,
    bytes: usize,
}

pub struct World<'m, H> {
    pub net: Net,
    pub nodes: Vec<Node<'m, H>>,
    pub now: u64,
    still: u32,
    serial: u64,
    /// Once in so many rounds everything stands still for this long: a slow verb, a debugger.
    pub stall: Option<(u64, u64)>,
}

impl<'m, H: Handler> World<'m, H> {
    /// One engine for each space; those in `listening` take requests.
    pub fn new(
        (seed, faults): (u64, Faults),
        spaces: &'m mut [Space],
        listening: &[usize],
        mut app: impl FnMut(usize, &Net) -> H,
    ) -> Self {
        let net = Net::new(seed, faults);
        let mut nodes = Vec::new();
        for (node, space) in spaces.iter_mut().enumerate() {
            let (config, sizing) = (space.config, space.config.sizing());
            net.0.borrow_mut().raw |= config.mode == Mode::Raw;
            net.0.borrow_mut().hosts.push(Host {
                base: space.base,
                bytes: space.bytes.len(),
                listening: listening.contains(&node),
                dead: false,
                removed: false,
                conns: Default::default(),
                over: Default::default(),
                events: Default::default(),
                recv_cq: Default::default(),
                send_cq: Default::default(),
                recv_posted_max: sizing.recv_posted as usize,
                send_slots: sizing.send_slots.into(),
                fail: None,
                accepted: 0,
                rejected: 0,
            });
            let (base, bytes) = (space.base, space.bytes.len());
            let stride = config.message_bytes_max;
            let (recv, send) = space.bytes.split_at_mut(space.recv_slots.len() * stride as usize);
            let region_offset = recv.len() as u64;
            let memory = Memory {
                conns: &mut space.conns,
                dirty: &mut space.dirty,
                sends: &mut space.sends,
                recv: PoolMemory { slots: &mut space.recv_slots, bytes: recv, region_offset: 0, stride },
                send: PoolMemory { slots: &mut space.send_slots, bytes: send, region_offset, stride },
            };
            let control = SimControl { net: net.clone(), node };
            let engine = Engine::new(config, memory, control, SimFabric { net: net.clone(), node }).unwrap();
            nodes.push(Node { engine, app: app(node, &net), alive: true, worked: true, base, bytes });
        }
        Self { net, nodes, now: 0, still: 0, serial: 0, stall: None }
    }

    pub fn with<R>(&mut self, node: usize, act: impl FnOnce(&mut Cx<'_, 'm>, &mut H) -> R) -> R {
        let Node { engine, app, .. } = &mut self.nodes[node];
        engine.with(|cx| act(cx, app))
    }

    pub fn connect(&mut self, from: usize, to: usize) -> ConnId {
        self.with(from, |cx, _| cx.connect(EndpointId(to as u32))).expect("a free slot")
    }

    pub fn kill(&mut self, node: usize, frozen: bool) {
        self.nodes[node].alive = false;
        self.net.kill(node, frozen);
    }

    /// One round: every engine that has a reason to runs once. `false`: none has, and none ever will by itself.
    pub fn step(&mut self) -> bool {
        self.net.0.borrow_mut().advance(self.now);
        let mut ran = false;
        for node in 0..self.nodes.len() {
            if self.wants_to_run(node) {
                self.turn(node);
                ran = true;
            }
        }
        let serial = self.net.0.borrow().serial;
        self.still = if serial == self.serial { self.still + 1 } else { 0 };
        self.serial = serial;
        assert!(self.still < IDLE_ROUNDS_MAX, "livelock at {} ns", self.now);
        if !ran {
            let due = self.net.0.borrow().due.first_key_value().map(|((at, _), _)| *at);
            let alive = self.nodes.iter().filter(|node| node.alive);
            let deadline = alive.map(|node| node.engine.next_deadline().as_nanos()).min().unwrap_or(u64::MAX);
            let next = due.unwrap_or(u64::MAX).min(deadline);
            if next == u64::MAX {
                return false;
            }
            // A wake-up a little late now and then: nobody is promised to the nanosecond.
            self.still = 0;
            self.pass(next.saturating_sub(self.now).max(1));
        } else {
            let slow = self.stall.filter(|(every, _)| self.net.0.borrow_mut().random.below(*every) == 0);
            self.pass(slow.map_or(200, |(_, span)| span));
        }
        true
    }

    fn pass(&mut self, span: u64) {
        self.now += span;
    }

    fn wants_to_run(&self, node: usize) -> bool {
        let Node { engine, alive, worked, .. } = &self.nodes[node];
        let wire = self.net.0.borrow();
        let host = &wire.hosts[node];
        let waiting = !host.events.is_empty() || !host.recv_cq.is_empty() || !host.send_cq.is_empty();
        *alive && (*worked || waiting || engine.next_deadline().as_nanos() <= self.now)
    }

    pub fn turn(&mut self, node: usize) {
        let Node { engine, app, worked, .. } = &mut self.nodes[node];
        *worked = engine.turn(Instant::from_nanos(self.now), app);
        // The audit walks the pools: with large ones not every turn.
        let buffers = u64::from(engine.pools().0.total());
        if !engine.stats().turns.is_multiple_of(buffers / 200 + 1) && *worked {
            return;
        }
        if let Err(error) = engine.audit() {
            panic!("node {node} at {} ns: {error}", self.now);
        }
    }

    /// Until nothing more will happen.
    pub fn run(&mut self) {
        while self.step() {}
    }

    pub fn run_until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        while !done(self) {
            assert!(self.step(), "nothing more happens, and it is not done");
        }
    }

    pub fn run_for(&mut self, span: u64) {
        let end = self.now + span;
        while self.now < end && self.step() {}
        if self.now < end {
            self.pass(end - self.now);
        }
    }

    /// Closes everything and sees that nothing is left.
    pub fn end(&mut self) {
        for node in 0..self.nodes.len() {
            self.with(node, |cx, _| cx.close_all());
        }
        self.run();
        self.assert_all_over();
    }

    pub fn assert_all_over(&mut self) {
        for (number, node) in self.nodes.iter_mut().enumerate().filter(|(_, node)| node.alive) {
            let (recv, send) = node.engine.pools();
            assert_eq!(node.engine.live(), 0, "node {number} still has connections");
            assert_eq!((recv.free(), send.free()), (recv.total(), send.total()), "node {number} lost buffers");
            let wire = self.net.0.borrow();
            // A request whose event never came is nobody's.
            let ours = wire.ends.iter().filter(|end| end.node == number && end.conn.is_some());
            let left = ours.filter(|end| !end.gone || end.qp.is_some()).count();
            assert_eq!(left, 0, "node {number} left ids or queue pairs");
        }
    }
}
