//! Two engines that get along: every message arrives once, in order, unchanged, at every depth.
#![cfg(not(loom))]

use spinwire_core::cm::hello::Refusal;
use spinwire_core::cm::reason::CloseReason;
use spinwire_core::id::EndpointId;
use spinwire_core::sim::{App, Book, Faults, MS, Plan, Space, Style, World, config, pair, spaces};
use spinwire_core::turn::ConnectError;

#[test]
fn answers_in_place_and_by_copy_at_every_depth() {
    for depth in [1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 64, 128, 500] {
        for style in [Style::InPlace, Style::Copy, Style::Mixed] {
            let mut spaces = spaces(depth, 1);
            let plan = Plan { count: 3 * depth + 50, window: depth, close_when_done: true, ..Plan::default() };
            let mut world = pair(&mut spaces, depth.into(), plan, Plan { style, ..Plan::SILENT });
            let conn = world.connect(0, 1);
            world.run();
            let view = world.nodes[0].app.view(conn);
            assert_eq!((view.answered, world.nodes[0].app.reason(conn)), (plan.count, Some(CloseReason::Local)));
            assert_eq!(world.nodes[1].app.only().closed.unwrap().reason, CloseReason::Peer);
            world.assert_all_over();
        }
    }
}

/// Both sides flood, both sides ask and answer: credits run out on both sides at once, again and again.
#[test]
fn credits_never_deadlock_in_either_direction() {
    for depth in [1, 2, 3, 4, 8, 33] {
        for (requests, seed) in [(0, 1), (1_000, 2), (500, 3), (100, 4)] {
            let mut spaces = spaces(depth, 2);
            let plan = Plan { count: 2_000, requests, window: depth, style: Style::Mixed, ..Plan::default() };
            let mut world = pair(&mut spaces, seed, plan, plan);
            world.connect(0, 1);
            world.connect(0, 1);
            // Until nothing happens any more: with all done, or somebody waits for ever.
            world.run();
            for node in &world.nodes {
                assert!(node.app.done() && node.app.conns.len() == 2, "depth {depth}, {requests} requests: stuck");
                assert!(node.engine.stats().credit_messages > 0 || requests > 0);
            }
            world.end();
        }
    }
}

#[test]
fn idle_connections_fall_silent() {
    let mut spaces = spaces(1, 1);
    let mut world = pair(&mut spaces, 1, Plan::default(), Plan::default());
    world.connect(0, 1);
    world.run();
    let turns: Vec<_> = world.nodes.iter().map(|node| node.engine.stats().turns).collect();
    world.run_for(3_600_000 * MS);
    assert_eq!(turns, world.nodes.iter().map(|node| node.engine.stats().turns).collect::<Vec<_>>());
}

/// Replies are seen long before the completions of the requests, over four connections. `SPINWIRE_SIM_ECHOES=1000000` sets
/// how many there are in all.
#[test]
fn any_order_between_sends_and_receives_will_do() {
    let echoes = match std::env::var("SPINWIRE_SIM_ECHOES") {
        Ok(text) => text.parse().expect("SPINWIRE_SIM_ECHOES is a number"),
        Err(_) => 160_000_u32,
    };
    let (seeds, conns) = (20, 4);
    let count = echoes.div_ceil(seeds * conns);
    for seed in 0..u64::from(seeds) {
        let mut spaces = spaces(4, 4);
        let book = Book::default();
        let faults = Faults { latency: 500, ack_latency: 400_000, ..Faults::default() };
        let plan = Plan { count, window: 4, ..Plan::default() };
        let mut world = World::new((seed, faults), &mut spaces, &[1], |node, net| {
            App::new(node, net, &book, [plan, Plan::SILENT][node])
        });
        for _ in 0..conns {
            world.connect(0, 1);
        }
        world.run();
        let conns = &world.nodes[0].app.conns;
        assert!(conns.len() == 4 && conns.values().all(|view| view.answered == count), "seed {seed}");
        world.end();
    }
}

