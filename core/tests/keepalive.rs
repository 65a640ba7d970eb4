//! A peer that vanished while nothing is sent is noticed; one that lives is not taken for lost.
#![cfg(not(loom))]

use spinwire_core::cm::event::CmEventKind;
use spinwire_core::cm::reason::CloseReason;
use spinwire_core::config::{Config, Keepalive, Mode};
use spinwire_core::fabric::WcStatus;
use spinwire_core::id::ConnId;
use spinwire_core::sim::{App, Book, Faults, MS, Plan, Space, World, config};
use spinwire_core::time::Nanos;

const SECOND: u64 = 1_000 * MS;

/// The usual times on both sides: asks after 5 s, gives up after 15 s.
fn spaces(depth: u32) -> [Space; 2] {
    let config = Config { keepalive: Some(Keepalive::DEFAULT), ..config(depth) };
    [Space::new(config, 1), Space::new(config, 1)]
}

fn world(spaces: &mut [Space; 2], seed: u64) -> World<'_, App> {
    let book = Book::default();
    World::new((seed, Faults::default()), spaces, &[1], |node, net| App::new(node, net, &book, Plan::SILENT))
}

/// A connection that is up on both sides.
fn open(world: &mut World<'_, App>) -> ConnId {
    let conn = world.connect(0, 1);
    world.run_until(|world| world.nodes.iter().all(|node| node.engine.stats().opened == 1));
    conn
}

fn asks(world: &World<'_, App>, node: usize) -> u64 {
    world.nodes[node].engine.stats().asks
}

fn lost(world: &mut World<'_, App>, conn: ConnId) -> CloseReason {
    world.run_until(|world| world.nodes[0].app.reason(conn).is_some());
    world.nodes[0].app.reason(conn).unwrap()
}

/// Questions and answers do not breed, do not use up credits, and go on for as long as both live.
#[test]
fn an_idle_pair_lives_for_hours_on_a_question_every_interval() {
    for depth in [1, 4, 64] {
        let mut spaces = spaces(depth);
        let mut world = world(&mut spaces, depth.into());
        open(&mut world);
        world.run_for(3_600 * SECOND);
        let (asked, messages) = (asks(&world, 0) + asks(&world, 1), 2 * world.nodes.len() as u64 * 3_600 / 5);
        let answers: u64 = world.nodes.iter().map(|node| node.engine.stats().credit_messages).sum();
        assert!((700..=messages).contains(&asked), "depth {depth}: {asked} questions");
        // At a depth of 1 a question and an answer use two of three receives, and that is worth an update of its own.
        let most = if depth == 1 { 2 * asked } else { asked + 2 };
        assert!(answers <= most, "depth {depth}: {answers} answers to {asked} questions");
        assert!(world.nodes.iter().all(|node| node.engine.live() == 1));
        world.end();
    }
}

#[test]
fn who_hears_something_in_every_interval_asks_nothing() {
    let mut spaces = spaces(4);
    let mut world = world(&mut spaces, 2);
    let conn = open(&mut world);
    for second in 1..=60 {
        world.nodes[0].app.plan = Plan { count: second, ..Plan::default() };
        world.with(0, |cx, app| app.go_on(cx, conn));
        world.run_for(SECOND);
    }
    assert_eq!((world.nodes[0].app.view(conn).answered, asks(&world, 0), asks(&world, 1)), (60, 0, 0));
    world.end();
}

/// The machine stands still, or the cable is cut: the question itself fails.
#[test]
fn a_machine_that_stopped_is_noticed_by_the_question() {
    let mut spaces = spaces(4);
    let mut world = world(&mut spaces, 2);
    let conn = open(&mut world);
    let since = world.now;
    world.kill(1, true);
    let reason = lost(&mut world, conn);
    assert!(matches!(reason, CloseReason::Completion { status: WcStatus::RETRY_EXC_ERR, .. }), "{reason}");
    assert!((5..7).contains(&((world.now - since) / SECOND)), "{} ms", (world.now - since) / MS);
    world.run();
    world.assert_all_over();
}

