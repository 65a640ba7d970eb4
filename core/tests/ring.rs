//! Rings of every kind by their edges: capacities, wrap, zero-sized items, batches, closing.
#![cfg(not(loom))]

#[path = "common/rings.rs"]
mod rings;

use std::mem;

use rings::slots;
use spinwire_core::ring::{Header, PopError, PushError, RingError, batch, latency, shared};
use spinwire_core::sync::CacheLine;

#[test]
fn other_sizes_are_refused() {
    let mut header = Header::new();
    for count in [0, 3, 5, 6, 7, 9, 100, 255, 1000] {
        let error = RingError::NotPowerOfTwo { slots: count };
        assert_eq!(error.to_string(), format!("ring capacity must be a power of two, got {count}"));
        assert_eq!(latency::split::<u8>(&mut header, &mut slots(count)).map(drop), Err(error));
        assert_eq!(batch::split::<u8>(&mut header, &mut slots(count)).map(drop), Err(error));
        let words = rings::words(count);
        let region = shared::Region::of(&header, &words);
        let error = Err(shared::AttachError::Ring(error));
        assert_eq!(shared::latency::attach_producer::<u64>(region, count).map(drop), error);
        assert_eq!(shared::batch::attach_consumer::<u64>(region, count).map(drop), error);
    }
}

/// The position jumped when an index wrapped, in a ring whose size did not divide the wrap.
#[test]
fn order_holds_when_the_counters_wrap() {
    // Under miri, which sees every step, the small ones take as long.
    let capacities: &[usize] = if cfg!(miri) { &[1, 2, 4] } else { &[1, 2, 4, 8, 16, 256] };
    for &capacity in capacities {
        for before_wrap in [0, 1, 2, 3, capacity as u64] {
            each_kind!(usize, capacity, 0_u64.wrapping_sub(before_wrap), |kind, producer, consumer| {
                let context = format!("{kind}, {capacity} slots, {before_wrap} before the wrap");
                // Keep all but one slot filled and rotate.
                let kept = capacity - 1;
                for item in 0..kept {
                    producer.push(item).unwrap();
                }
                for item in kept..kept + 3 * capacity + 70 {
                    producer.push(item).unwrap();
                    assert_eq!((producer.free(), consumer.ready()), (0, capacity), "{context}");
                    assert_eq!(producer.push(0), Err(PushError::Full(0)), "{context}");
                    assert_eq!(consumer.pop(), Ok(item - kept), "{context}");
                    consumer.give_back();
                    assert_eq!((producer.free(), consumer.ready()), (1, kept), "{context}");
                }
            });
        }
    }
}

#[test]
fn capacity_one() {
    each_kind!(u32, 1, u64::MAX, |kind, producer, consumer| {
        assert_eq!((producer.capacity(), consumer.capacity()), (1, 1));
        assert_eq!(consumer.pop(), Err(PopError::Empty), "{kind}");
        for item in 0..5 {
            assert_eq!(producer.push(item), Ok(()), "{kind}");
            assert_eq!(producer.push(99), Err(PushError::Full(99)), "{kind}");
            assert_eq!(producer.reserve(1).remaining(), 0, "{kind}");
            assert_eq!(consumer.pop(), Ok(item), "{kind}");
            assert_eq!(consumer.pop(), Err(PopError::Empty), "{kind}");
        }
    });
}

#[test]
fn zero_sized_items_are_counted() {
    each_kind!((), 4, u64::MAX - 2, |kind, producer, consumer| {
        for _ in 0..10 {
            assert_eq!(producer.push_slice(&[(); 9]), 4, "{kind}");
            assert_eq!(producer.push(()), Err(PushError::Full(())), "{kind}");
            assert_eq!(consumer.pop(), Ok(()), "{kind}");
            assert_eq!(consumer.drain(usize::MAX).count(), 3, "{kind}");
            assert_eq!(consumer.pop(), Err(PopError::Empty), "{kind}");
        }
    });
}

