//! The ring by its edges: capacities, wrap, zero-sized items, drops, end of life.
#![cfg(not(loom))]

use std::mem;
use std::rc::Rc;

use spinwire_core::ring::{Header, PopError, PushError, RingError, Slot, split, split_starting_at};

fn slots<T>(count: usize) -> Vec<Slot<T>> {
    (0..count).map(|_| Slot::new()).collect()
}

#[test]
fn other_sizes_are_refused() {
    let mut header = Header::new();
    for count in [0, 3, 5, 6, 7, 9, 100, 255] {
        let error = split(&mut header, &mut slots::<u8>(count)).map(drop).unwrap_err();
        assert_eq!(error, RingError::NotPowerOfTwo { slots: count });
        assert_eq!(error.to_string(), format!("ring capacity must be a power of two, got {count}"));
    }
}

#[test]
fn order_holds_when_the_index_wraps() {
    for count in [1, 2, 4, 8, 256] {
        for before_wrap in [0, 1, 2, 3, count] {
            let (mut header, mut slots) = (Header::new(), slots(count));
            let start = 0_usize.wrapping_sub(before_wrap);
            let (mut producer, mut consumer) = split_starting_at(&mut header, &mut slots, start).unwrap();
            // Keep all but one slot filled and rotate.
            let kept = count - 1;
            for item in 0..kept {
                producer.push(item).unwrap();
            }
            for item in kept..kept + 3 * count + 70 {
                producer.push(item).unwrap();
                assert_eq!((producer.free(), consumer.ready()), (0, count));
                assert_eq!(producer.push(0), Err(PushError::Full(0)));
                assert_eq!(consumer.pop(), Ok(item - kept), "capacity {count}, {before_wrap} before the wrap");
            }
        }
    }
}

#[test]
fn capacity_one() {
    let (mut header, mut slots) = (Header::new(), slots(1));
    let (mut producer, mut consumer) = split(&mut header, &mut slots).unwrap();
    assert_eq!((producer.capacity(), consumer.capacity()), (1, 1));
    assert_eq!(consumer.pop(), Err(PopError::Empty));
    for item in 0..5 {
        assert_eq!(producer.push(item), Ok(()));
        assert_eq!(producer.push(99), Err(PushError::Full(99)));
        assert_eq!(producer.reserve(1).remaining(), 0);
        assert_eq!(consumer.pop(), Ok(item));
        assert_eq!(consumer.pop(), Err(PopError::Empty));
    }
}

#[test]
fn zero_sized_items_are_counted() {
    let (mut header, mut slots) = (Header::new(), slots(4));
    let (mut producer, mut consumer) = split_starting_at(&mut header, &mut slots, usize::MAX - 2).unwrap();
    for _ in 0..10 {
        assert_eq!(producer.push_slice(&[(); 9]), 4);
        assert_eq!(producer.push(()), Err(PushError::Full(())));
        assert_eq!(consumer.pop(), Ok(()));
        assert_eq!(consumer.drain(usize::MAX).count(), 3);
        assert_eq!(consumer.pop(), Err(PopError::Empty));
    }
}

#[test]
fn memory_of_an_arena_serves_as_slots() {
    let mut memory = vec![mem::MaybeUninit::<u64>::uninit(); 8];
    let mut header = Header::new();
    let (mut producer, mut consumer) = split(&mut header, Slot::from_uninit(&mut memory)).unwrap();
    assert_eq!(producer.push_slice(&[1, 2, 3]), 3);
    let mut items = [0; 8];
    assert_eq!(consumer.pop_slice(&mut items), 3);
    assert_eq!(items[..3], [1, 2, 3]);
}

#[test]
fn a_batch_is_two_slices_at_the_end_and_invisible_before_commit() {
    let (mut header, mut slots) = (Header::new(), slots(8));
    let (mut producer, mut consumer) = split_starting_at(&mut header, &mut slots, usize::MAX - 2).unwrap();
    let mut reserve = producer.reserve(7);
    let (first, second) = reserve.slots();
    assert_eq!((first.len(), second.len()), (3, 4));
    for (slot, item) in first.iter_mut().chain(second).zip(0..) {
        slot.write(item);
    }
    // SAFETY: the loop above wrote all seven.
    unsafe { reserve.assume_written(7) };
    assert_eq!(reserve.push(7), Err(7));
    assert_eq!(consumer.pop(), Err(PopError::Empty));
    assert_eq!(reserve.commit(), 7);
    assert!(consumer.drain(100).eq(0..7));
}

