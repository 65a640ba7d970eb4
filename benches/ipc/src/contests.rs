//! What is compared, and what Spinwire has to reach.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::env;

use spinwire_benches::limits::{BARE, BEST_PEER, Limit, time_at_most};
use spinwire_benches::window::Dropped;
use spinwire_benches::{Contestant, Run};

use crate::pair::Pair;
use crate::peers::{self, programs};

/// All contests.
pub fn all(run: &mut Run, pair: &Pair) {
    let mut skipped = BTreeSet::new();
    for name in peers::WITHOUT {
        // The script that built it knows why.
        let why = env::var(format!("SPINWIRE_WITHOUT_{name}"));
        run.skip(name, &why.unwrap_or_else(|_| "this program was built without it; `ci/compare ipc` builds it".into()));
    }
    for bytes in [56, 64] {
        contest(run, pair, &mut skipped, Kind::Trips, bytes, ROUND_TRIP);
    }
    for bytes in [8, 64, 1 << 10, 64 << 10, 1 << 20] {
        contest(run, pair, &mut skipped, Kind::Stream, bytes, STREAM);
    }
}

/// What is measured.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// Messages there and back, one at a time.
    Trips,
    /// Messages one way, as many as go.
    Stream,
}

impl Kind {
    /// Messages that may be on their way: for round trips what an application gets that chooses nothing, for streams up to 4 MiB
    /// of them.
    fn depth(self, bytes: usize) -> u32 {
        match self {
            Kind::Trips => 32,
            Kind::Stream => ((4 << 20) / bytes).clamp(4, 256) as u32,
        }
    }

    /// For a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Kind::Trips => "round trips",
            Kind::Stream => "streams of that size one way",
        }
    }
}

fn contest(
    run: &mut Run,
    pair: &Pair,
    skipped: &mut BTreeSet<(&'static str, String)>,
    kind: Kind,
    bytes: usize,
    limits: &[Limit],
) {
    let (word, metrics): (_, &[_]) = match kind {
        Kind::Trips => ("round_trip", &["p50", "p99", "p99.9", "mean"]),
        Kind::Stream => ("stream", &["message"]),
    };
    let size = match bytes {
        0..1024 => format!("{bytes}B"),
        1024..1_048_576 => format!("{}KiB", bytes >> 10),
        _ => format!("{}MiB", bytes >> 20),
    };
    let name = format!("ipc/{word}/{size}");
    if !run.wants(&name) {
        return;
    }
    let pinned = run.pinned();
    let failed: RefCell<Vec<(&'static str, String)>> = RefCell::default();
    let mut contestants = Vec::new();
    for peer in peers::ALL {
        let which = match pair.open(peer, bytes, kind.depth(bytes)) {
            Ok(which) => which,
            Err(why) => {
                skip(run, skipped, peer.name, &why.to_string());
                continue;
            }
        };
        let pinned = &pinned;
        contestants.push(Contestant::windows(peer.name, move |times| match kind {
            Kind::Trips => pair.trips(pinned, which, times),
            Kind::Stream => pair.stream(pinned, which, times),
        }));
    }
    let priority = run.measures() && programs::can_have_priority();
    for program in programs::ALL {
        // Once for nothing, to see whether it works here.
        let works = program.find().and_then(|()| program.measure(pair.cores(), kind, bytes, priority).map(drop));
        if let Err(why) = works {
            skip(run, skipped, program.name, &why.to_string());
            continue;
        }
        let (pinned, failed, mut failures) = (&pinned, &failed, 0);
        contestants.push(Contestant::windows(program.name, move |_| {
            if failures == FAILURES {
                return Err(Dropped::Failed);
            }
            pair.apart(pinned, || {
                let sample = program.measure(pair.cores(), kind, bytes, priority);
                sample
                    .map_err(|why| {
                        failures += 1;
                        failed.borrow_mut().push((program.name, why.to_string()));
                    })
                    .ok()
            })
        }));
    }
    run.contest(&name, metrics, limits, &mut contestants);
    drop(contestants);
    for (who, why) in failed.into_inner() {
        skip(run, skipped, who, &format!("in a window of {name}: {why}"));
    }
    pair.close().expect("the answering process lets go");
}

/// Says once what would be the same in each contest.
fn skip(run: &mut Run, skipped: &mut BTreeSet<(&'static str, String)>, who: &'static str, why: &str) {
    if skipped.insert((who, why.to_owned())) {
        run.skip(who, why);
    }
}

/// A program that failed so often in a contest is not started again in it.
const FAILURES: u32 = 3;

/// The whole way through loop and handler on both sides.
const ROUND_TRIP: &[Limit] = &[
    time_at_most(1.3, BARE).on("p50"),
    time_at_most(1.0, BEST_PEER).on("p50"),
    time_at_most(1.0, BEST_PEER).on("p99"),
];
/// No peer takes less time for a message.
const STREAM: &[Limit] = &[time_at_most(1.0, BEST_PEER)];
