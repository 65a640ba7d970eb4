//! A buffer pool.

use std::hint::black_box;

use spinwire_core::pool::{Bulk, Direction, Pool, PoolSlot};

/// A buffer taken and given back.
#[inline(never)]
pub fn take_release(iterations: u64) {
    let (mut memory, mut slots) = (vec![0; BYTES], vec![PoolSlot::default(); BUFFERS]);
    // As the size of a message, the stride is not known to the compiler.
    let layout = black_box((64, STRIDE as u32));
    let mut pool = Pool::new(Direction::Send, &mut memory, 0, layout, &mut slots).expect("a layout that fits");
    for _ in 0..iterations {
        let buf = pool.take().expect("one is free");
        pool.release(black_box(buf));
    }
    assert_eq!(pool.free(), pool.total());
}

/// 32 buffers taken and given back in one go.
#[inline(never)]
pub fn bulk(iterations: u64) {
    let (mut memory, mut slots) = (vec![0; BYTES], vec![PoolSlot::default(); BUFFERS]);
    let layout = black_box((64, STRIDE as u32));
    let mut pool = Pool::new(Direction::Send, &mut memory, 0, layout, &mut slots).expect("a layout that fits");
    let mut bulk = Bulk::new();
    for _ in 0..iterations {
        pool.take_bulk(black_box(32), &mut bulk);
        pool.release_bulk(black_box(&mut bulk));
    }
    assert_eq!(pool.free(), pool.total());
}

const BUFFERS: usize = 1_024;
const STRIDE: usize = 128;
const BYTES: usize = BUFFERS * STRIDE;
