//! Both halves of a ring on one thread: what an operation costs while the line is in the own cache.

use std::hint::black_box;

use spinwire_core::ring::{Header, Lanes, batch, latency};
use spinwire_core::sync::CacheLine;

const CAPACITY: usize = 1_024;

/// One push and one pop, in the latency layout.
#[inline(never)]
pub fn pair(iterations: u64) {
    let (mut header, mut slots) = (Header::new(), CacheLine([const { latency::Slot::new() }; CAPACITY]));
    let (mut producer, mut consumer) = latency::split(&mut header, &mut slots.0).expect("a power of two");
    let mut sum = 0_u64;
    for n in 0..iterations {
        assert!(producer.push(n).is_ok());
        sum = sum.wrapping_add(consumer.pop().expect("what was pushed"));
    }
    assert!(sum == (0..iterations).fold(0, u64::wrapping_add));
}

/// 32 items in, 32 out, by slices, in the batch layout.
#[inline(never)]
pub fn batch(iterations: u64) {
    let (mut header, mut slots) = (Header::new(), CacheLine([const { batch::Slot::new() }; CAPACITY]));
    let (mut producer, mut consumer) = batch::split(&mut header, &mut slots.0).expect("a power of two");
    let items: [u64; 32] = std::array::from_fn(|n| n as u64);
    let mut out = [0; 32];
    for _ in 0..iterations {
        assert!(producer.push_slice(black_box(&items)) == 32);
        assert!(consumer.pop_slice(black_box(&mut out)) == 32);
    }
    assert_eq!(out, items);
}

/// One item pushed by each of two producers, and a poll that takes both.
#[inline(never)]
pub fn lanes(iterations: u64) {
    let (mut header_a, mut slots_a) = (Header::new(), CacheLine([const { latency::Slot::new() }; CAPACITY]));
    let (mut header_b, mut slots_b) = (Header::new(), CacheLine([const { latency::Slot::new() }; CAPACITY]));
    let (mut a, from_a) = latency::split(&mut header_a, &mut slots_a.0).expect("a power of two");
    let (mut b, from_b) = latency::split(&mut header_b, &mut slots_b.0).expect("a power of two");
    let mut lanes = Lanes::from([from_a, from_b]);
    let mut sum = 0_u64;
    for n in 0..iterations {
        assert!(a.push(n).is_ok() && b.push(n).is_ok());
        let popped = lanes.poll(16, |_, item| sum = sum.wrapping_add(item));
        assert!(popped == Ok(2));
    }
    assert!(sum == (0..iterations).fold(0, |sum: u64, n| sum.wrapping_add(2 * n)));
}
