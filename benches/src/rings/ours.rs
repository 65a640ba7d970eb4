//! Our rings.

use spinwire_core::ring::{Consumer, Header, Producer, Slot, split};

use super::{CAPACITY, Item, Ring, Rx, Tx};

/// The ring of `spinwire_core::ring`.
pub struct Spinwire<T> {
    header: Box<Header>,
    slots: Box<[Slot<T>]>,
}

impl<T: Item> Ring<T> for Spinwire<T> {
    type Tx<'m> = Producer<'m, T>;
    type Rx<'m> = Consumer<'m, T>;

    fn new() -> Self {
        Spinwire { header: Box::default(), slots: (0..CAPACITY).map(|_| Slot::new()).collect() }
    }

    fn split(&mut self) -> (Self::Tx<'_>, Self::Rx<'_>) {
        split(&mut self.header, &mut self.slots).expect("the capacity is a power of two")
    }
}

impl<T: Item> Tx<T> for Producer<'_, T> {
    #[inline]
    fn push(&mut self, item: T) -> bool {
        Producer::push(self, item).is_ok()
    }

    #[inline]
    fn push_batch(&mut self, first: u64, count: usize) -> usize {
        let mut reserve = self.reserve(count);
        for number in first..first + reserve.remaining() as u64 {
            let _ = reserve.push(T::new(number));
        }
        reserve.commit()
    }
}

impl<T: Item> Rx<T> for Consumer<'_, T> {
    #[inline]
    fn pop(&mut self) -> Option<T> {
        Consumer::pop(self).ok()
    }

    #[inline]
    fn pop_batch(&mut self, max: usize, mut each: impl FnMut(&T)) -> usize {
        self.drain(max).map(|item| each(&item)).count()
    }
}
