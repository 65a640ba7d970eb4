//! Each item is dropped exactly once: by whoever popped it, or by the half that goes last.
#![cfg(not(loom))]

#[path = "common/rings.rs"]
mod rings;

use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use rings::slots;
use spinwire_core::ring::{Consumer, Header, Memory, Producer, PushError, batch, latency};

/// Runs the body for the two layouts that hold any item, with four slots. Every item is a clone of one `Rc`, so its
/// count tells how many are alive.
macro_rules! both {
    (|$producer:ident, $consumer:ident| $body:block) => {{
        {
            let (mut header, mut slots) = (Header::new(), slots(4));
            let (mut $producer, mut $consumer) =
                latency::split_starting_at(&mut header, &mut slots, u64::MAX - 1).unwrap();
            $body
        }
        {
            let (mut header, mut slots) = (Header::new(), slots(4));
            let (mut $producer, mut $consumer) =
                batch::split_starting_at(&mut header, &mut slots, u64::MAX - 1).unwrap();
            $body
        }
    }};
}

#[test]
fn whichever_half_goes_last_drops_what_is_left() {
    for pushed in 0..=4 {
        for popped in 0..=pushed {
            for producer_last in [false, true] {
                both!(|producer, consumer| {
                    let item = Rc::new(());
                    (0..pushed).for_each(|_| producer.push(item.clone()).unwrap());
                    assert_eq!(Rc::strong_count(&item), 1 + pushed);
                    (0..popped).for_each(|_| drop(consumer.pop().unwrap()));
                    assert_eq!(Rc::strong_count(&item), 1 + pushed - popped);
                    if producer_last {
                        drop(consumer);
                        assert_eq!(Rc::strong_count(&item), 1 + pushed - popped, "the first half drops nothing");
                        drop(producer);
                    } else {
                        drop(producer);
                        assert_eq!(Rc::strong_count(&item), 1 + pushed - popped, "the first half drops nothing");
                        drop(consumer);
                    }
                    assert_eq!(Rc::strong_count(&item), 1);
                });
            }
        }
    }
}

#[test]
fn batches_drop_what_was_not_handed_over() {
    both!(|producer, consumer| {
        let item = Rc::new(());
        let mut reserve = producer.reserve(3);
        reserve.push(item.clone()).unwrap();
        reserve.push(item.clone()).unwrap();
        drop(reserve);
        assert_eq!((Rc::strong_count(&item), consumer.ready()), (1, 0));

        (0..4).for_each(|_| producer.push(item.clone()).unwrap());
        let mut drain = consumer.drain(4);
        let first = drain.next();
        drop(drain);
        assert_eq!(Rc::strong_count(&item), 5);
        drop((producer, consumer));
        assert_eq!(Rc::strong_count(&item), 2);
        drop(first);
        assert_eq!(Rc::strong_count(&item), 1);
    });
}

#[test]
fn forgotten_batches_neither_repeat_nor_drop_twice() {
    both!(|producer, consumer| {
        let item = Rc::new(());
        (0..3).for_each(|_| producer.push(item.clone()).unwrap());
        let mut drain = consumer.drain(3);
        drop(drain.next());
        mem::forget(drain);
        assert_eq!(Rc::strong_count(&item), 3);
        // The producer is the last one here and must not drop the item that the forgotten drain took.
        drop(consumer);
        drop(producer);
        assert_eq!(Rc::strong_count(&item), 1);
    });
}

/// Slots come back after a forgotten drain, too: at the latest when the ring is seen empty.
#[test]
fn a_forgotten_drain_keeps_no_slot_for_ever() {
    both!(|producer, consumer| {
        for round in 0..10 {
            while producer.push(round).is_ok() {}
            let mut drain = consumer.drain(2);
            assert_eq!((drain.next(), drain.next()), (Some(round), Some(round)));
            mem::forget(drain);
            while consumer.pop().is_ok() {}
            assert_eq!(producer.free(), 4);
        }
    });
}

/// Either half may go first, at any moment.
#[test]
fn drops_balance_between_threads_at_any_moment() {
    fn check<M: Memory<Item = Arc<()>>>(
        (mut producer, mut consumer): (Producer<M>, Consumer<M>),
        item: &Arc<()>,
        (pushes, pops): (u64, u64),
    ) where
        Producer<M>: Send,
    {
        thread::scope(|scope| {
            scope.spawn(move || {
                for _ in 0..pushes {
                    match producer.push(item.clone()) {
                        Ok(()) | Err(PushError::Full(_)) => {}
                        Err(_) => break,
                    }
                }
            });
            for _ in 0..pops {
                let _ = consumer.pop();
            }
            drop(consumer);
        });
    }
    let token = Arc::new(());
    for round in 0..if cfg!(miri) { 10 } else { 2_000_u64 } {
        let counts = (round % 23, round % 19);
        let (mut header, mut slots) = (Header::new(), slots(8));
        check(batch::split_starting_at(&mut header, &mut slots, u64::MAX - 3).unwrap(), &token, counts);
        assert_eq!(Arc::strong_count(&token), 1, "batch, round {round}");
        let mut slots = rings::slots(8);
        check(latency::split_starting_at(&mut header, &mut slots, u64::MAX - 3).unwrap(), &token, counts);
        assert_eq!(Arc::strong_count(&token), 1, "latency, round {round}");
    }
}
