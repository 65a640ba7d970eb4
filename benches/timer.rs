//! Our timer wheel beside a hierarchical hash wheel and an ordered map, which is what one writes without either.
//!
//! 1,024 connections. In `put_off` each has a timer of 2 s armed, and each operation cancels one and arms it anew: most
//! deadlines end so. In `expired` an operation arms a timer of 1 to 15 ms, and each fires. All three see a millisecond
//! pass with every 64th operation, which is the hash wheel's resolution; ours has one of 131 us, the map an exact one.
#![allow(missing_docs)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hint::black_box;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use hierarchical_hash_wheel_timer::TimerError;
use hierarchical_hash_wheel_timer::wheels::cancellable::{CancellableTimerEntry, QuadWheelWithOverflow};
use spinwire_benches::{Contestant, limits};
use spinwire_core::id::ConnId;
use spinwire_core::time::{Instant, Nanos};
use spinwire_core::timer::{self, TimerKind, TimerSlot, Wheel};

fn main() -> ExitCode {
    spinwire_benches::main("timer", |run| {
        let slots = &mut vec![timer::IDLE; CONNS as usize];
        let (mut ours, mut hash_wheel, mut map) = (Ours::new(slots), HashWheel::default(), Map::new());
        (0..CONNS).for_each(|conn| {
            ours.arm(conn, WAIT_MS);
            hash_wheel.arm(conn, WAIT_MS);
            map.arm(conn, WAIT_MS);
        });
        run.single(
            "timer/put_off",
            limits::TIMER,
            &mut [
                Contestant::new("spinwire", |times| put_off(&mut ours, times)),
                Contestant::new("hash_wheel", |times| put_off(&mut hash_wheel, times)),
                Contestant::new("btree_map", |times| put_off(&mut map, times)),
            ],
        );
        let slots = &mut vec![timer::IDLE; CONNS as usize];
        let (mut ours, mut hash_wheel, mut map) = (Ours::new(slots), HashWheel::default(), Map::new());
        run.single(
            "timer/expired",
            limits::TIMER,
            &mut [
                Contestant::new("spinwire", |times| expired(&mut ours, times)),
                Contestant::new("hash_wheel", |times| expired(&mut hash_wheel, times)),
                Contestant::new("btree_map", |times| expired(&mut map, times)),
            ],
        );
    })
}

const CONNS: u64 = 1_024;
const WAIT_MS: u64 = 2_000;
/// Operations in a millisecond.
const PER_MS: u64 = 64;

/// One timer for each connection, driven in steps of a millisecond.
trait Timers {
    /// Arms the connection's timer, which is not armed.
    fn arm(&mut self, conn: u64, ms: u64);
    /// Cancels it.
    fn cancel(&mut self, conn: u64);
    /// A millisecond passes; gives the number that fired.
    fn step(&mut self) -> u64;
}

fn put_off(timers: &mut impl Timers, times: u64) {
    for n in 0..times {
        timers.cancel(black_box(n % CONNS));
        timers.arm(black_box(n % CONNS), WAIT_MS);
        if n % PER_MS == 0 {
            assert_eq!(timers.step(), 0, "a timer fired that was put off");
        }
    }
}

fn expired(timers: &mut impl Timers, times: u64) {
    let mut fired = 0;
    for n in 0..times {
        // Spread so that no connection comes round again before its timer has fired: 16 steps for a round, 1 to 15 ms.
        timers.arm(n % CONNS, 1 + n * 7 % 15);
        if n % PER_MS == PER_MS - 1 {
            fired += timers.step();
        }
    }
    fired += (0..20).map(|_| timers.step()).sum::<u64>();
    assert_eq!(fired, times, "each timer fires once");
}

struct Ours<'m> {
    wheel: Wheel<'m>,
    now: Instant,
}

impl<'m> Ours<'m> {
    fn new(slots: &'m mut [TimerSlot]) -> Self {
        Self { wheel: Wheel::new(slots, Instant::ZERO), now: Instant::ZERO }
    }

    fn conn(conn: u64) -> ConnId {
        ConnId::from_bits(1 << 16 | conn).expect("its generation is not zero")
    }
}

impl Timers for Ours<'_> {
    fn arm(&mut self, conn: u64, ms: u64) {
        self.wheel.arm(self.now, Self::conn(conn), TimerKind::Deadline, self.now + Nanos::from_millis(ms));
    }

    fn cancel(&mut self, conn: u64) {
        assert!(self.wheel.cancel(Self::conn(conn), TimerKind::Deadline));
    }

    fn step(&mut self) -> u64 {
        self.now = self.now + Nanos::from_millis(1);
        let (mut fired, mut budget) = (0, u32::MAX);
        while self.wheel.is_due(self.now) && self.wheel.expire(self.now, &mut budget).is_some() {
            fired += 1;
        }
        fired
    }
}

#[derive(Debug)]
struct Entry(u64);

impl CancellableTimerEntry for Entry {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.0
    }
}

#[derive(Default)]
struct HashWheel(QuadWheelWithOverflow<Entry>);

impl Timers for HashWheel {
    fn arm(&mut self, conn: u64, ms: u64) {
        let armed = self.0.insert_ref_with_delay(Rc::new(Entry(conn)), Duration::from_millis(ms));
        armed.expect("a delay that is not zero");
    }

    fn cancel(&mut self, conn: u64) {
        let cancelled: Result<(), TimerError<Infallible>> = self.0.cancel(&conn);
        cancelled.expect("it is armed");
    }

    fn step(&mut self) -> u64 {
        self.0.tick().len() as u64
    }
}

struct Map {
    order: BTreeMap<(u64, u64), ()>,
    /// By connection, when.
    armed: Vec<u64>,
    now_ms: u64,
}

impl Map {
    fn new() -> Self {
        Self { order: BTreeMap::new(), armed: vec![0; CONNS as usize], now_ms: 0 }
    }
}

impl Timers for Map {
    fn arm(&mut self, conn: u64, ms: u64) {
        self.armed[conn as usize] = self.now_ms + ms;
        self.order.insert((self.now_ms + ms, conn), ());
    }

    fn cancel(&mut self, conn: u64) {
        self.order.remove(&(self.armed[conn as usize], conn)).expect("it is armed");
    }

    fn step(&mut self) -> u64 {
        self.now_ms += 1;
        let mut fired = 0;
        while let Some(first) = self.order.first_entry().filter(|first| first.key().0 <= self.now_ms) {
            first.remove();
            fired += 1;
        }
        fired
    }
}
