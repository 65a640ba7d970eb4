//! What the tests of attempts to connect share: a client that tries again, and a server.

use spinwire_core::cm::event::CmEventKind as Kind;
use spinwire_core::config::{Config, Retry};
use spinwire_core::id::ConnId;
use spinwire_core::sim::{App, Book, Faults, Phase, Plan, Space, World, config};

pub const PATIENT: Retry = Retry { attempts: 3, ..Retry::DEFAULT };

pub fn spaces(retry: Retry, conns: usize) -> [Space; 2] {
    [Space::new(Config { retry, ..config(4) }, conns), Space::new(config(4), conns)]
}

/// Node 0 connects and asks 20 times, node 1 listens. Events of destroyed ids are delivered all the same, as by a thread
/// that had fetched them.
pub fn world(spaces: &mut [Space; 2], seed: u64) -> World<'_, App> {
    let (book, faults) = (Book::default(), Faults { stale_events: true, ..Faults::default() });
    World::new((seed, faults), spaces, &[1], |node, net| {
        App::new(node, net, &book, if node == 1 { Plan::SILENT } else { Plan::default() })
    })
}

/// What the platform knows the connection's present attempt by.
pub fn link(world: &mut World<'_, App>, conn: ConnId) -> ConnId {
    world.with(0, |cx, _| cx.link(conn)).expect("it lives")
}

pub fn reach(world: &mut World<'_, App>, conn: ConnId, phase: Phase) -> ConnId {
    world.run_until(|world| {
        let link = link(world, conn);
        world.net.with_end(0, link, |end| end.phase == phase) == Some(true)
    });
    link(world, conn)
}

/// The first attempt ends in its first step.
pub fn fail_first(world: &mut World<'_, App>, conn: ConnId) {
    reach(world, conn, Phase::AddrResolving);
    world.net.event(0, conn, Kind::AddrError, -110);
    world.run_until(|world| attempts_failed(world) == 1);
}

pub fn attempts_failed(world: &World<'_, App>) -> u64 {
    world.nodes[0].engine.stats().attempts_failed
}
