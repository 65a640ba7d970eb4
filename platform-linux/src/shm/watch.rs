//! Which links are looked at, and how often. A look at a link that has nothing is a load of one line nobody has written, found
//! without touching the link.
//!
//! ```text
//! | hot: something came lately | cold: nothing did for a while |
//!   all, in every poll           a few in every poll; many, if the hot ones had nothing
//! ```
//!
//! So of a thousand connections those that talk cost as if they were alone, and the others a little per poll. A link becomes
//! hot with the first message that is seen.

use super::slot;

/// The links of a core.
#[derive(Default)]
pub(super) struct Watch {
    pub(super) entries: Vec<Entry>,
    /// So many, from the beginning, are hot.
    pub(super) hot: usize,
    hot_cursor: usize,
    cold_cursor: usize,
}

/// One link, with what a look needs.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    /// The slot of its next descriptor.
    next: *const u8,
    /// Its place in the fabric's table.
    pub(super) place: u16,
    /// Looks since something was there.
    idle: u16,
    /// What the phase bit is when the descriptor is there.
    phase: bool,
    /// The next message likely takes both lines of its slot.
    wide: bool,
    /// It is to be visited whether something is there or not: it is ending.
    always: bool,
}

/// What to look for next at a link.
#[derive(Clone, Copy)]
pub(super) struct Next {
    pub(super) slot: *const u8,
    pub(super) phase: bool,
    pub(super) wide: bool,
    pub(super) always: bool,
}

/// A part of the links.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Hot,
    Cold,
}

/// Links that have something: where they are in the list, and in the fabric's table. In order.
pub(super) type Ready = heapless::Vec<(u32, u16), READY_MAX>;

/// Links found in one go. So many cache lines are asked for at once.
pub(super) const READY_MAX: usize = 16;
/// A link is cold after so many looks in vain, about 0.1 ms of a loop that has nothing else to do; of hundreds of hot links
/// after fewer, for then it is looked at more seldom.
pub(super) const COLD_AFTER: u16 = 1_000;
/// So many looks count as one at least, however many are hot. Where all of a thousand links wait for one answer each, a loop
/// that has nothing else to do has looked at each of them some fifty times before its answer can be there: it must not take
/// them for idle meanwhile.
const STEP_MAX: usize = 6;
/// How far ahead lines are asked for.
const AHEAD: usize = 4;

impl Watch {
    pub(super) fn with_capacity(links: usize) -> Self {
        Self { entries: Vec::with_capacity(links), ..Self::default() }
    }

    /// Adds the link in `place`, of which nothing is known yet.
    pub(super) fn add(&mut self, place: u16) {
        let next = slot::nowhere();
        self.entries.push(Entry { next, place, idle: 0, phase: true, wide: false, always: false });
    }

    /// Forgets the link in `place`. To be called before its peer's memory goes.
    pub(super) fn remove(&mut self, place: u16) {
        let Some(at) = self.find(place) else { return };
        let at = if at < self.hot { self.cool(at) } else { at };
        self.entries.swap_remove(at);
    }

    /// Says what to look for at the link in `place`.
    ///
    /// # Safety
    /// The slot stays mapped until the link is removed or another slot is said.
    pub(super) unsafe fn say(&mut self, place: u16, next: Next) {
        if let Some(at) = self.find(place) {
            self.entries[at].look_for(next);
        }
    }

    /// The links of a part.
    #[inline]
    pub(super) fn count(&self, part: Part) -> usize {
        match part {
            Part::Hot => self.hot,
            Part::Cold => self.entries.len() - self.hot,
        }
    }

    /// Whether there is but one link, and it is hot.
    #[inline]
    pub(super) fn is_one_hot(&self) -> bool {
        self.hot == 1 && self.entries.len() == 1
    }

    pub(super) fn find(&self, place: u16) -> Option<usize> {
        self.entries.iter().position(|entry| entry.place == place)
    }

    /// Looks at up to `visits` links of a part, and tells which have something, at most `room` and at most until the end of
    /// the list. Tells how many it looked at.
    #[inline]
    pub(super) fn look(&mut self, part: Part, visits: usize, room: usize, ready: &mut Ready) -> usize {
        ready.clear();
        let mut looked = 0;
        let (mut at, begin) = match part {
            Part::Hot => (self.hot_cursor, 0),
            Part::Cold => (self.cold_cursor, self.hot),
        };
        // Each of many is looked at more seldom, and is to cool all the same.
        let step = (1 + self.hot / 256).min(STEP_MAX) as u16;
        let mut end = if part == Part::Hot { self.hot } else { self.entries.len() };
        if at < begin || at >= end {
            at = begin;
        }
        while at < end && looked < visits && ready.len() < room.min(READY_MAX) {
            if let Some(later) = self.entries.get(at + AHEAD) {
                slot::prefetch(later.next);
            }
            looked += 1;
            let entry = &mut self.entries[at];
            if entry.has_something() {
                entry.idle = 0;
                let _ = ready.push((at as u32, entry.place));
            } else if part == Part::Hot {
                entry.idle = entry.idle.saturating_add(step);
                if entry.idle >= COLD_AFTER {
                    // Another one is in its place now, which was not looked at.
                    self.cool(at);
                    end -= 1;
                    continue;
                }
            }
            at += 1;
        }
        match part {
            Part::Hot => self.hot_cursor = at,
            Part::Cold => self.cold_cursor = at,
        }
        looked
    }

    /// Looks at the only hot link there is, and tells where it is in the table if it has something: what
    /// [`look`](Self::look) does, in fewer instructions, and it is the first in the list.
    #[inline]
    pub(super) fn look_at_only(&mut self) -> Option<u16> {
        debug_assert_eq!(self.hot, 1);
        let entry = self.entries.first_mut()?;
        if entry.has_something() {
            entry.idle = 0;
            return Some(entry.place);
        }
        entry.idle = entry.idle.saturating_add(1);
        if entry.idle >= COLD_AFTER {
            self.cool(0);
        }
        None
    }

    /// Says what to look for at a link that was just found ready. To be called for those found in one go in their order.
    ///
    /// # Safety
    /// As [`say`](Self::say).
    #[inline]
    pub(super) unsafe fn was_visited(&mut self, at: u32, next: Next) {
        let at = at as usize;
        self.entries[at].look_for(next);
        if at >= self.hot {
            // Those found later are behind it, and stay where they are.
            self.entries.swap(at, self.hot);
            self.hot += 1;
        }
    }

    /// The next look at a part begins with the link `at` a place of the list, which was found in the last one and not visited.
    #[inline]
    pub(super) fn go_on_at(&mut self, part: Part, at: u32) {
        match part {
            Part::Hot => self.hot_cursor = at as usize,
            Part::Cold => self.cold_cursor = at as usize,
        }
    }

    /// Moves a hot one to the cold, and says where it is now.
    fn cool(&mut self, at: usize) -> usize {
        self.hot -= 1;
        self.entries.swap(at, self.hot);
        self.entries[self.hot].idle = 0;
        self.hot
    }
}

impl Entry {
    #[inline]
    fn look_for(&mut self, next: Next) {
        (self.next, self.phase, self.wide, self.always) = (next.slot, next.phase, next.wide, next.always);
    }

    #[inline]
    fn has_something(&self) -> bool {
        // SAFETY: the slot is mapped: who said it keeps that so.
        unsafe {
            if self.wide {
                slot::prefetch_second_line(self.next);
            }
            slot::load(self.next).phase() == self.phase || self.always
        }
    }
}
