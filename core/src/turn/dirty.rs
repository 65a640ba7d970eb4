//! Which connections the flush of this turn has to visit.

/// The book-keeping of one connection slot. The caller provides one for each.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirtySlot {
    /// This slot is on the list.
    listed: bool,
    /// Not about this slot: place n of the list.
    entry: u16,
}

/// A first-in first-out set of slots. Each slot is on it at most once, so it can never overflow, also when a slot's
/// connection ends and another takes its place meanwhile.
#[derive(Debug)]
pub(super) struct Dirty<'m> {
    slots: &'m mut [DirtySlot],
    head: usize,
    len: usize,
}

impl<'m> Dirty<'m> {
    pub(super) fn new(slots: &'m mut [DirtySlot]) -> Self {
        slots.fill(DirtySlot::default());
        Self { slots, head: 0, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn mark(&mut self, slot: usize) {
        if core::mem::replace(&mut self.slots[slot].listed, true) {
            return;
        }
        let place = self.place(self.len);
        self.slots[place].entry = slot as u16;
        self.len += 1;
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<usize> {
        self.len = self.len.checked_sub(1)?;
        let slot = self.slots[self.head].entry as usize;
        self.head = self.place(1);
        self.slots[slot].listed = false;
        Some(slot)
    }

    fn place(&self, offset: usize) -> usize {
        let place = self.head + offset;
        if place >= self.slots.len() { place - self.slots.len() } else { place }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn each_slot_is_listed_once_and_in_order() {
        for capacity in [1, 3, 64] {
            let mut slots = std::vec![DirtySlot::default(); capacity];
            let mut dirty = Dirty::new(&mut slots);
            let mut model = VecDeque::new();
            let mut random = crate::testing::Random::new(capacity as u64);
            for _ in 0..10_000 {
                if random.below(2) == 0 {
                    let slot = random.below(capacity as u64) as usize;
                    dirty.mark(slot);
                    if !model.contains(&slot) {
                        model.push_back(slot);
                    }
                } else {
                    assert_eq!(dirty.pop(), model.pop_front());
                }
                assert_eq!(dirty.len(), model.len());
            }
        }
    }
}
