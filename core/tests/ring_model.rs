//! Rings against a queue: 10,000,000 random operations for each kind, with counters that pass their wrap.
#![cfg(not(loom))]

#[path = "common/rings.rs"]
mod rings;

use std::collections::VecDeque;

use spinwire_core::ring::{Consumer, Memory, PopError, Producer, PushError};
use spinwire_core::sim::Random;

const OPERATIONS: u64 = if cfg!(miri) { 2_000 } else { 10_000_000 };
/// Operations on one ring before the next one is made.
const EACH: u64 = if cfg!(miri) { 100 } else { 10_000 };

/// What a ring must do, in plain words.
struct Model {
    items: VecDeque<u64>,
    capacity: usize,
    /// Popped, but the producer does not know yet.
    kept: usize,
    /// The number of the next item to be popped.
    head: u64,
    /// Slots that are fetched ahead together, at most an eighth of the ring: only in such steps slots are given back.
    step: u64,
}

impl Model {
    /// Slots the producer finds free.
    fn free(&self) -> usize {
        self.capacity - self.items.len() - self.kept
    }

    /// `count` items were popped at once. With another step slots go back, if with a step more they would be over an eighth.
    fn popped(&mut self, count: usize) {
        let slack = eighth(self.capacity) - self.step;
        let head = self.head.wrapping_add(count as u64);
        let came_to_another = head & !(self.step - 1) != self.head & !(self.step - 1);
        self.kept += count;
        if came_to_another && self.kept as u64 > slack {
            self.kept = 0;
        }
        self.head = head;
        assert!(self.kept <= self.capacity.div_ceil(8), "no more are kept back than the documentation says");
    }

    /// The consumer looked; if there was nothing, it gives all slots back.
    fn looked(&mut self) {
        if self.items.is_empty() {
            self.kept = 0;
        }
    }
}

fn eighth(capacity: usize) -> u64 {
    (capacity as u64 / 8).max(1)
}

/// How many slots of a kilobyte are fetched ahead together: of those with a stamp half as many.
fn step(kind: &str, capacity: usize) -> u64 {
    eighth(capacity).min(if kind.contains("latency") { 64 } else { 128 })
}

/// Applies `EACH` operations to a ring and to the model and compares every answer.
fn check<M: Memory<Item = u64, Fault: PartialEq + std::fmt::Debug>>(
    (producer, consumer): (&mut Producer<M>, &mut Consumer<M>),
    (start, step): (u64, u64),
    random: &mut Random,
    context: &str,
) {
    let capacity = producer.capacity();
    let mut model = Model { items: VecDeque::new(), capacity, kept: 0, head: start, step };
    let mut next = 0;
    let (mut to, mut from) = ([0; 700], [0; 700]);
    // Now more pushes, now more pops, so that rings run full and empty.
    let mut bias = 500;
    for _ in 0..EACH {
        if random.chance(5) {
            bias = 200 + random.below(600) as u32;
        }
        // Seldom so many that large rings run full and empty too.
        let most = if capacity > 256 && random.chance(40) { 700 } else { 40 };
        let batch = random.below(most) as usize;
        let what = random.below(8);
        if random.chance(bias) {
            match what {
                0 => {
                    let mut reserve = producer.reserve(batch);
                    let count = batch.min(model.free());
                    assert_eq!(reserve.remaining(), count, "{context}");
                    let write = random.below(batch as u64 + 1) as usize;
                    let mut written = 0;
                    while written < write && reserve.push(next + written as u64).is_ok() {
                        written += 1;
                    }
                    assert_eq!(written, write.min(count), "{context}");
                    if random.chance(800) {
                        assert_eq!(reserve.commit(), written, "{context}");
                        model.items.extend(next..next + written as u64);
                    }
                    next += written as u64;
                }
                1 => {
                    from.iter_mut().zip(next..).for_each(|(item, number)| *item = number);
                    let count = batch.min(model.free());
                    assert_eq!(producer.push_slice(&from[..batch]), count, "{context}");
                    model.items.extend(&from[..count]);
                    next += batch as u64;
                }
                2 => assert_eq!(producer.free(), model.free(), "{context}"),
                _ if model.free() > 0 => {
                    assert_eq!(producer.push(next), Ok(()), "{context}");
                    model.items.push_back(next);
                    next += 1;
                }
                _ => assert_eq!(producer.push(next), Err(PushError::Full(next)), "{context}"),
            }
        } else {
            match what {
                0 if batch > 0 => {
                    let ready = batch.min(model.items.len());
                    model.looked();
                    let drain = consumer.drain(batch);
                    assert_eq!(drain.len(), ready, "{context}");
                    let take = random.below(ready as u64 + 1) as usize;
                    assert!(drain.take(take).eq(model.items.drain(..take)), "{context}");
                    (0..take).for_each(|_| model.popped(1));
                }
                1 if batch > 0 => {
                    let ready = batch.min(model.items.len());
                    model.looked();
                    assert_eq!(consumer.pop_slice(&mut to[..batch]), ready, "{context}");
                    assert!(model.items.drain(..ready).eq(to[..ready].iter().copied()), "{context}");
                    model.popped(ready);
                }
                2 => {
                    assert_eq!(consumer.ready(), model.items.len(), "{context}");
                    model.looked();
                }
                3 if random.chance(100) => {
                    consumer.give_back();
                    model.kept = 0;
                }
                _ => {
                    model.looked();
                    let item = model.items.pop_front();
                    assert_eq!(consumer.pop(), item.ok_or(PopError::Empty), "{context}");
                    model.popped(usize::from(item.is_some()));
                }
            }
        }
    }
}

#[test]
fn every_kind_of_ring_equals_a_queue() {
    let seed = std::env::var("RING_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for round in 0..OPERATIONS / EACH {
        let mut random = Random(seed + round);
        let capacity = 1 << random.below(12);
        let start = 0_u64.wrapping_sub(random.below(2 * capacity as u64 + 100));
        each_kind!(u64, capacity, start, |kind, producer, consumer| {
            let context = format!("{kind}, {capacity} slots from {start}, seed {}", seed + round);
            check((&mut producer, &mut consumer), (start, step(kind, capacity)), &mut random.clone(), &context);
            let left = consumer.ready();
            drop(producer);
            assert_eq!(consumer.drain(usize::MAX).count(), left, "{context}");
            assert_eq!(consumer.pop(), Err(PopError::Closed), "{context}");
        });
    }
}
