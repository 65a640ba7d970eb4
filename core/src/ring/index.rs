//! Index arithmetic: free-running 64-bit counters over a power-of-two number of slots.

use super::{PeerFault, RingError};

/// A number of slots that is a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    mask: u64,
}

impl Capacity {
    pub(super) const fn new(slots: usize) -> Result<Self, RingError> {
        if slots.is_power_of_two() {
            Ok(Capacity { mask: slots as u64 - 1 })
        } else {
            Err(RingError::NotPowerOfTwo { slots })
        }
    }

    #[inline(always)]
    pub(super) const fn get(self) -> u64 {
        self.mask + 1
    }

    /// The slot of item `number`: always below the number of slots, whatever `number` is.
    #[inline(always)]
    pub(super) const fn slot(self, number: u64) -> usize {
        (number & self.mask) as usize
    }

    /// Items inside when the consumer is at `head` and the producer at `tail`. One of the two is the other half's word.
    ///
    /// # Errors
    /// [`PeerFault`] if no ring can have this many items inside.
    #[inline(always)]
    pub(super) const fn used(self, head: u64, tail: u64) -> Result<u64, PeerFault> {
        let used = tail.wrapping_sub(head);
        if used <= self.get() { Ok(used) } else { Err(PeerFault::Index { head, tail, capacity: self.get() }) }
    }

    /// How many items may be popped before their slots are given back to the producer: an eighth of the ring. See
    /// "Giving back" in the module's docs.
    pub(super) const fn lazy(self) -> u64 {
        if self.get() < 8 { 1 } else { self.get() / 8 }
    }

    /// Splits `count` slots from item `number` on at the end of the memory and returns the length of the first part.
    #[inline(always)]
    pub(super) const fn first_part(self, number: u64, count: usize) -> usize {
        let to_end = (self.get() - (number & self.mask)) as usize;
        if count <= to_end { count } else { to_end }
    }
}

/// Whether counter `now` is at `mark` or past it. The two must be less than 2^63 apart.
#[inline(always)]
pub(super) const fn is_reached(mark: u64, now: u64) -> bool {
    now.wrapping_sub(mark).cast_signed() >= 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_powers_of_two_are_taken() {
        for slots in [1, 2, 4, 8, 256, 1024, 1 << (usize::BITS - 1)] {
            assert_eq!(Capacity::new(slots).map(Capacity::get), Ok(slots as u64));
        }
        for slots in [0, 3, 5, 6, 7, 9, 100, 255, usize::MAX] {
            assert_eq!(Capacity::new(slots), Err(RingError::NotPowerOfTwo { slots }));
        }
    }

    #[test]
    fn counts_hold_over_the_wrap() {
        let capacity = Capacity::new(4).unwrap();
        let head = u64::MAX - 1;
        for used in 0..=4 {
            assert_eq!(capacity.used(head, head.wrapping_add(used)), Ok(used));
        }
        assert_eq!([0, 1, 2, 3].map(|i| capacity.slot(head.wrapping_add(i))), [2, 3, 0, 1]);
        assert_eq!([0, 2, 3, 4].map(|n| capacity.first_part(head, n)), [0, 2, 2, 2]);
    }

    #[test]
    fn an_index_out_of_range_is_refused() {
        let capacity = Capacity::new(4).unwrap();
        for (head, tail) in [(0, 5), (1, 0), (u64::MAX, 4), (5, 4), (0, u64::MAX)] {
            assert_eq!(capacity.used(head, tail), Err(PeerFault::Index { head, tail, capacity: 4 }));
        }
    }

    #[test]
    fn the_largest_capacity_tells_full_from_empty() {
        let capacity = Capacity::new(1 << (usize::BITS - 1)).unwrap();
        assert_eq!(capacity.used(7, 7), Ok(0));
        assert_eq!(capacity.used(7, 7 + capacity.get()), Ok(capacity.get()));
    }
}
