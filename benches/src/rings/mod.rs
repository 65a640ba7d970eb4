//! Rings as contestants: one small trait for all, each implemented in the form that suits the ring best.

pub mod bare;
pub mod many;
pub mod ours;
pub mod peers;
mod round_trip;
mod stream;

pub use round_trip::round_trip;
pub use stream::stream;

use std::hint;
use std::time::{Duration, Instant};

use crate::contest::Sample;
use crate::window::{Dropped, Pinned};

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

    /// Pushes the items numbered `first..first + items`, `batch` at a time, 1 or [`BATCH`]; waits while there is no
    /// room. Only rings in another language have a loop of their own.
    fn produce(&mut self, first: u64, items: u64, batch: usize)
    where
        Self: Sized,
    {
        stream::produce(self, first, items, batch);
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

    /// Pops the items numbered `first..first + items` and checks each; otherwise like [`Tx::produce`].
    fn consume(&mut self, first: u64, items: u64, batch: usize)
    where
        Self: Sized,
    {
        stream::consume(self, first, items, batch);
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

/// A kind of ring, by name, and what it can be asked to do.
#[derive(Clone, Copy)]
pub struct Kind {
    /// The contestant's name.
    pub name: &'static str,
    /// See [`round_trip()`].
    pub round_trip: fn(&Pinned, u64) -> Result<Sample, Dropped>,
    /// See [`stream()`].
    pub stream: fn(&Pinned, u64, usize) -> Result<Sample, Dropped>,
}

impl Kind {
    /// The ring `R`.
    pub fn of<R: Ring<T>, T: Item>(name: &'static str) -> Self {
        Kind { name, round_trip: round_trip::<R, T>, stream: stream::<R, T> }
    }
}

/// Waits for the other side, but not for ever: a ring that lost an item should fail, not hang. One for each loop.
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
            self.turns = 0;
            self.look();
        }
    }

    /// To be called after a long stretch of waiting.
    #[cold]
    pub fn look(&mut self) {
        let since = *self.since.get_or_insert_with(Instant::now);
        assert!(
            since.elapsed() < LONGEST,
            "not done after {LONGEST:?}: the other side stands still, or the ring has lost an item"
        );
    }
}

/// No window is that long, even on a busy machine.
const LONGEST: Duration = Duration::from_secs(60);
