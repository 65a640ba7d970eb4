//! The rings that others use.

use crossbeam_queue::ArrayQueue;
use heapless::spsc::Queue;
use ringbuf::traits::{Consumer as _, Producer as _, Split as _};
use ringbuf::{HeapCons, HeapProd, HeapRb};

use super::{BATCH, CAPACITY, Item, Kind, Ring, Rx, Tx};

/// All of them, those of DPDK where it is installed.
pub fn peers<T: Item>() -> Vec<Kind> {
    vec![
        Kind::of::<Rtrb<T>, T>("rtrb"),
        Kind::of::<Ringbuf<T>, T>("ringbuf"),
        Kind::of::<Heapless<T>, T>("heapless_spsc"),
        Kind::of::<Crossbeam<T>, T>("crossbeam_array_queue"),
        #[cfg(dpdk)]
        Kind::of::<crate::dpdk::RteRing<T>, T>("rte_ring"),
    ]
}

/// `rtrb`. Its batches are chunks, written and read in place.
pub struct Rtrb<T>(Option<(rtrb::Producer<T>, rtrb::Consumer<T>)>);

impl<T: Item> Ring<T> for Rtrb<T> {
    type Tx<'m> = rtrb::Producer<T>;
    type Rx<'m> = rtrb::Consumer<T>;

    fn new() -> Self {
        Rtrb(Some(rtrb::RingBuffer::new(CAPACITY)))
    }

    fn split(&mut self) -> (Self::Tx<'_>, Self::Rx<'_>) {
        self.0.take().expect("split once")
    }
}

impl<T: Item> Tx<T> for rtrb::Producer<T> {
    #[inline]
    fn push(&mut self, item: T) -> bool {
        rtrb::Producer::push(self, item).is_ok()
    }

    #[inline]
    fn push_batch(&mut self, first: u64, count: usize) -> usize {
        let room = if self.cached_slots() >= count { count } else { self.slots().min(count) };
        let chunk = self.write_chunk_uninit(room).expect("slots were counted");
        chunk.fill_from_iter((first..).map(T::new))
    }
}

impl<T: Item> Rx<T> for rtrb::Consumer<T> {
    #[inline]
    fn pop(&mut self) -> Option<T> {
        rtrb::Consumer::pop(self).ok()
    }

    #[inline]
    fn pop_batch(&mut self, max: usize, mut each: impl FnMut(&T)) -> usize {
        let ready = if self.cached_slots() >= max { max } else { self.slots().min(max) };
        let chunk = self.read_chunk(ready).expect("slots were counted");
        let (first, second) = chunk.as_slices();
        first.iter().chain(second).for_each(&mut each);
        chunk.commit_all();
        ready
    }
}

/// `ringbuf`. Its batches are slices, copied in and out.
pub struct Ringbuf<T>(Option<(HeapProd<T>, HeapCons<T>)>);

impl<T: Item> Ring<T> for Ringbuf<T> {
    type Tx<'m> = HeapProd<T>;
    type Rx<'m> = HeapCons<T>;

    fn new() -> Self {
        Ringbuf(Some(HeapRb::new(CAPACITY).split()))
    }

    fn split(&mut self) -> (Self::Tx<'_>, Self::Rx<'_>) {
        self.0.take().expect("split once")
    }
}

impl<T: Item> Tx<T> for HeapProd<T> {
    #[inline]
    fn push(&mut self, item: T) -> bool {
        self.try_push(item).is_ok()
    }

    #[inline]
    fn push_batch(&mut self, first: u64, count: usize) -> usize {
        let mut items = [T::default(); BATCH];
        (first..).zip(&mut items[..count]).for_each(|(number, item)| *item = T::new(number));
        self.push_slice(&items[..count])
    }
}

impl<T: Item> Rx<T> for HeapCons<T> {
    #[inline]
    fn pop(&mut self) -> Option<T> {
        self.try_pop()
    }

    #[inline]
    fn pop_batch(&mut self, max: usize, each: impl FnMut(&T)) -> usize {
        let mut items = [T::default(); BATCH];
        let popped = self.pop_slice(&mut items[..max]);
        items[..popped].iter().for_each(each);
        popped
    }
}

/// `crossbeam_queue::ArrayQueue`, made for many producers and consumers. It has no batches.
pub struct Crossbeam<T>(pub(super) ArrayQueue<T>);

impl<T: Item> Ring<T> for Crossbeam<T> {
    type Tx<'m> = &'m ArrayQueue<T>;
    type Rx<'m> = &'m ArrayQueue<T>;

    fn new() -> Self {
        Crossbeam(ArrayQueue::new(CAPACITY))
    }

    fn split(&mut self) -> (Self::Tx<'_>, Self::Rx<'_>) {
        (&self.0, &self.0)
    }
}

impl<T: Item> Tx<T> for &ArrayQueue<T> {
    #[inline]
    fn push(&mut self, item: T) -> bool {
        ArrayQueue::push(self, item).is_ok()
    }
}

impl<T: Item> Rx<T> for &ArrayQueue<T> {
    #[inline]
    fn pop(&mut self) -> Option<T> {
        ArrayQueue::pop(self)
    }
}

/// `heapless::spsc`. It holds one item less than it has slots, and has no batches.
pub struct Heapless<T>(Box<Queue<T, CAPACITY>>);

impl<T: Item> Ring<T> for Heapless<T> {
    type Tx<'m> = heapless::spsc::Producer<'m, T>;
    type Rx<'m> = heapless::spsc::Consumer<'m, T>;

    fn new() -> Self {
        Heapless(Box::new(Queue::new()))
    }

    fn split(&mut self) -> (Self::Tx<'_>, Self::Rx<'_>) {
        self.0.split()
    }
}

impl<T: Item> Tx<T> for heapless::spsc::Producer<'_, T> {
    #[inline]
    fn push(&mut self, item: T) -> bool {
        self.enqueue(item).is_ok()
    }
}

impl<T: Item> Rx<T> for heapless::spsc::Consumer<'_, T> {
    #[inline]
    fn pop(&mut self) -> Option<T> {
        self.dequeue()
    }
}
