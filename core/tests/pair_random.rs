//! Thousands of seeded runs with everything that can go wrong. A failure prints its seed;
//! `SPINWIRE_SEED=n cargo test -p spinwire-core --test pair_random` replays that one, `SPINWIRE_SEEDS=n` runs so many.
#![cfg(not(loom))]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use spinwire_core::cm::event::CmEventKind;
use spinwire_core::config::{Config, Mode};
use spinwire_core::fabric::WcStatus;
use spinwire_core::id::{ConnId, EndpointId};
use spinwire_core::sim::{App, Book, Faults, MS, Plan, Random, Space, Style, World, config};

const SEEDS: u64 = 3_000;

#[test]
fn whatever_goes_wrong_nothing_is_lost_leaked_or_stuck() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = match number("SPINWIRE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SPINWIRE_SEEDS").unwrap_or(SEEDS),
    };
    let mut seen = Seen::default();
    for seed in seeds.clone() {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed, &mut seen))) {
            eprintln!("replay with SPINWIRE_SEED={seed}");
            resume_unwind(panic);
        }
    }
    // A run that never gets anywhere would prove nothing.
    if seeds.end - seeds.start >= 1_000 {
        assert!(seen.received > 10 * SEEDS && seen.opened > SEEDS && seen.all_done > SEEDS / 4, "{seen:?}");
        assert!(seen.stale > 10 && seen.flushed > 1_000 && seen.failed > 100 && seen.ignored > 100, "{seen:?}");
    }
}

/// What the runs met, so that a fault that never happens does not go unnoticed.
#[derive(Debug, Default)]
struct Seen {
    received: u64,
    opened: u64,
    all_done: u64,
    stale: u64,
    flushed: u64,
    failed: u64,
    ignored: u64,
}

fn faults(random: &mut Random) -> Faults {
    let mut some = |of: u64, permille: u32| if random.below(of) == 0 { permille } else { 0 };
    Faults {
        events_late: some(2, 300),
        events_missing: some(4, 100),
        events_doubled: some(3, 300),
        actions_fail: some(4, 50),
        posts_fail: some(5, 10),
        flushes_missing: some(3, 300),
        stale_completions: random.below(2) == 0,
        stale_events: random.below(2) == 0,
        latency: [1_000, 20_000, 5 * MS][random.below(3) as usize],
        ack_latency: [1, 5_000, 500_000][random.below(3) as usize],
    }
}

fn plan(random: &mut Random, depth: u32) -> Plan {
    Plan {
        count: random.below(80) as u32,
        requests: [0, 500, 1_000][random.below(3) as usize],
        window: 1 + random.below(depth.into()) as u32,
        bytes_max: [0, 1, 17, 64][random.below(4) as usize],
        style: [Style::InPlace, Style::Copy, Style::Mixed][random.below(3) as usize],
        close_when_done: random.below(3) == 0,
        close_at_once: random.below(4) == 0,
    }
}

fn run(seed: u64, seen: &mut Seen) {
    let mut random = Random(seed);
    let depth = [1, 1, 2, 3, 4, 8, 16, 33][random.below(8) as usize];
    let calm = random.below(3) == 0;
    let faults = if calm { Faults { latency: 20_000, ..Faults::default() } } else { faults(&mut random) };
    let mode = if random.below(6) == 0 { Mode::Raw } else { Mode::Spinwire };
    let config = Config { mode, inline_bytes_max: random.below(65) as u32, ..config(depth) };
    let conns = 1 + random.below(4) as usize;
    let mut spaces = [Space::new(config, conns), Space::new(config, conns), Space::new(config, conns)];
    let book = Book::default();
    let plans = [plan(&mut random, depth), plan(&mut random, depth), plan(&mut random, depth)];
    let mut world =
        World::new((random.next(), faults), &mut spaces, &[0, 1], |node, net| App::new(node, net, &book, plans[node]));
    if !calm && random.below(3) == 0 {
        world.stall = Some((50, [5 * MS, 700 * MS, 6_000 * MS][random.below(3) as usize]));
    }
    let mut asked = Vec::new();
    for _ in 0..1 + random.below(6) {
        let (from, to) = (random.below(3) as usize, random.below(3) as usize);
        if let Ok(conn) = world.with(from, |cx, _| cx.connect(EndpointId(to as u32))) {
            asked.push((from, conn));
        }
        if random.below(2) == 0 {
            world.run_for(random.below(MS));
        }
    }
    if calm {
        // Nothing goes wrong, so nothing may be left undone when all falls silent.
        world.run();
        assert!(world.nodes.iter().all(|node| node.app.done()), "somebody waits for ever");
        seen.all_done += 1;
    } else {
        for _ in 0..random.below(4) {
            world.run_for(random.below(3) * random.below(30 * MS));
            trouble(&mut world, &mut random, &asked);
        }
        world.run_for(random.below(100 * MS));
    }
    for node in &mut world.nodes {
        node.app.closes_all = true;
        node.app.conns.values_mut().for_each(|view| view.close_asked = true);
    }
    world.end();
    for node in &world.nodes {
        let stats = node.engine.stats();
        seen.received += stats.messages_received;
        seen.opened += stats.opened;
        seen.stale += stats.completions_stale;
        seen.flushed += stats.completions_flushed;
        seen.failed += stats.completions_failed;
        seen.ignored += stats.events_ignored;
    }
}

/// One thing that happens to a machine or to a connection.
fn trouble(world: &mut World<'_, App>, random: &mut Random, asked: &[(usize, ConnId)]) {
    if asked.is_empty() {
        return;
    }
    let (node, conn) = asked[random.below(asked.len() as u64) as usize];
    let (net, peer) = (world.net.clone(), world.net.peer_of(node, conn));
    let sides = [Some((node, conn)), peer.map(|(node, bits)| (node, ConnId::from_bits(bits).unwrap()))];
    let Some((node, conn)) = sides[random.below(2) as usize] else { return };
    match random.below(10) {
        0 => world.kill(node, random.below(2) == 0),
        1 => net.device_event(node, CmEventKind::DeviceFatal),
        2 => net.device_event(node, CmEventKind::DeviceRemoval),
        3 => net.event(node, conn, CmEventKind::DeviceRemoval, 0),
        4 => {
            world.with(node, |cx, app| {
                cx.close(conn);
                app.conns.entry(conn.to_bits()).or_default().close_asked = true;
            });
        }
        5..=6 => net.event(node, conn, ANY_KIND[random.below(ANY_KIND.len() as u64) as usize], -110),
        7 => net.break_qp(node, conn, WcStatus::RETRY_EXC_ERR),
        _ => {
            let bits = [None, Some(random.next() as u32), Some(0), Some(1 << 16 | 40), Some(1 << 17)];
            let imm = bits[random.below(5) as usize];
            let claimed = [0, 1, 64, 65, u32::MAX][random.below(5) as usize];
            world.forge(node, conn, claimed, imm);
        }
    }
}

const ANY_KIND: [CmEventKind; 17] = [
    CmEventKind::AddrResolved,
    CmEventKind::AddrError,
    CmEventKind::RouteResolved,
    CmEventKind::RouteError,
    CmEventKind::ConnectRequest,
    CmEventKind::ConnectResponse,
    CmEventKind::ConnectError,
    CmEventKind::Unreachable,
    CmEventKind::Rejected,
    CmEventKind::Established,
    CmEventKind::Disconnected,
    CmEventKind::MulticastJoin,
    CmEventKind::MulticastError,
    CmEventKind::AddrChange,
    CmEventKind::TimewaitExit,
    CmEventKind::DeviceFatal,
    CmEventKind::Unknown(99),
];
