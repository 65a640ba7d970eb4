//! Rings of every kind between real threads.
#![cfg(not(loom))]

#[path = "common/rings.rs"]
mod rings;

use std::thread;

use rings::slots;
use spinwire_core::ring::{Header, Lanes, PopError, batch, latency};

const ITEMS: u64 = if cfg!(miri) { 200 } else { 100_000 };

/// Gives the other thread the processor now and then: on one core, spinning alone would wait for the scheduler.
fn wait(spins: &mut u32) {
    *spins += 1;
    if (*spins).is_multiple_of(64) { thread::yield_now() } else { std::hint::spin_loop() }
}

#[test]
fn items_arrive_in_order_and_before_closed() {
    for capacity in [1, 2, 64, 1024] {
        each_kind!(u64, capacity, 0_u64.wrapping_sub(500), |kind, producer, consumer| {
            thread::scope(|scope| {
                scope.spawn(move || {
                    let mut spins = 0;
                    for item in 0..ITEMS / 4 {
                        while producer.push(item).is_err() {
                            wait(&mut spins);
                        }
                    }
                });
                let (mut expected, mut spins) = (0, 0);
                loop {
                    match consumer.pop() {
                        Ok(item) => {
                            assert_eq!(item, expected, "{kind}, {capacity} slots");
                            expected += 1;
                        }
                        Err(PopError::Empty) => wait(&mut spins),
                        Err(_) => break,
                    }
                }
                assert_eq!(expected, ITEMS / 4, "{kind}, {capacity} slots");
            });
        });
    }
}

#[test]
fn batches_arrive_in_order_and_as_a_whole() {
    each_kind!([u64; 8], 256, u64::MAX - 99, |kind, producer, consumer| {
        thread::scope(|scope| {
            scope.spawn(move || {
                let (mut next, mut spins) = (0, 0);
                while next < ITEMS {
                    let mut reserve = producer.reserve(32);
                    while next < ITEMS && reserve.push([next; 8]).is_ok() {
                        next += 1;
                    }
                    if reserve.commit() == 0 {
                        wait(&mut spins);
                    }
                }
            });
            let (mut expected, mut spins) = (0, 0);
            while !consumer.is_closed() {
                let before = expected;
                for item in consumer.drain(32) {
                    assert_eq!(item, [expected; 8], "{kind}");
                    expected += 1;
                }
                if before == expected {
                    wait(&mut spins);
                }
            }
            assert_eq!(expected, ITEMS, "{kind}");
        });
    });
}

/// Three producers, of which one is much slower and one leaves early; the consumer gets all of each, in order.
#[test]
fn lanes_carry_many_producers() {
    let (mut headers, mut latency_slots, mut batch_slots) =
        ([const { Header::new() }; 6], [(); 3].map(|()| slots(64)), [(); 3].map(|()| slots(64)));
    let (for_latency, for_batch) = headers.split_at_mut(3);
    let counts = [ITEMS / 4, ITEMS / 40, ITEMS / 400];
    macro_rules! check {
        ($layout:ident, $headers:ident, $slots:ident) => {{
            let halves =
                $headers.iter_mut().zip(&mut $slots).map(|(header, slots)| $layout::split(header, slots).unwrap());
            let (producers, consumers): (Vec<_>, Vec<_>) = halves.unzip();
            let mut lanes = Lanes::<_, 3>::new();
            consumers.into_iter().for_each(|consumer| assert!(lanes.add(consumer).is_ok()));
            thread::scope(|scope| {
                for (lane, mut producer) in producers.into_iter().enumerate() {
                    scope.spawn(move || {
                        let mut spins = 0;
                        for item in 0..counts[lane] {
                            while producer.push(item).is_err() {
                                wait(&mut spins);
                            }
                        }
                    });
                }
                let (mut expected, mut spins) = ([0; 3], 0);
                while lanes.open() > 0 {
                    let Ok(taken) = lanes.poll(16, |lane, item| {
                        assert_eq!(item, expected[lane]);
                        expected[lane] += 1;
                    });
                    if taken == 0 {
                        wait(&mut spins);
                    }
                }
                assert_eq!(expected, counts);
            });
        }};
    }
    check!(latency, for_latency, latency_slots);
    check!(batch, for_batch, batch_slots);
}
