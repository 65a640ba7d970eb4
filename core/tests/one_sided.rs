//! One-sided operations between two engines on the simulated network.
#![cfg(not(loom))]

use spinwire_core::cm::reason::{CloseReason, CloseReport};
use spinwire_core::fabric::WcStatus;
use spinwire_core::id::{ConnId, EndpointId};
use spinwire_core::remote::{RemoteRegion, Rights};
use spinwire_core::sim::{Faults, MS, Net, Space, World, config};
use spinwire_core::turn::{Answer, Cx, Done, Handler, OneSidedError, OneSidedFailure};

/// Writes down what it is told.
#[derive(Default)]
struct Notes {
    conn: Option<ConnId>,
    done: Vec<(u64, Result<String, OneSidedFailure>)>,
    messages: Vec<String>,
    report: Option<CloseReport>,
    done_at_close: usize,
}

impl Handler for Notes {
    fn on_open(&mut self, _: &mut Cx<'_, '_>, conn: ConnId) {
        self.conn = Some(conn);
    }

    fn on_message(&mut self, _: &mut Cx<'_, '_>, _: ConnId, message: &mut [u8]) -> Answer {
        self.messages.push(String::from_utf8_lossy(message).into_owned());
        Answer::None
    }

    fn on_done(&mut self, _: &mut Cx<'_, '_>, _: ConnId, user: u64, outcome: Result<Done<'_>, OneSidedFailure>) {
        self.done.push((user, outcome.map(|done| format!("{done:?}"))));
    }

    fn on_write_imm(&mut self, _: &mut Cx<'_, '_>, _: ConnId, imm: u32) {
        self.messages.push(format!("write {imm:#x}"));
    }

    fn on_close(&mut self, _: &mut Cx<'_, '_>, _: ConnId, report: &CloseReport) {
        self.report = Some(*report);
        self.done_at_close = self.done.len();
    }
}

const EXPOSED: usize = 64;

fn spaces(operations: usize) -> [Space; 2] {
    [(); 2].map(|()| Space::new(config(4), 1).with_operations(operations))
}

/// Two engines that are connected, and the token of what the second exposes.
fn connected<'m>(spaces: &'m mut [Space], faults: Faults) -> (World<'m, Notes>, ConnId, RemoteRegion) {
    let mut world = World::new((1, faults), spaces, &[1], |_, _: &Net| Notes::default());
    world.net.wire().hosts[1].exposed = vec![0; EXPOSED];
    let conn = world.with(0, |cx, _| cx.connect(EndpointId(1))).unwrap();
    world.run_until(|world| world.nodes.iter().all(|node| node.app.conn.is_some()));
    let region = world.net.wire().exposed_by(1);
    (world, conn, region)
}

#[test]
fn each_does_what_it_says_and_in_order() {
    let mut spaces = spaces(8);
    let (mut world, conn, region) = connected(&mut spaces, Faults::default());
    world.with(0, |cx, _| {
        cx.write(conn, region.at(8), b"12345678", 1).unwrap();
        cx.read(conn, region.at(10), 3, 2).unwrap();
        cx.fetch_add(conn, region.at(0), 7, 3).unwrap();
        cx.compare_swap(conn, region.at(0), (7, 9), 4).unwrap();
        cx.compare_swap(conn, region.at(0), (7, 11), 5).unwrap();
        cx.fetch_add(conn, region.at(0), 1, 6).unwrap();
        assert_eq!(cx.operations_outstanding(conn), 6);
    });
    world.run();
    let said: Vec<_> = world.nodes[0].app.done.iter().map(|(user, said)| (*user, said.clone().unwrap())).collect();
    let wanted = ["Written", "Read([51, 52, 53])", "Was(0)", "Was(7)", "Was(9)", "Was(9)"];
    assert_eq!(said, (1..).zip(wanted.map(String::from)).collect::<Vec<_>>());
    assert_eq!(world.net.wire().hosts[1].exposed[..8], 10_u64.to_ne_bytes());
    assert!(world.nodes[1].app.messages.is_empty(), "its program notices nothing");
    world.end();
}

#[test]
fn a_write_with_immediate_comes_in_order_with_messages_and_has_all_32_bits() {
    let mut spaces = spaces(8);
    let (mut world, conn, region) = connected(&mut spaces, Faults::default());
    world.with(0, |cx, _| {
        cx.send(conn, b"before").unwrap();
        cx.write_imm(conn, region.at(0), b"data", u32::MAX, 1).unwrap();
        cx.send(conn, b"after").unwrap();
    });
    world.run();
    assert_eq!(world.nodes[1].app.messages, ["before", "write 0xffffffff", "after"]);
    assert_eq!(world.net.wire().hosts[1].exposed[..4], *b"data");
    world.end();
}

