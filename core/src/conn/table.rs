//! A fixed table of things with handles that go stale. Dense slots, no hashing, no allocation.

use crate::config::CONNS_MAX;
use crate::id::{ConnId, GENERATION_MAX};

/// One slot. The caller provides as many as the table shall hold.
#[derive(Debug)]
pub struct Slot<T> {
    /// Counts up with each insertion; 0 before the first.
    generation: u64,
    /// While in use: this slot's place in the list of live ones. While free: the next free slot.
    link: u16,
    value: Option<T>,
    /// Not about this slot: place n of the list of live slots.
    live: u16,
}

impl<T> Slot<T> {
    /// A slot nothing was ever in.
    pub const EMPTY: Self = Self { generation: 0, link: 0, value: None, live: 0 };
}

/// A table over slots that are handed in.
///
/// Insertion takes the slot that was freed last: it is the one whose memory is warm, and generations keep the old
/// handles apart. Insert, remove and find are O(1); a walk costs the live entries only.
#[derive(Debug)]
pub struct Table<'m, T> {
    slots: &'m mut [Slot<T>],
    live: u32,
    free_head: u16,
}

/// A table cannot have that many slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a table of {asked} connections is out of range: 1 to {}", CONNS_MAX)]
pub struct TableError {
    /// Slots asked.
    pub asked: usize,
}

impl<'m, T> Table<'m, T> {
    /// An empty table over `slots`. Their generations are kept, so handles of an earlier table over the same slots stay
    /// stale.
    ///
    /// # Errors
    /// No slot, or more than [`CONNS_MAX`].
    pub fn new(slots: &'m mut [Slot<T>]) -> Result<Self, TableError> {
        let count = slots.len();
        if count == 0 || count > CONNS_MAX {
            return Err(TableError { asked: count });
        }
        for (index, slot) in slots.iter_mut().enumerate() {
            slot.value = None;
            // The last slot's link is never followed: `live` says when none is free.
            slot.link = (index + 1) as u16;
        }
        Ok(Self { slots, live: 0, free_head: 0 })
    }

    /// Entries in the table.
    pub fn live(&self) -> u32 {
        self.live
    }

