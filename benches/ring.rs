//! Our rings beside rtrb, ringbuf, heapless' `spsc`, crossbeam's `ArrayQueue` and DPDK's `rte_ring`: round trips, items
//! one way, and from two producers.
//!
//! See the README here for what each contest shows.
#![allow(missing_docs)]

use std::process::ExitCode;

use spinwire_benches::limits::{
    BARE, Limit, RING_LINE_BATCH, RING_MANY, RING_ROUND_TRIP, RING_U64_BATCH, RING_U64_SINGLE,
};
use spinwire_benches::rings::many::{self, Case, Seats};
use spinwire_benches::rings::ours::{Batch, Latency};
use spinwire_benches::rings::peers::peers;
use spinwire_benches::rings::{BATCH, Item, Kind, Line, Payload, bare};
use spinwire_benches::{Contestant, Run, dpdk};

fn main() -> ExitCode {
    spinwire_benches::main("ring", |run| {
        if let Some(reason) = dpdk::MISSING {
            run.skip("rte_ring", reason);
        }
        round_trips::<u64>(run, "ring/round_trip/u64");
        round_trips::<Payload>(run, "ring/round_trip/56B");
        one_way::<u64>(run, "ring/stream/u64/single", 1, RING_U64_SINGLE, None);
        one_way::<u64>(run, "ring/stream/u64/batch_32", BATCH, RING_U64_BATCH, Some(8));
        one_way::<Line>(run, "ring/stream/64B/single", 1, &[], None);
        one_way::<Line>(run, "ring/stream/64B/batch_32", BATCH, RING_LINE_BATCH, Some(1));
        producers(run, "ring/many/apart/single", 1, Seats::Apart);
        producers(run, "ring/many/apart/batch_32", BATCH, Seats::Apart);
        producers(run, "ring/many/shared/single", 1, Seats::Shared);
        producers(run, "ring/many/shared/batch_32", BATCH, Seats::Shared);
    })
}

fn round_trips<T: Item>(run: &mut Run, name: &str) {
    let pinned = &*run.pinned();
    let ours = [Kind::of::<Latency<T>, T>("spinwire_latency"), Kind::of::<Batch<T>, T>("spinwire_batch")];
    let mut contestants: Vec<_> = [ours.to_vec(), peers::<T>()]
        .concat()
        .into_iter()
        .map(|Kind { name, round_trip, .. }| Contestant::windows(name, move |rounds| round_trip(pinned, rounds)))
        .collect();
    contestants.push(Contestant::windows(BARE, |rounds| bare::round_trip(pinned, rounds)));
    run.contest(name, &["p50", "p99"], RING_ROUND_TRIP, &mut contestants);
}

/// `per_line`: items in a cache line, if bare lines take part.
fn one_way<T: Item>(run: &mut Run, name: &str, batch: usize, limits: &[Limit], per_line: Option<u64>) {
    let pinned = &*run.pinned();
    // The layout for the case first: it is the one that is judged.
    let mut ours = [Kind::of::<Latency<T>, T>("spinwire_latency"), Kind::of::<Batch<T>, T>("spinwire_batch")];
    if batch > 1 {
        ours.reverse();
    }
    let mut contestants: Vec<_> = [ours.to_vec(), peers::<T>()]
        .concat()
        .into_iter()
        .map(|Kind { name, stream, .. }| Contestant::windows(name, move |items| stream(pinned, items, batch)))
        .collect();
    if let Some(per_line) = per_line {
        contestants.push(Contestant::windows(BARE, move |items| bare::bulk(pinned, items, per_line)));
    }
    run.contest(name, &["item"], limits, &mut contestants);
}

fn producers(run: &mut Run, name: &str, batch: usize, seats: Seats) {
    let pinned = &*run.pinned();
    let case = Case { seats, batch };
    let mut contestants = vec![
        Contestant::windows("spinwire_latency_lanes", move |items| many::latency_lanes(pinned, items, case)),
        Contestant::windows("spinwire_batch_lanes", move |items| many::batch_lanes(pinned, items, case)),
        Contestant::windows("crossbeam_array_queue", move |items| many::crossbeam(pinned, items, case)),
        #[cfg(dpdk)]
        Contestant::windows("rte_ring", move |items| many::rte_ring(pinned, items, case)),
    ];
    if batch > 1 {
        contestants.swap(0, 1);
    }
    run.contest(name, &["item"], RING_MANY, &mut contestants);
}
