//! Drives engines over the network, as an idle policy that blocks would: an engine whose last turn did nothing runs
//! again only when something is in one of its queues or its deadline has come. A lost wake-up is a stuck run.

use std::vec::Vec;

use super::control::SimControl;
use super::coverage::Fault;
use super::fabric::SimFabric;
use super::faults::Faults;
use super::host::Host;
use super::memory::{BufferName, DeviceMemory};
use super::net::Net;
use super::qp::QpState;
use super::record;
use super::space::Space;
use crate::config::Mode;
use crate::fabric::BufferMap;
use crate::id::{ConnId, EndpointId};
use crate::time::Instant;
use crate::turn::{Cx, Engine, Handler};

/// Rounds of busy turns in which nothing happens on the net before a run counts as a livelock: 0.4 ms.
const IDLE_ROUNDS_MAX: u32 = 2_000;

/// How long a round takes, in nanoseconds.
const ROUND: u64 = 200;

/// One machine: its engine and its application.
#[derive(Debug)]
pub struct Node<'m, H> {
    /// The engine.
    pub engine: Engine<'m, SimControl>,
    /// The application.
    pub app: H,
    /// Its program runs. `false` stops it: for good with [`World::kill`], else until it is set again.
    pub alive: bool,
    /// It does not run before then, in nanoseconds: a slow handler, a slow verb, a debugger.
    pub away_until: u64,
    worked: bool,
}

/// Engines, the network between them, and the clock.
#[derive(Debug)]
pub struct World<'m, H> {
    /// The network.
    pub net: Net,
    /// The machines.
    pub nodes: Vec<Node<'m, H>>,
    /// Virtual time in nanoseconds.
    pub now: u64,
    still: u32,
    serial: u64,
    /// Once in so many rounds a machine's loop is away for so many nanoseconds.
    pub stall: Option<(u64, u64)>,
    /// After so many steps it counts as one that does not end.
    pub(super) steps_left: u64,
    /// Called after every turn, with the machine whose turn it was.
    pub(super) check: fn(&Self, usize),
}

impl<H> DeviceMemory for Vec<Node<'_, H>> {
    fn lent(&mut self, node: usize, conn: ConnId, BufferName { from, index }: BufferName) -> Option<&mut [u8]> {
        self[node].engine.device_bytes(from, index, conn)
    }
}

