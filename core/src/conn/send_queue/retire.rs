//! How sends leave a queue: their completion retires them, or they are given up.

use super::SendQueue;
use crate::fabric::SendWr;
use crate::id::INDEX_MASK;

/// Of some sends, how many were not answers in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Others {
    /// The application's.
    pub app: u32,
    /// Control messages.
    pub control: u32,
}

impl SendQueue {
    /// How many sends a completion with sequence bits `index` retires: it and all before it. `None` when no such send is
    /// in flight.
    #[inline]
    pub fn retired_by(&self, index: u32) -> Option<u32> {
        let count = (index.wrapping_sub(self.retired) & INDEX_MASK) + 1;
        (count <= self.in_flight()).then_some(count)
    }

    /// Whether the send with sequence number `seq` is retired: the device has confirmed it.
    pub const fn is_retired(&self, seq: u32) -> bool {
        // Within half the range of what is in the ring.
        self.retired.wrapping_sub(seq).wrapping_sub(1) < u32::MAX / 2
    }

    /// Takes the oldest `count` sends out of the ring. `take` gets them, in one or two parts, takes their buffers out, and
    /// says how many were not answers.
    ///
    /// # Panics
    /// The device does not have that many.
    #[inline]
    pub fn retire(&mut self, rings: &mut [SendWr], count: u32, mut take: impl FnMut(&mut [SendWr]) -> Others) {
        assert!(count <= self.in_flight(), "more sends were retired than the device has");
        let (first, second) = self.part(rings, self.retired, count);
        for part in [first, second] {
            if !part.is_empty() {
                let Others { app, control } = take(part);
                (self.app, self.control) = (self.app - app, self.control - control);
            }
        }
        self.retired = self.retired.wrapping_add(count);
        if self.retired == self.tail() {
            self.rewind();
        }
    }

    /// Begins at the front of the ring again: it is empty. Of many connections each then goes on in the line it used before, and
    /// not through all of its ring, line by line. The numbers in between are left out; nobody asks for them.
    #[inline]
    fn rewind(&mut self) {
        let front = self.retired.wrapping_add(self.mask) & !self.mask;
        (self.retired, self.posted, self.cleared) = (front, front, front);
    }

    /// Books everything as with the device, which will never carry it out, and returns how much that is.
    pub fn abandon(&mut self) -> u32 {
        (self.posted, self.cleared, self.waiting) = (self.tail(), self.tail(), 0);
        self.occupied()
    }

    /// Takes the oldest send out of the ring, wherever it is on its way.
    ///
    /// # Panics
    /// The ring is empty.
    #[inline]
    pub fn pop(&mut self, rings: &mut [SendWr]) -> SendWr {
        assert!(self.occupied() > 0);
        let wr = core::mem::replace(&mut rings[self.slot(self.retired)], SendWr::EMPTY);
        let next = self.retired.wrapping_add(1);
        if self.cleared == self.retired {
            (self.cleared, self.waiting) = (next, self.waiting - 1);
        }
        if self.posted == self.retired {
            self.posted = next;
        }
        self.retired = next;
        self.app -= u32::from(wr.is_app());
        self.control -= u32::from(wr.buf.is_none());
        wr
    }
}
