//! Which connections the flush of this turn has to visit.

/// The book-keeping of one connection slot. The caller provides one for each.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(8))]
pub struct DirtySlot {
    /// This slot is on the list.
    listed: bool,
    /// Not about this slot: place n of the list that grows, and of the one that is walked.
    entry: [u16; 2],
}

/// A set of slots, in the order in which they were marked. Each slot is on it at most once, so it can never overflow,
/// also when a slot's connection ends and another takes its place meanwhile.
///
/// There are two lists: while one is walked, what is marked goes to the other.
#[derive(Debug)]
pub(super) struct Dirty<'m> {
    slots: &'m mut [DirtySlot],
    /// Which list grows.
    grows: bool,
    len: usize,
}

/// A list that is walked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    list: bool,
    len: usize,
}

impl<'m> Dirty<'m> {
    pub(super) fn new(slots: &'m mut [DirtySlot]) -> Self {
        slots.fill(DirtySlot::default());
        Self { slots, grows: false, len: 0 }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(super) fn mark(&mut self, slot: usize) {
        if core::mem::replace(&mut self.slots[slot].listed, true) {
            return;
        }
        self.slots[self.len].entry[usize::from(self.grows)] = slot as u16;
        self.len += 1;
    }

    /// Begins a walk over what is marked now. The walk before has to be over.
    #[inline]
    pub(super) fn walk(&mut self) -> Walk {
        let walk = Walk { list: self.grows, len: self.len };
        (self.grows, self.len) = (!self.grows, 0);
        walk
    }

    /// Takes the `place`-th slot of a walk off the list: from here on it can be marked again.
    #[inline]
    pub(super) fn take(&mut self, walk: Walk, place: usize) -> usize {
        let slot = usize::from(self.slots[place].entry[usize::from(walk.list)]);
        self.slots[slot].listed = false;
        slot
    }
}

impl Walk {
    #[inline]
    pub(super) fn places(self) -> core::ops::Range<usize> {
        0..self.len
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn each_slot_is_walked_once_and_in_order_also_when_marked_meanwhile() {
        for capacity in [1, 3, if cfg!(miri) { 8 } else { 64 }] {
            let mut slots = std::vec![DirtySlot::default(); capacity];
            let mut dirty = Dirty::new(&mut slots);
            let mut model = VecDeque::new();
            let mut random = crate::testing::Random::new(capacity as u64);
            let mut mark = |dirty: &mut Dirty<'_>, model: &mut VecDeque<usize>| {
                for _ in 0..random.below(2 * capacity as u64 + 1) {
                    let slot = random.below(capacity as u64) as usize;
                    dirty.mark(slot);
                    if !model.contains(&slot) {
                        model.push_back(slot);
                    }
                }
            };
            for _ in 0..if cfg!(miri) { 200 } else { 5_000 } {
                mark(&mut dirty, &mut model);
                assert_eq!(dirty.is_empty(), model.is_empty());
                let walk = dirty.walk();
                for place in walk.places() {
                    assert_eq!(Some(dirty.take(walk, place)), model.pop_front());
                    mark(&mut dirty, &mut model);
                }
            }
        }
    }
}