impl<'m, H: Handler> World<'m, H> {
    /// One engine for each space; those in `listening` take requests. `app` makes the application of each.
    ///
    /// # Panics
    /// A space's configuration is out of range.
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
            net.wire().raw |= config.mode == Mode::Raw;
            net.wire().hosts.push(Host {
                listening: listening.contains(&node),
                recv_posted_max: sizing.recv_posted as usize,
                send_slots: u64::from(sizing.send_slots) + space.operations() as u64,
                ..Host::default()
            });
            let control = SimControl { net: net.clone(), node };
            let fabric = SimFabric { net: net.clone(), node, buffers: BufferMap::default() };
            let operations = space.operations();
            let (memory, one_sided) = space.memory();
            let mut engine = Engine::new(config, memory, control, fabric).expect("a space is as large as it must be");
            if operations > 0 {
                engine = engine.with_one_sided(one_sided).expect("a space is as large as it must be");
            }
            nodes.push(Node { engine, app: app(node, &net), alive: true, away_until: 0, worked: true });
        }
        // Each knows all of them, also those that came after it.
        nodes.iter_mut().for_each(|node| node.engine.with(|_| ()));
        Self { net, nodes, now: 0, still: 0, serial: 0, stall: None, steps_left: u64::MAX, check: |_, _| () }
    }

    /// Lets the application of `node` act outside a turn.
    pub fn with<R>(&mut self, node: usize, act: impl FnOnce(&mut Cx<'_, 'm>, &mut H) -> R) -> R {
        let Node { engine, app, .. } = &mut self.nodes[node];
        engine.with(|cx| act(cx, app))
    }

    /// Begins a connection.
    ///
    /// # Panics
    /// The table of `from` is full.
    pub fn connect(&mut self, from: usize, to: usize) -> ConnId {
        self.with(from, |cx, _| cx.connect(EndpointId(to as u32))).expect("a free slot")
    }

    /// Ends a machine's program without a word from it; `frozen`: its kernel says nothing either.
    pub fn kill(&mut self, node: usize, frozen: bool) {
        self.nodes[node].alive = false;
        self.net.kill(node, frozen);
    }

    /// A message no honest peer sends arrives, if there is a receive for it. Says whether there was.
    pub fn forge(&mut self, node: usize, conn: ConnId, claimed: u32, imm: Option<u32>) -> bool {
        let mut wire = self.net.wire();
        let Some(end) = wire.end_of(node, conn) else { return false };
        let ready = wire.ends[end].qp.as_ref().is_some_and(|qp| qp.state == QpState::Rts && !qp.recvs.is_empty());
        if ready {
            record::fault(Fault::MessageForged);
            wire.ends[end].hostile = true;
            wire.put(end, &[0xee; 64][..claimed.min(64) as usize], claimed, imm, &mut self.nodes);
        }
        ready
    }

    /// What is due by now happens on the network.
    pub fn advance(&mut self) {
        self.net.wire().advance(self.now, &mut self.nodes);
    }

    /// One round: every engine that has a reason to runs once. `false`: none has, and none ever will by itself.
    pub fn step(&mut self) -> bool {
        self.steps_left = self.steps_left.checked_sub(1).expect("a world that does not end");
        self.advance();
        let mut ran = false;
        for node in 0..self.nodes.len() {
            if self.wants_to_run(node) {
                self.turn(node);
                ran = true;
            }
        }
        let serial = self.net.wire().serial;
        self.still = if serial == self.serial { self.still + 1 } else { 0 };
        self.serial = serial;
        assert!(self.still < IDLE_ROUNDS_MAX, "livelock at {} ns", self.now);
        if !ran {
            let due = self.net.wire().due.first_key_value().map(|((at, _), _)| *at);
            let next = (0..self.nodes.len()).map(|node| self.runs_at(node)).min().unwrap_or(u64::MAX);
            let next = next.min(due.unwrap_or(u64::MAX));
            if next == u64::MAX {
                return false;
            }
            // A wake-up a little late now and then: nobody is promised to the nanosecond.
            self.still = 0;
            self.pass(next.saturating_sub(self.now).max(1));
        } else {
            self.go_away_now_and_then();
            self.pass(ROUND);
        }
        true
    }

    fn go_away_now_and_then(&mut self) {
        let Some((every, span)) = self.stall else { return };
        let mut wire = self.net.wire();
        if wire.random.below(every) == 0 {
            record::fault(Fault::LoopAway);
            let node = wire.random.below(self.nodes.len() as u64) as usize;
            self.nodes[node].away_until = self.now + wire.random.below(span);
        }
    }

    fn pass(&mut self, span: u64) {
        self.now += span;
    }

    fn wants_to_run(&self, node: usize) -> bool {
        self.nodes[node].alive && self.runs_at(node) <= self.now
    }

    /// When the engine of `node` next has a reason to run, as far as is known; `u64::MAX` for never.
    fn runs_at(&self, node: usize) -> u64 {
        let Node { engine, alive, worked, away_until, .. } = &self.nodes[node];
        if !alive {
            return u64::MAX;
        }
        let wire = self.net.wire();
        let host = &wire.hosts[node];
        let queues = host.recv_cq.front().into_iter().chain(host.send_cq.front());
        let shown = queues.map(|cqe| cqe.shown_at).min().unwrap_or(u64::MAX);
        let at_once = *worked || !host.events.is_empty();
        let wanted = if at_once { 0 } else { shown.min(engine.next_deadline().as_nanos()) };
        wanted.max(*away_until)
    }

    /// One turn of `node`, whether or not it has a reason to, and then its sums.
    ///
    /// # Panics
    /// A sum does not come out.
    pub fn turn(&mut self, node: usize) {
        self.begin_turn(node, true);
        let Node { engine, app, worked, .. } = &mut self.nodes[node];
        *worked = engine.turn(Instant::from_nanos(self.now), app);
        self.begin_turn(node, false);
        self.net.wire().settle(node, &mut self.nodes);
        if let Err(error) = self.nodes[node].engine.audit() {
            panic!("node {node} at {} ns: {error}", self.now);
        }
        (self.check)(self, node);
    }

    /// A turn of `node` begins, or (`false`) is over.
    fn begin_turn(&mut self, node: usize, begins: bool) {
        record::at(self.now, begins.then_some(node));
        let host = &mut self.net.wire().hosts[node];
        host.turn += u64::from(begins);
        host.in_turn = begins;
    }

    /// Until nothing more will happen.
    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Until `done` says so.
    ///
    /// # Panics
    /// Nothing more will happen, and it is not done.
    pub fn run_until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        while !done(self) {
            assert!(self.step(), "nothing more happens, and it is not done");
        }
    }

    /// For `span` nanoseconds.
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

    /// Sees that nothing is left on any machine that is alive.
    ///
    /// # Panics
    /// Something is: a connection, a buffer, an id or a queue pair.
    pub fn assert_all_over(&mut self) {
        for (number, node) in self.nodes.iter_mut().enumerate().filter(|(_, node)| node.alive) {
            let (recv, send) = node.engine.pools();
            assert_eq!(node.engine.live(), 0, "node {number} still has connections");
            assert_eq!((recv.free(), send.free()), (recv.total(), send.total()), "node {number} lost buffers");
            let wire = self.net.wire();
            // A request whose event never came is nobody's.
            let ours = wire.ends.iter().filter(|end| end.node == number && end.conn.is_some());
            let left = ours.filter(|end| !end.gone || end.qp.is_some()).count();
            assert_eq!(left, 0, "node {number} left ids or queue pairs");
        }
    }
}
