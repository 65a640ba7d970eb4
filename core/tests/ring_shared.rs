//! Rings in shared memory: attaching, a peer that breaks the rules in every way, and a real second process.
#![cfg(not(loom))]

#[path = "common/rings.rs"]
mod rings;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use spinwire_core::ring::shared::{AttachError, Region, batch, latency};
use spinwire_core::ring::{Header, PeerFault, PopError, PushError};
use spinwire_core::sim::Random;

/// Words of the header: tail, head, and who has left, 128 bytes each.
const HEADER: usize = 48;
const TAIL: usize = 0;
const HEAD: usize = 16;
const LEFT: usize = 32;

/// A region with words before and after it that nobody may touch.
#[repr(C, align(128))]
struct Guarded<const WORDS: usize> {
    before: [AtomicU64; 64],
    words: [AtomicU64; WORDS],
    after: [AtomicU64; 64],
}

const CANARY: u64 = 0x5eed_ca4a_57a7_1c5e;

impl<const WORDS: usize> Guarded<WORDS> {
    fn new() -> Box<Self> {
        let canary = || [const { AtomicU64::new(CANARY) }; 64];
        Box::new(Guarded { before: canary(), words: [const { AtomicU64::new(0) }; WORDS], after: canary() })
    }

    fn region(&self) -> Region<'_> {
        // SAFETY: the memory lives as long as the region and is made of atomics, which is how all here use it.
        unsafe { Region::new(NonNull::from(&self.words).cast(), 8 * WORDS) }.unwrap()
    }

    fn assert_untouched(&self) {
        assert!(self.before.iter().chain(&self.after).all(|word| word.load(Ordering::Relaxed) == CANARY));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let memory = Guarded::<{ HEADER + 8 }>::new();
    let start = NonNull::from(&memory.words).cast::<u8>();
    let address = start.addr().get() + 8;
    // SAFETY: never used: all of these are refused.
    let refused = unsafe { [Region::new(start.add(8), 384), Region::new(start, 383)].map(Result::unwrap_err) };
    assert_eq!(refused[0], AttachError::Misaligned { address });
    assert_eq!(
        refused[0].to_string(),
        format!("a shared ring must start at a multiple of 128 bytes, got address {address:#x}")
    );
    assert_eq!(refused[1].to_string(), "a shared ring of 0 slots takes 384 bytes, but the region has 383");

    // Eight words: four slots of two words, or eight of one.
    let region = memory.region();
    assert!(latency::attach_producer::<u64>(region, 4).is_ok() && batch::attach_consumer::<u64>(region, 8).is_ok());
    let error = latency::attach_producer::<u64>(region, 8).map(drop).unwrap_err();
    assert_eq!(error, AttachError::TooSmall { capacity: 8, needed: 384 + 128, len: 384 + 64 });
    let error = batch::attach_consumer::<u64>(region, 1 << 63).map(drop).unwrap_err();
    assert_eq!(error, AttachError::TooSmall { capacity: 1 << 63, needed: usize::MAX, len: 384 + 64 });
}

#[test]
fn memory_of_zeros_is_an_empty_ring() {
    let memory = Guarded::<{ HEADER + 64 }>::new();
    let mut producer = latency::attach_producer::<[u8; 40]>(memory.region(), 8).unwrap();
    let mut consumer = latency::attach_consumer::<[u8; 40]>(memory.region(), 8).unwrap();
    assert_eq!(consumer.pop(), Err(PopError::Empty));
    for item in 0..100 {
        producer.push([item; 40]).unwrap();
        assert_eq!(consumer.pop(), Ok([item; 40]));
    }
    memory.assert_untouched();
}

