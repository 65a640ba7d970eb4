//! Lanes under the model checker: two producers, one consumer, every order of steps.
#![cfg(loom)]

#[path = "common/loom_kinds.rs"]
mod kinds;

use kinds::{Batch, Kind, Latency, SharedBatch, SharedLatency, leak};
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
