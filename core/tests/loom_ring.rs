//! The ring under the model checker: every order of steps, and every value the memory model lets a load return.
//!
//! Items are loom `Arc`s, so an item that is lost, leaked or dropped twice fails the model; slots are loom cells, so
//! two threads in one slot fail it too.
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use spinwire_core::ring::{Consumer, Header, PopError, Producer, PushError, Slot, split_starting_at};

type Item = Arc<usize>;

/// Runs `producing` and `consuming` in two threads with a half each, in every order; the index wraps on the way.
fn check(capacity: usize, producing: fn(Producer<'static, Item>), consuming: fn(Consumer<'static, Item>)) {
    loom::model(move || {
        let header = Box::into_raw(Box::new(Header::new()));
        let slots = Box::into_raw((0..capacity).map(|_| Slot::new()).collect::<Box<[Slot<Item>]>>());
        // SAFETY: both boxes live until the end of this closure, when both halves are gone.
        let (header_ref, slots_ref) = unsafe { (&mut *header, &mut *slots) };
        let (producer, consumer) = split_starting_at(header_ref, slots_ref, usize::MAX).unwrap();
        let thread = thread::spawn(move || producing(producer));
        consuming(consumer);
        thread.join().unwrap();
        // SAFETY: made by `into_raw` above; each half was moved into its function and dropped there.
        drop(unsafe { (Box::from_raw(header), Box::from_raw(slots)) });
    });
}

fn push(producer: &mut Producer<'static, Item>, item: usize) {
    let mut item = Arc::new(item);
    while let Err(PushError::Full(back) | PushError::Closed(back)) = producer.push(item) {
        item = back;
        thread::yield_now();
    }
}

/// Pops until the ring is closed and says what came.
fn pop_all(mut consumer: Consumer<'static, Item>) -> Vec<usize> {
    let mut items = Vec::new();
    loop {
        match consumer.pop() {
            Ok(item) => items.push(*item),
            Err(PopError::Empty) => thread::yield_now(),
            Err(PopError::Closed) => return items,
        }
    }
}

#[test]
fn the_last_item_comes_before_closed() {
    check(2, |mut producer| push(&mut producer, 7), |consumer| assert_eq!(pop_all(consumer), [7]));
}

#[test]
fn is_closed_never_hides_an_item() {
    check(
        2,
        |mut producer| push(&mut producer, 7),
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

#[test]
fn a_slot_is_reused_only_after_its_item_is_out() {
    check(
        1,
        |mut producer| (0..3).for_each(|item| push(&mut producer, item)),
        |consumer| assert_eq!(pop_all(consumer), [0, 1, 2]),
    );
}

#[test]
fn order_holds_over_the_wrap() {
    check(
        2,
        |mut producer| (0..3).for_each(|item| push(&mut producer, item)),
        |consumer| assert_eq!(pop_all(consumer), [0, 1, 2]),
    );
}

#[test]
fn a_batch_becomes_visible_as_a_whole() {
    check(
        2,
        |mut producer| {
            let mut reserve = producer.reserve(2);
            reserve.push(Arc::new(0)).unwrap();
            reserve.push(Arc::new(1)).unwrap();
            assert_eq!(reserve.commit(), 2);
        },
        |mut consumer| {
            let items: Vec<usize> = consumer.drain(2).map(|item| *item).collect();
            assert!(items.is_empty() || items == [0, 1]);
        },
    );
}

#[test]
fn the_last_half_drops_what_is_left() {
    check(
        2,
        |mut producer| {
            for item in 0..3 {
                let _ = producer.push(Arc::new(item));
            }
        },
        |mut consumer| {
            let _ = consumer.pop();
        },
    );
}

#[test]
fn a_consumer_that_leaves_is_seen_by_a_full_producer() {
    check(
        1,
        |mut producer| {
            let mut pushed = 0;
            loop {
                match producer.push(Arc::new(pushed)) {
                    Ok(()) => pushed += 1,
                    Err(PushError::Full(_)) => thread::yield_now(),
                    Err(PushError::Closed(_)) => break,
                }
            }
            assert!(pushed >= 1);
        },
        |mut consumer| {
            let _ = consumer.pop();
        },
    );
}
