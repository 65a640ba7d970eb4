//! Items one way, as fast as both sides go.
//!
//! Real traffic between cores comes in bursts and waits in between; a ring is rarely this busy. The figure says what an
//! item costs while the ring is neither empty nor full for long.

use super::{BATCH, CAPACITY, Item, Patience, Ring, Rx, Tx};
use crate::contest::Sample;
use crate::window::{Dropped, Pinned, Role};

/// Sends `items`, `batch` at a time, 1 or [`BATCH`]. The consumer checks each.
///
/// # Errors
/// [`Dropped`], and why.
pub fn stream<R: Ring<T>, T: Item>(pinned: &Pinned, items: u64, batch: usize) -> Result<Sample, Dropped> {
    assert!(batch == 1 || batch == BATCH, "batches of 1 or {BATCH}, not {batch}");
    let mut ring = R::new();
    let (mut tx, mut rx) = ring.split();
    let elapsed = pinned.window(vec![
        Role::new(0, move |gate| {
            tx.produce(0, WARM_UP, batch);
            gate.start();
            tx.produce(WARM_UP, items, batch);
        }),
        Role::new(1, move |gate| {
            rx.consume(0, WARM_UP, batch);
            gate.start();
            rx.consume(WARM_UP, items, batch);
        }),
    ])?;
    Ok(Sample::per_item(elapsed, items))
}

// Not inlined, so that the same code is warmed up and measured, and `batch` known, so that it costs nothing.
#[inline(never)]
pub(super) fn produce<T: Item>(tx: &mut impl Tx<T>, first: u64, items: u64, batch: usize) {
    let (end, mut next, mut patience) = (first + items, first, Patience::default());
    if batch == 1 {
        while next < end {
            match tx.push(T::new(next)) {
                true => next += 1,
                false => patience.spin(),
            }
        }
    } else {
        while next < end {
            match tx.push_batch(next, (end - next).min(BATCH as u64) as usize) {
                0 => patience.spin(),
                pushed => next += pushed as u64,
            }
        }
    }
}

#[inline(never)]
pub(super) fn consume<T: Item>(rx: &mut impl Rx<T>, first: u64, items: u64, batch: usize) {
    let (end, mut next, mut patience) = (first + items, first, Patience::default());
    while next < end {
        let popped = if batch == 1 {
            rx.pop().map_or(0, |item| {
                assert!(item.is(next), "items must come whole and in order");
                1
            })
        } else {
            let mut number = next;
            let mut right = true;
            let popped = rx.pop_batch(BATCH, |item| {
                right &= item.is(number);
                number += 1;
            });
            assert!(right, "items must come whole and in order");
            popped
        };
        match popped {
            0 => patience.spin(),
            popped => next += popped as u64,
        }
    }
}

/// Twice round the ring, and a bit: every page is touched, every branch taken.
const WARM_UP: u64 = 2 * CAPACITY as u64 + 7;
