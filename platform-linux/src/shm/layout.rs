//! How a segment is laid out. Both sides compute it from three numbers of the handshake; nothing about it is ever read from
//! shared memory.
//!
//! ```text
//!  a ring of up to 16 slots: one page, in which it begins at place `first`; what is beyond the page goes on at its start
//!      0 | ... | slot 0 | slot 1 | ... | slot n-1 | head | ...                  32 places of 128 bytes
//!  4,096 | chunk 0 | chunk 1 | ... | chunk n-1 |    the payload of slot i, where it is longer and not lent
//!
//!  a longer one
//!        | ... slot n-1 | slot 0 | slot 1 | ...     n places, slot 0 in place `first`
//!        | ... | head | ...                         a page of 32 places, of which `first` says which
//!        | chunk 0 | chunk 1 | ... | chunk n-1 |
//!
//!  slot | a descriptor and up to 120 bytes of payload
//!  head | consumed (8 bytes): descriptors of the peer's that its maker has taken
//!       | at 64, revoked (8 bytes): not 0 once buffers are used again that a descriptor here speaks of
//! ```
//!
//! `first` is another one for each connection. Segments begin on pages, and without this the lines that are looked at of a
//! thousand connections would all be in the same sets of the cache, and push each other out.

use spinwire_core::config::Config;

use super::slot::{INLINE_MAX, SLOT_BYTES};
use crate::mem::stride;

/// The three numbers, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    slots: u32,
    chunk_bytes: u32,
    first: u32,
}

impl Geometry {
    /// What one side of a connection needs for `config`: a slot for each message that the peer may have to take in.
    pub(super) fn of(config: &Config) -> Self {
        let slots = (config.depth + CONTROL_SLOTS).next_power_of_two().clamp(SLOTS_MIN, SLOTS_MAX);
        let chunk_bytes = match config.message_bytes_max {
            bytes if bytes as usize <= INLINE_MAX => 0,
            bytes => bytes.next_multiple_of(64).min(CHUNK_MAX),
        };
        Self { slots, chunk_bytes, first: 0 }
    }

    /// The same, with slot 0 in place `first`, or where that is among fewer places.
    pub(super) fn beginning_at(self, first: u32) -> Self {
        Self { first: first & (self.places() - 1), ..self }
    }

    /// Takes a peer's numbers; `None` when they are out of range.
    pub(super) fn checked(slots: u32, chunk_bytes: u32, first: u32) -> Option<Self> {
        let slots_fit = slots.is_power_of_two() && (SLOTS_MIN..=SLOTS_MAX).contains(&slots);
        let chunk_fits = chunk_bytes.is_multiple_of(64) && chunk_bytes <= CHUNK_MAX;
        let geometry = Self { slots, chunk_bytes, first };
        (slots_fit && chunk_fits && first < geometry.places()).then_some(geometry)
    }

    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    /// The payload that one chunk takes; 0 when there are none.
    pub(super) fn chunk_bytes(&self) -> u32 {
        self.chunk_bytes
    }

    /// The place of slot 0.
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    /// Places that the ring may lie in.
    #[inline]
    fn places(&self) -> u32 {
        self.slots.max(PAGE_PLACES)
    }

    /// Whether the head lies behind the ring in the same page.
    #[inline]
    fn is_one_page(&self) -> bool {
        self.slots < PAGE_PLACES
    }

    /// Where `consumed` is.
    #[inline]
    pub(super) fn consumed(&self) -> usize {
        let place = match self.is_one_page() {
            true => (self.first + self.slots) % PAGE_PLACES,
            false => self.slots + self.first % PAGE_PLACES,
        };
        place as usize * SLOT_BYTES
    }

    /// Where `revoked` is.
    pub(super) fn revoked(&self) -> usize {
        self.consumed() + SLOT_BYTES / 2
    }

    /// Where slot `index` (free-running) begins.
    #[inline]
    pub(super) fn slot(&self, index: u32) -> usize {
        let place = (self.first + (index & (self.slots - 1))) & (self.places() - 1);
        place as usize * SLOT_BYTES
    }

    /// Where the chunk of slot `index` begins. There must be chunks.
    #[inline]
    pub(super) fn chunk(&self, index: u32) -> usize {
        self.chunks_at() + (index & (self.slots - 1)) as usize * stride(self.chunk_bytes as usize)
    }

    fn chunks_at(&self) -> usize {
        let head_places = if self.is_one_page() { 0 } else { PAGE_PLACES };
        (self.places() + head_places) as usize * SLOT_BYTES
    }

    /// The phase bit of slot `index`: turns with each round, and is 1 in the first, for memory begins as zeroes.
    #[inline]
    pub(super) fn phase(&self, index: u32) -> bool {
        index & self.slots == 0
    }

