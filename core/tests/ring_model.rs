//! The ring against a model queue, with random operations.
#![cfg(not(loom))]

use std::collections::VecDeque;

use proptest::prelude::*;
use spinwire_core::ring::{Header, PopError, PushError, Slot, split_starting_at};

#[derive(Clone, Copy, Debug)]
enum Op {
    Push,
    Pop,
    /// Reserve so many, write up to so many, commit or give up.
    Reserve(usize, usize, bool),
    /// Drain so many, yield up to so many.
    Drain(usize, usize),
    PushSlice(usize),
    PopSlice(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let count = || prop_oneof![0..4_usize, 0..1100_usize];
    prop_oneof![
        4 => Just(Op::Push),
        4 => Just(Op::Pop),
        1 => (count(), count(), any::<bool>()).prop_map(|(reserve, write, commit)| Op::Reserve(reserve, write, commit)),
        1 => (count(), count()).prop_map(|(drain, take)| Op::Drain(drain, take)),
        1 => count().prop_map(Op::PushSlice),
        1 => count().prop_map(Op::PopSlice),
    ]
}

/// Applies `ops` to a ring and to the model and compares every answer.
fn check(capacity: usize, start: usize, ops: &[Op]) {
    let mut header = Header::new();
    let mut slots: Vec<Slot<u64>> = (0..capacity).map(|_| Slot::new()).collect();
    let (mut producer, mut consumer) = split_starting_at(&mut header, &mut slots, start).unwrap();
    let mut model = VecDeque::new();
    let mut serial = 0..;
    for &op in ops {
        let room = capacity - model.len();
        match op {
            Op::Push => {
                let item = serial.next().unwrap();
                if room > 0 {
                    assert_eq!(producer.push(item), Ok(()));
                    model.push_back(item);
                } else {
                    assert_eq!(producer.push(item), Err(PushError::Full(item)));
                }
            }
            Op::Pop => assert_eq!(consumer.pop(), model.pop_front().ok_or(PopError::Empty)),
            Op::Reserve(count, write, commit) => {
                let mut reserve = producer.reserve(count);
                assert_eq!(reserve.remaining(), count.min(room));
                let items: Vec<u64> = serial.by_ref().take(write.min(reserve.remaining())).collect();
                items.iter().for_each(|&item| reserve.push(item).unwrap());
                if commit {
                    assert_eq!(reserve.commit(), items.len());
                    model.extend(items);
                }
            }
            Op::Drain(count, take) => {
                let drain = consumer.drain(count);
                assert_eq!(drain.len(), count.min(model.len()));
                let take = take.min(drain.len());
                assert!(drain.take(take).eq(model.drain(..take)));
            }
            Op::PushSlice(count) => {
                let items: Vec<u64> = serial.by_ref().take(count).collect();
                assert_eq!(producer.push_slice(&items), count.min(room));
                model.extend(&items[..count.min(room)]);
            }
            Op::PopSlice(count) => {
                let mut items = vec![0; count];
                let popped = consumer.pop_slice(&mut items);
                assert_eq!(popped, count.min(model.len()));
                assert!(model.drain(..popped).eq(items[..popped].iter().copied()));
            }
        }
        assert_eq!((consumer.ready(), producer.free()), (model.len(), capacity - model.len()));
    }
    drop(producer);
    assert!(consumer.drain(usize::MAX).eq(model));
    assert_eq!(consumer.pop(), Err(PopError::Closed));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ring_equals_queue(
        capacity in (0..=10_u32).prop_map(|bits| 1_usize << bits),
        before_wrap in 0..2000_usize,
        ops in prop::collection::vec(op(), 1..400),
    ) {
        check(capacity, 0_usize.wrapping_sub(before_wrap), &ops);
    }
}
