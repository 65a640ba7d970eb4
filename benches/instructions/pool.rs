//! A buffer pool.

use std::hint::black_box;

use spinwire_core::pool::{Direction, Pool, PoolSlot};

/// A buffer taken and given back.
#[inline(never)]
pub fn take_release(iterations: u64) {
    let (mut memory, mut slots) = (vec![0; 64 * 1_024], vec![PoolSlot::default(); 1_024]);
    let mut pool = Pool::new(Direction::Send, &mut memory, 0, (64, 64), &mut slots).expect("a layout that fits");
    for _ in 0..iterations {
        let buf = pool.take().expect("one is free");
        pool.release(black_box(buf));
    }
    assert_eq!(pool.free(), pool.total());
}
