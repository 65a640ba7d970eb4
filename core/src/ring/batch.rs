//! The batch layout: an index says how many items are there. See [`ring`](super) for the picture and for when to take it.

use core::convert::Infallible;
use core::ptr::NonNull;

use super::header::Header;
use super::index::Capacity;
use super::memory::{Memory, ahead, indexed};
use super::{Local, PeerFault, RingError};
pub use crate::sync::Slot;
use crate::sync::{Prefetch, prefetch, prefetch_line_for_write};

/// The half that pushes.
pub type Producer<'m, T> = super::Producer<Local<'m, Slot<T>>>;
/// The half that pops.
pub type Consumer<'m, T> = super::Consumer<Local<'m, Slot<T>>>;

/// As [`latency::split`](super::latency::split), for this layout. Cost: none.
///
/// # Errors
/// [`RingError::NotPowerOfTwo`] if `slots.len()` is not a power of two.
pub fn split<'m, T>(
    header: &'m mut Header,
    slots: &'m mut [Slot<T>],
) -> Result<(Producer<'m, T>, Consumer<'m, T>), RingError> {
    split_starting_at(header, slots, 0)
}

/// As [`latency::split_starting_at`](super::latency::split_starting_at), for this layout.
///
/// # Errors
/// As [`split`].
pub fn split_starting_at<'m, T>(
    header: &'m mut Header,
    slots: &'m mut [Slot<T>],
    start: u64,
) -> Result<(Producer<'m, T>, Consumer<'m, T>), RingError> {
    let memory = Local::lend(header, slots, start)?;
    Ok((super::Producer::new(memory, start), super::Consumer::new(memory, start)))
}

// SAFETY: a half reaches only slots that the protocol gives to it, and items cross threads by T1/T2, so that
// they are `Send` is all that is needed. The header is made of atomics.
unsafe impl<T: Send> Send for Local<'_, Slot<T>> {}

impl<T> Local<'_, Slot<T>> {
    /// The slots of `count` items from `number` on, in order.
    ///
    /// # Safety
    /// `count` is at most the capacity. As for [`Memory::write`], all slots are the caller's; it holds no other
    /// reference to them for `'a`.
    #[inline(always)]
    pub(super) unsafe fn slices<'a>(&self, number: u64, count: usize) -> (&'a mut [Slot<T>], &'a mut [Slot<T>])
    where
        Self: 'a,
    {
        // SAFETY: the first part ends at or before the last slot, and the second starts at slot 0 and is no longer than
        // what `count <= capacity` leaves, so the two are inside the memory and do not overlap. The caller owns them.
        let [first, second] =
            self.parts(number, count).map(|(start, len)| unsafe { NonNull::slice_from_raw_parts(start, len).as_mut() });
        (first, second)
    }
}

impl<T> Memory for Local<'_, Slot<T>> {
    type Item = T;
    type Fault = Infallible;
    type Lap = ();

    const AHEAD: u64 = ahead(size_of::<Slot<T>>());
    const REMEMBERS: bool = true;

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
        // SAFETY: the slot is inside the memory, and the caller's.
        let slot = unsafe { self.slot_at(index).as_mut() };
        slot.write(item);
        if size_of::<T>() >= 64 {
            prefetch_line_for_write(slot);
        }
    }

    #[inline(always)]
    unsafe fn take_at(&self, index: usize) -> T {
        // SAFETY: as in `write_at`; the caller says that it is full and taken once.
        unsafe { self.slot_at(index).as_mut().take() }
    }

    // Part by part and not item by item, so that each part is one copy of memory in whole cache lines.
    #[inline(always)]
    unsafe fn write_all(&self, number: u64, items: &[T])
    where
        T: Copy,
    {
        // SAFETY: all slots are the caller's, and the two parts are as long together as `items`.
        unsafe {
            let (first, second) = self.slices(number, items.len());
            if second.is_empty() {
                return Slot::write_all(first, items);
            }
            Slot::write_all(first, items.get_unchecked(..first.len()));
            Slot::write_all(second, items.get_unchecked(first.len()..));
        }
    }

    #[inline(always)]
    unsafe fn take_all(&self, number: u64, items: &mut [T])
    where
        T: Copy,
    {
        // SAFETY: as in `write_all`; all slots are full, and taken once.
        unsafe {
            let (first, second) = self.slices(number, items.len());
            if second.is_empty() {
                return Slot::take_all(first, items);
            }
            Slot::take_all(first, items.get_unchecked_mut(..first.len()));
            Slot::take_all(second, items.get_unchecked_mut(first.len()..));
        }
    }

    #[inline(always)]
    fn announce(&self, tail: u64, count: u64) {
        indexed::announce(self.header, tail, count);
    }

    #[inline(always)]
    fn look(&self, head: u64, _wanted: u64) -> Result<u64, PeerFault> {
        indexed::look(self.header, self.capacity, head)
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
    unsafe fn is_there(&self, _lap: (), _number: u64) -> bool {
        false
    }

    #[inline(always)]
    fn prefetch(&self, number: u64, what: Prefetch) {
        prefetch(self.slot(number).as_ptr(), what);
    }

    fn blame(fault: PeerFault) -> Infallible {
        panic!("the memory of a ring was overwritten: {fault}");
    }
}
