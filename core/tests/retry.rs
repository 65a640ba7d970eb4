//! Attempts to connect that fail: which are followed by another one, and when.
#![cfg(not(loom))]

#[path = "common/attempts.rs"]
mod attempts;

use attempts::{PATIENT, attempts_failed, fail_first, link, reach, spaces, world};
use spinwire_core::cm::event::CmEventKind as Kind;
use spinwire_core::cm::hello::Refusal;
use spinwire_core::cm::reason::{CloseReason, CloseReport};
use spinwire_core::cm::retry::Failure;
use spinwire_core::cm::table::State;
use spinwire_core::config::{Config, Retry, Timeouts};
use spinwire_core::id::ConnId;
use spinwire_core::sim::{App, Book, Faults, MS, Phase, Plan, Space, World, config};
use spinwire_core::time::Nanos;

fn ended(world: &mut World<'_, App>, conn: ConnId) -> CloseReport {
    world.run_until(|world| world.nodes[0].app.reason(conn).is_some());
    world.nodes[0].app.view(conn).closed.unwrap()
}

/// Every failure that may pass, in the state it belongs to: the next attempt comes up and carries messages.
#[test]
fn a_failure_that_may_pass_is_followed_by_an_attempt_that_comes_up() {
    for (phase, kind, status) in [
        (Phase::AddrResolving, Kind::AddrError, -110),
        (Phase::AddrResolving, Kind::AddrError, -113),
        (Phase::RouteResolving, Kind::RouteError, -101),
        (Phase::RouteResolving, Kind::Unreachable, -110),
        (Phase::Connecting, Kind::Unreachable, -110),
        (Phase::Connecting, Kind::ConnectError, -110),
        (Phase::Connecting, Kind::Rejected, 3),
        (Phase::Connecting, Kind::Rejected, 4),
        (Phase::Connecting, Kind::Rejected, 10),
    ] {
        let mut spaces = spaces(PATIENT, 1);
        let mut world = world(&mut spaces, 3);
        let conn = world.connect(0, 1);
        let first = reach(&mut world, conn, phase);
        assert_eq!(first, conn, "of the first attempt the platform's name is the handle");
        world.net.event(0, first, kind, status);
        world.run();
        let view = world.nodes[0].app.view(conn);
        assert!(view.opened && view.answered == 20, "{kind:?} {status}");
        assert_eq!(attempts_failed(&world), 1);
        assert!(world.now >= 50 * MS, "not before the pause");
        assert_eq!(link(&mut world, conn).generation(), conn.generation() + 1);
        world.end();
        let report = world.nodes[0].app.view(conn).closed.unwrap();
        assert_eq!((report.reason, report.attempts), (CloseReason::Local, 2));
        assert!(report.failed_before.is_some_and(|reason| reason != CloseReason::Local));
    }
}

#[test]
fn a_step_that_found_no_memory_is_tried_again() {
    for call in ["rdma_resolve_addr", "rdma_resolve_route", "rdma_create_qp", "rdma_connect"] {
        let mut spaces = spaces(PATIENT, 1);
        let mut world = world(&mut spaces, 5);
        world.net.wire().hosts[0].fail = Some((call, 1));
        let conn = world.connect(0, 1);
        world.run();
        assert_eq!((world.nodes[0].app.view(conn).answered, attempts_failed(&world)), (20, 1), "{call}");
        world.end();
        let before = world.nodes[0].app.view(conn).closed.unwrap().failed_before;
        assert!(matches!(before, Some(CloseReason::Call { call: failed, .. }) if failed == call), "{before:?}");
    }
}

/// An answer that never comes, in each step.
#[test]
fn a_step_that_took_too_long_is_tried_again() {
    for (node, kind) in [(0, Kind::AddrResolved), (0, Kind::RouteResolved), (1, Kind::ConnectRequest)] {
        let mut spaces = spaces(PATIENT, 1);
        let mut world = world(&mut spaces, 5);
        world.net.wire().lost.push((node, kind));
        let conn = world.connect(0, 1);
        world.run_until(|world| attempts_failed(world) == 1);
        world.net.wire().lost.clear();
        world.run();
        assert_eq!(world.nodes[0].app.view(conn).answered, 20, "{kind:?}");
        world.end();
    }
}

