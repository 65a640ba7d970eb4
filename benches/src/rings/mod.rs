//! Rings as contestants: one small trait for all, each implemented in the form that suits the ring best.

pub mod bare;
pub mod ours;
pub mod peers;
mod round_trip;
mod stream;

pub use round_trip::round_trip;
pub use stream::stream;

use std::hint;
use std::time::{Duration, Instant};

/// Slots of every ring. Where a ring loses one to tell full from empty, it holds one item less.
pub const CAPACITY: usize = 1024;
/// Items in a batch.
pub const BATCH: usize = 32;

/// What goes through a ring: a number, in one or more words that are all the same.
pub trait Item: Copy + Default + Send + 'static {
    /// The item for `number`.
    fn new(number: u64) -> Self;
    /// Whether it is whole, and the item for `number`. Reads all of it.
    fn is(&self, number: u64) -> bool;
}

impl Item for u64 {
    fn new(number: u64) -> Self {
        number
    }

    fn is(&self, number: u64) -> bool {
        *self == number
    }
}

/// A whole cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct Line([u64; 8]);

impl Item for Line {
    fn new(number: u64) -> Self {
        Line([number; 8])
    }

    fn is(&self, number: u64) -> bool {
        self.0 == [number; 8]
    }
}

/// What fits into a cache line beside one word of the ring's own.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Payload([u64; 7]);

impl Item for Payload {
    fn new(number: u64) -> Self {
        Payload([number; 7])
    }

    fn is(&self, number: u64) -> bool {
        self.0 == [number; 7]
    }
}

/// The pushing half of a ring.
pub trait Tx<T: Item>: Send {
    /// Whether there was room.
    fn push(&mut self, item: T) -> bool;

    /// Pushes the items numbered `first..first + count`, as many as there is room for, and returns how many. Rings
    /// without batches push one by one.
    #[inline]
    fn push_batch(&mut self, first: u64, count: usize) -> usize {
        (0..count).take_while(|&done| self.push(T::new(first + done as u64))).count()
    }
}

/// The popping half of a ring.
pub trait Rx<T: Item>: Send {
    /// The oldest item.
    fn pop(&mut self) -> Option<T>;

    /// Takes up to `max` items, calls `each` for all in order, and returns how many. Rings without batches pop one by
    /// one.
    #[inline]
    fn pop_batch(&mut self, max: usize, mut each: impl FnMut(&T)) -> usize {
        (0..max).map_while(|_| self.pop().map(|item| each(&item))).count()
    }
}

/// A ring of [`CAPACITY`] slots and the memory it stands in.
pub trait Ring<T: Item> {
    /// Its pushing half.
    type Tx<'m>: Tx<T>
    where
        Self: 'm;
    /// Its popping half.
    type Rx<'m>: Rx<T>
    where
        Self: 'm;

    /// An empty ring.
    fn new() -> Self;

    /// Its halves. To be called once.
    fn split(&mut self) -> (Self::Tx<'_>, Self::Rx<'_>);
}

/// Waits for the other side, but not for ever: a ring that lost an item should fail, not hang.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    turns: u32,
    since: Option<Instant>,
}

impl Patience {
    /// To be called when there is nothing to do.
    #[inline(always)]
    pub fn spin(&mut self) {
        hint::spin_loop();
        self.turns += 1;
        if self.turns == 1 << 20 {
            self.look();
        }
    }

    /// To be called when there was something to do after all.
    #[inline(always)]
    pub fn renew(&mut self) {
        self.turns = 0;
    }

    #[cold]
    fn look(&mut self) {
        self.turns = 0;
        let since = *self.since.get_or_insert_with(Instant::now);
        assert!(since.elapsed() < LONGEST, "nothing came for {LONGEST:?}: the ring has lost an item");
    }
}

/// No window is that long, even on a busy machine.
const LONGEST: Duration = Duration::from_secs(60);
