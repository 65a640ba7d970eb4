//! Each thing that can go wrong, one at a time: in every state, after every step.
#![cfg(not(loom))]

use spinwire_core::cm::event::CmEventKind;
use spinwire_core::cm::reason::CloseReason;
use spinwire_core::cm::table::State;
use spinwire_core::config::Timeouts;
use spinwire_core::id::ConnId;
use spinwire_core::sim::{App, MS, Phase, Plan, Space, World, pair, spaces};

fn quiet(spaces: &mut [Space; 2]) -> World<'_, App> {
    pair(spaces, 1, Plan::SILENT, Plan::SILENT)
}

/// The client's connection in `phase`, or the server's where only that side has it.
fn bring_to(world: &mut World<'_, App>, phase: Phase) -> (usize, ConnId) {
    let node = usize::from(phase == Phase::Accepted);
    let conn = world.connect(0, 1);
    let mut found = None;
    world.run_until(|world| {
        let wire = world.net.wire();
        let end = wire.ends.iter().find(|end| end.node == node && end.phase == phase);
        found = end.and_then(|end| end.conn);
        found.is_some()
    });
    assert!(node == 1 || found == Some(conn));
    (node, found.unwrap())
}

#[test]
fn every_failure_event_ends_every_state_once_and_says_what_it_was() {
    use CmEventKind as Kind;
    let phases = [
        (Phase::AddrResolving, State::AddrResolving),
        (Phase::RouteResolving, State::RouteResolving),
        (Phase::Connecting, State::Connecting),
        (Phase::Accepted, State::Accepting),
        (Phase::Up, State::Established),
    ];
    for (phase, step) in phases {
        for kind in [
            Kind::AddrError,
            Kind::RouteError,
            Kind::ConnectError,
            Kind::Unreachable,
            Kind::Rejected,
            Kind::DeviceRemoval,
        ] {
            let mut spaces = spaces(2, 1);
            let mut world = quiet(&mut spaces);
            let (node, conn) = bring_to(&mut world, phase);
            let (start, status) = (world.now, if kind == Kind::Rejected { 6 } else { -110 });
            let resolving = matches!(kind, Kind::AddrError | Kind::RouteError);
            world.net.event(node, conn, kind, status);
            world.run();
            let reason = world.nodes[node].app.reason(conn);
            if resolving && phase == Phase::Up {
                assert_eq!(reason, None, "an error of a step long done is of no consequence");
                world.end();
                assert_eq!(world.nodes[node].app.reason(conn), Some(CloseReason::Local), "and is not remembered");
                continue;
            }
            let expected = match kind {
                Kind::Rejected => CloseReason::Rejected { code: 6 },
                Kind::DeviceRemoval => CloseReason::DeviceRemoved,
                event => CloseReason::Event { step, event, status },
            };
            assert_eq!(reason, Some(expected), "{kind:?} in {phase:?}");
            assert!(world.now - start < 5_500 * MS);
            world.end();
        }
    }
}

#[test]
fn a_step_that_fails_leaves_nothing_and_the_next_connect_succeeds() {
    let client = ["rdma_resolve_addr", "rdma_resolve_route", "rdma_create_qp", "rdma_connect", "ibv_modify_qp"];
    let server = ["adopt", "rdma_create_qp", "rdma_accept", "ibv_modify_qp"];
    let both = client.map(|call| (0, call)).into_iter().chain(server.map(|call| (1, call)));
    for (node, call) in both {
        let mut spaces = spaces(2, 1);
        let mut world = quiet(&mut spaces);
        world.net.wire().hosts[node].fail = Some((call, 1));
        let conn = world.connect(0, 1);
        world.run();
        assert!(world.now < 8_000 * MS);
        let reason = world.nodes[0].app.reason(conn).expect("an end");
        if node == 0 {
            assert!(matches!(reason, CloseReason::Call { call: failed, errno: 12, .. } if failed == call), "{reason}");
        } else {
            let refused = CloseReason::Rejected { code: 28 };
            assert!(
                reason == refused || (call == "ibv_modify_qp" && reason == CloseReason::PeerGone),
                "{call}: {reason}"
            );
        }
        world.assert_all_over();
        let conn = world.connect(0, 1);
        world.run();
        assert!(world.nodes[0].app.view(conn).opened && world.nodes[0].app.reason(conn).is_none());
        world.end();
    }
}

#[test]
fn a_destroy_that_fails_is_counted_and_ends_all_the_same() {
    for call in ["rdma_destroy_qp", "rdma_destroy_id", "rdma_disconnect"] {
        let mut spaces = spaces(2, 1);
        let mut world = quiet(&mut spaces);
        world.net.wire().hosts[0].fail = Some((call, 1));
        world.connect(0, 1);
        world.run();
        world.end();
        assert_eq!(world.nodes[0].engine.stats().releases_failed, u64::from(call != "rdma_disconnect"));
    }
}

/// Whatever event gets lost, both sides end by a deadline.
#[test]
fn a_lost_event_is_a_deadline_not_a_hang() {
    use CmEventKind as Kind;
    let limits = Timeouts::default();
    for (node, kind, step, limit) in [
        (0, Kind::AddrResolved, State::AddrResolving, limits.resolve),
        (0, Kind::RouteResolved, State::RouteResolving, limits.resolve),
        (1, Kind::ConnectRequest, State::Connecting, limits.connect),
        (0, Kind::Established, State::Connecting, limits.connect),
        (1, Kind::Established, State::Accepting, limits.connect),
    ] {
        let mut spaces = spaces(2, 1);
        let mut world = quiet(&mut spaces);
        world.net.wire().lost.push((node, kind));
        let conn = world.connect(0, 1);
        world.run();
        assert!(world.now < 6_000 * MS, "{kind:?}: {} ms", world.now / MS);
        let timed_out = CloseReason::TimedOut { step, limit };
        match step {
            State::Accepting => assert_eq!(world.nodes[1].app.only().closed.unwrap().reason, timed_out),
            _ => assert_eq!(world.nodes[0].app.reason(conn), Some(timed_out)),
        }
        world.assert_all_over();
    }
}

