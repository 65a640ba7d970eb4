//! An engine allocates nothing, from its first connect to its last close.
#![cfg(not(loom))]

#[path = "common/tiny.rs"]
mod tiny;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Under miri, which sees every step, some hundreds take as long.
const ECHOES: u64 = if cfg!(miri) { 500 } else { 100_000 };

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has no counter any more; it is not the one that is watched.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches a cell of the own thread only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn echoes_allocate_nothing() {
    let before = ALLOCATIONS.get();
    let fine = tiny::echoes(ECHOES);
    let after = ALLOCATIONS.get();
    assert!(fine, "the echoes themselves failed");
    assert_eq!(after - before, 0);
}

#[test]
fn the_counter_counts() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(ALLOCATIONS.get() - before, 1);
}
