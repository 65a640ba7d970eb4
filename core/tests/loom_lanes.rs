//! Lanes under the model checker: two producers, one consumer, every order of steps.
#![cfg(loom)]

#[path = "common/loom_kinds.rs"]
mod kinds;

use kinds::{Batch, Kind, Latency, SharedBatch, SharedLatency, check, leak};
use loom::thread;
use spinwire_core::ring::{Header, Lanes};

/// Two producers and the consumer, which polls once beside them and takes the rest when they are gone.
fn lanes_lose_nothing<K: Kind + 'static>(by_poll: bool) {
    loom::model(move || {
        let rings = [0, 10].map(|first| (first, K::ring(leak(Box::new(Header::new())), 1)));
        let (mut lanes, mut threads) = (Lanes::<K::M, 2>::new(), Vec::new());
        for (first, (mut producer, consumer)) in rings {
            assert!(lanes.add(consumer).is_ok());
            threads.push(thread::spawn(move || assert!(producer.push(K::item(first)).is_ok())));
        }
        let mut items = [None; 2];
        let mut poll = |lanes: &mut Lanes<K::M, 2>| {
            let mut take = |lane: usize, item| assert!(items[lane].replace(K::number(item)).is_none());
            match by_poll {
                true => assert!(lanes.poll(2, take).is_ok()),
                false => drop(lanes.pop().map(|(lane, item)| take(lane, item))),
            }
        };
        poll(&mut lanes);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        while lanes.open() > 0 {
            poll(&mut lanes);
        }
        assert_eq!(items, [Some(0), Some(10)]);
    });
}

#[test]
fn popped_one_by_one() {
    lanes_lose_nothing::<Latency>(false);
    lanes_lose_nothing::<Batch>(false);
    lanes_lose_nothing::<SharedLatency>(false);
    lanes_lose_nothing::<SharedBatch>(false);
}

#[test]
fn polled() {
    lanes_lose_nothing::<Latency>(true);
    lanes_lose_nothing::<Batch>(true);
    lanes_lose_nothing::<SharedLatency>(true);
    lanes_lose_nothing::<SharedBatch>(true);
}

/// A poll takes a batch as a whole or not at all, and a lane is not given up before it is empty.
fn a_poll_takes_whole_batches<K: Kind + 'static>() {
    check::<K>(
        2,
        |mut producer| {
            let mut reserve = producer.reserve(2);
            assert!(reserve.push(K::item(0)).is_ok() && reserve.push(K::item(1)).is_ok());
            assert_eq!(reserve.commit(), 2);
        },
        |consumer| {
            let (mut lanes, mut items) = (Lanes::from([consumer]), Vec::new());
            while lanes.open() > 0 {
                let before = items.len();
                assert!(lanes.poll(2, |_, item| items.push(K::number(item))).is_ok());
                assert!([0, 2].contains(&(items.len() - before)));
                if before == items.len() {
                    thread::yield_now();
                }
            }
            assert_eq!(items, [0, 1]);
        },
    );
}

#[test]
fn in_batches() {
    a_poll_takes_whole_batches::<Latency>();
    a_poll_takes_whole_batches::<Batch>();
    a_poll_takes_whole_batches::<SharedLatency>();
    a_poll_takes_whole_batches::<SharedBatch>();
}

/// More items than slots, in bursts of one: slots come back over the wrap while the producer looks for them.
fn a_burst_gives_slots_back<K: Kind + 'static>() {
    check::<K>(
        2,
        |mut producer| {
            let mut next = 0;
            for _ in 0..4 {
                next += u64::from(producer.push(K::item(next)).is_ok());
            }
        },
        |consumer| {
            let (mut lanes, mut expected) = (Lanes::from([consumer]), 0);
            for _ in 0..2 {
                let take = |_, item| {
                    assert_eq!(K::number(item), expected);
                    expected += 1;
                };
                assert!(lanes.poll(1, take).is_ok());
            }
        },
    );
}

#[test]
fn in_bursts() {
    a_burst_gives_slots_back::<Latency>();
    a_burst_gives_slots_back::<Batch>();
    a_burst_gives_slots_back::<SharedLatency>();
    a_burst_gives_slots_back::<SharedBatch>();
}

/// The lanes go while both producers push: what nobody took is dropped by the half that goes last, which loom's `Arc` checks.
fn what_is_left_is_dropped<K: Kind + 'static>() {
    loom::model(|| {
        let rings = [0, 10].map(|first| (first, K::ring(leak(Box::new(Header::new())), 1)));
        let (mut lanes, mut threads) = (Lanes::<K::M, 2>::new(), Vec::new());
        for (first, (mut producer, consumer)) in rings {
            assert!(lanes.add(consumer).is_ok());
            threads.push(thread::spawn(move || drop(producer.push(K::item(first)))));
        }
        let _ = lanes.pop();
        drop(lanes);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn dropped_with_items_in_them() {
    what_is_left_is_dropped::<Latency>();
    what_is_left_is_dropped::<Batch>();
    what_is_left_is_dropped::<SharedLatency>();
    what_is_left_is_dropped::<SharedBatch>();
}
