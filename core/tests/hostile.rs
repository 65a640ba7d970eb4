//! A peer that does not keep to the rules costs its own connection, and nothing else.
#![cfg(not(loom))]

use spinwire_core::cm::event::CmEventKind;
use spinwire_core::cm::hello::HelloError;
use spinwire_core::cm::reason::{CloseReason, ProtocolError};
use spinwire_core::config::{BATCH_MAX, Config};
use spinwire_core::id::ConnId;
use spinwire_core::sim::{App, Due, Phase, Plan, Space, World, bare, config, pair, spaces};

#[test]
fn one_forged_message_ends_one_connection_with_its_reason() {
    let cases = [
        (65, Some(0), ProtocolError::TooLong { got: 65, max: 64 }),
        (u32::MAX, Some(0), ProtocolError::TooLong { got: u32::MAX, max: 64 }),
        (1, None, ProtocolError::Imm { imm: None }),
        (1, Some(u32::MAX), ProtocolError::Imm { imm: Some(u32::MAX) }),
        (0, Some(3 << 16), ProtocolError::Imm { imm: Some(3 << 16) }),
        (0, Some(1 << 16 | 9), ProtocolError::Credits { got: 9, have: 4, max: 4 }),
        (1, Some(9), ProtocolError::Credits { got: 9, have: 4, max: 4 }),
        (1, Some(1 << 17), ProtocolError::TooLong { got: 1, max: 0 }),
    ];
    for (claimed, imm, expected) in cases {
        let mut spaces = spaces(2, 2);
        let mut world = pair(&mut spaces, 1, Plan::SILENT, Plan::SILENT);
        let (bad, good) = (world.connect(0, 1), world.connect(0, 1));
        world.run();
        assert!(world.forge(0, bad, claimed, imm));
        world.nodes[0].app.plan = Plan { count: 50, ..Plan::default() };
        world.with(0, |cx, app| app.go_on(cx, good));
        world.run();
        assert_eq!(world.nodes[0].app.reason(bad), Some(CloseReason::Protocol(expected)));
        assert_eq!(world.nodes[0].app.view(bad).received, 0);
        assert_eq!((world.nodes[0].app.view(good).answered, world.nodes[0].app.reason(good)), (50, None));
        world.end();
    }
    let text = CloseReason::Protocol(ProtocolError::TooLong { got: 65, max: 64 }).to_string();
    assert!(text.contains("sent 65 bytes, at most 64 expected"), "{text}");
}

/// A message that is really longer than the receive never gets into it: the device says so, on both sides.
#[test]
fn a_message_longer_than_the_receive_touches_nothing() {
    let small = Config { message_bytes_max: 16, ..config(2) };
    let mut spaces = [Space::new(config(2), 1), Space::new(small, 1)];
    let mut world = pair(&mut spaces, 1, Plan::SILENT, Plan::SILENT);
    let conn = world.connect(0, 1);
    world.run();
    // The limits were exchanged, so an honest sender is stopped first.
    let error = world.with(0, |cx, _| cx.send(conn, &[0; 17])).unwrap_err();
    assert_eq!(error.to_string(), "a message of 17 bytes is too long: at most 16");
    world.end();
}

/// The answer carries nonsense, so nothing is known of the peer's limits; what it sends then must not be looked at.
#[test]
fn what_comes_after_a_hello_that_was_not_accepted_is_ignored() {
    for imm in [0, 5, 0xffff, 1 << 16 | 40, 1 << 17] {
        let mut spaces = spaces(2, 1);
        let mut world = pair(&mut spaces, 1, Plan::SILENT, Plan::SILENT);
        let conn = world.connect(0, 1);
        world.run_until(|world| {
            let wire = world.net.wire();
            wire.ends.iter().any(|end| end.node == 1 && end.phase == Phase::Accepted)
        });
        // The answer comes without a hello, and a message right behind it.
        let data = {
            let mut wire = world.net.wire();
            let end = wire.hosts[0].conns[&conn.to_bits()];
            wire.due.retain(|_, due| !matches!(due, Due::Event(0, ..)));
            wire.after(0, Due::Event(0, Box::new(bare(CmEventKind::Established, 0)), Some(end)));
            let now = wire.now;
            wire.advance(now, &mut world.nodes);
            wire.put(end, &[], 0, Some(imm), &mut world.nodes);
            std::mem::take(&mut wire.hosts[0].recv_cq)
        };
        world.turn(0);
        world.net.wire().hosts[0].recv_cq = data;
        world.run();
        let app = &world.nodes[0].app;
        assert_eq!(app.reason(conn), Some(CloseReason::Hello(HelloError::NotSpinwire)));
        assert!(!app.view(conn).opened, "it was never up");
        world.end();
    }
}

