//! Nothing of an attempt that was given up is taken for the next one's: events, completions, names.
#![cfg(not(loom))]

#[path = "common/attempts.rs"]
mod attempts;

use attempts::{PATIENT, attempts_failed, fail_first, link, reach, spaces, world};
use spinwire_core::cm::event::{CmEvent, CmEventKind as Kind, Target};
use spinwire_core::fabric::{Completion, Outcome, WcStatus};
use spinwire_core::id::{WorkId, WorkKind};
use spinwire_core::sim::{App, Book, Cqe, Faults, Phase, Plan, World, bare};

/// Whatever comes of the first attempt after it was given up, and whenever: the second goes its way.
#[test]
fn events_of_an_attempt_that_was_given_up_are_not_taken_for_the_next_ones() {
    const KINDS: [Kind; 11] = [
        Kind::AddrResolved,
        Kind::AddrError,
        Kind::RouteResolved,
        Kind::RouteError,
        Kind::ConnectError,
        Kind::Unreachable,
        Kind::Rejected,
        Kind::Established,
        Kind::Disconnected,
        Kind::DeviceRemoval,
        Kind::TimewaitExit,
    ];
    let phases = [Phase::AddrResolving, Phase::RouteResolving, Phase::Connecting, Phase::Up];
    for phase in [None].into_iter().chain(phases.map(Some)) {
        let mut spaces = spaces(PATIENT, 1);
        let mut world = world(&mut spaces, 13);
        let conn = world.connect(0, 1);
        let old = reach(&mut world, conn, Phase::Connecting);
        world.net.event(0, old, Kind::Unreachable, -110);
        world.run_until(|world| attempts_failed(world) == 1);
        if let Some(phase) = phase {
            reach(&mut world, conn, phase);
        }
        let stale = world.nodes[0].engine.stats().events_stale;
        for kind in KINDS {
            let event = CmEvent { target: Target::Conn(old), ..bare(kind, -110) };
            world.net.wire().hosts[0].events.push_back((event, None));
        }
        world.run();
        assert!(world.nodes[0].engine.stats().events_stale >= stale + KINDS.len() as u64, "{phase:?}");
        assert_eq!(world.nodes[0].app.view(conn).answered, 20, "{phase:?}");
        assert_eq!(attempts_failed(&world), 1);
        world.end();
    }
}

/// The device gives the second queue pair the number of the first, and a flushed receive of the first is seen only now. The
/// buffer it names is posted again: it stays the device's.
#[test]
fn completions_of_an_attempt_that_was_given_up_touch_no_buffer_of_the_next() {
    let mut spaces = spaces(PATIENT, 1);
    let mut world = world(&mut spaces, 13);
    let conn = world.connect(0, 1);
    let old = reach(&mut world, conn, Phase::Connecting);
    world.net.event(0, old, Kind::Unreachable, -110);
    world.run_until(|world| attempts_failed(world) == 1);
    let new = reach(&mut world, conn, Phase::Connecting);
    let qp_num = world.net.with_end(0, new, |end| end.qp.as_ref().unwrap().number).unwrap();
    let free = world.nodes[0].engine.pools().0.free();
    for index in 0..world.nodes[0].engine.pools().0.total() {
        let outcome = Outcome::Failed { status: WcStatus::WR_FLUSH_ERR, vendor: 0 };
        for kind in [WorkKind::Recv, WorkKind::Send] {
            let completion = Completion { wr_id: WorkId::new(old, kind, index), qp_num, outcome };
            let cqe = Cqe { end: None, serial: 0, shown_at: 0, completion };
            world.net.wire().hosts[0].recv_cq.push_back(cqe);
        }
    }
    world.turn(0);
    assert_eq!(world.nodes[0].engine.pools().0.free(), free);
    let stats = world.nodes[0].engine.stats();
    assert!(stats.completions_stale > 0 && stats.completions_flushed == 0 && stats.qp_num_mismatches == 0, "{stats:?}");
    world.run();
    assert_eq!(world.nodes[0].app.view(conn).answered, 20);
    world.end();
}

/// After a connection with several attempts its slot's next handle is none that any of them had.
#[test]
fn names_of_attempts_are_not_given_out_again() {
    let mut spaces = spaces(PATIENT, 1);
    let mut world = world(&mut spaces, 13);
    let conn = world.connect(0, 1);
    fail_first(&mut world, conn);
    let second = link(&mut world, conn);
    world.with(0, |cx, _| cx.close(conn));
    world.run();
    let next = world.connect(0, 1);
    assert_eq!((next.slot(), next.generation()), (second.slot(), second.generation() + 1));
    world.run();
    assert_eq!(world.nodes[0].app.view(next).answered, 20);
    world.end();
}

/// It comes when its buffer is on its way as the answer, and would put it in two hands.
#[test]
fn a_second_completion_of_a_receive_is_not_believed_while_its_buffer_is_the_answer() {
    let mut spaces = spaces(PATIENT, 1);
    // A late completion can be seen in the queue before it is polled.
    let (book, faults) = (Book::default(), Faults { completions_late: 1_000, ..Faults::default() });
    let mut world = World::new((13, faults), &mut spaces, &[1], |node, net| {
        App::new(node, net, &book, if node == 1 { Plan::SILENT } else { Plan::default() })
    });
    let conn = world.connect(0, 1);
    world.run_until(|world| {
        let queue = &mut world.net.wire().hosts[1].recv_cq;
        let message = queue.front().filter(|cqe| matches!(cqe.completion.outcome, Outcome::Done { .. })).cloned();
        message.map(|cqe| queue.insert(1, Cqe { end: None, ..cqe })).is_some()
    });
    let stale = world.nodes[1].engine.stats().completions_stale;
    world.run();
    assert_eq!(world.nodes[1].engine.stats().completions_stale, stale + 1);
    assert_eq!(world.nodes[0].app.view(conn).answered, 20);
    world.end();
}
