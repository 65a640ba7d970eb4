//! The wheel's lists: they run through the timers themselves.

use core::mem::replace;

use super::TimerKind;
use super::place::{LISTS, Place};
use crate::id::ConnId;
use crate::time::Instant;

/// The timers of one connection slot, one of each [`TimerKind`]: 72 bytes. The caller provides one for each connection.
pub type TimerSlot = [Timer; KINDS];

/// A timer slot in which nothing is armed.
pub const IDLE: TimerSlot = [Timer::IDLE; KINDS];

/// One timer of a [`TimerSlot`].
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    /// When it is due. Never earlier than the list in which it stands.
    pub(super) at: Instant,
    /// For which life of the slot it is armed, from 1, or 0; over the list in which it stands, armed or not, or
    /// [`NO_LIST`].
    word: u64,
    /// The neighbours in the list.
    next: Link,
    prev: Link,
}

impl Timer {
    const IDLE: Self = Self { at: Instant::NEVER, word: NO_LIST, next: Link::NONE, prev: Link::NONE };

    #[inline]
    pub(super) fn is_armed(&self) -> bool {
        self.word >> LIST_BITS != 0
    }

    /// Whether it is armed for this life of its slot.
    #[inline]
    pub(super) fn is_armed_for(&self, conn: ConnId) -> bool {
        self.word >> LIST_BITS == conn.generation()
    }

    /// Whether it stands in a list.
    #[inline]
    pub(super) fn is_listed(&self) -> bool {
        self.word & NO_LIST != NO_LIST
    }

    /// Arms it, where it stands.
    #[inline]
    pub(super) fn arm(&mut self, conn: ConnId, at: Instant) {
        self.at = at;
        self.word = conn.generation() << LIST_BITS | self.word & NO_LIST;
    }

    /// Disarms it and leaves it where it stands.
    #[inline]
    pub(super) fn disarm(&mut self) {
        self.word &= NO_LIST;
    }

    /// For which connection the timer, whose name is `link`, is armed.
    #[inline]
    pub(super) fn conn(&self, link: Link) -> ConnId {
        ConnId::new((link.index() / KINDS) as u16, self.word >> LIST_BITS)
    }
}

/// Names a timer: its index among all timers of all slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link(u32);

impl Link {
    /// No timer.
    const NONE: Self = Self(u32::MAX);

    #[inline]
    pub(super) fn new(conn: ConnId, kind: TimerKind) -> Self {
        Self((conn.slot() * KINDS + kind as usize) as u32)
    }

    #[inline]
    fn index(self) -> usize {
        self.0 as usize
    }

    #[inline]
    pub(super) fn kind(self) -> TimerKind {
        TimerKind::ALL[self.index() % KINDS]
    }
}

/// The ends of a list, which are [`Link::NONE`] while it is empty.
#[derive(Clone, Copy, Debug)]
struct List {
    first: Link,
    last: Link,
}

/// All lists, and the timers in them.
#[derive(Debug)]
pub(super) struct Lists<'m> {
    timers: &'m mut [Timer],
    lists: [List; LISTS],
    /// By index, which lists are in use.
    in_use: [u64; LISTS / 64],
}

impl<'m> Lists<'m> {
    pub(super) fn new(slots: &'m mut [TimerSlot]) -> Self {
        let timers = slots.as_flattened_mut();
        Self { timers, lists: [List { first: Link::NONE, last: Link::NONE }; LISTS], in_use: [0; LISTS / 64] }
    }

    #[inline]
    pub(super) fn is_empty(&self, place: Place) -> bool {
        self.lists[place.index()].first == Link::NONE
    }

    /// The first list in use of the lowest level in use.
    #[inline]
    pub(super) fn first(&self) -> Option<Place> {
        let word = self.in_use.iter().position(|&lists| lists != 0)?;
        Some(Place::at(word as u64 * 64 + u64::from(self.in_use[word].trailing_zeros())))
    }

    /// The first timer of a list that is not empty.
    #[inline]
    pub(super) fn head(&self, place: Place) -> Link {
        self.lists[place.index()].first
    }

    /// Puts a timer that stands in no list at the end of one.
    #[inline]
    pub(super) fn push(&mut self, place: Place, link: Link) {
        let Self { timers, lists, in_use } = self;
        let list = &mut lists[place.index()];
        let prev = replace(&mut list.last, link);
        if prev == Link::NONE {
            list.first = link;
            in_use[place.index() / 64] |= 1 << (place.index() % 64);
        } else {
            timers[prev.index()].next = link;
        }
        let timer = &mut timers[link.index()];
        (timer.next, timer.prev) = (Link::NONE, prev);
        timer.word = timer.word & !NO_LIST | place.index() as u64;
    }

    /// Takes a timer out of the list in which it stands.
    #[inline]
    pub(super) fn remove(&mut self, link: Link) {
        let Self { timers, lists, in_use } = self;
        let timer = &mut timers[link.index()];
        let (next, prev) = (timer.next, timer.prev);
        let place = Place::at(timer.word & NO_LIST);
        timer.word |= NO_LIST;
        if next == Link::NONE {
            lists[place.index()].last = prev;
        } else {
            timers[next.index()].prev = prev;
        }
        if prev != Link::NONE {
            timers[prev.index()].next = next;
            return;
        }
        lists[place.index()].first = next;
        if next == Link::NONE {
            in_use[place.index() / 64] &= !(1 << (place.index() % 64));
        }
    }

    /// One timer.
    ///
    /// # Panics
    /// If its slot is not one of these.
    #[inline]
    pub(super) fn timer(&self, link: Link) -> &Timer {
        &self.timers[link.index()]
    }

    /// The same, to change it.
    #[inline]
    pub(super) fn timer_mut(&mut self, link: Link) -> &mut Timer {
        &mut self.timers[link.index()]
    }
}

const KINDS: usize = TimerKind::ALL.len();
/// Of a timer's word; the generation, 48 bits, is above.
const LIST_BITS: u32 = 16;
/// The list of a timer that stands in none.
const NO_LIST: u64 = (1 << LIST_BITS) - 1;

const _: () = assert!(LISTS.is_multiple_of(64) && LISTS < NO_LIST as usize);
const _: () = assert!(size_of::<TimerSlot>() == 72);
