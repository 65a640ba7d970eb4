//! The wheel's lists: rings through the timers themselves.

use core::mem::replace;

use super::TimerKind;
use super::place::{LEVELS, LISTS, Place};
use crate::id::ConnId;
use crate::time::Instant;

/// The timers of one connection slot, 96 bytes. The caller provides one for each connection.
#[derive(Clone, Copy, Debug)]
pub struct TimerSlot {
    /// By [`TimerKind`].
    timers: [Timer; TimerKind::ALL.len()],
}

impl TimerSlot {
    /// Nothing armed.
    pub const IDLE: Self = Self { timers: [Timer::IDLE; TimerKind::ALL.len()] };
}

/// Everything but `place` means something only while the timer is armed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    /// When it is due.
    pub(super) at: Instant,
    /// For which life of the slot it was armed.
    pub(super) conn: ConnId,
    /// The neighbours in the ring.
    next: Link,
    prev: Link,
    /// The list it stands in; `None` while not armed.
    pub(super) place: Option<Place>,
}

impl Timer {
    const IDLE: Self = Self { at: Instant::NEVER, conn: ConnId::new(0, 1), next: Link(0), prev: Link(0), place: None };
}

/// Names a timer: slot and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link(u32);

impl Link {
    #[inline]
    pub(super) fn new(conn: ConnId, kind: TimerKind) -> Self {
        Self((conn.slot() as u32) << KIND_BITS | kind as u32)
    }

    fn slot(self) -> usize {
        (self.0 >> KIND_BITS) as usize
    }

    pub(super) fn kind(self) -> TimerKind {
        match self.0 & KIND_MASK {
            0 => TimerKind::Deadline,
            1 => TimerKind::Keepalive,
            _ => TimerKind::Retry,
        }
    }
}

/// All lists, and the timers in them.
#[derive(Debug)]
pub(super) struct Lists<'m> {
    slots: &'m mut [TimerSlot],
    /// The first timer of each list in use.
    heads: [Link; LISTS],
    /// By level, which lists are in use.
    in_use: [u64; LEVELS],
}

impl<'m> Lists<'m> {
    pub(super) fn new(slots: &'m mut [TimerSlot]) -> Self {
        Self { slots, heads: [Link(0); LISTS], in_use: [0; LEVELS] }
    }

    #[inline]
    pub(super) fn is_empty(&self, place: Place) -> bool {
        self.in_use[place.level()] >> place.position() & 1 == 0
    }

    /// The first list in use of the lowest level in use.
    #[inline]
    pub(super) fn first(&self) -> Option<Place> {
        let level = self.in_use.iter().position(|&lists| lists != 0)?;
        Some(Place::new(level, self.in_use[level].trailing_zeros() as usize))
    }

    /// The first timer of a list that is not empty.
    #[inline]
    pub(super) fn head(&self, place: Place) -> Link {
        self.heads[place.index()]
    }

    /// Puts a timer that stands in no list at the end of one.
    #[inline]
    pub(super) fn push(&mut self, place: Place, link: Link) -> &mut Timer {
        let (next, prev) = if self.is_empty(place) {
            self.in_use[place.level()] |= 1 << place.position();
            self.heads[place.index()] = link;
            (link, link)
        } else {
            let first = self.heads[place.index()];
            let last = replace(&mut self.timer_mut(first).prev, link);
            self.timer_mut(last).next = link;
            (first, last)
        };
        let timer = self.timer_mut(link);
        (timer.next, timer.prev, timer.place) = (next, prev, Some(place));
        timer
    }

    /// Takes a timer out of the list it stands in.
    #[inline]
    pub(super) fn remove(&mut self, place: Place, link: Link) {
        let timer = self.timer_mut(link);
        let (next, prev) = (timer.next, timer.prev);
        timer.place = None;
        if next == link {
            self.in_use[place.level()] &= !(1 << place.position());
            return;
        }
        self.timer_mut(prev).next = next;
        self.timer_mut(next).prev = prev;
        if self.heads[place.index()] == link {
            self.heads[place.index()] = next;
        }
    }

    /// One timer, armed or not.
    ///
    /// # Panics
    /// If its slot is not one of these.
    #[inline]
    pub(super) fn timer(&self, link: Link) -> &Timer {
        &self.slots[link.slot()].timers[(link.0 & KIND_MASK) as usize]
    }

    /// The same, to change it.
    #[inline]
    pub(super) fn timer_mut(&mut self, link: Link) -> &mut Timer {
        &mut self.slots[link.slot()].timers[(link.0 & KIND_MASK) as usize]
    }
}

const KIND_BITS: u32 = 2;
const KIND_MASK: u32 = (1 << KIND_BITS) - 1;

const _: () = assert!(TimerKind::ALL.len() <= KIND_MASK as usize + 1, "a kind must fit in a link");
const _: () = assert!(size_of::<TimerSlot>() == 96);
