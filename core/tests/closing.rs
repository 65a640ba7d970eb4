//! The end of a connection: nothing that arrived is lost, nobody waits without a bound, the first reason is reported.
#![cfg(not(loom))]

use spinwire_core::cm::event::CmEventKind;
use spinwire_core::cm::reason::CloseReason;
use spinwire_core::config::{Config, Timeouts};
use spinwire_core::fabric::WcStatus;
use spinwire_core::id::ConnId;
use spinwire_core::sim::{App, Book, Faults, MS, Plan, Space, World, config, pair, spaces};
use spinwire_core::time::Nanos;

#[test]
fn a_thousand_messages_and_an_immediate_close_all_arrive() {
    for seed in 0..500 {
        let depth = [1, 4, 16, 64, 256][seed as usize % 5];
        let mut spaces = spaces(depth, 1);
        let plan = Plan { count: 1_000, requests: 0, bytes_max: 17, close_at_once: true, ..Plan::default() };
        let mut world = pair(&mut spaces, seed, plan, Plan::SILENT);
        let conn = world.connect(0, 1);
        world.run();
        let report = world.nodes[0].app.view(conn).closed.unwrap();
        assert_eq!((report.reason, report.unsent, report.unconfirmed_after), (CloseReason::Local, 0, None));
        let server = world.nodes[1].app.only();
        assert_eq!((server.received, server.closed.unwrap().reason), (1_000, CloseReason::Peer), "seed {seed}");
        world.assert_all_over();
    }
}

/// A goodbye is the last message; a credit update behind it would keep the close waiting for a completion.
#[test]
fn closing_while_the_peer_sends_does_not_wait_for_the_linger_time() {
    for depth in [1, 2, 8, 32] {
        let mut spaces = spaces(depth, 1);
        let plan = Plan { count: 10, requests: 0, close_at_once: true, ..Plan::default() };
        let flood = Plan { count: 100_000, requests: 0, ..Plan::default() };
        let mut world = pair(&mut spaces, depth.into(), plan, flood);
        let conn = world.connect(0, 1);
        world.run_until(|world| world.nodes[0].app.reason(conn).is_some());
        assert!(world.now < 100 * MS, "depth {depth}: {} ms", world.now / MS);
        assert_eq!(world.nodes[0].app.view(conn).closed.unwrap().unconfirmed_after, None);
        world.run();
        assert_eq!(world.nodes[1].app.only().closed.unwrap().reason, CloseReason::Peer);
        world.assert_all_over();
    }
}

/// The far machine is frozen, retries have no end and flushes never come: only deadlines are left.
#[test]
fn closes_that_nobody_confirms_end_within_one_deadline_while_others_go_on() {
    let timeouts = Timeouts { linger: Nanos::from_millis(200), drain: Nanos::from_millis(50), ..Timeouts::default() };
    let config = Config { timeouts, ..config(2) };
    let mut spaces = [Space::new(config, 33), Space::new(config, 32), Space::new(config, 1)];
    let book = Book::default();
    let faults = Faults { flushes_missing: 1_000, ..Faults::default() };
    let mut world = World::new((3, faults), &mut spaces, &[1, 2], |node, net| {
        App::new(node, net, &book, if node == 0 { Plan { count: 5, ..Plan::default() } } else { Plan::SILENT })
    });
    let doomed: Vec<_> = (0..32).map(|_| world.connect(0, 1)).collect();
    let other = world.connect(0, 2);
    world.run_until(|world| world.nodes[0].app.conns.len() == 33 && world.nodes[0].app.done());
    world.net.wire().tries_for_ever = true;
    world.kill(1, true);
    world.nodes[0].app.plan.count = u32::MAX;
    world.with(0, |cx, app| {
        for conn in &doomed {
            app.conns.get_mut(&conn.to_bits()).unwrap().close_asked = true;
            cx.close(*conn);
        }
        app.go_on(cx, other);
    });
    let (start, mut last, mut gap, mut answered) = (world.now, world.now, 0, 0);
    world.run_until(|world| {
        let now_answered = world.nodes[0].app.view(other).answered;
        gap = gap.max(world.now - last);
        if now_answered > answered {
            (last, answered) = (world.now, now_answered);
        }
        world.nodes[0].app.closed() == 32
    });
    let took = (world.now - start) / MS;
    assert!((250..300).contains(&took), "linger 200 ms and drain 50 ms, for all together: {took} ms");
    assert!(answered > 5_000 && gap < MS, "the other connection: {answered} answers, longest gap {gap} ns");
    for conn in doomed {
        let report = world.nodes[0].app.view(conn).closed.unwrap();
        assert_eq!(report.reason, CloseReason::Local);
        assert!((200..210).contains(&report.unconfirmed_after.unwrap().as_millis()));
    }
    world.nodes[0].app.plan.count = 0;
    world.end();
}

