//! Our ring beside rtrb, ringbuf, heapless' `spsc` and crossbeam's `ArrayQueue`: round trips, and items one way.
//!
//! See the README here for what each contest shows.
#![allow(missing_docs)]

use std::process::ExitCode;

use spinwire_benches::limits::{BARE, Limit, RING_LINE_BATCH, RING_ROUND_TRIP, RING_U64_BATCH, RING_U64_SINGLE};
use spinwire_benches::rings::ours::Spinwire;
use spinwire_benches::rings::peers::{Crossbeam, Heapless, Ringbuf, Rtrb};
use spinwire_benches::rings::{BATCH, Item, Line, Payload, bare, round_trip, stream};
use spinwire_benches::{Contestant, Run};

fn main() -> ExitCode {
    spinwire_benches::main("ring", |run| {
        round_trips::<u64>(run, "ring/round_trip/u64");
        round_trips::<Payload>(run, "ring/round_trip/56B");
        one_way::<u64>(run, "ring/stream/u64/single", 1, RING_U64_SINGLE, None);
        one_way::<u64>(run, "ring/stream/u64/batch_32", BATCH, RING_U64_BATCH, Some(8));
        one_way::<Line>(run, "ring/stream/64B/single", 1, &[], None);
        one_way::<Line>(run, "ring/stream/64B/batch_32", BATCH, RING_LINE_BATCH, Some(1));
    })
}

fn round_trips<T: Item>(run: &mut Run, name: &str) {
    let pinned = &*run.pinned();
    let mut contestants = [
        Contestant::windows("spinwire", |rounds| round_trip::<Spinwire<T>, T>(pinned, rounds)),
        Contestant::windows("rtrb", |rounds| round_trip::<Rtrb<T>, T>(pinned, rounds)),
        Contestant::windows("ringbuf", |rounds| round_trip::<Ringbuf<T>, T>(pinned, rounds)),
        Contestant::windows("heapless_spsc", |rounds| round_trip::<Heapless<T>, T>(pinned, rounds)),
        Contestant::windows("crossbeam_array_queue", |rounds| round_trip::<Crossbeam<T>, T>(pinned, rounds)),
        Contestant::windows(BARE, |rounds| bare::round_trip(pinned, rounds)),
    ];
    run.contest(name, &["p50", "p99"], RING_ROUND_TRIP, &mut contestants);
}

/// `per_line`: items in a cache line, if bare lines take part.
fn one_way<T: Item>(run: &mut Run, name: &str, batch: usize, limits: &[Limit], per_line: Option<u64>) {
    let pinned = &*run.pinned();
    let mut contestants = vec![
        Contestant::windows("spinwire", |items| stream::<Spinwire<T>, T>(pinned, items, batch)),
        Contestant::windows("rtrb", |items| stream::<Rtrb<T>, T>(pinned, items, batch)),
        Contestant::windows("ringbuf", |items| stream::<Ringbuf<T>, T>(pinned, items, batch)),
        Contestant::windows("heapless_spsc", |items| stream::<Heapless<T>, T>(pinned, items, batch)),
        Contestant::windows("crossbeam_array_queue", |items| stream::<Crossbeam<T>, T>(pinned, items, batch)),
    ];
    if let Some(per_line) = per_line {
        contestants.push(Contestant::windows(BARE, move |items| bare::bulk(pinned, items, per_line)));
    }
    run.contest(name, &["item"], limits, &mut contestants);
}
