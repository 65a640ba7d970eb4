//! The connection table beside `slotmap` and a hash map with the Fx hash: look-ups at four sizes, of numbers and of entries
//! as large as a connection.
//!
//! See the README here for what each contest shows.
#![allow(missing_docs)]

use std::hint::black_box;
use std::process::ExitCode;

use rustc_hash::FxHashMap;
use slotmap::{DefaultKey, SlotMap};
use spinwire_benches::limits::{BARE, TABLE_DEPENDENT, TABLE_INDEPENDENT};
use spinwire_benches::{Contestant, Run};
use spinwire_core::conn::{Conn, LineAligned, Place, Slot, Table, Vacant};
use spinwire_core::id::ConnId;

/// Live connections. All slots are taken.
const SIZES: [usize; 4] = [64, 1_024, 16_384, 65_536];
/// Keys that are looked up, at least: in this order, again and again.
const KEYS_MIN: usize = 4_096;

fn main() -> ExitCode {
    spinwire_benches::main("conn_table", |run| {
        SIZES.into_iter().for_each(|size| contests::<u64>(run, "u64", size));
        SIZES.into_iter().for_each(|size| contests::<Large>(run, "conn", size));
    })
}

/// What is looked up: it leads to the next key, for look-ups that depend on the one before.
trait Entry: Vacant + Copy {
    fn leading_to(next: u64) -> Self;
    fn next(&self) -> u64;
}

impl Entry for u64 {
    fn leading_to(next: u64) -> Self {
        next
    }

    #[inline]
    fn next(&self) -> u64 {
        *self
    }
}

/// As large as what the engine keeps of a connection. A look-up reads its first word.
#[derive(Clone, Copy)]
#[repr(C)]
struct Large {
    next: u64,
    rest: [u64; size_of::<Conn>() / 8 - 1],
}

impl Vacant for Large {
    const VACANT: Self = Large { next: 0, rest: [0; size_of::<Conn>() / 8 - 1] };
    type Aligned = LineAligned;
}

impl Entry for Large {
    fn leading_to(next: u64) -> Self {
        Large { next, ..Large::VACANT }
    }

    #[inline]
    fn next(&self) -> u64 {
        self.next
    }
}

