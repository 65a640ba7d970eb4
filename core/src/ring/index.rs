//! Index arithmetic: free-running counters over a power-of-two number of slots.

use super::RingError;

/// A number of slots that is a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    mask: usize,
}

impl Capacity {
    pub(super) const fn new(slots: usize) -> Result<Self, RingError> {
        if slots.is_power_of_two() { Ok(Capacity { mask: slots - 1 }) } else { Err(RingError::NotPowerOfTwo { slots }) }
    }

    #[inline(always)]
    pub(super) const fn get(self) -> usize {
        self.mask + 1
    }

    /// The slot of item number `index`.
    #[inline(always)]
    pub(super) const fn slot(self, index: usize) -> usize {
        index & self.mask
    }

    /// Items inside, `0..=capacity`, when the consumer is at `head` and the producer at `tail`.
    #[inline(always)]
    pub(super) const fn used(self, head: usize, tail: usize) -> usize {
        let used = tail.wrapping_sub(head);
        debug_assert!(used <= self.get());
        used
    }

    /// Slots free, `0..=capacity`.
    #[inline(always)]
    pub(super) const fn free(self, head: usize, tail: usize) -> usize {
        self.get() - self.used(head, tail)
    }

    /// Splits `count` slots from item number `index` on at the end of the memory: the lengths of the two parts.
    #[inline(always)]
    pub(super) const fn parts(self, index: usize, count: usize) -> (usize, usize) {
        let to_end = self.get() - self.slot(index);
        if count <= to_end { (count, 0) } else { (to_end, count - to_end) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_powers_of_two_are_taken() {
        for slots in [1, 2, 4, 8, 256, 1024, 1 << (usize::BITS - 1)] {
            assert_eq!(Capacity::new(slots).map(Capacity::get), Ok(slots));
        }
        for slots in [0, 3, 5, 6, 7, 9, 100, 255, usize::MAX] {
            assert_eq!(Capacity::new(slots), Err(RingError::NotPowerOfTwo { slots }));
        }
    }

    #[test]
    fn counts_hold_over_the_wrap() {
        let capacity = Capacity::new(4).unwrap();
        let head = usize::MAX - 1;
        for used in 0..=4 {
            let tail = head.wrapping_add(used);
            assert_eq!((capacity.used(head, tail), capacity.free(head, tail)), (used, 4 - used));
        }
        assert_eq!([0, 1, 2, 3].map(|i| capacity.slot(head.wrapping_add(i))), [2, 3, 0, 1]);
        assert_eq!([0, 2, 3, 4].map(|n| capacity.parts(head, n)), [(0, 0), (2, 0), (2, 1), (2, 2)]);
    }

    #[test]
    fn the_largest_capacity_tells_full_from_empty() {
        let capacity = Capacity::new(1 << (usize::BITS - 1)).unwrap();
        assert_eq!(capacity.used(7, 7), 0);
        assert_eq!(capacity.used(7, 7 + capacity.get()), capacity.get());
    }
}
