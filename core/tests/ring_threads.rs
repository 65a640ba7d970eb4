//! The ring between two real threads.
#![cfg(not(loom))]

use std::sync::Arc;
use std::thread;

use spinwire_core::ring::{Header, PopError, PushError, Slot, split_starting_at};

const ITEMS: u64 = if cfg!(miri) { 200 } else { 1_000_000 };

fn slots<T>(count: usize) -> Vec<Slot<T>> {
    (0..count).map(|_| Slot::new()).collect()
}

/// Gives the other thread the processor now and then: on one core, spinning alone would wait for the scheduler.
fn wait(spins: &mut u32) {
    *spins += 1;
    if (*spins).is_multiple_of(64) { thread::yield_now() } else { std::hint::spin_loop() }
}

#[test]
fn items_arrive_in_order_and_before_closed() {
    for capacity in [1, 2, 64, 1024] {
        let (mut header, mut slots) = (Header::new(), slots::<u64>(capacity));
        let start = 0_usize.wrapping_sub(500);
        let (mut producer, mut consumer) = split_starting_at(&mut header, &mut slots, start).unwrap();
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
                        assert_eq!(item, expected);
                        expected += 1;
                    }
                    Err(PopError::Empty) => wait(&mut spins),
                    Err(PopError::Closed) => break,
                }
            }
            assert_eq!(expected, ITEMS / 4, "capacity {capacity}");
        });
    }
}

#[test]
fn batches_arrive_in_order() {
    let (mut header, mut slots) = (Header::new(), slots::<[u64; 8]>(256));
    let (mut producer, mut consumer) = split_starting_at(&mut header, &mut slots, usize::MAX - 99).unwrap();
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
                assert_eq!(item, [expected; 8]);
                expected += 1;
            }
            if before == expected {
                wait(&mut spins);
            }
        }
        assert_eq!(expected, ITEMS);
    });
}

/// Either half may go first, at any moment; no item is lost, leaked or dropped twice.
#[test]
fn drops_balance_when_either_half_leaves_at_any_moment() {
    let token = Arc::new(());
    for round in 0..if cfg!(miri) { 10 } else { 2_000_u64 } {
        let (mut header, mut slots) = (Header::new(), slots(8));
        let (mut producer, mut consumer) = split_starting_at(&mut header, &mut slots, usize::MAX - 3).unwrap();
        let (pushes, pops) = (round % 23, round % 19);
        thread::scope(|scope| {
            let item = token.clone();
            scope.spawn(move || {
                for _ in 0..pushes {
                    match producer.push(item.clone()) {
                        Ok(()) | Err(PushError::Full(_)) => {}
                        Err(PushError::Closed(_)) => break,
                    }
                }
            });
            for _ in 0..pops {
                let _ = consumer.pop();
            }
            drop(consumer);
        });
        assert_eq!(Arc::strong_count(&token), 1, "round {round}");
    }
}
