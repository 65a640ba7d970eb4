//! The timer wheel against an ordered map: ten million random operations, on time lines that cross every wrap of the
//! wheel's digits and end where stamps end.

use std::collections::BTreeMap;

use spinwire_core::id::ConnId;
use spinwire_core::sim::Random;
use spinwire_core::time::Instant;
use spinwire_core::timer::{self, Expired, TICK, TimerKind, TimerSlot, Wheel};

const OPERATIONS: u64 = 10_000_000;
const KINDS: usize = TimerKind::ALL.len();

/// A wheel, and what it should hold.
struct Checked<'m> {
    wheel: Wheel<'m>,
    now: u64,
    /// By slot and kind: for which life of the slot, and when.
    armed: Vec<Option<(ConnId, u64)>>,
    /// By the tick in which it has to fire, then by slot and kind.
    order: BTreeMap<(u64, usize), ()>,
}

fn conn(slot: usize, life: u64) -> ConnId {
    ConnId::from_bits(life << 16 | slot as u64).unwrap()
}

fn fires_in(at: u64) -> u64 {
    at.div_ceil(TICK.get())
}

impl<'m> Checked<'m> {
    fn new(slots: &'m mut [TimerSlot], start: u64) -> Self {
        let armed = vec![None; slots.len() * KINDS];
        Self { wheel: Wheel::new(slots, Instant::from_nanos(start)), now: start, armed, order: BTreeMap::new() }
    }

    fn arm(&mut self, key: usize, life: u64, at: u64) {
        let (conn, kind) = (conn(key / KINDS, life), TimerKind::ALL[key % KINDS]);
        self.wheel.arm(Instant::from_nanos(self.now), conn, kind, Instant::from_nanos(at));
        self.forget(key);
        let at = at.max(self.now);
        if at != u64::MAX {
            self.armed[key] = Some((conn, at));
            self.order.insert((fires_in(at), key), ());
        }
    }

    fn forget(&mut self, key: usize) {
        if let Some((_, at)) = self.armed[key].take() {
            self.order.remove(&(fires_in(at), key)).unwrap();
        }
    }

    fn cancel(&mut self, key: usize, life: u64) {
        let (conn, kind) = (conn(key / KINDS, life), TimerKind::ALL[key % KINDS]);
        let owned = self.armed[key].filter(|&(owner, _)| owner == conn);
        assert_eq!(self.wheel.deadline(conn, kind).as_nanos(), owned.map_or(u64::MAX, |(_, at)| at));
        assert_eq!(self.wheel.cancel(conn, kind), owned.is_some(), "{conn} {kind:?}");
        if owned.is_some() {
            self.forget(key);
        }
    }

    fn advance(&mut self, span: u64, budget: u32) {
        self.now = self.now.saturating_add(span);
        let now = Instant::from_nanos(self.now);
        let tick = self.now / TICK.get();
        if !self.wheel.is_due(now) {
            assert!(self.first_tick().is_none_or(|first| first > tick), "a timer was slept past");
            return;
        }
        let mut left = budget;
        while let Some(expired) = self.wheel.expire(now, &mut left) {
            self.fired(expired);
        }
        assert!(left > 0 || self.wheel.is_due(now), "what the budget put off must stay due");
        if left > 0 {
            assert!(self.first_tick().is_none_or(|first| first > tick), "a timer is late");
            assert!(!self.wheel.is_due(now) || now == Instant::NEVER, "nothing is left to do");
        }
        if let Some(first) = self.first_tick().and_then(|first| first.checked_mul(TICK.get())) {
            assert!(self.wheel.next_deadline().as_nanos() <= first);
        }
        assert_eq!(self.wheel.armed() as usize, self.order.len());
    }

    fn first_tick(&self) -> Option<u64> {
        self.order.first_key_value().map(|(&(tick, _), ())| tick)
    }

    fn fired(&mut self, expired: Expired) {
        let Expired { conn, kind, at } = expired;
        let key = conn.slot() * KINDS + kind as usize;
        assert_eq!(self.armed[key], Some((conn, at.as_nanos())), "fired {expired:?}");
        assert!(at.as_nanos() <= self.now, "{expired:?} fired early, at {}", self.now);
        assert_eq!(self.first_tick(), Some(fires_in(at.as_nanos())), "{expired:?} fired before an earlier one");
        self.forget(key);
    }
}

/// A span whose order of magnitude is random: up to `2^bits` nanoseconds, at times a whole number of ticks.
fn span(random: &mut Random, bits: u64) -> u64 {
    let word = random.next();
    let span = word >> (64 - bits + word % bits);
    if word & 0x700 == 0 { span / TICK.get() * TICK.get() } else { span }
}

#[test]
fn ten_million_operations_agree_with_an_ordered_map() {
    let mut random = Random(20);
    let mut done = 0;
    for episode in 0.. {
        if done >= OPERATIONS {
            break;
        }
        let conns = [1, 2, 7, 40, 200][episode % 5];
        // At the origin, shortly before a digit of the wheel wraps, or shortly before the last stamp.
        let level_ticks = 1 << (6 * (1 + random.below(7)));
        let start = match random.below(3) {
            0 => 0,
            1 => TICK.get().saturating_mul(level_ticks * (1 + random.below(3))).saturating_sub(span(&mut random, 30)),
            _ => u64::MAX - span(&mut random, 44),
        };
        let (arm_bits, step_bits) = (18 + random.below(45), 17 + random.below(30));
        let mut slots = vec![timer::IDLE; conns];
        let mut checked = Checked::new(&mut slots, start);
        let mut life = 1;
        for _ in 0..50_000 {
            done += 1;
            let key = random.below((conns * KINDS) as u64) as usize;
            match random.below(16) {
                0..8 => {
                    let at = checked.now.saturating_add(span(&mut random, arm_bits));
                    checked.arm(key, life, at);
                }
                8 => checked.arm(key, life, checked.now.saturating_sub(span(&mut random, 40))),
                9..12 => checked.cancel(key, life),
                12 => {
                    life += u64::from(random.below(50) == 0);
                    checked.cancel(key, life - 1 + u64::from(life == 1));
                }
                13..15 => {
                    let budget = if random.below(4) == 0 { u32::MAX } else { random.below(8) as u32 };
                    let step = span(&mut random, step_bits);
                    checked.advance(step, budget);
                }
                _ => checked.advance(0, 1),
            }
            if checked.now == u64::MAX {
                break;
            }
        }
        // To the end of time: whatever has a tick fires.
        checked.advance(u64::MAX, u32::MAX);
        assert!(checked.first_tick().is_none_or(|tick| tick.checked_mul(TICK.get()).is_none()), "a timer was lost");
    }
}
