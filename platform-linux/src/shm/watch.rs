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
    entries: Vec<Entry>,
    /// So many, from the beginning, are hot.
    hot: usize,
    hot_cursor: usize,
    cold_cursor: usize,
}

/// One link, with what a look needs.
#[derive(Clone, Copy)]
struct Entry {
    /// The slot of its next descriptor; null until the peer's segment is known.
    next: *const u8,
    /// Its place in the fabric's table.
    place: u16,
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
/// A link is cold after so many looks in vain: about 0.1 ms of a loop that has nothing else to do.
const COLD_AFTER: u16 = 1_000;
/// How far ahead lines are asked for.
const AHEAD: usize = 4;

impl Watch {
    pub(super) fn with_capacity(links: usize) -> Self {
        Self { entries: Vec::with_capacity(links), ..Self::default() }
    }

    /// Adds the link in `place`, of which nothing is known yet.
    pub(super) fn add(&mut self, place: u16) {
        let next = std::ptr::null();
        self.entries.push(Entry { next, place, idle: 0, phase: false, wide: false, always: false });
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
    /// The slot is null, or stays mapped until the link is removed or another slot is said.
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

    fn find(&self, place: u16) -> Option<usize> {
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
                entry.idle += 1;
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
        if self.next.is_null() {
            return self.always;
        }
        // SAFETY: the slot is mapped: who said it keeps that so.
        unsafe {
            if self.wide {
                slot::prefetch_second_line(self.next);
            }
            slot::load(self.next).phase() == self.phase || self.always
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots of peers, and a watch that looks at them.
    struct Rig {
        slots: Vec<Slot>,
        watch: Watch,
    }

    #[repr(align(128))]
    struct Slot([u8; slot::SLOT_BYTES]);

    impl Rig {
        fn new(links: usize) -> Self {
            let mut rig = Rig {
                slots: std::iter::repeat_with(|| Slot([0; slot::SLOT_BYTES])).take(links).collect(),
                watch: Watch::with_capacity(links),
            };
            for place in 0..links as u16 {
                rig.watch.add(place);
                // SAFETY: the slots live as long as the watch, and do not move.
                unsafe { rig.watch.say(place, rig.next(place, true)) };
            }
            rig
        }

        fn next(&self, place: u16, phase: bool) -> Next {
            Next { slot: self.slots[place as usize].0.as_ptr(), phase, wide: false, always: false }
        }

        /// A message for the link in `place`.
        fn put(&mut self, place: u16) {
            let word = slot::Word::new(true, slot::Body::Inline(0), None, 0);
            // SAFETY: a slot of our own.
            unsafe { slot::store(self.slots[place as usize].0.as_mut_ptr(), word) };
        }

        /// One look at a part; what is found is taken.
        fn look(&mut self, part: Part, visits: usize) -> Vec<u16> {
            let mut ready = Ready::new();
            self.watch.look(part, visits, READY_MAX, &mut ready);
            for &(at, place) in &ready {
                self.slots[place as usize].0.fill(0);
                // SAFETY: as in `new`.
                unsafe { self.watch.was_visited(at, self.next(place, true)) };
            }
            ready.into_iter().map(|(_, place)| place).collect()
        }
    }

    #[test]
    fn a_link_that_got_a_message_is_hot_until_nothing_came_for_a_while() {
        let mut rig = Rig::new(100);
        assert_eq!((rig.watch.count(Part::Hot), rig.watch.count(Part::Cold)), (0, 100));
        for place in [3, 50, 99] {
            rig.put(place);
        }
        let found: Vec<u16> = (0..4).flat_map(|_| rig.look(Part::Cold, 30)).collect();
        assert_eq!(found, [3, 50, 99]);
        assert_eq!(rig.watch.count(Part::Hot), 3);
        rig.put(50);
        assert_eq!(rig.look(Part::Hot, 64), [50]);
        for _ in 0..COLD_AFTER - 1 {
            assert_eq!(rig.look(Part::Hot, 64), []);
        }
        assert_eq!(rig.watch.count(Part::Hot), 1, "the last one is younger");
        assert_eq!(rig.look(Part::Hot, 64), []);
        assert_eq!((rig.watch.count(Part::Hot), rig.watch.count(Part::Cold)), (0, 100));
    }

    #[test]
    fn whatever_comes_and_goes_each_link_is_looked_at_and_none_twice() {
        let mut state = 0x5eed_u64;
        let mut random = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let mut rig = Rig::new(200);
        for round in 0..2_000 {
            match random(8) {
                0 if rig.watch.entries.len() > 20 => {
                    let place = rig.watch.entries[random(rig.watch.entries.len() as u64) as usize].place;
                    rig.watch.remove(place);
                }
                1 => {
                    let place = random(200) as u16;
                    if rig.watch.find(place).is_none() {
                        rig.watch.add(place);
                        // SAFETY: as in `new`.
                        unsafe { rig.watch.say(place, rig.next(place, true)) };
                    }
                }
                _ => {}
            }
            let mut expected: Vec<u16> = (0..random(40)).map(|_| random(200) as u16).collect();
            expected.retain(|&place| rig.watch.find(place).is_some());
            expected.sort_unstable();
            expected.dedup();
            for &place in &expected {
                rig.put(place);
            }
            let mut found = Vec::new();
            for part in [Part::Hot, Part::Cold, Part::Hot] {
                // Twice as many looks as links: a list may be begun in its middle.
                for _ in 0..60 {
                    found.extend(rig.look(part, 1 + random(20) as usize));
                }
            }
            found.sort_unstable();
            assert_eq!(found, expected, "round {round}");
            let mut places: Vec<u16> = rig.watch.entries.iter().map(|entry| entry.place).collect();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), rig.watch.entries.len());
            assert!(rig.watch.hot <= rig.watch.entries.len());
        }
    }

    #[test]
    fn a_link_that_ends_is_visited_although_nothing_comes() {
        let mut rig = Rig::new(3);
        // SAFETY: as in `new`.
        unsafe { rig.watch.say(1, Next { always: true, ..rig.next(1, true) }) };
        assert_eq!(rig.look(Part::Cold, 64), [1]);
        // SAFETY: there is no slot.
        unsafe { rig.watch.say(2, Next { slot: std::ptr::null(), always: true, ..rig.next(2, true) }) };
        assert!((0..3).any(|_| rig.look(Part::Cold, 64) == [2]));
    }
}
