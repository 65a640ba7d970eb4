//! What a seed means: the machines, what goes wrong, and what the applications do.

use std::vec;
use std::vec::Vec;

use super::MS;
use super::app::App;
use super::faults::Faults;
use super::operations::EXPOSED_BYTES;
use super::plan::{Book, Plan, Style};
use super::random::Random;
use super::space::{Space, config};
use super::story::Story;
use super::world::World;
use crate::config::{Config, Keepalive, Mode, Retry, Timeouts};
use crate::time::Nanos;

/// How large a world, and how much goes wrong in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Two machines, one to three connections, a few faults.
    Small,
    /// Three to five machines, deep queues, every fault.
    Full,
    /// Twelve to thirty machines, dozens of connections at once.
    Many,
}

/// Steps of one world: beyond this many it counts as one that does not end.
const STEPS_MAX: u64 = 3_000_000;

/// After everything was closed: the connection may still linger (2 s) and drain (500 ms); a deadline may be put off once
/// when the loop was behind; some for the way.
pub(super) const CLOSING_TAKES_MAX: u64 = 2 * 2_500 * MS + 300 * MS;

impl Scenario {
    /// All of them.
    pub const ALL: [Scenario; 3] = [Scenario::Small, Scenario::Full, Scenario::Many];

    /// As it is called on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Scenario::Small => "small",
            Scenario::Full => "full",
            Scenario::Many => "many",
        }
    }

    /// The scenario of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.name() == name)
    }

    /// Runs the world of `seed` to its end.
    ///
    /// # Panics
    /// Something does not hold.
    pub(super) fn play(self, seed: u64) {
        let random = &mut Random(seed ^ (self as u64) << 56);
        let nodes = match self {
            Scenario::Small => 2,
            Scenario::Full => 3 + random.below(3) as usize,
            Scenario::Many => 12 + random.below(19) as usize,
        };
        let depths: &[u32] = match self {
            Scenario::Small => &[1, 1, 2, 3, 4, 8],
            Scenario::Full => &[1, 1, 2, 3, 4, 8, 16, 33],
            Scenario::Many => &[1, 2, 4],
        };
        let depth = random.pick(depths);
        let conns = 1 + random.below(if self == Scenario::Small { 2 } else { 4 }) as usize;
        let calm = random.below(4) == 0;
        let faults = if calm { gentle(random) } else { self.faults(random) };
        let mut config = config_of(random, depth);
        if calm {
            // With a keepalive a network never falls silent.
            config.keepalive = None;
        }
        // Without credits a peer of another depth has not as many receives as are sent to it.
        let differ = config.mode == Mode::Spinwire && random.below(2) == 0;
        let depths: Vec<_> = (0..nodes).map(|_| if differ { random.pick(depths) } else { depth }).collect();
        let operates = random.below(3) == 0;
        // Areas of one-sided operations are longer than the shortest messages.
        let sizes: &[u32] = if random.below(6) == 0 && !calm && !operates { &[16, 64] } else { &[64] };
        let mut space = |depth| Space::new(Config { depth, message_bytes_max: random.pick(sizes), ..config }, conns);
        let mut spaces: Vec<_> = depths.iter().map(|&depth| space(depth)).collect();
        let mut plans: Vec<_> = depths.iter().map(|&depth| self.plan(random, depth, calm)).collect();
        if config.mode == Mode::Spinwire {
            plans.iter_mut().for_each(|plan| self.asks_without_limit(random, plan, calm));
        }
        if operates {
            spaces = spaces.into_iter().map(|space| space.with_operations(random.pick(&[1, 2, 8]))).collect();
        } else {
            plans.iter_mut().for_each(|plan| plan.operations = 0);
        }
        let reads_max = random.pick(&[1, 2, 16]);
        // The last machine refuses everybody.
        let listening: Vec<_> = (0..nodes.min(2).max(nodes - 1)).collect();
        let book = Book::default();
        let mut world = World::new((random.next(), faults), &mut spaces, &listening, |node, net| {
            let mut app = App::new(node, net, &book, plans[node]);
            app.strict = true;
            app
        });
        world.steps_left = STEPS_MAX;
        world.net.wire().reads_max = reads_max;
        if operates {
            world.net.wire().hosts.iter_mut().for_each(|host| host.exposed = vec![0; EXPOSED_BYTES]);
        }
        world.check = World::check;
        if !calm && random.below(3) == 0 {
            world.stall = Some((50, random.pick(&[5 * MS, 700 * MS, 6_000 * MS])));
        }
        if random.below(3) == 0 {
            world.nodes.iter_mut().for_each(|node| node.app.reconnects = random.below(3) as u32);
        }
        let mut story = Story { world, random, began: Vec::new() };
        story.connects(self, calm);
        if calm {
            story.falls_silent()
        } else {
            story.troubles(self)
        }
        story.ends(&book);
    }

    fn faults(self, random: &mut Random) -> Faults {
        // Each fault in one world of so many.
        let rare = if self == Scenario::Small { 8 } else { 4 };
        let flushes_left = random.pick(&[0, 500, 1_000]);
        let mut some = |permille: u32| if random.below(rare) == 0 { permille } else { 0 };
        Faults {
            events_late: some(300),
            events_missing: some(100),
            events_doubled: some(300),
            actions_fail: some(50),
            posts_fail: some(10),
            flushes_missing: some(300),
            flushes_left,
            completions_forged: some(50),
            completions_garbage: some(500),
            completions_late: some(200),
            completions_reordered: some(500),
            messages_lost: some(50),
            receivers_not_ready: some(50),
            private_data_forged: some(300),
            stale_completions: random.below(3) > 0,
            stale_events: random.below(2) == 0,
            fetched_early: random.below(2) == 0,
            latency: random.pick(&[1_000, 20_000, 5 * MS]),
            ack_latency: random.pick(&[1, 5_000, 500_000]),
        }
    }

    fn plan(self, random: &mut Random, depth: u32, calm: bool) -> Plan {
        let most = match self {
            Scenario::Small => 40,
            Scenario::Full => 80,
            Scenario::Many => 12,
        };
        Plan {
            count: random.below(most) as u32,
            requests: random.pick(&[0, 500, 1_000]),
            window: 1 + random.below(depth.into()) as u32,
            bytes_max: random.pick(&[0, 1, 17, 64]),
            style: random.pick(&[Style::InPlace, Style::Copy, Style::Mixed]),
            close_when_done: random.below(3) == 0,
            close_at_once: random.below(4) == 0,
            closes: if calm || random.below(4) > 0 { 0 } else { 20 },
            refuses: if calm || random.below(6) > 0 { 0 } else { 300 },
            operations: random.pick(&[0, 0, 3, 20]),
            trespasses: if calm || random.below(8) > 0 { 0 } else { 100 },
        }
    }

    /// Some machines ask far more than their depth before they have an answer. Where all has to be done in the end they answer by
    /// copy: held in their receives, the other's questions would wait for the own (see `Answer::InPlace`).
    fn asks_without_limit(self, random: &mut Random, plan: &mut Plan, calm: bool) {
        if random.below(if calm { 2 } else { 6 }) == 0 {
            let most = if self == Scenario::Many { 40 } else { 300 };
            let count = random.below(most) as u32;
            let style = if calm { Style::Copy } else { plan.style };
            *plan = Plan { count, requests: 1_000, window: u32::MAX, style, ..*plan };
        }
    }
}