#[test]
fn an_index_that_cannot_be_true_closes_the_half_for_good() {
    let memory = Guarded::<{ HEADER + 4 }>::new();
    let mut consumer = batch::attach_consumer::<u64>(memory.region(), 4).unwrap();
    for tail in [5, u64::MAX, 1 << 63] {
        let mut consumer = batch::attach_consumer::<u64>(memory.region(), 4).unwrap();
        memory.words[TAIL].store(tail, Ordering::Relaxed);
        let fault = PeerFault::Index { head: 0, tail, capacity: 4 };
        assert_eq!(consumer.pop(), Err(PopError::Peer(fault)));
        // It stays so, whatever the peer says now.
        memory.words[TAIL].store(2, Ordering::Relaxed);
        assert_eq!((consumer.pop(), consumer.ready()), (Err(PopError::Peer(fault)), 0));
        assert_eq!(consumer.drain(4).len(), 0);
        assert_eq!((consumer.is_closed(), consumer.fault()), (true, Some(fault)));
    }
    // An index that could be true is believed; the items are whatever is there.
    memory.words[TAIL].store(4, Ordering::Relaxed);
    assert_eq!(consumer.drain(9).count(), 4);

    for head in [5, 9, u64::MAX, 1 << 63] {
        memory.words[HEAD].store(0, Ordering::Relaxed);
        memory.words[LEFT].store(0, Ordering::Relaxed);
        let mut producer = batch::attach_producer::<u64>(memory.region(), 4).unwrap();
        assert_eq!((producer.push_slice(&[1, 2, 3, 4]), producer.push(5)), (4, Err(PushError::Full(5))));
        memory.words[HEAD].store(head, Ordering::Relaxed);
        let fault = PeerFault::Index { head, tail: 4, capacity: 4 };
        assert_eq!(producer.push(5), Err(PushError::Peer(5, fault)));
        memory.words[HEAD].store(4, Ordering::Relaxed);
        assert_eq!((producer.push(5), producer.free()), (Err(PushError::Peer(5, fault)), 0));
        assert_eq!((producer.is_closed(), producer.fault()), (true, Some(fault)));
        assert_eq!(producer.reserve(1).remaining(), 0);
    }
}

#[test]
fn a_stamp_that_cannot_be_true_closes_the_half_for_good() {
    let memory = Guarded::<{ HEADER + 8 }>::new();
    let mut consumer = latency::attach_consumer::<u64>(memory.region(), 4).unwrap();
    memory.words[HEADER].store(1, Ordering::Relaxed);
    assert_eq!(consumer.pop(), Ok(0), "a stamp that could be true is believed");
    memory.words[HEADER + 2].store(3, Ordering::Relaxed);
    let fault = PeerFault::Stamp { number: 1, stamp: 3 };
    assert_eq!(consumer.pop(), Err(PopError::Peer(fault)));
    memory.words[HEADER + 2].store(2, Ordering::Relaxed);
    assert_eq!((consumer.pop(), consumer.is_closed()), (Err(PopError::Peer(fault)), true));
}

/// An index that goes back is within the range, so it is believed; but never so that a slot is written twice.
#[test]
fn an_index_that_goes_back_takes_room_away() {
    let memory = Guarded::<{ HEADER + 8 }>::new();
    let mut producer = batch::attach_producer::<u64>(memory.region(), 8).unwrap();
    assert_eq!(producer.push_slice(&[0; 8]), 8);
    memory.words[HEAD].store(8, Ordering::Relaxed);
    assert_eq!(producer.push(0), Ok(()));
    memory.words[HEAD].store(2, Ordering::Relaxed);
    assert_eq!(producer.free(), 1);
    assert_eq!((producer.push(0), producer.push(0)), (Ok(()), Err(PushError::Full(0))));
}

/// The own index and the geometry are not read back from the memory.
#[test]
fn what_this_side_wrote_is_never_read_back() {
    let memory = Guarded::<{ HEADER + 4 }>::new();
    let mut producer = batch::attach_producer::<u64>(memory.region(), 4).unwrap();
    let mut consumer = batch::attach_consumer::<u64>(memory.region(), 4).unwrap();
    for round in 0..20 {
        producer.push(round).unwrap();
        assert_eq!(consumer.pop(), Ok(round));
        let (tail, head) = (memory.words[TAIL].load(Ordering::Relaxed), memory.words[HEAD].load(Ordering::Relaxed));
        assert_eq!((tail, head), (round + 1, round + 1));
        memory.words[if round % 2 == 0 { TAIL } else { HEAD }].store(77, Ordering::Relaxed);
        if round % 2 == 0 {
            producer.push(7).unwrap();
            assert_eq!(memory.words[TAIL].swap(round + 1, Ordering::Relaxed), round + 2);
            producer = batch::attach_producer_at(memory.region(), 4, round + 1).unwrap();
        } else {
            consumer.give_back();
            memory.words[HEAD].store(round + 1, Ordering::Relaxed);
        }
        memory.words[LEFT].store(0, Ordering::Relaxed);
    }
}