#[test]
fn what_cannot_be_is_refused_before_it_is_posted() {
    let mut spaces = spaces(2);
    let (mut world, conn, region) = connected(&mut spaces, Faults::default());
    let read_only = RemoteRegion::new(region.addr(), region.len(), region.key(), Rights::READ).unwrap();
    world.with(0, |cx, _| {
        let len = EXPOSED as u64;
        assert_eq!(
            cx.write(conn, region.at(len - 3), b"four", 0),
            Err(OneSidedError::OutOfRange { offset: len - 3, len: 4, region: len })
        );
        assert_eq!(cx.read(conn, region.at(0), 0, 0), Err(OneSidedError::Length { asked: 0, max: 64 }));
        assert_eq!(cx.read(conn, region.at(0), 65, 0), Err(OneSidedError::Length { asked: 65, max: 64 }));
        assert_eq!(cx.fetch_add(conn, region.at(4), 1, 0), Err(OneSidedError::NotAligned { offset: 4 }));
        let denied = |needed| Err(OneSidedError::NotAllowed { needed, allowed: Rights::READ });
        assert_eq!(cx.write(conn, read_only.at(0), &[1], 0), denied(Rights::WRITE));
        assert_eq!(cx.compare_swap(conn, read_only.at(0), (0, 1), 0), denied(Rights::ATOMIC));
        for user in 0..2 {
            cx.read(conn, read_only.at(0), 8, user).unwrap();
        }
        assert_eq!(cx.read(conn, region.at(0), 8, 2), Err(OneSidedError::WouldBlock));
    });
    world.run();
    assert_eq!(world.nodes[0].app.done.len(), 2);
    assert!(world.nodes[0].app.report.is_none(), "none of it cost the connection");
    world.end();
}

#[test]
fn no_more_reads_are_under_way_than_the_devices_agreed_on() {
    let mut spaces = spaces(4);
    let (mut world, conn, region) = connected(&mut spaces, Faults::default());
    world.net.wire().reads_max = 2;
    world.with(0, |cx, _| cx.close(conn));
    world.run();
    world.nodes[0].app.conn = None;
    let conn = world.with(0, |cx, _| cx.connect(EndpointId(1))).unwrap();
    world.run_until(|world| world.nodes[0].app.conn.is_some());
    world.with(0, |cx, _| {
        cx.read(conn, region.at(0), 8, 0).unwrap();
        cx.fetch_add(conn, region.at(0), 1, 1).unwrap();
        assert_eq!(cx.read(conn, region.at(0), 8, 2), Err(OneSidedError::WouldBlock));
        cx.write(conn, region.at(8), b"goes on", 3).unwrap();
    });
    world.run();
    assert_eq!(world.nodes[0].app.done.len(), 3);
    world.end();
}

#[test]
fn without_room_there_are_none() {
    let mut spaces = [Space::new(config(4), 1), Space::new(config(4), 1)];
    let (mut world, conn, region) = connected(&mut spaces, Faults::default());
    world.with(0, |cx, _| assert_eq!(cx.read(conn, region.at(0), 8, 0), Err(OneSidedError::NotSetUp)));
    world.end();
}

#[test]
fn one_that_the_peer_refuses_ends_the_connection_and_says_so() {
    let mut spaces = spaces(4);
    let (mut world, conn, region) = connected(&mut spaces, Faults::default());
    let forged = RemoteRegion::new(region.addr(), 1 << 20, region.key(), Rights::ALL).unwrap();
    world.with(0, |cx, _| {
        cx.write(conn, region.at(0), b"allowed", 1).unwrap();
        cx.write(conn, forged.at(4_096), b"beyond", 2).unwrap();
        cx.write(conn, region.at(8), b"too late", 3).unwrap();
    });
    world.run();
    let app = &world.nodes[0].app;
    let failed = |status| OneSidedFailure::Failed { status, vendor: 7 };
    assert_eq!(app.done[0], (1, Ok(String::from("Written"))));
    assert_eq!(app.done[1], (2, Err(failed(WcStatus::REM_ACCESS_ERR))));
    assert_eq!(app.done[2], (3, Err(OneSidedFailure::Flushed)));
    let reason = app.report.expect("it is over").reason;
    assert!(matches!(reason, CloseReason::Completion { what: "write", status: WcStatus::REM_ACCESS_ERR, .. }));
    assert!(reason.to_string().starts_with("write failed: remote access error"), "{reason}");
    world.end();
}

#[test]
fn each_comes_back_once_when_the_peer_vanishes() {
    for flushes_missing in [0, 1_000] {
        let mut spaces = spaces(4);
        let (mut world, conn, region) = connected(&mut spaces, Faults { flushes_missing, ..Faults::default() });
        world.net.kill(1, true);
        world.nodes[1].alive = false;
        world.with(0, |cx, _| {
            for user in 0..4 {
                cx.read(conn, region.at(8 * user), 8, user).unwrap();
            }
        });
        world.run();
        let app = &world.nodes[0].app;
        let users: Vec<_> = app.done.iter().map(|(user, said)| (*user, said.is_err())).collect();
        assert_eq!(users, [(0, true), (1, true), (2, true), (3, true)]);
        assert_eq!(app.done_at_close, 4, "all of them before the end is reported");
        assert!(app.report.is_some());
        world.assert_all_over();
    }
}

#[test]
fn a_close_waits_for_what_was_asked_before_it() {
    let mut spaces = spaces(4);
    let slow = Faults { latency: MS, ack_latency: MS, ..Faults::default() };
    let (mut world, conn, region) = connected(&mut spaces, slow);
    world.with(0, |cx, _| {
        cx.write(conn, region.at(0), b"last", 1).unwrap();
        cx.read(conn, region.at(0), 4, 2).unwrap();
        cx.close(conn);
    });
    world.run();
    let app = &world.nodes[0].app;
    assert_eq!(app.done[0], (1, Ok(String::from("Written"))));
    assert_eq!(app.done[1], (2, Ok(String::from("Read([108, 97, 115, 116])"))));
    assert_eq!(app.report.map(|report| report.unconfirmed_after), Some(None));
    world.end();
}
