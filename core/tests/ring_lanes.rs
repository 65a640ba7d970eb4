//! Lanes by their edges: turns, bounds, retirement, places used again, a lane whose producer breaks the rules.
#![cfg(not(loom))]

#[path = "common/rings.rs"]
mod rings;

use std::sync::atomic::Ordering;

use rings::{slots, words};
use spinwire_core::ring::{Header, LaneFault, Lanes, Local, PeerFault, PopError, batch, latency, shared};

#[test]
fn each_lane_with_an_item_gives_one_in_its_turn() {
    let mut headers = [const { Header::new() }; 3];
    let mut slots: [Vec<latency::Slot<u32>>; 3] = [(); 3].map(|()| slots(8));
    let halves = headers.iter_mut().zip(&mut slots).map(|(header, slots)| latency::split(header, slots).unwrap());
    let (mut producers, consumers): (Vec<_>, Vec<_>) = halves.unzip();
    let mut lanes = Lanes::<_, 3>::from(<[_; 3]>::try_from(consumers).unwrap());
    assert_eq!(lanes.pop(), Err(PopError::Empty));

    for item in 0..4 {
        producers[0].push(item).unwrap();
        producers[2].push(20 + item).unwrap();
    }
    producers[1].push(10).unwrap();
    let order: Vec<_> = std::iter::from_fn(|| lanes.pop().ok()).collect();
    assert_eq!(order, [(0, 0), (1, 10), (2, 20), (0, 1), (2, 21), (0, 2), (2, 22), (0, 3), (2, 23)]);

    // A busy lane delays the others by one burst, never more.
    (0..8).for_each(|item| producers[0].push(item).unwrap());
    (0..2).for_each(|item| producers[1].push(10 + item).unwrap());
    let mut got = Vec::new();
    assert_eq!(lanes.poll(3, |lane, item| got.push((lane, item))), Ok(5));
    assert_eq!(got, [(0, 0), (0, 1), (0, 2), (1, 10), (1, 11)]);
}

#[test]
fn a_closed_lane_is_emptied_and_retired_and_its_place_is_used_again() {
    let mut headers = [const { Header::new() }; 3];
    let mut slots: [Vec<batch::Slot<u32>>; 3] = [(); 3].map(|()| slots(4));
    let halves = headers.iter_mut().zip(&mut slots).map(|(header, slots)| batch::split(header, slots).unwrap());
    let (mut producers, mut consumers): (Vec<_>, Vec<_>) = halves.unzip();
    let (third, mut late) = (consumers.pop().unwrap(), producers.pop().unwrap());
    let mut lanes = Lanes::<_, 2>::default();
    consumers.into_iter().for_each(|consumer| assert!(lanes.add(consumer).is_ok()));
    let third = lanes.add(third).expect_err("no place is free");

    producers[0].push(1).unwrap();
    producers.remove(0).close();
    assert_eq!((lanes.pop(), lanes.open()), (Ok((0, 1)), 2));
    assert_eq!((lanes.pop(), lanes.open()), (Err(PopError::Empty), 1));
    assert_eq!(lanes.add(third).map_err(drop), Ok(0));
    late.push(2).unwrap();
    assert_eq!((lanes.pop(), lanes.open()), (Ok((0, 2)), 2));

    drop((producers, late));
    assert_eq!((lanes.poll(1, |_, _| {}), lanes.open()), (Ok(0), 0));
    assert_eq!(lanes.pop(), Err(PopError::Closed));
}

#[test]
fn no_lanes_are_closed_lanes() {
    let mut lanes = Lanes::<Local<'_, batch::Slot<u8>>, 0>::new();
    assert_eq!((lanes.pop(), lanes.poll(9, |_, _| {}), lanes.open()), (Err(PopError::Closed), Ok(0), 0));
}

/// A slot's stamp is the first of its words, so the test can write what no producer writes.
#[test]
fn a_lane_that_breaks_the_rules_is_retired_and_the_others_go_on() {
    for by_poll in [false, true] {
        let (headers, words) = ([const { Header::new() }; 2], [words(4), words(4)]);
        let region = |lane: usize| shared::Region::of(&headers[lane], &words[lane]);
        let consumers = [0, 1].map(|lane| shared::latency::attach_consumer::<u64>(region(lane), 4).unwrap());
        let mut honest = shared::latency::attach_producer::<u64>(region(1), 4).unwrap();
        let mut lanes = Lanes::from(consumers);
        honest.push(7).unwrap();
        words[0][0].store(99, Ordering::Relaxed);
        let fault = LaneFault { lane: 0, fault: PeerFault::Stamp { number: 0, stamp: 99 } };
        assert_eq!(fault.to_string(), "lane 0: peer broke the ring: slot of item 0 has stamp 99");
        if by_poll {
            assert_eq!(lanes.poll(4, |_, _| panic!("nothing to take")), Err(fault));
        } else {
            assert_eq!(lanes.pop(), Err(PopError::Peer(fault)));
        }
        assert_eq!((lanes.open(), lanes.pop(), lanes.pop()), (1, Ok((1, 7)), Err(PopError::Empty)));
    }
}