    /// A way through the ring, from slot 0 on.
    pub(super) fn walk(&self) -> Walk {
        let mask = self.places() * SLOT_BYTES as u32 - 1;
        Walk { at: self.slot(0) as u32, left: self.slots, mask, phase: self.phase(0) }
    }

    /// The length of the segment.
    pub(super) fn bytes(&self) -> usize {
        let chunks = if self.chunk_bytes == 0 { 0 } else { self.slots as usize * stride(self.chunk_bytes as usize) };
        self.chunks_at() + chunks
    }
}

/// A place in a ring that goes from slot to slot: what [`Geometry::slot`] and [`Geometry::phase`] say of each, in few
/// instructions.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Walk {
    /// Where the slot begins.
    pub(super) at: u32,
    /// Slots from here to the end of the round, this one included.
    left: u32,
    /// Behind the last place the first comes again: the length of all places, a power of two, less one.
    mask: u32,
    /// What the phase bit is in this round.
    pub(super) phase: bool,
}

impl Walk {
    /// Goes on to the next slot, in a ring of that geometry.
    #[inline]
    pub(super) fn step(&mut self, geometry: &Geometry) {
        self.left -= 1;
        if self.left > 0 {
            self.at = (self.at + SLOT_BYTES as u32) & self.mask;
        } else {
            (self.at, self.phase, self.left) = (geometry.slot(0) as u32, !self.phase, geometry.slots);
        }
    }
}

/// Places of a slot's length in a page.
const PAGE_PLACES: u32 = 32;
/// Credit updates and a goodbye that may lie beside a whole window of messages.
const CONTROL_SLOTS: u32 = 2;
/// Enough for a depth of 1. Each slot is written in turn: of a thousand connections, every further one is lines that push
/// others out of the caches.
const SLOTS_MIN: u32 = 4;
/// A deeper window goes through the ring in more than one go. Acknowledgements have 20 bits; this is far below.
const SLOTS_MAX: u32 = 1_024;
/// Longer messages travel in several chunks: the peer copies one while the next is written, and one turn is never held
/// up by more than this.
const CHUNK_MAX: u32 = 16 << 10;

const _: () = assert!(SLOTS_MAX < super::word::ACK_MASK / 2);
const _: () = assert!(SLOTS_MIN > CONTROL_SLOTS);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::fuzzing;

    fn config(depth: u32, message_bytes_max: u32) -> Config {
        Config { depth, ..fuzzing::config(message_bytes_max) }
    }

    #[test]
    fn what_one_side_makes_the_other_accepts_and_nothing_overlaps() {
        for (depth, bytes) in [(1, 1), (1, 120), (1, 121), (3, 64), (12, 64), (20, 64), (32, 4096), (4096, 8 << 20)] {
            for first in [0, 1, 7, 31, 32, 1_023, u32::MAX] {
                let geometry = Geometry::of(&config(depth, bytes)).beginning_at(first);
                let (slots, chunk, first) = (geometry.slots(), geometry.chunk_bytes(), geometry.first());
                assert_eq!(Geometry::checked(slots, chunk, first), Some(geometry));
                let mut places: Vec<usize> = (0..slots).map(|index| geometry.slot(index)).collect();
                assert_eq!(geometry.consumed() + SLOT_BYTES / 2, geometry.revoked());
                places.push(geometry.consumed());
                places.sort_unstable();
                assert!(places.windows(2).all(|pair| pair[0] + SLOT_BYTES <= pair[1]), "{geometry:?}");
                assert!(places.iter().all(|place| place.is_multiple_of(SLOT_BYTES)));
                let end = places[places.len() - 1] + SLOT_BYTES;
                assert!(end <= geometry.bytes());
                for index in (0..slots).filter(|_| chunk > 0) {
                    assert!(geometry.chunk(index) >= end);
                    assert!(geometry.chunk(index) + chunk as usize <= geometry.bytes());
                }
                assert!(geometry.phase(0) && !geometry.phase(slots) && geometry.phase(2 * slots));
                let mut walk = geometry.walk();
                for index in 0..3 * slots {
                    assert_eq!((walk.at as usize, walk.phase), (geometry.slot(index), geometry.phase(index)));
                    walk.step(&geometry);
                }
            }
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for (slots, chunk) in [(0, 64), (2, 64), (9, 64), (2_048, 64), (64, 63), (64, 32 << 10), (u32::MAX, u32::MAX)] {
            assert_eq!(Geometry::checked(slots, chunk, 0), None, "{slots} {chunk}");
        }
        assert_eq!(Geometry::checked(64, 64, 64), None);
        assert_eq!(Geometry::checked(4, 64, 32), None);
    }

    #[test]
    fn a_short_ring_and_its_head_are_in_one_page() {
        for depth in 1..=14 {
            assert_eq!(Geometry::of(&config(depth, 64)).bytes(), 4_096, "depth {depth}");
        }
    }
}
