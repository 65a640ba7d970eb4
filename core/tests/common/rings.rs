//! A ring of every kind, for tests that hold for all of them.
#![allow(dead_code, reason = "each test program uses its part")]

use std::sync::atomic::AtomicU64;

/// Slots of either layout.
pub fn slots<S: Default>(count: usize) -> Vec<S> {
    (0..count).map(|_| S::default()).collect()
}

/// Words for a shared ring of `capacity` slots of items of up to 64 bytes.
pub fn words(capacity: usize) -> Vec<AtomicU64> {
    (0..capacity * 16).map(|_| AtomicU64::new(0)).collect()
}

/// Runs the body for each of the four kinds of ring, with `$kind` as its name: `$capacity` slots, `$item`s, the first of
/// them numbered `$start`.
#[macro_export]
macro_rules! each_kind {
    ($item:ty, $capacity:expr, $start:expr, |$kind:ident, $producer:ident, $consumer:ident| $body:block) => {{
        use spinwire_core::ring::{Header, batch, latency, shared};
        let (capacity, start) = ($capacity, $start);
        {
            let ($kind, mut header, mut slots) = ("latency", Header::new(), $crate::rings::slots(capacity));
            #[allow(unused_mut)]
            let (mut $producer, mut $consumer) =
                latency::split_starting_at::<$item>(&mut header, &mut slots, start).unwrap();
            $body
        }
        {
            let ($kind, mut header, mut slots) = ("batch", Header::new(), $crate::rings::slots(capacity));
            #[allow(unused_mut)]
            let (mut $producer, mut $consumer) =
                batch::split_starting_at::<$item>(&mut header, &mut slots, start).unwrap();
            $body
        }
        {
            let ($kind, header, words) = ("shared latency", Header::new(), $crate::rings::words(capacity));
            let region = shared::Region::of(&header, &words);
            shared::latency::prepare::<$item>(region, capacity, start).unwrap();
            #[allow(unused_mut)]
            let (mut $producer, mut $consumer) = (
                shared::latency::attach_producer_at::<$item>(region, capacity, start).unwrap(),
                shared::latency::attach_consumer_at::<$item>(region, capacity, start).unwrap(),
            );
            $body
        }
        {
            let ($kind, header, words) = ("shared batch", Header::new(), $crate::rings::words(capacity));
            let region = shared::Region::of(&header, &words);
            shared::batch::prepare::<$item>(region, capacity, start).unwrap();
            #[allow(unused_mut)]
            let (mut $producer, mut $consumer) = (
                shared::batch::attach_producer_at::<$item>(region, capacity, start).unwrap(),
                shared::batch::attach_consumer_at::<$item>(region, capacity, start).unwrap(),
            );
            $body
        }
    }};
}