#[test]
fn what_does_not_pass_is_not_tried_again() {
    let generous = Retry { attempts: 9, attempts_stale: 9, ..Retry::DEFAULT };
    for (phase, kind, status) in [
        (Phase::AddrResolving, Kind::AddrError, -19),
        (Phase::RouteResolving, Kind::RouteError, -22),
        (Phase::Connecting, Kind::ConnectError, -1),
        (Phase::Connecting, Kind::Rejected, 28),
        (Phase::Connecting, Kind::Rejected, 8),
        (Phase::Connecting, Kind::Disconnected, 0),
        (Phase::Connecting, Kind::DeviceRemoval, 0),
        (Phase::Connecting, Kind::DeviceFatal, 0),
    ] {
        let mut spaces = spaces(generous, 1);
        let mut world = world(&mut spaces, 3);
        let conn = world.connect(0, 1);
        reach(&mut world, conn, phase);
        world.net.event(0, conn, kind, status);
        let report = ended(&mut world, conn);
        assert_eq!((report.attempts, report.failed_before), (1, None), "{kind:?} {status}");
        world.end();
    }
    // A refusal in words.
    let mut spaces = spaces(generous, 2);
    spaces[1] = Space::new(config(4), 1);
    let mut world = world(&mut spaces, 3);
    let conns = [world.connect(0, 1), world.connect(0, 1)];
    world.run();
    let reports = conns.map(|conn| world.nodes[0].app.view(conn).closed);
    let refused = reports.into_iter().flatten().next().expect("one found the table full");
    let full = CloseReason::Refused(Refusal::TableFull { live: 1, capacity: 1 });
    assert_eq!((refused.reason, refused.attempts), (full, 1));
    world.end();
}

/// Without being asked to: the peer holds an earlier connection for alive, four times in a row.
#[test]
fn a_stale_connection_heals_by_default() {
    let mut spaces = spaces(Retry::DEFAULT, 1);
    let mut world = world(&mut spaces, 8);
    let conn = world.connect(0, 1);
    for failed in 1..=4 {
        let link = reach(&mut world, conn, Phase::Connecting);
        world.net.event(0, link, Kind::Rejected, 10);
        world.run_until(|world| attempts_failed(world) == failed);
    }
    world.run();
    assert_eq!(world.nodes[0].app.view(conn).answered, 20);
    world.end();
    assert_eq!(world.nodes[0].app.view(conn).closed.unwrap().attempts, 5);
}

#[test]
fn when_all_attempts_are_used_up_the_last_failure_is_the_reason() {
    let mut spaces = spaces(Retry { nobody_listens: true, ..PATIENT }, 1);
    let mut world = world(&mut spaces, 8);
    let conn = world.connect(0, 1);
    let link = reach(&mut world, conn, Phase::Connecting);
    world.net.event(0, link, Kind::Unreachable, -110);
    world.net.wire().hosts[1].listening = false;
    let report = ended(&mut world, conn);
    assert_eq!((report.reason, report.attempts), (CloseReason::NobodyListens, 3));
    assert_eq!((report.failed_before, report.was_open), (Some(CloseReason::NobodyListens), false));
    world.run();
    world.assert_all_over();
}

#[test]
fn a_server_that_starts_late_is_found_and_pauses_double() {
    let retry = Retry { attempts: u32::MAX, nobody_listens: true, ..Retry::DEFAULT };
    let mut spaces = spaces(retry, 1);
    let mut world = world(&mut spaces, 8);
    world.net.wire().hosts[1].listening = false;
    let conn = world.connect(0, 1);
    let mut begun = Vec::new();
    world.run_until(|world| {
        // An attempt begins when its address is resolved; the first failure of it is the mark of the pause's start.
        if attempts_failed(world) as usize > begun.len() {
            begun.push(world.now);
        }
        begun.len() == 7
    });
    for (n, pair) in begun.windows(2).enumerate() {
        let (pause, full) = (pair[1] - pair[0], (100 << n).min(2_000) * MS);
        assert!(pause >= full / 2 && pause <= full + MS, "pause {n}: {} ms", pause / MS);
    }
    world.net.wire().hosts[1].listening = true;
    world.run();
    assert_eq!(world.nodes[0].app.view(conn).answered, 20);
    world.end();
}

