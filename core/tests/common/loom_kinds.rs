//! The four kinds of ring for the model checker, and what its tests do with them.
//!
//! In memory of the program, items are loom `Arc`s, so an item that is lost, leaked or dropped twice fails the model, and
//! slots are loom cells, so two threads in one slot fail it too. In shared memory items are numbers, and every access is
//! an atomic that loom sees. All counters pass their wrap on the way.
#![allow(dead_code, reason = "each test program uses its part")]

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;
use spinwire_core::ring::{Consumer, Header, Local, Memory, PopError, Producer, batch, latency, shared};

pub type Item = Arc<u64>;

/// One kind of ring: its memory, and items that carry a number.
pub trait Kind {
    type M: Memory<Item = Self::Item> + Send + 'static;
    type Item: Send + 'static;
    fn ring(header: &'static mut Header, capacity: usize) -> (Producer<Self::M>, Consumer<Self::M>);
    fn item(number: u64) -> Self::Item;
    fn number(item: Self::Item) -> u64;
}

pub enum Latency {}
pub enum Batch {}
pub enum SharedLatency {}
pub enum SharedBatch {}

macro_rules! kind {
    ($kind:ident, $layout:ident, $memory:ty) => {
        impl Kind for $kind {
            type M = $memory;
            type Item = Item;
            fn ring(header: &'static mut Header, capacity: usize) -> (Producer<Self::M>, Consumer<Self::M>) {
                let slots = leak((0..capacity).map(|_| $layout::Slot::new()).collect::<Box<[_]>>());
                $layout::split_starting_at(header, slots, u64::MAX).unwrap()
            }
            fn item(number: u64) -> Item {
                Arc::new(number)
            }
            fn number(item: Item) -> u64 {
                *item
            }
        }
    };
    ($kind:ident, shared $layout:ident, $memory:ty) => {
        impl Kind for $kind {
            type M = $memory;
            type Item = u64;
            fn ring(header: &'static mut Header, capacity: usize) -> (Producer<Self::M>, Consumer<Self::M>) {
                let words = leak((0..2 * capacity).map(|_| AtomicU64::new(0)).collect::<Box<[_]>>());
                let region = shared::Region::of(header, words);
                shared::$layout::prepare::<u64>(region, capacity, u64::MAX).unwrap();
                (
                    shared::$layout::attach_producer_at(region, capacity, u64::MAX).unwrap(),
                    shared::$layout::attach_consumer_at(region, capacity, u64::MAX).unwrap(),
                )
            }
            fn item(number: u64) -> u64 {
                number
            }
            fn number(item: u64) -> u64 {
                item
            }
        }
    };
}

kind!(Latency, latency, Local<'static, latency::Slot<Item>>);
kind!(Batch, batch, Local<'static, batch::Slot<Item>>);
kind!(SharedLatency, shared latency, shared::Words<'static, u64, true>);
kind!(SharedBatch, shared batch, shared::Words<'static, u64, false>);

/// Memory that outlives the halves. It is small, and never freed: loom forgets its atomics after each order of steps.
pub fn leak<T: ?Sized>(memory: Box<T>) -> &'static mut T {
    Box::leak(memory)
}

/// Runs `producing` and `consuming` in two threads with a half each, in every order.
pub fn check<K: Kind + 'static>(capacity: usize, producing: fn(Producer<K::M>), consuming: fn(Consumer<K::M>)) {
    loom::model(move || {
        let (producer, consumer) = K::ring(leak(Box::new(Header::new())), capacity);
        let thread = thread::spawn(move || producing(producer));
        consuming(consumer);
        thread.join().unwrap();
    });
}

pub fn push<K: Kind>(producer: &mut Producer<K::M>, number: u64) {
    let mut item = K::item(number);
    while let Err(error) = producer.push(item) {
        item = error.into_item();
        thread::yield_now();
    }
}

/// Pops until the ring is closed and says what came.
pub fn pop_all<K: Kind>(mut consumer: Consumer<K::M>) -> Vec<u64> {
    let mut items = Vec::new();
    loop {
        match consumer.pop() {
            Ok(item) => items.push(K::number(item)),
            Err(PopError::Empty) => thread::yield_now(),
            Err(_) => return items,
        }
    }
}
