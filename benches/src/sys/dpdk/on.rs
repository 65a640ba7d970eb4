//! DPDK is there: its ring and its pool, through `shim.c`.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::OnceLock;

use crate::rings::{BATCH, CAPACITY, Item, Patience, Ring, Rx, Tx};
use crate::sys::this_cpu;

/// Why `rte_ring` and `rte_mempool` do not take part; `None` if they do.
pub const MISSING: Option<&str> = None;

#[repr(C)]
struct RawRing(c_void);
#[repr(C)]
struct RawPool(c_void);

unsafe extern "C" {
    fn bench_ring_new(item_bytes: c_uint, count: c_uint, many_producers: bool) -> *mut RawRing;
    fn bench_ring_free(ring: *mut RawRing);
    fn bench_ring_enqueue(ring: *mut RawRing, bytes: c_uint, items: *const c_void, count: c_uint) -> c_uint;
    fn bench_ring_dequeue(ring: *mut RawRing, bytes: c_uint, items: *mut c_void, count: c_uint) -> c_uint;
    fn bench_ring_produce(ring: *mut RawRing, bytes: c_uint, first: u64, count: u64, batch: c_uint) -> u64;
    fn bench_ring_consume(
        ring: *mut RawRing,
        bytes: c_uint,
        first: u64,
        count: u64,
        batch: c_uint,
        right: *mut bool,
    ) -> u64;
    fn bench_eal_start(cpu: c_uint) -> c_int;
    fn bench_mempool_new(count: c_uint, buffer_bytes: c_uint) -> *mut RawPool;
    fn bench_mempool_single(pool: *mut RawPool, times: u64) -> bool;
    fn bench_mempool_bulk(pool: *mut RawPool, times: u64) -> bool;
    fn bench_dpdk_error() -> *const c_char;
}

/// `rte_ring` over memory of its own. With [`Ring`] single producer, single consumer.
pub struct RteRing<T> {
    raw: NonNull<RawRing>,
    _items: PhantomData<T>,
}

// SAFETY: the ring is memory that belongs to nobody else, and DPDK's calls on it may come from any thread.
unsafe impl<T: Item> Send for RteRing<T> {}

impl<T: Item> RteRing<T> {
    /// An empty ring of [`CAPACITY`] slots.
    pub(crate) fn with_producers(many: bool) -> Self {
        const { assert!(matches!(size_of::<T>(), 8 | 56 | 64), "the shim has these sizes") };
        // SAFETY: no pointers go in. What comes out is checked.
        let raw = unsafe { bench_ring_new(size_of::<T>() as c_uint, CAPACITY as c_uint, many) };
        RteRing { raw: NonNull::new(raw).expect("there is memory for a ring"), _items: PhantomData }
    }

    /// Handles for one consumer and any number of producers, if the ring was made for many.
    pub(crate) fn half(&self) -> RteHalf<'_, T> {
        RteHalf { raw: self.raw, _ring: PhantomData }
    }
}

impl<T> Drop for RteRing<T> {
    fn drop(&mut self) {
        // SAFETY: the memory came from `bench_ring_new`, and the halves, which borrow the ring, are gone.
        unsafe { bench_ring_free(self.raw.as_ptr()) };
    }
}

/// One side of an [`RteRing`].
pub struct RteHalf<'m, T> {
    raw: NonNull<RawRing>,
    _ring: PhantomData<&'m RteRing<T>>,
}

// SAFETY: the ring may be used from any thread; that at most one consumes, and produces if it was made for one, is kept
// by whoever made the halves, `split` here and in `rings::many`.
unsafe impl<T: Item> Send for RteHalf<'_, T> {}

impl<T: Item> Ring<T> for RteRing<T> {
    type Tx<'m> = RteHalf<'m, T>;
    type Rx<'m> = RteHalf<'m, T>;

    fn new() -> Self {
        RteRing::with_producers(false)
    }

    fn split(&mut self) -> (Self::Tx<'_>, Self::Rx<'_>) {
        (self.half(), self.half())
    }
}

const fn bytes<T>() -> c_uint {
    size_of::<T>() as c_uint
}