/// The peer's credits come back before the own completions: the queue is full while the window is open. The fake queue
/// pair panics on the post that a card would answer with ENOMEM, and on a send that meets no receive.
#[test]
fn two_budgets_at_depth_128() {
    for seed in 0..5 {
        let mut spaces = spaces(128, 1);
        let book = Book::default();
        let faults = Faults { latency: 1_000, ack_latency: 3_000_000, ..Faults::default() };
        let flood = Plan { count: 5_000, requests: 0, ..Plan::default() };
        let mut world = World::new((seed, faults), &mut spaces, &[1], |node, net| App::new(node, net, &book, flood));
        world.connect(0, 1);
        world.run();
        let stats = *world.nodes[0].engine.stats();
        assert!(world.nodes.iter().all(|node| node.app.done() && node.app.only().received == 5_000));
        assert!(stats.sends_signaled * 16 < stats.messages_sent, "not every send is signalled: {stats:?}");
        assert!(stats.batch_largest() > 1, "{stats:?}");
        world.end();
    }
}

#[test]
fn empty_messages_are_messages() {
    let mut spaces = spaces(2, 1);
    let plan = Plan { count: 100, requests: 0, bytes_max: 0, close_at_once: true, ..Plan::default() };
    let mut world = pair(&mut spaces, 1, plan, Plan::SILENT);
    world.connect(0, 1);
    world.run();
    assert_eq!(world.nodes[1].app.only().received, 100);
    assert_eq!(world.nodes[1].engine.stats().bytes_received, 0);
    world.assert_all_over();
}

/// 128 connects at once: each is accepted exactly once, or refused and told why.
#[test]
fn a_burst_of_connects_is_accepted_or_refused_and_nothing_else() {
    for (capacity, clients) in [(128, 1), (127, 1), (16, 1), (128, 8), (127, 8), (16, 8)] {
        let mut spaces = vec![Space::new(config(2), capacity)];
        spaces.extend((0..clients).map(|_| Space::new(config(2), 128 / clients)));
        let book = Book::default();
        let plan = Plan { count: 1, close_when_done: false, ..Plan::default() };
        let mut world = World::new((9, Faults::default()), &mut spaces, &[0], |node, net| {
            App::new(node, net, &book, if node == 0 { Plan::SILENT } else { plan })
        });
        for client in 1..=clients {
            for _ in 0..128 / clients {
                world.connect(client, 0);
            }
        }
        world.run_until(|world| {
            let views = world.nodes[1..].iter().flat_map(|node| node.app.conns.values());
            views.filter(|view| view.answered == 1 || view.closed.is_some()).count() == 128
        });
        assert!(world.now < 5_000 * MS);
        world.run();
        let expected = capacity.min(128) as u32;
        let wire = world.net.wire();
        assert_eq!((wire.hosts[0].accepted, wire.hosts[0].rejected), (expected, 128 - expected));
        drop(wire);
        let views: Vec<_> = world.nodes[1..].iter().flat_map(|node| node.app.conns.values()).collect();
        assert_eq!(views.len(), 128);
        assert_eq!(views.iter().filter(|view| view.answered == 1).count(), capacity);
        let refusal = Refusal::TableFull { live: expected, capacity: expected };
        for view in views.iter().filter(|view| view.answered == 0) {
            assert_eq!(view.closed.unwrap().reason, CloseReason::Refused(refusal));
        }
        assert_eq!(world.nodes[0].app.refused, 128 - expected);
        world.end();
    }
}

/// The side that only receives sends nothing but credit updates; their completions are late, so they pile up.
#[test]
fn credit_updates_keep_to_their_slots() {
    for depth in [1, 2, 8, 32] {
        let mut spaces = spaces(depth, 1);
        let book = Book::default();
        let faults = Faults { latency: 500, ack_latency: 2_000_000, ..Faults::default() };
        let plans = [Plan { count: 2_000, requests: 0, ..Plan::default() }, Plan::SILENT];
        let mut world = World::new((1, faults), &mut spaces, &[1], |node, net| App::new(node, net, &book, plans[node]));
        world.connect(0, 1);
        world.run();
        assert_eq!(world.nodes[1].app.only().received, 2_000);
        assert!(world.nodes[1].engine.stats().credit_messages > 20);
        world.end();
    }
}

