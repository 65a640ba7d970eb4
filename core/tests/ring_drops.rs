//! Each item is dropped exactly once: by whoever popped it, or by the half that goes last.
#![cfg(not(loom))]

#[path = "common/rings.rs"]
mod rings;

use std::panic::{AssertUnwindSafe, catch_unwind};
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
        assert_eq!(Rc::strong_count(&item), 5);
        drop((producer, consumer));
        assert_eq!(Rc::strong_count(&item), 2);
        drop(first);
        assert_eq!(Rc::strong_count(&item), 1);
    });
}

#[test]
fn what_a_drain_took_is_not_dropped_again() {
    both!(|producer, consumer| {
        let item = Rc::new(());
        (0..3).for_each(|_| producer.push(item.clone()).unwrap());
        drop(consumer.drain(3).next());
        assert_eq!(Rc::strong_count(&item), 3);
        // The producer is the last one here.
        drop(consumer);
        drop(producer);
        assert_eq!(Rc::strong_count(&item), 1);
    });
}

/// In a ring that is large enough for slots to be kept back.
#[test]
fn a_consumer_that_leaves_says_what_it_popped() {
    let item = Rc::new(());
    let (mut header, mut slots) = (Header::new(), slots(32));
    let (mut producer, mut consumer) = batch::split(&mut header, &mut slots).unwrap();
    (0..3).for_each(|_| producer.push(item.clone()).unwrap());
    drop(consumer.pop());
    assert_eq!(producer.free(), 29, "kept back");
    drop(consumer);
    assert_eq!(Rc::strong_count(&item), 3);
    drop(producer);
    assert_eq!(Rc::strong_count(&item), 1);
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

/// A batch that ends with a panic in the middle: what was handed out is gone, the rest is still in the ring.
#[test]
fn a_panic_among_the_items_of_a_batch_loses_none() {
    both!(|producer, consumer| {
        let item = Rc::new(());
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let items = (0..3).map(|n| if n < 2 { item.clone() } else { panic!("in the middle") });
            let mut reserve = producer.reserve(4);
            reserve.extend(items);
            reserve.commit();
        }));
        assert!(caught.is_err());
        assert_eq!((Rc::strong_count(&item), producer.free()), (1, 4), "nothing was committed");

        assert_eq!(producer.reserve(4).extend((0..9).map(|_| item.clone())), 4, "as many as there is room for");
        assert_eq!(Rc::strong_count(&item), 1, "and given up");
        let mut reserve = producer.reserve(4);
        assert_eq!(reserve.extend((0..4).map(|_| item.clone())), 4);
        assert_eq!(reserve.commit(), 4);
        let mut seen = 0;
        let caught = catch_unwind(AssertUnwindSafe(|| {
            consumer.drain(4).for_each(|_item| {
                seen += 1;
                assert!(seen < 2, "in the middle");
            });
        }));
        assert!(caught.is_err());
        assert_eq!((Rc::strong_count(&item), consumer.ready()), (1 + 2, 2));
        assert_eq!(consumer.drain(4).count(), 2);
        assert_eq!(Rc::strong_count(&item), 1);
    });
}

/// No slot is missed, over any number of laps.
#[test]
fn a_drain_that_is_cut_short_and_pops_go_on_together() {
    both!(|producer, consumer| {
        for number in (0..60).step_by(3) {
            for n in number..number + 3 {
                producer.push(Rc::new(n)).unwrap();
            }
            assert_eq!(consumer.drain(2).next(), Some(Rc::new(number)));
            assert_eq!((consumer.pop(), consumer.pop()), (Ok(Rc::new(number + 1)), Ok(Rc::new(number + 2))));
        }
    });
}
