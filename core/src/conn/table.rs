//! A fixed table of things with handles that go stale. Dense slots, no hashing, no allocation.

use core::fmt;

use crate::config::CONNS_MAX;
use crate::id::{ConnId, GENERATION_MAX};
use crate::sync::prefetch_items;

/// What a slot holds while nothing is in it: a value whose destruction is of no consequence.
pub trait Vacant {
    /// That value.
    const VACANT: Self;
    /// Slots are aligned as this is: `u64` for values smaller than a cache line, so that several slots share one, and
    /// [`LineAligned`] for larger ones, so that the first bytes of each lie in as few lines as they can.
    type Aligned: fmt::Debug;
}

impl Vacant for u64 {
    const VACANT: Self = 0;
    type Aligned = u64;
}

impl<T> Vacant for Option<T> {
    const VACANT: Self = None;
    type Aligned = u64;
}

/// For [`Vacant::Aligned`]: at the start of a cache line.
#[derive(Debug)]
#[repr(align(64))]
pub struct LineAligned;

/// One slot: what a look-up touches. The caller provides as many as the table shall hold.
#[derive(Debug)]
#[repr(C)]
pub struct Slot<T: Vacant> {
    /// Takes no room.
    aligned: [T::Aligned; 0],
    /// While in use the handle's word. While free the generation of the last life over the complement of the slot's own
    /// number, which no handle that leads here has. 0 before a table was made over it.
    word: u64,
    value: T,
}

impl<T: Vacant> Slot<T> {
    /// A slot nothing was ever in.
    pub const EMPTY: Self = Self::at_generation(0);

    /// A slot that has had `generation` lives, for tests that start near the last one.
    pub const fn at_generation(generation: u64) -> Self {
        assert!(generation <= GENERATION_MAX);
        Self { aligned: [], word: generation << 16, value: T::VACANT }
    }
}

/// The book-keeping of one slot beside the slot itself. The caller provides one for each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// While the slot is in use: its place in the list of live ones. While free: the next free slot.
    link: u16,
    /// Not about this slot: entry n of the list of live ones.
    live: u16,
}

/// A table over slots that are handed in. Insert, remove and find are O(1); a walk costs the live entries only.
///
/// A look-up is an index, a bounds check and one comparison of whole words. The word compared lies in front of the value,
/// and what else the table has to know of a slot is kept apart, so a look-up touches the lines of its own slot only:
///
/// ```text
///  slots    | handle | value      | handle | value      | handle | value      |   look-up
///  places   | free or live | n-th | free or live | n-th | free or live | n-th |   insert, remove, walk
/// ```
///
/// **Which free slot is taken:** the one that was freed last; slots that were never used come after all others, in the
/// order of their numbers. Its lines are the warmest, and connections that come and go stay in few of them. Taking the
/// slot that has been free for longest instead would keep a late completion of an earlier life away from a new one for
/// longer, but not in a table that is nearly full, so it could not be relied on. The generation can: whatever is late
/// carries that of its own life.
#[derive(Debug)]
pub struct Table<'m, T: Vacant> {
    slots: &'m mut [Slot<T>],
    places: &'m mut [Place],
    live: u32,
    free_head: u16,
}

/// A table cannot have that many slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// None, or more than a work id can number.
    #[error("a table of {asked} connections is out of range: 1 to {}", CONNS_MAX)]
    Slots {
        /// Slots asked.
        asked: usize,
    },
    /// There is not a place for each slot.
    #[error("a table of {slots} connections needs as many places, but {places} were given")]
    Places {
        /// Slots given.
        slots: usize,
        /// Places given.
        places: usize,
    },
}

impl<'m, T: Vacant> Table<'m, T> {
    /// An empty table over `slots`. What is in them is dropped. Their generations are kept, so handles of an earlier table
    /// over the same slots stay stale.
    ///
    /// # Errors
    /// No slot, more than [`CONNS_MAX`], or fewer places than slots.
    pub fn new(slots: &'m mut [Slot<T>], places: &'m mut [Place]) -> Result<Self, TableError> {
        let count = slots.len();
        if count == 0 || count > CONNS_MAX {
            return Err(TableError::Slots { asked: count });
        }
        if places.len() < count {
            return Err(TableError::Places { slots: count, places: places.len() });
        }
        for (index, (slot, place)) in slots.iter_mut().zip(places.iter_mut()).enumerate() {
            *slot = Slot { aligned: [], word: free_word(slot.word, index), value: T::VACANT };
            // The last slot's link is never followed: `live` says when none is free.
            place.link = (index + 1) as u16;
        }
        Ok(Self { slots, places: &mut places[..count], live: 0, free_head: 0 })
    }

