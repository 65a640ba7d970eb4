//! Items as words of memory that anybody may write.

use core::marker::PhantomData;

use super::super::PeerFault;
use super::super::header::Header;
use super::super::index::Capacity;
use super::super::memory::{Memory, Sealed, ahead, indexed, stamped};
use super::{AttachError, Plain, Region};
use crate::sync::{AtomicU64, Ordering, Prefetch, prefetch};

/// A half's view of a [`Region`]: slots of words, with the stamp in the first word if `STAMPED`.
pub struct Words<'m, T, const STAMPED: bool> {
    header: &'m Header,
    /// At least `capacity` times [`Self::WORDS`].
    words: &'m [AtomicU64],
    capacity: Capacity,
    _items: PhantomData<fn(T) -> T>,
}

impl<'m, T: Plain, const STAMPED: bool> Words<'m, T, STAMPED> {
    /// Words of one slot.
    const WORDS: usize = {
        let words = size_of::<T>().div_ceil(8);
        match (STAMPED, words) {
            (false, _) => words,
            (true, 0..8) => (words + 1).next_power_of_two(),
            (true, _) => (words + 1).next_multiple_of(8),
        }
    };

    /// The word at which the item starts.
    const ITEM: usize = STAMPED as usize;

    pub(super) fn new(region: Region<'m>, capacity: usize) -> Result<Self, AttachError> {
        let Region { header, words } = region;
        let slots = Capacity::new(capacity)?;
        let bytes = |words: usize| words.saturating_mul(8).saturating_add(size_of::<Header>());
        let needed = capacity.saturating_mul(Self::WORDS);
        if needed > words.len() {
            return Err(AttachError::TooSmall { capacity, needed: bytes(needed), len: bytes(words.len()) });
        }
        Ok(Words { header, words, capacity: slots, _items: PhantomData })
    }

    /// An empty ring whose first item is number `start`.
    pub(super) fn reset(&self, start: u64) {
        self.header.reset(start);
        if STAMPED {
            stamped::reset(|number| self.stamp(number), self.capacity, start);
        }
    }

    /// The words of the slot at `index`.
    ///
    /// # Safety
    /// `index` is below the capacity.
    #[inline(always)]
    unsafe fn slot_at(&self, index: usize) -> &'m [AtomicU64] {
        let from = index * Self::WORDS;
        // SAFETY: `new` checked that there are `WORDS` for each slot.
        unsafe { self.words.get_unchecked(from..from + Self::WORDS) }
    }

    /// The words of the slot of item `number`.
    #[inline(always)]
    fn slot(&self, number: u64) -> &'m [AtomicU64] {
        // SAFETY: `Capacity::slot` is below the capacity.
        unsafe { self.slot_at(self.capacity.slot(number)) }
    }

    #[inline(always)]
    fn stamp(&self, number: u64) -> &'m AtomicU64 {
        &self.slot(number)[0]
    }
}

impl<T, const STAMPED: bool> Clone for Words<'_, T, STAMPED> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const STAMPED: bool> Copy for Words<'_, T, STAMPED> {}

impl<T: Plain, const STAMPED: bool> Sealed for Words<'_, T, STAMPED> {}

// The order of the words of an item among themselves does not matter, so they are relaxed: T1/T2 or S1/S2, and H1/H2,
// order all of them before or after.
impl<T: Plain, const STAMPED: bool> Memory for Words<'_, T, STAMPED> {
    type Item = T;
    type Fault = PeerFault;
    type Lap = ();

    const AHEAD: u64 = ahead(8 * Self::WORDS);
    const REMEMBERS: bool = !STAMPED;

    #[inline(always)]
    fn header(&self) -> &Header {
        self.header
    }

    #[inline(always)]
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    #[inline(always)]
    unsafe fn write_at(&self, index: usize, item: T) {
        let (whole, rest) = item.as_bytes().as_chunks::<8>();
        // SAFETY: the caller's duty.
        let words = &unsafe { self.slot_at(index) }[Self::ITEM..];
        for (word, bytes) in words.iter().zip(whole) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            let mut bytes = [0; 8];
            bytes[..rest.len()].copy_from_slice(rest);
            words[whole.len()].store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
    }

    #[inline(always)]
    unsafe fn take_at(&self, index: usize) -> T {
        let mut item = T::new_zeroed();
        let (whole, rest) = item.as_mut_bytes().as_chunks_mut::<8>();
        // SAFETY: the caller's duty.
        let words = &unsafe { self.slot_at(index) }[Self::ITEM..];
        for (word, bytes) in words.iter().zip(&mut *whole) {
            *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        if !rest.is_empty() {
            let bytes = words[whole.len()].load(Ordering::Relaxed).to_ne_bytes();
            rest.copy_from_slice(&bytes[..rest.len()]);
        }
        item
    }

    #[inline(always)]
    fn announce(&self, tail: u64, count: u64) {
        if STAMPED {
            stamped::announce(|number| self.stamp(number), tail, count);
        } else {
            indexed::announce(self.header, tail, count);
        }
    }

    #[inline(always)]
    fn look(&self, head: u64, wanted: u64) -> Result<u64, PeerFault> {
        if STAMPED {
            stamped::look(|number| self.stamp(number), self.capacity, head, wanted)
        } else {
            indexed::look(self.header, self.capacity, head)
        }
    }

    #[inline(always)]
    fn lap(&self, _number: u64) {}

    #[inline(always)]
    unsafe fn put(&self, _lap: (), number: u64, item: T) {
        // SAFETY: the caller's duty.
        unsafe { self.write(number, item) };
        self.announce(number, 1);
    }

    #[inline(always)]
    unsafe fn is_there(&self, _lap: (), number: u64) -> bool {
        // S2, pairs with S1.
        STAMPED && self.stamp(number).load(Ordering::Acquire) == number.wrapping_add(1)
    }

    #[inline(always)]
    fn prefetch(&self, number: u64, what: Prefetch) {
        prefetch(self.slot(number).as_ptr(), what);
    }

    fn blame(fault: PeerFault) -> PeerFault {
        fault
    }
}