fn contests<E: Entry>(run: &mut Run, what: &str, size: usize) {
    let order = order(size);
    let entry = |n: usize| E::leading_to(order.next_of[n]);

    let (mut slots, mut places) = (Vec::new(), vec![Place::default(); size]);
    slots.resize_with(size, || Slot::EMPTY);
    let mut table = Table::new(&mut slots, &mut places).expect("a size that is allowed");
    let mut insert = |n| table.insert(entry(n)).unwrap_or_else(|_| panic!("there is room"));
    let stale: Vec<ConnId> = (0..size).map(&mut insert).collect();
    // From the last on, so that the slots are taken in the same order again.
    stale.iter().rev().for_each(|&id| assert!(table.remove(id).is_some()));
    let mut insert = |n| table.insert(entry(n)).unwrap_or_else(|_| panic!("there is room"));
    let live: Vec<ConnId> = (0..size).map(&mut insert).collect();

    let mut map = SlotMap::with_capacity(size);
    let map_stale: Vec<DefaultKey> = (0..size).map(|n| map.insert(entry(n))).collect();
    map_stale.iter().rev().for_each(|&key| assert!(map.remove(key).is_some()));
    let map_live: Vec<DefaultKey> = (0..size).map(|n| map.insert(entry(n))).collect();

    let hashed: FxHashMap<u64, E> = (0..size).map(|n| (live[n].to_bits(), entry(n))).collect();
    let array: Vec<E> = (0..size).map(entry).collect();

    let ours = |id| table.get(id).map(E::next);
    let slotmap = |key| map.get(key).map(E::next);
    let fx = |bits| hashed.get(&bits).map(E::next);
    // What an index alone costs, without a check whether it is stale. No table gets below.
    let bare = |index: u32| array.get(index as usize).map(E::next);

    for (kind, live, map_live) in [("hit", &live, &map_live), ("stale", &stale, &map_stale)] {
        let ids: Vec<ConnId> = order.of(live);
        let keys: Vec<DefaultKey> = order.of(map_live);
        let bits: Vec<u64> = ids.iter().map(|id| id.to_bits()).collect();
        // For the bare array a stale index is one beyond its end.
        let beyond = if kind == "stale" { size } else { 0 };
        let indices: Vec<u32> = order.entries.iter().map(|&entry| (entry + beyond) as u32).collect();
        let hits = kind == "hit";
        // Each window begins with a round that is not measured: what is looked up is where it is while this goes on.
        let round = ids.len() as u64;
        run.single(
            &format!("table/{what}/{kind}/independent/{size}"),
            TABLE_INDEPENDENT,
            &mut [
                Contestant::warmed("spinwire", round, |times| independent(&ids, times, hits, ours)),
                Contestant::warmed("slotmap", round, |times| independent(&keys, times, hits, slotmap)),
                Contestant::warmed("fx_hash_map", round, |times| independent(&bits, times, hits, fx)),
                Contestant::warmed(BARE, round, |times| independent(&indices, times, hits, bare)),
            ],
        );
        run.single(
            &format!("table/{what}/{kind}/dependent/{size}"),
            TABLE_DEPENDENT,
            &mut [
                Contestant::warmed("spinwire", round, |times| dependent(&ids, times, ours)),
                Contestant::warmed("slotmap", round, |times| dependent(&keys, times, slotmap)),
                Contestant::warmed("fx_hash_map", round, |times| dependent(&bits, times, fx)),
                Contestant::warmed(BARE, round, |times| dependent(&indices, times, bare)),
            ],
        );
    }
}

/// Looks up one key after the other; all are known in advance. Each is found, or none is.
#[inline(never)]
fn independent<K: Copy>(keys: &[K], times: u64, hits: bool, get: impl Fn(K) -> Option<u64>) {
    let (mut sum, mut missing, mut left) = (0u64, 0u64, times);
    while left > 0 {
        let keys = &keys[..keys.len().min(left as usize)];
        for &key in keys {
            match get(key) {
                Some(value) => sum = sum.wrapping_add(value),
                None => missing += 1,
            }
        }
        left -= keys.len() as u64;
    }
    assert_eq!(missing, if hits { 0 } else { times });
    black_box(sum);
}

/// Looks up the key that the look-up before led to: what was found is its place, and where nothing was, the next is taken.
#[inline(never)]
fn dependent<K: Copy>(keys: &[K], times: u64, get: impl Fn(K) -> Option<u64>) {
    let mut place = 0;
    for _ in 0..times {
        place = match get(keys[place]) {
            Some(next) => next as usize,
            None => (place + 1) & (keys.len() - 1),
        };
    }
    black_box(place);
}

/// In which order entries are looked up.
struct Order {
    /// Entries, each at least once: a power of two of them.
    entries: Vec<usize>,
    /// By entry: the place of the next in `entries`.
    next_of: Vec<u64>,
}

impl Order {
    fn of<K: Copy>(&self, keys: &[K]) -> Vec<K> {
        self.entries.iter().map(|&entry| keys[entry]).collect()
    }
}

/// A walk that no prefetcher foresees and that is the same in every run: one round through all entries, in a random order.
fn order(size: usize) -> Order {
    let mut round: Vec<usize> = (0..size).collect();
    let mut state = size as u64;
    for last in (1..size).rev() {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        round.swap(last, (state >> 33) as usize % (last + 1));
    }
    let mut next_of = vec![0; size];
    (0..size).for_each(|place| next_of[round[place]] = ((place + 1) % size) as u64);
    let entries = round.iter().copied().cycle().take(size.max(KEYS_MIN)).collect();
    Order { entries, next_of }
}