    /// Asks for the first `bytes` of a slot that is soon looked up. A hint, as good for a slot that is not there.
    #[inline(always)]
    pub(crate) fn prefetch(&self, slot: usize, bytes: usize) {
        prefetch_items(self.slots.as_ptr().wrapping_add(slot).cast::<u8>(), bytes);
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
        let slot = &mut self.slots[index as usize];
        // 48 bits last nine years at a million lives a second; after that the count starts again.
        let generation = (slot.word >> 16) % GENERATION_MAX + 1;
        let id = ConnId::new(index, generation);
        *slot = Slot { aligned: [], word: id.to_bits(), value };
        self.places[self.live as usize].live = index;
        let place = &mut self.places[index as usize];
        self.free_head = core::mem::replace(&mut place.link, self.live as u16);
        self.live += 1;
        Ok(id)
    }

    /// Takes the entry out; `None` for a stale handle. Its handle is stale from here on.
    pub fn remove(&mut self, id: ConnId) -> Option<T> {
        let index = id.slot();
        let slot = self.slots.get_mut(index).filter(|slot| slot.word == id.to_bits())?;
        slot.word = free_word(slot.word, index);
        let value = core::mem::replace(&mut slot.value, T::VACANT);
        let place = core::mem::replace(&mut self.places[index].link, self.free_head);
        self.free_head = index as u16;
        // The last live entry moves into the gap in the list, which may be its own.
        self.live -= 1;
        let moved = self.places[self.live as usize].live;
        if moved != index as u16 {
            self.places[place as usize].live = moved;
            self.places[moved as usize].link = place;
        }
        Some(value)
    }

    /// Takes the entry out like [`Table::remove`] and never gives out a generation up to `last`'s again in this slot: it
    /// was used by other names of the same entry.
    pub fn remove_up_to(&mut self, id: ConnId, last: ConnId) -> Option<T> {
        let value = self.remove(id)?;
        self.slots[id.slot()].word = free_word(last.to_bits(), id.slot());
        Some(value)
    }

    /// The entry; `None` for a stale handle.
    #[inline]
    pub fn get(&self, id: ConnId) -> Option<&T> {
        let slot = self.slots.get(id.slot())?;
        if slot.word == id.to_bits() { Some(&slot.value) } else { None }
    }

    /// The entry, to change it; `None` for a stale handle.
    #[inline]
    pub fn get_mut(&mut self, id: ConnId) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.slot())?;
        if slot.word == id.to_bits() { Some(&mut slot.value) } else { None }
    }

    /// The handle of the entry in slot `index` now, if there is one.
    #[inline]
    pub fn id_at(&self, index: usize) -> Option<ConnId> {
        self.slots.get(index)?.id(index)
    }

    /// The entry in slot `index` now, if there is one, with its handle.
    #[inline]
    pub fn at_mut(&mut self, index: usize) -> Option<(ConnId, &mut T)> {
        let slot = self.slots.get_mut(index)?;
        slot.id(index).map(|id| (id, &mut slot.value))
    }

    /// The entry in slot `index`, which is known to be in use, with its handle. A look-up without a comparison: of a slot
    /// that is not in use the value is [`Vacant::VACANT`] and the handle stale.
    #[inline]
    pub(crate) fn known_mut(&mut self, index: usize) -> Option<(ConnId, &mut T)> {
        let slot = self.slots.get_mut(index)?;
        debug_assert!(slot.id(index).is_some());
        Some((ConnId::of_word(slot.word), &mut slot.value))
    }

    /// The handle of the `place`-th live entry, `place` from 0 to `live - 1`, in no particular order. Removing an entry
    /// moves the last one into its place, so a walk that may remove goes from the last place to the first.
    pub fn live_at(&self, place: u32) -> Option<ConnId> {
        if place >= self.live {
            return None;
        }
        self.id_at(self.places[place as usize].live as usize)
    }
}

impl<T: Vacant> Slot<T> {
    /// The handle of what is in this slot, whose number is `index`.
    #[inline]
    fn id(&self, index: usize) -> Option<ConnId> {
        if self.word as u16 == index as u16 { Some(ConnId::of_word(self.word)) } else { None }
    }
}

/// The word of slot `index` once it is free, after a life or a table with `word`.
const fn free_word(word: u64, index: usize) -> u64 {
    word & !0xffff | !index as u16 as u64
}

#[cfg(test)]
mod tests;