/// Refused connections leave the receives they had posted in the queue: however many, one turn gets past them.
#[test]
fn stale_completions_do_not_hold_up_a_message() {
    let mut spaces = spaces(2, 2);
    let mut world = pair(&mut spaces, 1, Plan::SILENT, Plan::SILENT);
    let (gone, live) = (world.connect(0, 1), world.connect(0, 1));
    world.run();
    world.with(0, |cx, _| cx.close(gone));
    world.run();
    let stale = 7 * BATCH_MAX;
    world.net.leave_behind(0, gone, stale);
    assert!(world.forge(0, live, 1, Some(0)));
    let before = world.nodes[0].engine.stats().completions_stale;
    world.turn(0);
    let stats = world.nodes[0].engine.stats();
    assert_eq!((stats.completions_stale - before, stats.messages_received), (stale as u64, 1));
    world.end();
}

/// A driver mixes up two queue pairs: the work id names one connection, the number says another. Neither connection's books
/// are touched, and when the completion comes with the right number it counts.
#[test]
fn a_completion_from_another_queue_pair_touches_nobody() {
    let mut spaces = spaces(4, 2);
    let mut world = pair(&mut spaces, 1, Plan::SILENT, Plan::SILENT);
    let conns = [world.connect(0, 1), world.connect(0, 1)];
    world.run();
    let numbers = conns.map(|conn| world.net.with_end(0, conn, |end| end.qp.as_ref().unwrap().number).unwrap());
    let received = |world: &World<'_, App>| conns.map(|conn| world.nodes[0].app.view(conn).received);

    let from_peer = ConnId::from_bits(world.net.peer_of(0, conns[0]).unwrap().1).unwrap();
    world.nodes[1].app.plan = Plan { count: 1, requests: 0, ..Plan::default() };
    world.with(1, |cx, app| app.go_on(cx, from_peer));
    world.nodes[0].alive = false;
    world.run_until(|world| !world.net.wire().hosts[0].recv_cq.is_empty());
    let arrived = world.net.wire().hosts[0].recv_cq.pop_front().unwrap();
    for qp_num in [numbers[1], 0, u32::MAX, numbers[0]] {
        assert_eq!(received(&world), [0, 0]);
        let mut arrived = arrived.clone();
        arrived.completion.qp_num = qp_num;
        world.net.wire().hosts[0].recv_cq.push_back(arrived);
        world.turn(0);
    }
    assert_eq!(received(&world), [1, 0]);

    // The same for a send: it fills the queue until the right completion frees it.
    world.nodes[0].app.plan = Plan { count: 1_000, requests: 0, ..Plan::default() };
    world.with(0, |cx, app| app.go_on(cx, conns[0]));
    assert!(world.nodes[0].app.view(conns[0]).blocked, "the queue is full");
    world.turn(0);
    world.run_until(|world| !world.net.wire().hosts[0].send_cq.is_empty());
    world.nodes[0].alive = true;
    let confirmed = world.net.wire().hosts[0].send_cq.pop_front().unwrap();
    let mut wrong = confirmed.clone();
    wrong.completion.qp_num = numbers[1];
    world.net.wire().hosts[0].send_cq.push_front(wrong);
    let sent = world.nodes[0].app.view(conns[0]).sent;
    world.turn(0);
    assert!(world.nodes[0].app.view(conns[0]).blocked && world.nodes[0].app.view(conns[0]).sent == sent);
    world.net.wire().hosts[0].send_cq.push_front(confirmed);
    world.run();
    assert_eq!(world.nodes[0].app.view(conns[0]).sent, 1_000);

    let stats = world.nodes[0].engine.stats();
    assert_eq!((stats.qp_num_mismatches, stats.completions_stale), (4, 4));
    world.end();
}