#[test]
fn a_partly_written_batch_commits_what_was_written() {
    let (mut header, mut slots) = (Header::new(), slots(8));
    let (mut producer, mut consumer) = split(&mut header, &mut slots).unwrap();
    let mut reserve = producer.reserve(100);
    assert_eq!(reserve.remaining(), 8);
    reserve.push(1).unwrap();
    assert_eq!(reserve.extend_from_slice(&[2, 3]), 2);
    assert_eq!(reserve.commit(), 3);
    assert_eq!((producer.free(), consumer.ready()), (5, 3));
    assert_eq!(consumer.drain(2).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(consumer.pop(), Ok(3));
}

#[test]
#[should_panic(expected = "count <= self.remaining()")]
fn more_written_than_reserved_is_refused() {
    let (mut header, mut slots) = (Header::new(), slots::<u8>(2));
    let (mut producer, _consumer) = split(&mut header, &mut slots).unwrap();
    // SAFETY: never reached as a claim: the call panics first.
    unsafe { producer.reserve(2).assume_written(3) };
}

#[test]
fn an_unfinished_drain_leaves_the_rest() {
    let (mut header, mut slots) = (Header::new(), slots(4));
    let (mut producer, mut consumer) = split(&mut header, &mut slots).unwrap();
    producer.push_slice(&[1, 2, 3, 4]);
    let mut drain = consumer.drain(3);
    assert_eq!((drain.len(), drain.next(), drain.next()), (3, Some(1), Some(2)));
    assert_eq!(producer.free(), 0, "slots go back when the drain ends");
    drop(drain);
    assert_eq!(producer.free(), 2);
    assert!(consumer.drain(4).eq([3, 4]));
}

/// Every item is a clone of one `Rc`, so its count tells how many items are alive.
#[test]
fn each_item_is_dropped_exactly_once() {
    for pushed in 0..=4 {
        for popped in 0..=pushed {
            for producer_last in [false, true] {
                let item = Rc::new(());
                let (mut header, mut slots) = (Header::new(), slots(4));
                let (mut producer, mut consumer) = split_starting_at(&mut header, &mut slots, usize::MAX - 1).unwrap();
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
            }
        }
    }
}

#[test]
fn batches_drop_what_was_not_handed_over() {
    let item = Rc::new(());
    let (mut header, mut slots) = (Header::new(), slots(4));
    let (mut producer, mut consumer) = split(&mut header, &mut slots).unwrap();
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
}

#[test]
fn forgotten_batches_neither_repeat_nor_drop_twice() {
    let item = Rc::new(());
    let (mut header, mut slots) = (Header::new(), slots(4));
    let (mut producer, mut consumer) = split(&mut header, &mut slots).unwrap();
    (0..3).for_each(|_| producer.push(item.clone()).unwrap());
    let mut drain = consumer.drain(3);
    drop(drain.next());
    mem::forget(drain);
    assert_eq!(Rc::strong_count(&item), 3);
    // The producer is the last one here and must not drop the item that the forgotten drain took.
    drop(consumer);
    drop(producer);
    assert_eq!(Rc::strong_count(&item), 1);
}

#[test]
fn the_last_item_comes_before_closed() {
    let (mut header, mut slots) = (Header::new(), slots(4));
    let (mut producer, mut consumer) = split(&mut header, &mut slots).unwrap();
    producer.push_slice(&[1, 2, 3]);
    drop(producer);
    assert!(!consumer.is_closed());
    assert!(consumer.drain(2).eq([1, 2]));
    assert_eq!(consumer.pop(), Ok(3));
    assert!(consumer.is_closed());
    assert_eq!(consumer.pop(), Err(PopError::Closed));
}

#[test]
fn the_producer_learns_that_the_consumer_is_gone() {
    let (mut header, mut slots) = (Header::new(), slots(2));
    let (mut producer, consumer) = split(&mut header, &mut slots).unwrap();
    assert!(!producer.is_closed());
    drop(consumer);
    assert!(producer.is_closed());
    assert_eq!(producer.push_slice(&[1, 2]), 2, "room is room");
    assert_eq!(producer.push(3), Err(PushError::Closed(3)));
}

#[test]
fn a_header_serves_again_after_both_halves_are_gone() {
    let (mut header, mut slots) = (Header::new(), slots(2));
    for round in 0..3 {
        let (mut producer, mut consumer) = split(&mut header, &mut slots).unwrap();
        assert_eq!(consumer.pop(), Err(PopError::Empty));
        producer.push(round).unwrap();
        assert_eq!(consumer.pop(), Ok(round));
    }
}

fn sent_between_threads<T: Send>(_: &T) {}

#[test]
fn halves_may_be_sent() {
    let (mut header, mut slots) = (Header::new(), slots::<u64>(2));
    let (producer, consumer) = split(&mut header, &mut slots).unwrap();
    sent_between_threads(&producer);
    sent_between_threads(&consumer);
}