impl<T: Item> Tx<T> for RteHalf<'_, T> {
    fn push(&mut self, item: T) -> bool {
        // SAFETY: the ring lives as long as this half; one item of the ring's size is read.
        unsafe { bench_ring_enqueue(self.raw.as_ptr(), bytes::<T>(), (&raw const item).cast(), 1) == 1 }
    }

    fn push_batch(&mut self, first: u64, count: usize) -> usize {
        let mut items = [T::default(); BATCH];
        (first..).zip(&mut items[..count]).for_each(|(number, item)| *item = T::new(number));
        // SAFETY: as in `push`, for `count` items; the slice above has found that there are so many.
        unsafe { bench_ring_enqueue(self.raw.as_ptr(), bytes::<T>(), items.as_ptr().cast(), count as c_uint) as usize }
    }

    fn produce(&mut self, first: u64, items: u64, batch: usize) {
        let (mut done, mut patience) = (0, Patience::default());
        while done < items {
            // SAFETY: the ring lives as long as this half, which is its only producer: the loop is for `Ring` only.
            let pushed = unsafe {
                bench_ring_produce(self.raw.as_ptr(), bytes::<T>(), first + done, items - done, batch as c_uint)
            };
            done += pushed;
            patience.look();
        }
    }
}

impl<T: Item> Rx<T> for RteHalf<'_, T> {
    fn pop(&mut self) -> Option<T> {
        let mut item = T::default();
        // SAFETY: the ring lives as long as this half; one item of the ring's size is written, and it is words.
        let popped = unsafe { bench_ring_dequeue(self.raw.as_ptr(), bytes::<T>(), (&raw mut item).cast(), 1) };
        (popped == 1).then_some(item)
    }

    fn pop_batch(&mut self, max: usize, each: impl FnMut(&T)) -> usize {
        let mut items = [T::default(); BATCH];
        let room = &mut items[..max];
        // SAFETY: as in `pop`, for at most `max` items, which is the length of `room`.
        let popped = unsafe {
            bench_ring_dequeue(self.raw.as_ptr(), bytes::<T>(), room.as_mut_ptr().cast(), max as c_uint) as usize
        };
        items[..popped].iter().for_each(each);
        popped
    }

    fn consume(&mut self, first: u64, items: u64, batch: usize) {
        let (mut done, mut patience, mut right) = (0, Patience::default(), true);
        while done < items {
            // SAFETY: the ring lives as long as this half, which is its only consumer; `right` is written in the call.
            let popped = unsafe {
                bench_ring_consume(
                    self.raw.as_ptr(),
                    bytes::<T>(),
                    first + done,
                    items - done,
                    batch as c_uint,
                    &raw mut right,
                )
            };
            assert!(right, "items must come whole and in order");
            done += popped;
            patience.look();
        }
    }
}

/// `rte_mempool` with a cache per core as large as DPDK allows. Belongs to the thread that made it: DPDK finds its
/// cache by a number it keeps for each thread.
pub struct Mempool(NonNull<RawPool>);

impl Mempool {
    /// A pool of `count` buffers of `buffer_bytes`. The first one starts DPDK's environment on the calling thread's CPU
    /// (about 0.3 s), without hugepages, devices or files; it stays until the process ends, and so do pools.
    ///
    /// # Errors
    /// Why there is none.
    pub fn new(count: u32, buffer_bytes: u32) -> Result<Self, String> {
        static STARTED: OnceLock<bool> = OnceLock::new();
        // SAFETY: the call takes a number; it is made once in a process, as DPDK asks.
        if !*STARTED.get_or_init(|| unsafe { bench_eal_start(this_cpu()) == 0 }) {
            return Err(format!("DPDK's environment does not start: {}", error()));
        }
        // SAFETY: the environment is there. What comes out is checked.
        let raw = unsafe { bench_mempool_new(count, buffer_bytes) };
        NonNull::new(raw).map(Mempool).ok_or_else(|| format!("DPDK makes no pool: {}", error()))
    }

    /// Takes one buffer and releases it, `times` times.
    ///
    /// # Panics
    /// If the pool had none.
    pub fn single(&mut self, times: u64) {
        // SAFETY: pools are never freed, and this one's thread is the only one to use it: a raw pointer is not `Send`.
        assert!(unsafe { bench_mempool_single(self.0.as_ptr(), times) }, "the pool is empty");
    }

    /// Takes 32 buffers in one call and releases them in another, until that is `times` buffers or more.
    ///
    /// # Panics
    /// If the pool had too few.
    pub fn bulk_32(&mut self, times: u64) {
        // SAFETY: as in `single`.
        assert!(unsafe { bench_mempool_bulk(self.0.as_ptr(), times) }, "the pool is empty");
    }
}

fn error() -> String {
    // SAFETY: the call returns a string of the library's own, ended by a zero.
    unsafe { CStr::from_ptr(bench_dpdk_error()) }.to_string_lossy().into_owned()
}
