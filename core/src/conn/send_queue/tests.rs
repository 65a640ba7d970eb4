//! The queue against a model.

extern crate std;
use super::*;
use crate::id::INDEX_MASK;
use crate::testing::Random;
use std::collections::VecDeque;
use std::vec::Vec;

/// Slots of other rings lie before the ring, and behind it.
const BASE: u32 = 3;

fn ring(len: usize) -> Vec<SendWr> {
    core::iter::repeat_with(|| SendWr::EMPTY).take(BASE as usize + len + 1).collect()
}

/// Random pushes, flushes and completions against a plain queue, with the counters started near their wrap and
/// completions that arrive late, each retiring all before it.
#[test]
fn agrees_with_a_model_over_the_wrap() {
    for (seed, len) in [1usize, 2, 8, 64].into_iter().enumerate() {
        let mut random = Random::new(seed as u64);
        let (mut queue, mut ring) = (SendQueue::new(BASE, len as u32, u32::MAX - 500), ring(len));
        queue.signal_every(3);
        let mut model: VecDeque<(u32, bool)> = VecDeque::new();
        let mut flown = 0usize;
        for _ in 0..if cfg!(miri) { 1_000 } else { 200_000 } {
            match random.below(3) {
                0 if model.len() < len => {
                    let wr = SendWr { len: random.next() as u32, ..SendWr::EMPTY };
                    if random.below(8) == 0 {
                        model.insert(flown, (wr.len, false));
                        queue.push_front(&mut ring, wr);
                    } else {
                        model.push_back((wr.len, false));
                        queue.push(&mut ring, wr);
                    }
                }
                1 => {
                    let count = random.below(queue.waiting() as u64 + 1) as u32;
                    let signals: Vec<_> = (0..count)
                        .map(|_| {
                            assert!(queue.next_waiting(&mut ring).is_some());
                            let must = random.below(10) == 0;
                            queue.clear(must)
                        })
                        .collect();
                    let (first, second) = queue.chain(&mut ring);
                    let tags: Vec<_> = first.iter().chain(second.iter()).map(|wr| wr.len).collect();
                    let expected: Vec<_> = model.iter().skip(flown).take(count as usize).map(|entry| entry.0).collect();
                    assert_eq!(tags, expected);
                    for (entry, signaled) in model.iter_mut().skip(flown).zip(signals) {
                        entry.1 = signaled;
                    }
                    queue.advance(count);
                    flown += count as usize;
                }
                _ => {
                    let signaled: Vec<_> = (0..flown).filter(|&n| model[n].1).collect();
                    if signaled.is_empty() {
                        continue;
                    }
                    let last = signaled[random.below(signaled.len() as u64) as usize];
                    let oldest = queue.clear_seq().wrapping_sub(flown as u32);
                    let retires = queue.retired_by(oldest.wrapping_add(last as u32) & INDEX_MASK).unwrap();
                    assert_eq!(retires as usize, last + 1);
                    for n in 0..retires {
                        let at = queue.slot(oldest.wrapping_add(n));
                        assert_eq!(ring[at].len, model.pop_front().unwrap().0);
                    }
                    queue.retire(&mut ring, retires, |done| Others { app: 0, control: done.len() as u32 });
                    flown -= retires as usize;
                }
            }
            assert_eq!((queue.occupied() as usize, queue.in_flight() as usize), (model.len(), flown));
            // Never more than signal_every - 1 unsignalled sends in a row.
            assert!(model.iter().take(flown).fold(0, |run, entry| if entry.1 { 0 } else { run + 1 }) < 3);
        }
    }
}

#[test]
fn a_completion_of_nothing_in_flight_is_recognised() {
    let (mut queue, mut ring) = (SendQueue::new(BASE, 4, 10), ring(4));
    assert_eq!(queue.retired_by(10), None);
    queue.push(&mut ring, SendWr::EMPTY);
    assert_eq!(queue.retired_by(10), None, "gathered, not posted");
    queue.clear(false);
    assert_eq!(queue.retired_by(10), None, "ready, not posted");
    queue.advance(1);
    assert_eq!((queue.retired_by(9), queue.retired_by(10), queue.retired_by(11)), (None, Some(1), None));
}

#[test]
#[should_panic(expected = "more than its slots")]
fn a_full_ring_is_never_overwritten() {
    let (mut queue, mut ring) = (SendQueue::new(BASE, 1, 0), ring(1));
    queue.push(&mut ring, SendWr::EMPTY);
    queue.push(&mut ring, SendWr::EMPTY);
}

#[test]
fn an_empty_queue_begins_at_the_front_of_its_ring_again() {
    let (mut queue, mut ring) = (SendQueue::new(BASE, 8, u32::MAX - 20), ring(8));
    let mut send = |queue: &mut SendQueue, count: u32| {
        for _ in 0..count {
            queue.push(&mut ring, SendWr::EMPTY);
            queue.clear(false);
        }
        queue.advance(count);
        queue.slot(queue.clear_seq() - count)
    };
    let mut other = self::ring(8);
    let mut retire = |queue: &mut SendQueue, count| {
        queue.retire(&mut other, count, |done| Others { app: 0, control: done.len() as u32 });
    };
    send(&mut queue, 3);
    let before = queue.clear_seq();
    retire(&mut queue, 2);
    assert_eq!(queue.clear_seq(), before, "one is under way");
    retire(&mut queue, 1);
    assert!(queue.is_retired(before - 1) && queue.occupied() == 0);
    for round in 0..10 {
        assert_eq!(send(&mut queue, 2), BASE as usize, "round {round}");
        retire(&mut queue, 2);
        assert_eq!(queue.retired_by(queue.clear_seq()), None, "nothing is under way");
    }
}