#[test]
fn sends_that_are_lost_while_closing_are_told() {
    let mut spaces = spaces(8, 1);
    let mut world = pair(&mut spaces, 1, Plan::SILENT, Plan::SILENT);
    let conn = world.connect(0, 1);
    world.run();
    world.kill(1, true);
    world.nodes[0].app.plan = Plan { count: 5, requests: 0, close_at_once: true, ..Plan::default() };
    world.with(0, |cx, app| app.go_on(cx, conn));
    world.run();
    let report = world.nodes[0].app.view(conn).closed.unwrap();
    assert_eq!(report.reason, CloseReason::Local);
    // The device gave up after its retries, well before the linger time.
    let after = report.unconfirmed_after.expect("five messages went nowhere").as_millis();
    assert!((300..1_000).contains(&after), "{after} ms");
    world.assert_all_over();
}

/// What the closing side has queued waits for credits, and the peer, which has used up its own, asks whether it lives. That
/// there is an answer to give must not keep the credits back, nor the loop awake.
#[test]
fn a_question_while_closing_does_not_hold_up_the_credits() {
    let mut spaces = spaces(2, 1);
    let mut world = pair(&mut spaces, 1, Plan::SILENT, Plan::SILENT);
    let conn = world.connect(0, 1);
    world.run();
    // The peer stops: it reads nothing, and gives no credits.
    world.nodes[0].alive = false;
    let conn = ConnId::from_bits(world.net.peer_of(0, conn).unwrap().1).unwrap();
    world.nodes[1].app.plan = Plan { count: 50, requests: 0, ..Plan::default() };
    world.with(1, |cx, app| {
        app.go_on(cx, conn);
        app.close(cx, conn);
    });
    world.run_for(MS);
    let updates = world.nodes[1].engine.stats().credit_messages;
    for imm in [0, 0, 1 << 18] {
        assert!(world.forge(1, conn, 0, Some(imm)));
    }
    let turns = world.nodes[1].engine.stats().turns;
    world.run_for(10 * MS);
    let stats = world.nodes[1].engine.stats();
    assert!(stats.credit_messages > updates, "the peer got no credits: {stats:?}");
    assert!(stats.turns - turns < 20, "the loop spins: {} turns", stats.turns - turns);
    world.nodes[0].alive = true;
    world.run();
    world.assert_all_over();
}

/// The goodbye is the only send, so when it fails nothing is left in the queue.
#[test]
fn a_goodbye_that_alone_is_lost_is_told() {
    let mut spaces = spaces(8, 1);
    let mut world = pair(&mut spaces, 1, Plan::SILENT, Plan::SILENT);
    let conn = world.connect(0, 1);
    world.run();
    world.kill(1, true);
    world.with(0, |cx, app| {
        app.conns.get_mut(&conn.to_bits()).unwrap().close_asked = true;
        cx.close(conn);
    });
    world.run();
    let report = world.nodes[0].app.view(conn).closed.unwrap();
    assert_eq!((report.reason, report.unsent), (CloseReason::Local, 0));
    let after = report.unconfirmed_after.expect("the goodbye went nowhere").as_millis();
    assert!((300..1_000).contains(&after), "{after} ms");
    world.assert_all_over();
}

