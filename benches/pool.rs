//! The buffer pool beside DPDK's `rte_mempool`: one buffer at a time, and 32.
//!
//! See the README here for what each contest shows.
#![allow(missing_docs)]

use std::cell::RefCell;
use std::hint::black_box;
use std::process::ExitCode;

use spinwire_benches::dpdk::{MISSING, Mempool};
use spinwire_benches::limits::{POOL_BULK, POOL_SINGLE};
use spinwire_benches::{Contestant, Run};
use spinwire_core::pool::{Bulk, Direction, Pool, PoolSlot};

const BUFFERS: usize = 8_191;
const BUFFER_BYTES: u32 = 64;
/// Two lines further each, as the platform lays them.
const STRIDE: u32 = 128;
const BULK: u64 = 32;

fn main() -> ExitCode {
    spinwire_benches::main("pool", contests)
}

fn contests(run: &mut Run) {
    let (mut memory, mut slots) = (vec![0; BUFFERS * STRIDE as usize], vec![PoolSlot::default(); BUFFERS]);
    let layout = black_box((BUFFER_BYTES, STRIDE));
    let pool = Pool::new(Direction::Send, &mut memory, 0, layout, &mut slots).expect("a layout that fits");
    let pool = RefCell::new(pool);
    let peer = match Mempool::new(BUFFERS as u32, BUFFER_BYTES) {
        Ok(peer) => Some(RefCell::new(peer)),
        Err(reason) => {
            run.skip("rte_mempool", MISSING.unwrap_or(&reason));
            None
        }
    };

    let mut single = vec![
        Contestant::new("spinwire", |times| one_by_one(&mut pool.borrow_mut(), times)),
        Contestant::new("spinwire_reloaded", |times| reloaded(&mut pool.borrow_mut(), times)),
    ];
    let mut bulk = vec![
        Contestant::new("spinwire", |times| in_bulk(&mut pool.borrow_mut(), times)),
        Contestant::new("spinwire_opened", |times| opened(&mut pool.borrow_mut(), times)),
    ];
    if let Some(peer) = &peer {
        single.push(Contestant::new("rte_mempool", |times| peer.borrow_mut().single(times)));
        bulk.push(Contestant::new("rte_mempool_bulk_32", |times| peer.borrow_mut().bulk_32(times)));
    }
    run.single("pool/single", POOL_SINGLE, &mut single);
    run.single("pool/bulk_32", POOL_BULK, &mut bulk);
}

/// One buffer taken and released. Between the two somebody uses the buffer, as in the peer's loop; the pool is ours alone,
/// and so the compiler may keep its counters in registers.
#[inline(never)]
fn one_by_one(pool: &mut Pool<'_>, times: u64) {
    for _ in 0..times {
        let buf = pool.take().expect("one is free");
        black_box(buf.as_ptr());
        pool.release(buf);
    }
}

/// The same where somebody else may have used the pool meanwhile: everything is read again, and waits for what was written
/// a moment before.
#[inline(never)]
fn reloaded(pool: &mut Pool<'_>, times: u64) {
    for _ in 0..times {
        let buf = pool.take().expect("one is free");
        black_box(buf.as_ptr());
        black_box(&mut *pool);
        pool.release(buf);
    }
}

/// 32 buffers taken and released in one go.
#[inline(never)]
fn in_bulk(pool: &mut Pool<'_>, times: u64) {
    let mut bulk = Bulk::new();
    for _ in 0..times.div_ceil(BULK) {
        pool.take_bulk(BULK as usize, black_box(&mut bulk));
        pool.release_bulk(black_box(&mut bulk));
    }
}

/// 32 buffers taken in one go and released one by one: what it costs when each of them was used.
#[inline(never)]
fn opened(pool: &mut Pool<'_>, times: u64) {
    let mut bulk = Bulk::new();
    for _ in 0..times.div_ceil(BULK) {
        pool.take_bulk(BULK as usize, black_box(&mut bulk));
        for buf in &mut bulk {
            black_box(buf.as_ptr());
            pool.release(buf);
        }
    }
}