#[test]
fn the_same_seed_gives_the_same_pauses_and_another_others() {
    let first_pause = |seed| {
        let mut spaces = [Space::new(Config { retry: PATIENT, seed, ..config(4) }, 1), Space::new(config(4), 1)];
        let mut world = world(&mut spaces, 1);
        let conn = world.connect(0, 1);
        fail_first(&mut world, conn);
        let begun = world.now;
        reach(&mut world, conn, Phase::AddrResolving);
        world.now - begun
    };
    assert_eq!(first_pause(7), first_pause(7));
    assert_ne!(first_pause(7), first_pause(8));
}

#[test]
fn all_attempts_together_have_a_limit() {
    for (within, expected, attempts) in [
        // The second attempt is cut short.
        (7_000, CloseReason::GaveUp { step: State::Connecting, limit: Nanos::from_millis(7_000) }, 2),
        // There is no time for a pause.
        (5_040, CloseReason::TimedOut { step: State::Connecting, limit: Timeouts::default().connect }, 1),
        (1_000, CloseReason::GaveUp { step: State::Connecting, limit: Nanos::from_millis(1_000) }, 1),
    ] {
        let retry = Retry { attempts: u32::MAX, within: Nanos::from_millis(within), ..Retry::DEFAULT };
        let mut spaces = spaces(retry, 1);
        let mut world = world(&mut spaces, 8);
        world.kill(1, true);
        let conn = world.connect(0, 1);
        let report = ended(&mut world, conn);
        assert_eq!((report.reason, report.attempts), (expected, attempts));
        assert!(world.now <= (within + 1) * MS, "{} ms", world.now / MS);
        world.run();
        world.assert_all_over();
    }
}

#[test]
fn a_close_or_a_device_that_goes_ends_the_pause_at_once() {
    for local in [true, false] {
        let mut spaces = spaces(PATIENT, 1);
        let mut world = world(&mut spaces, 8);
        let conn = world.connect(0, 1);
        fail_first(&mut world, conn);
        let paused_at = world.now;
        if local {
            world.with(0, |cx, _| cx.close(conn));
        } else {
            world.net.device_event(0, Kind::DeviceRemoval);
        }
        let report = ended(&mut world, conn);
        assert!(world.now - paused_at < MS);
        let expected = if local { CloseReason::Local } else { CloseReason::DeviceRemoved };
        assert_eq!((report.reason, report.attempts), (expected, 1));
        let step = State::AddrResolving;
        assert_eq!(report.failed_before, Some(CloseReason::Event { step, event: Kind::AddrError, status: -110 }));
        world.run();
        world.assert_all_over();
    }
}

/// Many connections over a connection manager that loses, delays, doubles and fails: each comes up or says why not, and
/// the sums come out at every turn.
#[test]
fn retries_under_faults_lose_nothing() {
    let (mut opened, mut failed) = (0, 0);
    for seed in 0..150 {
        let within = 30_000;
        let retry = Retry { attempts: 6, within: Nanos::from_millis(within), ..Retry::DEFAULT };
        let mut spaces = spaces(retry, 8);
        let faults = Faults {
            events_late: 100,
            events_missing: 60,
            events_doubled: 60,
            actions_fail: 40,
            stale_events: seed % 2 == 0,
            ..Faults::default()
        };
        let book = Book::default();
        let plan = Plan { close_when_done: true, ..Plan::default() };
        let mut world = World::new((seed, faults), &mut spaces, &[1], |node, net| {
            App::new(node, net, &book, if node == 1 { Plan::SILENT } else { plan })
        });
        let conns: Vec<_> = (0..8).map(|_| world.connect(0, 1)).collect();
        world.run_until(|world| conns.iter().all(|&conn| world.nodes[0].app.reason(conn).is_some()));
        for conn in conns {
            let report = world.nodes[0].app.view(conn).closed.unwrap();
            let allowed = retry.attempts_for(Failure::of(&report.reason));
            // Or there was no time left for another pause, or it had been up for the moment until it was tuned.
            let no_time = world.now > (within - 2_000) * MS;
            let tuned = matches!(report.reason, CloseReason::Call { step: State::Established, .. });
            assert!(report.was_open || report.attempts >= allowed || no_time || tuned, "seed {seed}: {report:?}");
            opened += u32::from(report.was_open);
        }
        failed += attempts_failed(&world);
        world.end();
    }
    assert!(failed > 200, "{failed} attempts failed");
    assert!(opened > 950, "{opened} of 1,200 connections came up");
}