#[test]
fn an_endpoint_that_is_not_there_is_told_at_once() {
    let mut spaces = spaces(4, 1);
    let mut world = pair(&mut spaces, 1, Plan::SILENT, Plan::SILENT);
    let error = world.with(0, |cx, _| cx.connect(EndpointId(3))).unwrap_err();
    assert_eq!(error, ConnectError::NoEndpoint { asked: 3, endpoints: 3 });
    assert_eq!(error.to_string(), "there is no endpoint 3: 3 are known, numbered from 0");
    assert_eq!(world.nodes[0].engine.live(), 0);
    world.connect(0, 1);
    let full = world.with(0, |cx, _| cx.connect(EndpointId(1))).unwrap_err();
    assert_eq!(full, ConnectError::TableFull { live: 1, capacity: 1 });
}

/// A side that asks as much as its queue takes, of one that only answers in place, whatever the two depths.
#[test]
fn who_asks_without_limit_is_answered_at_any_two_depths() {
    for [asking, answering] in [[1, 32], [2, 32], [4, 32], [8, 32], [16, 32], [32, 8], [32, 128], [8, 256], [3, 5]] {
        let mut spaces = [Space::new(config(asking), 1), Space::new(config(answering), 1)];
        let plan = Plan { count: 5_000, window: u32::MAX, close_when_done: true, ..Plan::default() };
        let mut world = pair(&mut spaces, 7, plan, Plan { style: Style::InPlace, ..Plan::SILENT });
        let conn = world.connect(0, 1);
        world.run();
        let view = world.nodes[0].app.view(conn);
        assert_eq!(view.answered, plan.count, "stuck with depths of {asking} and {answering}");
        world.assert_all_over();
    }
}

/// Both ask and both answer, each keeping to its own depth.
#[test]
fn two_depths_that_differ_never_deadlock() {
    let mut random = 1_u64;
    for seed in 0..60 {
        let depths: [u32; 2] = std::array::from_fn(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            1 << (random >> 60 & 7) | (random >> 40 & 1) as u32
        });
        let mut spaces = depths.map(|depth| Space::new(config(depth), 2));
        let plan =
            |depth: u32| Plan { count: 1_000, requests: 600, window: depth, style: Style::Mixed, ..Plan::default() };
        let mut world = pair(&mut spaces, seed, plan(depths[0]), plan(depths[1]));
        world.connect(0, 1);
        world.connect(0, 1);
        world.run();
        for node in &world.nodes {
            assert!(node.app.done() && node.app.conns.len() == 2, "seed {seed}, depths {depths:?}: stuck");
        }
        world.end();
    }
}

/// Both ask without limit and answer in place only, against the advice of `Answer::InPlace`: every receive of both is held by an
/// answer that waits for the other. Then they wait for each other, but in silence; and a close still ends it.
#[test]
fn two_that_hold_all_their_receives_fall_silent() {
    for depths in [[1, 1], [2, 2], [3, 5], [8, 8], [1, 32], [32, 8], [64, 64]] {
        let mut spaces = depths.map(|depth| Space::new(config(depth), 1));
        let plan = Plan { count: 5_000, window: u32::MAX, ..Plan::default() };
        let mut world = pair(&mut spaces, 11, plan, plan);
        world.connect(0, 1);
        let silent = (0..100_000).any(|_| !world.step());
        assert!(silent, "depths {depths:?}: they talk for ever");
        assert!(world.nodes.iter().all(|node| !node.app.done()), "depths {depths:?}: this shows nothing");
        // The application's close has an end too.
        world.end();
    }
}

/// The same, but one of them answers by copy: it never holds a receive, so the other's answers find room in the end.
#[test]
fn one_side_that_answers_by_copy_is_enough() {
    for depths in [[1, 1], [1, 32], [32, 1], [8, 8], [32, 8], [3, 5], [64, 64], [2, 128]] {
        for seed in 0..2 {
            let mut spaces = depths.map(|depth| Space::new(config(depth), 1));
            let plan = Plan { count: 1_000, window: u32::MAX, ..Plan::default() };
            let mut world = pair(&mut spaces, seed, Plan { style: Style::Copy, ..plan }, plan);
            world.connect(0, 1);
            world.run();
            assert!(world.nodes.iter().all(|node| node.app.done()), "depths {depths:?}, seed {seed}: stuck");
            world.end();
        }
    }
}
