//! Which links are looked at: each, none twice, and those that talk more often.

use super::slot;
use super::watch::{COLD_AFTER, Next, Part, READY_MAX, Ready, Watch};
use super::word::{Body, Word};

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
        let word = Word::new(true, Body::Inline(0), None, 0);
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
fn the_only_hot_link_looked_at_alone_is_found_and_cools_as_any() {
    let mut rig = Rig::new(3);
    rig.put(1);
    assert_eq!(rig.look(Part::Cold, 3), [1]);
    assert_eq!(rig.watch.look_at_only(), None);
    rig.put(1);
    assert_eq!(rig.watch.look_at_only(), Some(1));
    rig.slots[1].0.fill(0);
    for _ in 0..COLD_AFTER {
        assert_eq!(rig.watch.count(Part::Hot), 1);
        assert_eq!(rig.watch.look_at_only(), None);
    }
    assert_eq!((rig.watch.count(Part::Hot), rig.watch.count(Part::Cold)), (0, 3));
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
    unsafe { rig.watch.say(2, Next { slot: slot::nowhere(), always: true, ..rig.next(2, true) }) };
    assert!((0..3).any(|_| rig.look(Part::Cold, 64) == [2]));
}