/// What a hostile peer writes: now and then something that could be true, or nearly.
fn garbage(random: &mut Random, near: u64) -> u64 {
    match random.below(4) {
        0 => near.wrapping_add(random.below(20)).wrapping_sub(10),
        1 => near.wrapping_add(random.below(3)),
        2 => 1 << random.below(64),
        _ => random.next(),
    }
}

/// Raises the flag when it goes out of scope, by whatever way.
struct StopAtEnd<'f>(&'f AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A thread writes garbage into every word, all the time, while each half works. Every answer is an item, "nothing",
/// "closed" or a fault; nothing outside the region changes; nothing takes longer than the ring is long.
#[test]
fn a_peer_that_scribbles_over_everything_breaks_nothing() {
    const CAPACITY: usize = 8;
    const WORDS: usize = HEADER + 8 * CAPACITY;
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    let (memory, stop, near) = (Guarded::<WORDS>::new(), AtomicBool::new(false), AtomicU64::new(0));
    let (mut faults, mut items, mut pushed, mut closed) = (0usize, 0usize, 0usize, 0usize);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random(7);
            while !stop.load(Ordering::Relaxed) {
                // The words that matter more often than the others.
                let word = match random.below(8) {
                    0 | 1 => [TAIL, HEAD][random.below(2) as usize],
                    2 if random.chance(100) => LEFT,
                    2..5 => HEADER + 8 * random.below(CAPACITY as u64) as usize,
                    _ => random.below(WORDS as u64) as usize,
                };
                memory.words[word].store(garbage(&mut random, near.load(Ordering::Relaxed)), Ordering::Relaxed);
            }
        });
        // Also when an assertion below fails: the scope waits for the thread.
        let _stop = StopAtEnd(&stop);
        let mut random = Random(8);
        macro_rules! ours {
            ($layout:ident) => {{
                let start = random.next();
                near.store(start, Ordering::Relaxed);
                $layout::prepare::<[u64; 7]>(memory.region(), CAPACITY, start).unwrap();
                let mut producer = $layout::attach_producer_at::<[u64; 7]>(memory.region(), CAPACITY, start).unwrap();
                let mut consumer = $layout::attach_consumer_at::<[u64; 7]>(memory.region(), CAPACITY, start).unwrap();
                for _ in 0..40 {
                    match random.below(6) {
                        0 => match producer.push([1; 7]) {
                            Ok(()) => pushed += 1,
                            Err(PushError::Full(_)) => {}
                            Err(PushError::Closed(_)) => closed += 1,
                            Err(PushError::Peer(..)) => faults += 1,
                        },
                        1 => pushed += producer.push_slice(&[[2; 7]; 2 * CAPACITY]),
                        2 => assert!(producer.free() <= CAPACITY),
                        3 => match consumer.pop() {
                            Ok(_) => items += 1,
                            Err(PopError::Empty) => {}
                            Err(PopError::Closed) => closed += 1,
                            Err(PopError::Peer(_)) => faults += 1,
                        },
                        4 => {
                            let taken = consumer.drain(usize::MAX).count();
                            assert!(taken <= CAPACITY);
                            items += taken;
                        }
                        _ => assert!(consumer.ready() <= CAPACITY),
                    }
                }
            }};
        }
        // On a busy machine the two threads seldom run at the same time: go on until every answer was met.
        let (mut round, since) = (0, Instant::now());
        while round < rounds || [faults, items, pushed, closed].contains(&0) {
            ours!(latency);
            ours!(batch);
            round += 1;
            assert!(since.elapsed() < Duration::from_secs(60), "{faults} faults, {items} items, {pushed}, {closed}");
        }
    });
    memory.assert_untouched();
}

/// Regions made of a header and words work as mapped ones do.
#[test]
fn a_region_of_parts_is_a_region() {
    let (header, words) = (Header::new(), rings::words(4));
    let region = Region::of(&header, &words);
    batch::attach_producer::<u64>(region, 4).unwrap().push(5).unwrap();
    let mut consumer = batch::attach_consumer::<u64>(region, 4).unwrap();
    assert_eq!((consumer.pop(), consumer.pop()), (Ok(5), Err(PopError::Closed)));
}
