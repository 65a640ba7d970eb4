//! Rings of every kind under the model checker: every order of steps, and every value the memory model lets a load
//! return.
//!
//! What an item and a slot are: see `common/loom_kinds.rs`.
#![cfg(loom)]

#[path = "common/loom_kinds.rs"]
mod kinds;

use kinds::{Batch, Kind, Latency, SharedBatch, SharedLatency, check, pop_all, push};
use loom::thread;
use spinwire_core::ring::PushError;

fn the_last_item_comes_before_closed<K: Kind + 'static>() {
    check::<K>(2, |mut producer| push::<K>(&mut producer, 7), |consumer| assert_eq!(pop_all::<K>(consumer), [7]));
}

fn is_closed_never_hides_an_item<K: Kind + 'static>() {
    check::<K>(
        2,
        |mut producer| push::<K>(&mut producer, 7),
        |mut consumer| {
            let mut items = 0;
            while !consumer.is_closed() {
                items += consumer.drain(2).count();
                thread::yield_now();
            }
            assert_eq!(items, 1);
        },
    );
}

/// Pushes until it has succeeded, or failed, three times, while the consumer pops at most twice. Nobody waits, so
/// that all orders can be tried; what came out is what went in, in order, and the last half drops the rest.
fn what_comes_out_went_in<K: Kind + 'static>(capacity: usize) {
    check::<K>(
        capacity,
        |mut producer| {
            let mut next = 0;
            for _ in 0..3 {
                next += u64::from(producer.push(K::item(next)).is_ok());
            }
        },
        |mut consumer| {
            let mut expected = 0;
            for _ in 0..2 {
                if let Ok(item) = consumer.pop() {
                    assert_eq!(K::number(item), expected);
                    expected += 1;
                }
            }
        },
    );
}

fn a_slot_is_reused_only_after_its_item_is_out<K: Kind + 'static>() {
    what_comes_out_went_in::<K>(1);
}

fn order_holds_over_the_wrap<K: Kind + 'static>() {
    what_comes_out_went_in::<K>(2);
}

fn a_batch_becomes_visible_as_a_whole<K: Kind + 'static>() {
    check::<K>(
        2,
        |mut producer| {
            let mut reserve = producer.reserve(2);
            assert!(reserve.push(K::item(0)).is_ok() && reserve.push(K::item(1)).is_ok());
            assert_eq!(reserve.commit(), 2);
        },
        |mut consumer| {
            let items: Vec<u64> = consumer.drain(2).map(K::number).collect();
            assert!(items.is_empty() || items == [0, 1]);
        },
    );
}

/// Batches while slots come back: the second reserve may find none, one or two slots.
fn batches_follow_each_other_over_the_wrap<K: Kind + 'static>() {
    check::<K>(
        2,
        |mut producer| {
            for numbers in [[0, 1], [2, 3]] {
                let mut next = numbers[0];
                while next <= numbers[1] {
                    let mut reserve = producer.reserve(2);
                    while next <= numbers[1] && reserve.push(K::item(next)).is_ok() {
                        next += 1;
                    }
                    if reserve.commit() == 0 {
                        thread::yield_now();
                    }
                }
            }
        },
        |mut consumer| {
            let mut expected = 0;
            while !consumer.is_closed() {
                let before = expected;
                consumer.drain(2).for_each(|item| {
                    assert_eq!(K::number(item), expected);
                    expected += 1;
                });
                if before == expected {
                    thread::yield_now();
                }
            }
            assert_eq!(expected, 4);
        },
    );
}

fn a_reserve_that_is_given_up_is_never_seen<K: Kind + 'static>() {
    check::<K>(
        2,
        |mut producer| {
            let mut reserve = producer.reserve(2);
            assert!(reserve.push(K::item(8)).is_ok() && reserve.push(K::item(9)).is_ok());
            drop(reserve);
            push::<K>(&mut producer, 1);
        },
        |consumer| assert_eq!(pop_all::<K>(consumer), [1]),
    );
}

/// Either half may be the last. The items left are dropped by it, which loom's `Arc` checks.
fn the_last_half_drops_what_is_left<K: Kind + 'static>() {
    check::<K>(
        2,
        |mut producer| {
            for number in 0..3 {
                let _ = producer.push(K::item(number));
            }
        },
        |mut consumer| {
            let _ = consumer.pop();
        },
    );
}

fn a_half_that_leaves_at_once_harms_nobody<K: Kind + 'static>() {
    check::<K>(
        2,
        |mut producer| {
            let mut reserve = producer.reserve(2);
            assert!(reserve.push(K::item(0)).is_ok() && reserve.push(K::item(1)).is_ok());
            reserve.commit();
        },
        drop,
    );
    check::<K>(2, drop, |consumer| assert!(pop_all::<K>(consumer).is_empty()));
}

/// A drain that was cut short keeps its items in the ring, for the last half to drop.
fn an_unfinished_drain_leaves_the_rest_to_the_last_half<K: Kind + 'static>() {
    check::<K>(
        2,
        |mut producer| (0..2).for_each(|number| push::<K>(&mut producer, number)),
        |mut consumer| {
            let first = consumer.drain(2).next().map(K::number);
            assert!(matches!(first, None | Some(0)));
        },
    );
}

fn a_consumer_that_leaves_is_seen_by_a_full_producer<K: Kind + 'static>() {
    check::<K>(
        1,
        |mut producer| {
            let mut pushed = 0;
            loop {
                match producer.push(K::item(pushed)) {
                    Ok(()) => pushed += 1,
                    Err(PushError::Full(_)) => thread::yield_now(),
                    Err(_) => break,
                }
            }
            assert!(pushed >= 1);
        },
        |mut consumer| {
            let _ = consumer.pop();
        },
    );
}

/// One test for each kind and each of the above.
macro_rules! tests {
    ($($module:ident: $kind:ident),*: $tests:tt) => { $(mod $module { use super::*; tests!(@ $kind $tests); })* };
    (@ $kind:ident [$($test:ident),* $(,)?]) => {
        $(#[test] fn $test() { super::$test::<$kind>(); })*
    };
}

tests!(in_latency: Latency, in_batch: Batch, in_shared_latency: SharedLatency, in_shared_batch: SharedBatch: [
    the_last_item_comes_before_closed,
    is_closed_never_hides_an_item,
    a_slot_is_reused_only_after_its_item_is_out,
    order_holds_over_the_wrap,
    a_batch_becomes_visible_as_a_whole,
    batches_follow_each_other_over_the_wrap,
    a_reserve_that_is_given_up_is_never_seen,
    the_last_half_drops_what_is_left,
    a_half_that_leaves_at_once_harms_nobody,
    an_unfinished_drain_leaves_the_rest_to_the_last_half,
    a_consumer_that_leaves_is_seen_by_a_full_producer,
]);