/// Nothing goes wrong, but nothing is in a hurry either.
fn gentle(random: &mut Random) -> Faults {
    Faults {
        completions_garbage: 500,
        completions_late: random.pick(&[0, 0, 100]),
        completions_reordered: 300,
        fetched_early: random.below(2) == 0,
        latency: random.pick(&[500, 20_000]),
        ack_latency: random.pick(&[1, 5_000, 500_000]),
        ..Faults::default()
    }
}

fn config_of(random: &mut Random, depth: u32) -> Config {
    let mode = if random.below(6) == 0 { Mode::Raw } else { Mode::Spinwire };
    let interval = random.pick(&[2 * MS, 50 * MS, 1_000 * MS]);
    let limit = interval + random.pick(&[MS, 20 * MS, 500 * MS]);
    let keepalive = Keepalive { interval: Nanos::new(interval), limit: Nanos::new(limit) };
    let retry = Retry {
        attempts: 1 + random.below(3) as u32,
        attempts_stale: 1 + random.below(4) as u32,
        nobody_listens: random.below(4) == 0,
        pause_first: Nanos::new(random.pick(&[1, MS, 100 * MS])),
        pause_longest: Nanos::from_millis(200),
        within: Nanos::new(random.pick(&[10 * MS, 4_000 * MS, 30_000 * MS])),
    };
    Config {
        mode,
        inline_bytes_max: random.below(65) as u32,
        retry: if random.below(2) == 0 { retry } else { Retry::DEFAULT },
        timeouts: Timeouts {
            resolve: Nanos::from_millis(random.pick(&[3_000, 3_000, 30])),
            connect: Nanos::from_millis(random.pick(&[5_000, 5_000, 50])),
            ..Timeouts::default()
        },
        keepalive: (random.below(3) == 0).then_some(keepalive),
        seed: random.next(),
        ..config(depth)
    }
}