/// Sizes that are no multiple of a word, and more than a cache line.
#[test]
fn items_of_any_size_arrive_whole() {
    fn bytes<const N: usize>() {
        each_kind!([u8; N], 8, u64::MAX - 3, |kind, producer, consumer| {
            for turn in 0..5_u8 {
                let items: [[u8; N]; 7] = std::array::from_fn(|i| std::array::from_fn(|j| turn + (8 * i + j) as u8));
                assert_eq!(producer.push_slice(&items), 7, "{kind}, {N} bytes");
                let mut got = [[0; N]; 7];
                assert_eq!(consumer.pop_slice(&mut got[..2]), 2, "{kind}, {N} bytes");
                got[2] = consumer.pop().unwrap();
                got[3..].iter_mut().zip(consumer.drain(8)).for_each(|(to, item)| *to = item);
                assert_eq!(got, items, "{kind}, {N} bytes");
            }
        });
    }
    bytes::<1>();
    bytes::<3>();
    bytes::<8>();
    bytes::<13>();
    bytes::<56>();
    bytes::<64>();
    bytes::<100>();
}

#[test]
fn memory_of_an_arena_serves_as_slots() {
    let mut memory = vec![mem::MaybeUninit::<u64>::uninit(); 8];
    let mut header = Header::new();
    let (mut producer, mut consumer) = batch::split(&mut header, batch::Slot::from_uninit(&mut memory)).unwrap();
    assert_eq!(producer.push_slice(&[1, 2, 3]), 3);
    let mut items = [0; 8];
    assert_eq!(consumer.pop_slice(&mut items), 3);
    assert_eq!(items[..3], [1, 2, 3]);
}

#[test]
fn a_latency_slot_of_a_quarter_half_or_whole_line_stays_in_its_line() {
    fn check<T>(items: usize) {
        let slots = CacheLine([const { latency::Slot::<T>::new() }; 8]);
        let line = |slot: &latency::Slot<T>| (&raw const *slot).addr() / 64;
        for pair in slots.0.chunks(items) {
            assert!(pair.iter().all(|slot| line(slot) == line(&pair[0])));
            let end = (&raw const pair[items - 1]).addr() + size_of::<latency::Slot<T>>() - 1;
            assert_eq!(end / 64, line(&pair[0]));
        }
    }
    check::<u64>(4);
    check::<[u64; 3]>(2);
    check::<[u64; 7]>(1);
}

#[test]
fn a_batch_is_two_slices_at_the_end_and_invisible_before_commit() {
    let (mut header, mut slots) = (Header::new(), slots(8));
    let (mut producer, mut consumer) = batch::split_starting_at(&mut header, &mut slots, u64::MAX - 2).unwrap();
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
    each_kind!(u64, 8, 0, |kind, producer, consumer| {
        let mut reserve = producer.reserve(100);
        assert_eq!(reserve.remaining(), 8, "{kind}");
        reserve.push(1).unwrap();
        assert_eq!(reserve.extend_from_slice(&[2, 3]), 2, "{kind}");
        assert_eq!(consumer.ready(), 0, "{kind}");
        assert_eq!(reserve.commit(), 3, "{kind}");
        assert_eq!((producer.free(), consumer.ready()), (5, 3), "{kind}");
        assert_eq!(consumer.drain(2).collect::<Vec<_>>(), [1, 2], "{kind}");
        assert_eq!(consumer.pop(), Ok(3), "{kind}");
    });
}

#[test]
#[should_panic(expected = "count <= self.remaining()")]
fn more_written_than_reserved_is_refused() {
    let (mut header, mut slots) = (Header::new(), slots(2));
    let (mut producer, _consumer) = batch::split::<u8>(&mut header, &mut slots).unwrap();
    // SAFETY: never reached as a claim: the call panics first.
    unsafe { producer.reserve(2).assume_written(3) };
}

