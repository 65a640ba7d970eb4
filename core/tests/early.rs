//! Messages that arrive in an unlucky moment: before the peer's answer is seen, or just before the device goes.
#![cfg(not(loom))]

use spinwire_core::cm::event::CmEventKind;
use spinwire_core::cm::reason::CloseReason;
use spinwire_core::id::ConnId;
use spinwire_core::sim::{App, MS, Phase, Plan, QpState, Space, World, config, pair, spaces};

/// Node 0 has connected and another thread has fetched ESTABLISHED for it: the queue pair receives. The event itself is
/// taken away here; [`hand_over`] is when the loop gets it.
type Fetched = (spinwire_core::cm::event::CmEvent, Option<usize>);

fn fetched<'s>(spaces: &'s mut [Space; 2], server: Plan, client: Plan) -> (World<'s, App>, ConnId, Fetched) {
    let mut world = pair(spaces, 4, client, server);
    let conn = world.connect(0, 1);
    let established = |world: &World<'_, App>| {
        let wire = world.net.wire();
        wire.hosts[0].events.front().is_some_and(|(event, _)| event.kind == CmEventKind::Established)
    };
    while !established(&world) {
        world.advance();
        (0..2).for_each(|node| {
            if !established(&world) {
                world.turn(node)
            }
        });
        world.now += 1_000;
    }
    let event = world.net.wire().hosts[0].events.pop_front().unwrap();
    let end = event.1.unwrap();
    world.net.wire().ends[end].phase = Phase::Up;
    world.net.wire().ends[end].qp.as_mut().unwrap().state = QpState::Rts;
    // The server learns that it is connected, and sends all it may.
    let peer = world.net.wire().ends[end].peer.unwrap();
    let mut up = spinwire_core::sim::bare(CmEventKind::Established, 0);
    up.target = spinwire_core::cm::event::Target::Conn(world.net.wire().ends[peer].conn.unwrap());
    world.net.wire().hosts[1].events.push_back((up, Some(peer)));
    world.run_for(MS);
    (world, conn, event)
}

#[test]
fn messages_before_the_answer_wait_for_it_and_come_in_order() {
    for depth in [1, 2, 8, 32] {
        let mut spaces = spaces(depth, 1);
        let one_way = Plan { count: 100, requests: 0, bytes_max: 9, ..Plan::default() };
        let (mut world, conn, event) = fetched(&mut spaces, one_way, Plan { window: 1, ..Plan::default() });
        let held = world.nodes[0].engine.stats().messages_held;
        let receives = config(depth).sizing().recv_posted;
        assert_eq!(held, u64::from(receives) - 1, "all the server has credits for");
        assert_eq!(world.nodes[0].engine.stats().messages_received, 0);
        world.net.wire().hosts[0].events.push_back(event);
        world.run();
        let view = world.nodes[0].app.view(conn);
        assert_eq!((view.received - u64::from(view.answered), view.answered), (100, 20));
        world.end();
    }
}

/// They have arrived, and what they say is known: that the queue pair cannot be tuned ends the connection, not them.
#[test]
fn messages_before_the_answer_are_delivered_although_the_next_step_fails() {
    let mut spaces = spaces(4, 1);
    let one_way = Plan { count: 100, requests: 0, bytes_max: 9, ..Plan::default() };
    let (mut world, conn, event) = fetched(&mut spaces, one_way, Plan::SILENT);
    let held = world.nodes[0].engine.stats().messages_held;
    world.net.wire().hosts[0].fail = Some(("ibv_modify_qp", 1));
    world.net.wire().hosts[0].events.push_back(event);
    world.run();
    let view = world.nodes[0].app.view(conn);
    assert_eq!((view.opened, view.received), (true, held));
    assert!(matches!(view.closed.unwrap().reason, CloseReason::Call { call: "ibv_modify_qp", .. }));
    world.assert_all_over();
}

#[test]
fn messages_whose_answer_never_comes_leave_nothing() {
    for close in [false, true] {
        let mut spaces = spaces(4, 1);
        let (mut world, conn, _) = fetched(&mut spaces, Plan { requests: 0, ..Plan::default() }, Plan::SILENT);
        assert!(world.nodes[0].engine.stats().messages_held > 0);
        // What cannot be read without the hello is nobody's.
        world.net.with_end(0, conn, |end| end.hostile = true);
        if close {
            world.with(0, |cx, _| cx.close(conn));
        }
        world.run();
        let report = world.nodes[0].app.view(conn).closed.unwrap();
        assert!(matches!(report.reason, CloseReason::Local | CloseReason::TimedOut { .. }), "{}", report.reason);
        assert_eq!((report.unsent, report.was_open), (0, false));
        world.assert_all_over();
    }
}

#[test]
fn a_bad_answer_drops_what_came_before_it() {
    let mut spaces = spaces(4, 1);
    let server = Plan { requests: 0, ..Plan::default() };
    let (mut world, conn, mut event) = fetched(&mut spaces, server, Plan::SILENT);
    event.0.private_data[4] = 9;
    world.net.wire().hosts[0].events.push_back(event);
    world.run();
    assert!(matches!(world.nodes[0].app.reason(conn), Some(CloseReason::Hello(_))));
    assert_eq!(world.nodes[0].engine.stats().messages_received, 0);
    world.assert_all_over();
}

/// More messages than one batch are in the queue when the device goes: all of them are delivered, on both sides' paths.
#[test]
fn what_had_arrived_before_the_device_went_is_delivered() {
    for whole_device in [true, false] {
        let mut spaces = spaces(256, 1);
        let plan = Plan { count: 200, requests: 0, ..Plan::default() };
        let mut world = pair(&mut spaces, 1, plan, Plan::SILENT);
        world.connect(0, 1);
        world.run_until(|world| world.nodes[1].app.conns.len() == 1);
        world.nodes[1].alive = false;
        world.run_for(10 * MS);
        world.nodes[1].alive = true;
        let conn = *world.nodes[1].app.conns.keys().next().unwrap();
        let conn = ConnId::from_bits(conn).unwrap();
        match whole_device {
            true => world.net.device_event(1, CmEventKind::DeviceRemoval),
            false => world.net.event(1, conn, CmEventKind::DeviceRemoval, 0),
        }
        world.run_until(|world| world.nodes[1].app.closed() == 1);
        let view = world.nodes[1].app.only();
        assert_eq!((view.received, view.closed.unwrap().reason), (200, CloseReason::DeviceRemoved));
        world.run();
        world.assert_all_over();
    }
}
