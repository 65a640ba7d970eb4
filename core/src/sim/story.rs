//! What happens in the world of a scenario, from its first connect to its end.

use std::vec::Vec;

use super::MS;
use super::app::App;
use super::plan::{Book, View};
use super::random::Random;
use super::record;
use super::scenario::{CLOSING_TAKES_MAX, Scenario};
use super::trouble::{attempt_fails, message_overtakes_hello, trouble};
use super::world::World;
use crate::cm::reason::CloseReason;
use crate::id::{ConnId, EndpointId};

/// A world on its way.
pub(super) struct Story<'w, 'm> {
    pub(super) world: World<'m, App>,
    pub(super) random: &'w mut Random,
    /// Connections that were begun, and where.
    pub(super) began: Vec<(usize, ConnId)>,
}

impl Story<'_, '_> {
    pub(super) fn connects(&mut self, scenario: Scenario, calm: bool) {
        let nodes = self.world.nodes.len() as u64;
        let count = match scenario {
            Scenario::Small => 1 + self.random.below(3),
            Scenario::Full => 1 + self.random.below(8),
            Scenario::Many => nodes + self.random.below(3 * nodes),
        };
        for _ in 0..count {
            let (from, to) = (self.random.below(nodes) as usize, self.random.below(nodes + 1));
            // One address in a while leads nowhere.
            let to = if to == nodes && calm { 0 } else { to };
            if let Some(conn) = self.world.with(from, |cx, app| app.connect(cx, EndpointId(to as u32))) {
                self.began.push((from, conn));
            }
            if !calm && self.random.below(8) == 0 {
                trouble(self);
            }
            if self.random.below(2) == 0 {
                let latency = self.world.net.wire().faults.latency;
                let span = self.random.below(5 * latency);
                self.world.run_for(span);
                match self.random.below(6) {
                    _ if calm => {}
                    0 => trouble(self),
                    1 | 2 => attempt_fails(self),
                    3 => message_overtakes_hello(self),
                    _ => {}
                }
            }
        }
    }

    /// Nothing goes wrong, so nothing may be left undone when all falls silent.
    pub(super) fn falls_silent(&mut self) {
        self.world.run();
        for (number, node) in self.world.nodes.iter().enumerate() {
            assert!(node.app.done(), "node {number} waits for ever: it has not done what it was to do");
            assert_eq!(node.engine.live(), node.app.settled(), "node {number}: a connection waits for ever");
            for (&bits, view) in &node.app.conns {
                self.check_calm_end(number, bits, view);
            }
        }
    }

    /// Where nothing goes wrong, a close that the peer did not cross is confirmed.
    pub(super) fn check_calm_end(&self, node: usize, bits: u64, view: &View) {
        let (Some(report), Some(conn)) = (view.closed, ConnId::from_bits(bits)) else { return };
        let Some((far, far_bits)) = self.world.net.peer_of(node, conn) else { return };
        let crossed = self.world.nodes[far].app.conns.get(&far_bits).is_none_or(|view| view.close_asked);
        if report.reason == CloseReason::Local && view.opened && !crossed {
            let sent_all = (report.unsent, report.unconfirmed_after) == (0, None);
            assert!(sent_all, "node {node}, {conn}: a close in peace was not confirmed: {report:?}");
        }
    }

    pub(super) fn troubles(&mut self, scenario: Scenario) {
        let most = if scenario == Scenario::Many { 12 } else { 4 };
        for _ in 0..self.random.below(most) {
            let span = self.random.below(3) * self.random.below(30 * MS);
            self.world.run_for(span);
            trouble(self);
        }
        let span = self.random.below(100 * MS);
        self.world.run_for(span);
        if self.random.below(16) == 0 {
            self.world.net.wire().freeze();
        }
    }

    /// Everything is closed, ends within its deadlines, and leaves nothing.
    pub(super) fn ends(&mut self, book: &Book) {
        let world = &mut self.world;
        for node in 0..world.nodes.len() {
            world.with(node, |cx, app| app.close_all(cx));
        }
        world.stall = None;
        let away = world.nodes.iter().map(|node| node.away_until).max().unwrap_or(0);
        let limit = world.now.max(away) + CLOSING_TAKES_MAX;
        while world.nodes.iter().any(|node| node.alive && node.engine.live() > 0) {
            assert!(world.step(), "a connection waits for ever");
            assert!(world.now <= limit, "closing took longer than its deadlines: {} ms over", (world.now - limit) / MS);
        }
        world.run();
        world.assert_all_over();
        for (number, node) in world.nodes.iter().enumerate().filter(|(_, node)| node.alive) {
            let open = node.app.conns.values().filter(|view| view.closed.is_none()).count();
            assert_eq!(open, 0, "node {number} was never told of an end");
        }
        for (number, host) in world.net.wire().hosts.iter().enumerate() {
            let word = host.exposed.get(..8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes);
            assert!(book.can_be(number, word), "the word of node {number} was counted up to {word}");
        }
        for node in &world.nodes {
            let stats = node.engine.stats();
            record::engine(stats.messages_received, stats.opened, stats.turns);
        }
    }
}