/// The same with a device that tries for ever.
#[test]
fn a_machine_that_stopped_is_noticed_without_the_device_too() {
    let mut spaces = spaces(4);
    let mut world = world(&mut spaces, 2);
    let conn = open(&mut world);
    world.net.wire().tries_for_ever = true;
    let since = world.now;
    world.kill(1, true);
    let reason = lost(&mut world, conn);
    assert!(matches!(reason, CloseReason::KeepaliveLost { asked: true, acknowledged: false, .. }), "{reason}");
    assert!((14_990..16_000).contains(&((world.now - since) / MS)), "{} ms", (world.now - since) / MS);
    assert!(reason.to_string().contains("its device does not acknowledge"), "{reason}");
}

/// SIGSTOP, a debugger, a handler that never returns: the device behind which nobody lives still acknowledges.
#[test]
fn a_program_that_stopped_is_told_from_a_machine_that_did() {
    let mut spaces = spaces(4);
    let mut world = world(&mut spaces, 2);
    let conn = open(&mut world);
    world.nodes[1].alive = false;
    let reason = lost(&mut world, conn);
    let CloseReason::KeepaliveLost { silent, asked: true, acknowledged: true } = reason else { panic!("{reason}") };
    assert!((15_000..15_010).contains(&silent.as_millis()), "{silent}");
    assert!(reason.to_string().contains("its device acknowledges, its program does not answer"), "{reason}");
    // It wakes up and finds the connection gone.
    world.nodes[1].alive = true;
    world.run();
    assert_eq!(world.nodes[1].app.closed(), 1);
    world.assert_all_over();
}

#[test]
fn a_program_that_stopped_for_less_than_the_limit_is_kept() {
    let mut spaces = spaces(4);
    let mut world = world(&mut spaces, 2);
    open(&mut world);
    for _ in 0..20 {
        world.nodes[1].alive = false;
        world.run_for(9 * SECOND);
        world.nodes[1].alive = true;
        world.run_for(SECOND);
    }
    assert!(world.nodes.iter().all(|node| node.engine.live() == 1));
    world.end();
}

/// This process stood still: the peer answered in time, or is given the time to.
#[test]
fn an_own_pause_is_not_taken_for_the_peers() {
    for paused_at in [1_000, 4_999, 5_001, 9_000, 14_999] {
        for whole_machine in [false, true] {
            let mut spaces = spaces(4);
            let mut world = world(&mut spaces, 2);
            let conn = open(&mut world);
            world.run_for(paused_at * MS);
            if whole_machine {
                // Nothing moves on the net either.
                world.now += 60 * SECOND;
            } else {
                world.nodes[0].alive = false;
                // What the peer asks in this time finds no answer, but it has not waited long enough.
                world.run_for(9 * SECOND);
                world.nodes[0].alive = true;
            }
            world.run_for(30 * SECOND);
            assert_eq!(world.nodes[0].app.reason(conn), None, "paused at {paused_at} ms, machine: {whole_machine}");
            assert_eq!(world.nodes[1].app.closed(), 0);
            world.end();
        }
    }
}

/// The question is on its way while this machine stands still for longer than the limit.
#[test]
fn a_pause_with_a_question_out_gives_the_time_to_answer_once_more() {
    let mut spaces = spaces(4);
    let mut world = world(&mut spaces, 2);
    let conn = open(&mut world);
    world.nodes[1].alive = false;
    world.run_until(|world| asks(world, 0) == 1);
    world.now += 60 * SECOND;
    world.turn(0);
    assert_eq!(world.nodes[0].app.reason(conn), None);
    // Once, not for ever.
    let since = world.now;
    let reason = lost(&mut world, conn);
    assert!(matches!(reason, CloseReason::KeepaliveLost { .. }), "{reason}");
    assert!((world.now - since) / MS <= 10_001, "{} ms", (world.now - since) / MS);
}