    /// Entries the table can hold.
    pub fn capacity(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Puts `value` in and names it, or gives it back when the table is full.
    ///
    /// # Errors
    /// The value.
    pub fn insert(&mut self, value: T) -> Result<ConnId, T> {
        if self.live == self.capacity() {
            return Err(value);
        }
        let index = self.free_head;
        self.slots[self.live as usize].live = index;
        let slot = &mut self.slots[index as usize];
        self.free_head = slot.link;
        // 48 bits last nine years at a million lives a second; after that the count starts again.
        slot.generation = if slot.generation == GENERATION_MAX { 1 } else { slot.generation + 1 };
        slot.link = self.live as u16;
        slot.value = Some(value);
        let generation = slot.generation;
        self.live += 1;
        Ok(ConnId::new(index, generation))
    }

    /// Takes the entry out; `None` for a stale handle. Its handle is stale from here on.
    pub fn remove(&mut self, id: ConnId) -> Option<T> {
        self.get(id)?;
        let index = id.slot();
        let value = self.slots[index].value.take();
        let place = self.slots[index].link as usize;
        self.slots[index].link = self.free_head;
        self.free_head = index as u16;
        // The last live entry moves into the gap in the list.
        self.live -= 1;
        if place != self.live as usize {
            let moved = self.slots[self.live as usize].live;
            self.slots[place].live = moved;
            self.slots[moved as usize].link = place as u16;
        }
        value
    }

    /// The entry; `None` for a stale handle.
    #[inline]
    pub fn get(&self, id: ConnId) -> Option<&T> {
        let slot = self.slots.get(id.slot())?;
        if slot.generation == id.generation() { slot.value.as_ref() } else { None }
    }

    /// The entry, to change it; `None` for a stale handle.
    #[inline]
    pub fn get_mut(&mut self, id: ConnId) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.slot())?;
        if slot.generation == id.generation() { slot.value.as_mut() } else { None }
    }

    /// The handle of the entry in slot `index` now, if there is one.
    #[inline]
    pub fn id_at(&self, index: usize) -> Option<ConnId> {
        let slot = self.slots.get(index)?;
        slot.value.as_ref().map(|_| ConnId::new(index as u16, slot.generation))
    }

    /// The handle of the `place`-th live entry, `place` from 0 to `live - 1`, in no particular order. Removing an entry
    /// moves the last one into its place, so a walk that may remove goes from the last place to the first.
    pub fn live_at(&self, place: u32) -> Option<ConnId> {
        if place >= self.live {
            return None;
        }
        self.id_at(self.slots[place as usize].live as usize)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::HashMap;
    use std::vec::Vec;

    fn slots(count: usize) -> Vec<Slot<u32>> {
        core::iter::repeat_with(|| Slot::EMPTY).take(count).collect()
    }

    #[test]
    fn a_full_table_gives_the_value_back() {
        let mut slots = slots(2);
        let mut table = Table::new(&mut slots).unwrap();
        let (a, b) = (table.insert(1).unwrap(), table.insert(2).unwrap());
        assert_eq!(table.insert(3), Err(3));
        assert_eq!((table.remove(a), table.remove(a)), (Some(1), None));
        let c = table.insert(3).unwrap();
        assert_eq!((c.slot(), c.generation()), (a.slot(), 2), "the slot freed last is taken, in its next life");
        assert_eq!((table.get(a), table.get(b), table.get(c)), (None, Some(&2), Some(&3)));
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        assert_eq!(Table::<u32>::new(&mut []).unwrap_err(), TableError { asked: 0 });
        assert!(Table::new(&mut slots(CONNS_MAX)).is_ok());
        assert!(Table::new(&mut slots(CONNS_MAX + 1)).is_err());
    }

    #[test]
    fn the_generation_starts_again_after_its_last() {
        let mut slots = slots(1);
        slots[0].generation = GENERATION_MAX - 1;
        let mut table = Table::new(&mut slots).unwrap();
        let last = table.insert(1).unwrap();
        assert_eq!(last.generation(), GENERATION_MAX);
        table.remove(last);
        assert_eq!(table.insert(2).unwrap().generation(), 1);
    }

    /// A million random operations against a map that remembers every handle ever given.
    #[test]
    fn agrees_with_a_model() {
        for capacity in [1, 2, 7, 64, 1_000] {
            let mut slots = slots(capacity);
            let mut table = Table::new(&mut slots).unwrap();
            let mut model: HashMap<u64, u32> = HashMap::new();
            let mut stale: Vec<ConnId> = Vec::new();
            let mut random = crate::testing::Random::new(capacity as u64);
            for step in 0..200_000u32 {
                if random.below(100) < 55 {
                    match table.insert(step) {
                        Ok(id) => assert_eq!(model.insert(id.to_bits(), step), None, "a handle came twice"),
                        Err(value) => assert_eq!((value, model.len()), (step, capacity)),
                    }
                } else if let Some(id) = table.live_at(random.below(capacity as u64) as u32) {
                    assert_eq!(table.remove(id), model.remove(&id.to_bits()));
                    stale.push(id);
                }
                assert_eq!(table.live() as usize, model.len());
                if let Some(id) = stale.last() {
                    assert_eq!(table.get(*id), None);
                }
            }
            let mut walked: Vec<_> = (0..table.live()).map(|place| table.live_at(place).unwrap().to_bits()).collect();
            walked.sort_unstable();
            let mut expected: Vec<_> = model.keys().copied().collect();
            expected.sort_unstable();
            assert_eq!(walked, expected);
            assert!(stale.iter().all(|id| table.get(*id).is_none()));
        }
    }
}