/// Machines stand still at times: a debugger, a verb that takes its time. What had arrived is not forgotten for it.
#[test]
fn a_loop_that_was_away_delivers_before_it_judges_deadlines() {
    let mut spaces = spaces(256, 1);
    let plan = Plan { count: 200, requests: 0, close_at_once: true, ..Plan::default() };
    let mut world = pair(&mut spaces, 1, plan, Plan::SILENT);
    let conn = world.connect(0, 1);
    world.run_until(|world| world.nodes[1].app.conns.len() == 1);
    // The server's program is stopped while everything happens.
    world.nodes[1].alive = false;
    world.run_until(|world| world.nodes[0].app.reason(conn).is_some());
    world.nodes[1].alive = true;
    world.turn(1);
    world.now += 1_000 * MS;
    world.run();
    let server = world.nodes[1].app.only();
    assert_eq!((server.received, server.closed.unwrap().reason), (200, CloseReason::Peer));
    world.assert_all_over();
}

#[test]
fn a_peer_that_said_goodbye_and_fell_silent_is_not_waited_for() {
    let mut spaces = spaces(4, 1);
    let plan = Plan { count: 3, requests: 0, close_at_once: true, ..Plan::default() };
    let mut world = pair(&mut spaces, 1, plan, Plan::SILENT);
    world.net.wire().lost.push((1, CmEventKind::Disconnected));
    world.connect(0, 1);
    world.run_until(|world| world.nodes[1].app.closed() == 1);
    assert_eq!(world.nodes[1].app.only().closed.map(|report| report.reason), Some(CloseReason::Peer));
    assert!(world.now < 2_600 * MS, "linger and drain");
    world.run();
    world.assert_all_over();
}

#[test]
fn a_killed_peer_is_gone_not_closed() {
    let mut spaces = spaces(4, 1);
    let mut world = pair(&mut spaces, 1, Plan::SILENT, Plan::SILENT);
    let conn = world.connect(0, 1);
    world.run();
    world.kill(1, false);
    world.run();
    assert_eq!(world.nodes[0].app.reason(conn), Some(CloseReason::PeerGone));
    world.assert_all_over();
}

/// What broke the queue pair is seen after the flushes it caused: the reason is the cause.
#[test]
fn a_flush_gives_way_to_the_cause_that_is_seen_after_it() {
    for (kind, expected) in [
        (CmEventKind::DeviceFatal, CloseReason::DeviceFatal),
        (CmEventKind::DeviceRemoval, CloseReason::DeviceRemoved),
        (CmEventKind::Disconnected, CloseReason::PeerGone),
    ] {
        let mut spaces = spaces(4, 1);
        let mut world = pair(&mut spaces, 1, Plan::SILENT, Plan::SILENT);
        let conn = world.connect(0, 1);
        world.run();
        world.net.break_qp(0, conn, WcStatus::WR_FLUSH_ERR);
        let before = world.nodes[0].engine.stats().completions_flushed;
        // The first flushed receives are seen one turn before the event.
        world.run_until(|world| world.nodes[0].engine.stats().completions_flushed > before);
        if world.nodes[0].app.reason(conn).is_none() {
            world.net.event(0, conn, kind, 0);
        }
        world.run();
        let reason = world.nodes[0].app.reason(conn).unwrap();
        let flush = matches!(reason, CloseReason::Completion { status: WcStatus::WR_FLUSH_ERR, .. });
        assert!(reason == expected || flush, "{reason}");
        world.end();
    }
}

#[test]
fn when_the_goodbye_disconnect_fails_what_arrived_is_delivered_all_the_same() {
    let mut spaces = spaces(64, 1);
    let plan = Plan { count: 50, requests: 0, close_at_once: true, ..Plan::default() };
    let mut world = pair(&mut spaces, 1, plan, Plan::SILENT);
    world.net.wire().hosts[1].fail = Some(("rdma_disconnect", 1));
    let conn = world.connect(0, 1);
    world.run_until(|world| world.nodes[1].app.conns.len() == 1);
    world.nodes[1].alive = false;
    world.run_until(|world| world.nodes[0].app.reason(conn).is_some());
    world.nodes[1].alive = true;
    world.run();
    assert_eq!(world.nodes[1].app.only().received, 50);
    world.assert_all_over();
}