/// The peer took all it has room for and stopped: there is no credit to ask with, and that is answer enough.
#[test]
fn a_peer_that_stopped_with_all_credits_used_up_is_noticed() {
    for depth in [1, 8] {
        let mut spaces = spaces(depth);
        let mut world = world(&mut spaces, 2);
        let conn = open(&mut world);
        world.nodes[1].alive = false;
        world.nodes[0].app.plan = Plan { count: 1_000, requests: 0, ..Plan::default() };
        world.with(0, |cx, app| app.go_on(cx, conn));
        let since = world.now;
        let reason = lost(&mut world, conn);
        assert!(matches!(reason, CloseReason::KeepaliveLost { asked: false, .. }), "{reason}");
        assert!((14_990..16_000).contains(&((world.now - since) / MS)), "{} ms", (world.now - since) / MS);
        assert!(reason.to_string().contains("it has taken all it has room for"), "{reason}");
    }
}

/// Questions at every moment, between data that uses up all credits in both directions: nothing is lost, nobody waits for
/// ever, and nobody is taken for lost.
#[test]
fn questions_between_data_never_deadlock() {
    for seed in 0..40 {
        let keepalive = Keepalive { interval: Nanos::from_micros(20), limit: Nanos::from_millis(50) };
        let config = Config { keepalive: Some(keepalive), ..config([1, 2, 4, 16][seed as usize % 4]) };
        let mut spaces = [Space::new(config, 1), Space::new(config, 1)];
        let book = Book::default();
        let plan = Plan { count: 300, requests: 300, window: 1, ..Plan::default() };
        let mut world =
            World::new((seed, Faults::default()), &mut spaces, &[1], |node, net| App::new(node, net, &book, plan));
        world.connect(0, 1);
        world.run_until(|world| world.nodes.iter().all(|node| node.app.conns.len() == 1 && node.app.done()));
        world.run_for(2 * MS);
        let asked = [0, 1].map(|node| asks(&world, node));
        assert!(asked.iter().all(|&asked| asked > 10), "seed {seed}: {asked:?}");
        assert!(world.nodes.iter().all(|node| node.engine.live() == 1), "seed {seed}");
        world.end();
    }
}

#[test]
fn a_raw_peer_is_never_asked() {
    let config = Config { mode: Mode::Raw, keepalive: Some(Keepalive::DEFAULT), ..config(4) };
    let mut spaces = [Space::new(config, 1), Space::new(config, 1)];
    let mut world = world(&mut spaces, 2);
    open(&mut world);
    world.run_for(100 * SECOND);
    assert_eq!((asks(&world, 0), asks(&world, 1)), (0, 0));
    world.end();
}

/// An earlier Spinwire, whose hello ends before the word that says it answers.
#[test]
fn a_peer_that_does_not_say_it_answers_is_not_asked() {
    let mut spaces = spaces(4);
    let mut world = world(&mut spaces, 2);
    world.connect(0, 1);
    world.nodes[1].alive = false;
    world.run_until(|world| !world.net.wire().hosts[1].events.is_empty());
    world.nodes[1].alive = true;
    {
        let mut wire = world.net.wire();
        let request = &mut wire.hosts[1].events.front_mut().unwrap().0;
        assert_eq!(request.kind, CmEventKind::ConnectRequest);
        (request.private_data[6], request.private_data[16]) = (16, 0);
    }
    world.run_for(100 * SECOND);
    assert!(asks(&world, 0) >= 19, "the other says so and is asked: {}", asks(&world, 0));
    assert_eq!(asks(&world, 1), 0);
    world.end();
}

/// After the peer's goodbye its disconnect is waited for, and nothing is asked.
#[test]
fn a_peer_that_said_goodbye_is_not_asked() {
    let mut spaces = spaces(4);
    let mut world = world(&mut spaces, 2);
    let conn = open(&mut world);
    world.net.wire().lost.push((1, CmEventKind::Disconnected));
    world.run_for(4_999 * MS);
    world.with(0, |cx, _| cx.close(conn));
    world.run_until(|world| world.nodes[1].app.closed() == 1);
    assert_eq!(world.nodes[1].app.only().closed.unwrap().reason, CloseReason::Peer);
    assert_eq!(asks(&world, 1), 0);
    world.run();
    world.assert_all_over();
}