#[test]
fn an_unfinished_drain_leaves_the_rest() {
    each_kind!(u64, 4, 7, |kind, producer, consumer| {
        producer.push_slice(&[1, 2, 3, 4]);
        let mut drain = consumer.drain(3);
        assert_eq!((drain.len(), drain.next(), drain.next()), (3, Some(1), Some(2)), "{kind}");
        assert_eq!(producer.free(), 2, "{kind}");
        assert!(consumer.drain(4).eq([3, 4]), "{kind}");
    });
}

/// The rule that the module's docs state: another eighth of the ring, or nothing left, or on demand.
#[test]
fn slots_are_given_back_by_the_eighth_or_when_seen_empty() {
    each_kind!(u64, 32, u64::MAX - 39, |kind, producer, consumer| {
        producer.push_slice(&[7; 32]);
        let free = [1, 2, 3, 4, 5].map(|_| (consumer.pop().unwrap(), producer.free()).1);
        assert_eq!(free, [0, 0, 0, 4, 4], "{kind}");
        consumer.give_back();
        assert_eq!(producer.free(), 5, "{kind}");
        assert_eq!(consumer.drain(3).count() + producer.free(), 3 + 8, "{kind}");
        assert_eq!(consumer.drain(3).count() + producer.free(), 3 + 8, "{kind}");
        assert_eq!(consumer.drain(32).count() + producer.free(), 21 + 32, "{kind}");
        producer.push_slice(&[7; 2]);
        assert_eq!(consumer.drain(32).count() + producer.free(), 2 + 30, "{kind}");
        assert_eq!((consumer.pop(), producer.free()), (Err(PopError::Empty), 32), "{kind}");
    });
}

/// "The other side is gone" was seen before the last item.
#[test]
fn the_last_item_comes_before_closed() {
    each_kind!(u64, 4, u64::MAX - 1, |kind, producer, consumer| {
        producer.push_slice(&[1, 2, 3]);
        producer.close();
        assert!(!consumer.is_closed(), "{kind}");
        assert!(consumer.drain(2).eq([1, 2]), "{kind}");
        assert_eq!(consumer.pop(), Ok(3), "{kind}");
        assert!(consumer.is_closed(), "{kind}");
        assert_eq!(consumer.pop(), Err(PopError::Closed), "{kind}");
    });
}

#[test]
fn the_producer_learns_that_the_consumer_is_gone() {
    each_kind!(u64, 2, 0, |kind, producer, consumer| {
        assert!(!producer.is_closed(), "{kind}");
        consumer.close();
        assert!(producer.is_closed(), "{kind}");
        assert_eq!(producer.push_slice(&[1, 2]), 2, "{kind}: room is room");
        assert_eq!(producer.push(3), Err(PushError::Closed(3)), "{kind}");
        assert_eq!(producer.push(4).map_err(PushError::into_item), Err(4), "{kind}");
    });
}

#[test]
fn memory_serves_again_after_both_halves_are_gone() {
    let (mut header, mut slots) = (Header::new(), slots(2));
    for start in [0, u64::MAX, 1, 5] {
        let (mut producer, mut consumer) = latency::split_starting_at(&mut header, &mut slots, start).unwrap();
        assert_eq!(consumer.pop(), Err(PopError::Empty));
        producer.push(start).unwrap();
        assert_eq!((consumer.pop(), consumer.pop()), (Ok(start), Err(PopError::Empty)));
    }
}

#[test]
fn a_ring_may_stand_in_a_static() {
    static HEADER: std::sync::Mutex<Header> = std::sync::Mutex::new(Header::new());
    let mut slots = [const { batch::Slot::<u8>::new() }; 2];
    let mut header = HEADER.lock().unwrap();
    let (mut producer, mut consumer) = batch::split(&mut header, &mut slots).unwrap();
    producer.push(1).unwrap();
    assert_eq!(consumer.pop(), Ok(1));
}

#[test]
fn halves_may_be_sent() {
    fn sent_between_threads<T: Send>(_: &T) {}
    each_kind!(u64, 2, 0, |_kind, producer, consumer| {
        sent_between_threads(&producer);
        sent_between_threads(&consumer);
    });
}