#[test]
fn data_before_established_opens_the_connection() {
    let mut spaces = spaces(4, 1);
    let mut world = pair(&mut spaces, 1, Plan { count: 100, window: 4, ..Plan::default() }, Plan::SILENT);
    world.net.wire().lost.push((1, CmEventKind::Established));
    let conn = world.connect(0, 1);
    world.run();
    assert_eq!(world.nodes[0].app.view(conn).answered, 100);
    world.end();
}

/// The loop slept for an hour before the application asked, so the stamp of its last turn is that old.
#[test]
fn the_time_for_all_attempts_begins_with_the_first_attempt() {
    let mut spaces = spaces(2, 1);
    let mut world = quiet(&mut spaces);
    world.net.wire().faults.latency = 5 * MS;
    world.turn(0);
    world.now += 3_600_000 * MS;
    let conn = world.connect(0, 1);
    world.run();
    assert_eq!((world.nodes[0].app.view(conn).opened, world.nodes[0].app.reason(conn)), (true, None));
    world.end();
}

/// The first message opens a connection that is ending already, and the application closes it when it hears of it.
#[test]
fn no_message_comes_after_a_close_in_on_open() {
    let mut spaces = spaces(4, 1);
    let client = Plan { count: 3, requests: 0, ..Plan::default() };
    let mut world = pair(&mut spaces, 1, client, Plan { close_at_once: true, ..Plan::SILENT });
    world.net.wire().hosts[1].fail = Some(("ibv_modify_qp", 1));
    world.net.wire().lost.push((1, CmEventKind::Established));
    world.connect(0, 1);
    world.run();
    let server = world.nodes[1].app.only();
    assert!(server.opened && server.received == 0);
    assert!(world.nodes[1].engine.stats().messages_after_close > 0);
    world.end();
}

#[test]
fn disconnected_before_established_still_delivers() {
    let mut spaces = spaces(16, 1);
    let plan = Plan { count: 10, requests: 0, close_at_once: true, ..Plan::default() };
    let mut world = pair(&mut spaces, 1, plan, Plan::SILENT);
    let conn = world.connect(0, 1);
    world.run_until(|world| {
        let wire = world.net.wire();
        wire.ends.iter().any(|end| end.node == 1 && end.phase == Phase::Accepted)
    });
    // The server's loop is away: data, DISCONNECTED and ESTABLISHED wait for it, in the worst order.
    world.nodes[1].alive = false;
    world.run_until(|world| world.nodes[0].app.reason(conn).is_some());
    world.run_for(10 * MS);
    let mut wire = world.net.wire();
    wire.hosts[1].events.make_contiguous().reverse();
    assert_eq!(wire.hosts[1].events.front().unwrap().0.kind, CmEventKind::Disconnected);
    // As if the events were seen first.
    let data = std::mem::take(&mut wire.hosts[1].recv_cq);
    drop(wire);
    world.turn(1);
    world.net.wire().hosts[1].recv_cq = data;
    world.nodes[1].alive = true;
    world.run();
    let server = world.nodes[1].app.only();
    assert_eq!((server.received, server.closed.unwrap().reason), (10, CloseReason::Peer));
    world.assert_all_over();
}

#[test]
fn a_fatal_device_event_ends_all_connections_and_the_far_side_sees_it() {
    for kind in [CmEventKind::DeviceFatal, CmEventKind::DeviceRemoval] {
        let mut spaces = spaces(4, 8);
        let mut world = pair(&mut spaces, 1, Plan::default(), Plan::SILENT);
        let conns: Vec<_> = (0..8).map(|_| world.connect(0, 1)).collect();
        world.run();
        world.net.device_event(0, kind);
        world.run();
        let expected =
            if kind == CmEventKind::DeviceFatal { CloseReason::DeviceFatal } else { CloseReason::DeviceRemoved };
        assert!(conns.iter().all(|&conn| world.nodes[0].app.reason(conn) == Some(expected)));
        assert_eq!(world.nodes[1].app.closed(), 8);
        world.assert_all_over();
    }
}

#[test]
fn a_device_that_goes_before_the_first_step_ends_the_connection() {
    let mut spaces = spaces(4, 1);
    let mut world = quiet(&mut spaces);
    let conn = world.connect(0, 1);
    world.net.device_event(0, CmEventKind::DeviceRemoval);
    world.turn(0);
    assert_eq!(world.nodes[0].app.reason(conn), Some(CloseReason::DeviceRemoved));
    world.run();
    world.assert_all_over();
}

/// Many connections end at once: their queue pairs take milliseconds each to destroy, so a turn destroys only a few.
#[test]
fn a_turn_destroys_a_bounded_number_of_queue_pairs() {
    let mut spaces = spaces(2, 64);
    let mut world = pair(&mut spaces, 1, Plan::SILENT, Plan::SILENT);
    for _ in 0..64 {
        world.connect(0, 1);
    }
    world.run();
    world.kill(1, false);
    let (mut closed, mut most) = (0, 0);
    world.run_until(|world| {
        let now_closed = world.nodes[0].app.closed();
        (closed, most) = (now_closed, most.max(now_closed - closed));
        closed == 64
    });
    assert!(most <= 4, "{most} connections were released in one turn");
    world.assert_all_over();
}
