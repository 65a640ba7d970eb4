//! Our rings.

use spinwire_core::ring::{Consumer, Header, Memory, Producer, batch, latency};
use spinwire_core::sync::CacheLine;

use super::{CAPACITY, Item, Ring, Rx, Tx};

/// `spinwire_core::ring::latency`.
pub struct Latency<T> {
    header: Box<Header>,
    slots: Box<CacheLine<[latency::Slot<T>; CAPACITY]>>,
}

/// `spinwire_core::ring::batch`.
pub struct Batch<T> {
    header: Box<Header>,
    slots: Box<CacheLine<[batch::Slot<T>; CAPACITY]>>,
}

impl<T: Item> Ring<T> for Latency<T> {
    type Tx<'m> = latency::Producer<'m, T>;
    type Rx<'m> = latency::Consumer<'m, T>;

    fn new() -> Self {
        Latency { header: Box::default(), slots: Box::new(CacheLine([const { latency::Slot::new() }; CAPACITY])) }
    }

    fn split(&mut self) -> (Self::Tx<'_>, Self::Rx<'_>) {
        latency::split(&mut self.header, &mut self.slots.0).expect("the capacity is a power of two")
    }
}

impl<T: Item> Ring<T> for Batch<T> {
    type Tx<'m> = batch::Producer<'m, T>;
    type Rx<'m> = batch::Consumer<'m, T>;

    fn new() -> Self {
        Batch { header: Box::default(), slots: Box::new(CacheLine([const { batch::Slot::new() }; CAPACITY])) }
    }

    fn split(&mut self) -> (Self::Tx<'_>, Self::Rx<'_>) {
        batch::split(&mut self.header, &mut self.slots.0).expect("the capacity is a power of two")
    }
}

impl<T: Item, M: Memory<Item = T>> Tx<T> for Producer<M>
where
    Self: Send,
{
    #[inline]
    fn push(&mut self, item: T) -> bool {
        Producer::push(self, item).is_ok()
    }

    #[inline]
    fn push_batch(&mut self, first: u64, count: usize) -> usize {
        let mut reserve = self.reserve(count);
        reserve.extend((first..).map(T::new));
        reserve.commit()
    }
}

impl<T: Item, M: Memory<Item = T>> Rx<T> for Consumer<M>
where
    Self: Send,
{
    #[inline]
    fn pop(&mut self) -> Option<T> {
        Consumer::pop(self).ok()
    }

    #[inline]
    fn pop_batch(&mut self, max: usize, mut each: impl FnMut(&T)) -> usize {
        self.drain(max).map(|item| each(&item)).count()
    }
}
