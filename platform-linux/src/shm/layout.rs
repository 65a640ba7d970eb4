//! How a segment is laid out. Both sides compute it from three numbers of the handshake; nothing about it is ever read from
//! shared memory.
//!
//! ```text
//!      0 | 32 pairs of cache lines, of which one is used: `first` says which                             |
//!        |   consumed (8 bytes): descriptors of the peer's that its maker has taken                      |
//!        |   at 64, revoked (8 bytes): not 0 once buffers are used again that a descriptor here speaks of |
//!  4,096 | slot 0 | slot 1 | ... | slot n-1 |    128 bytes each: a descriptor and up to 120 bytes of payload
//!        | chunk 0 | chunk 1 | ... | chunk n-1 |  the payload of slot i, where it is longer and not lent
//! ```
//!
//! The ring begins at slot `first`, another one for each connection. Segments begin on pages, and without this the lines
//! that are looked at of a thousand connections would all be in the same set of the cache, and push each other out.

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

    /// The same, beginning at slot `first` or where that is in a shorter ring.
    pub(super) fn beginning_at(self, first: u32) -> Self {
        Self { first: first & (self.slots - 1), ..self }
    }

    /// Takes a peer's numbers; `None` when they are out of range.
    pub(super) fn checked(slots: u32, chunk_bytes: u32, first: u32) -> Option<Self> {
        let slots_fit = slots.is_power_of_two() && (SLOTS_MIN..=SLOTS_MAX).contains(&slots);
        let chunk_fits = chunk_bytes.is_multiple_of(64) && chunk_bytes <= CHUNK_MAX;
        (slots_fit && chunk_fits && first < slots).then_some(Self { slots, chunk_bytes, first })
    }

    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    /// The payload that one chunk takes; 0 when there are none.
    pub(super) fn chunk_bytes(&self) -> u32 {
        self.chunk_bytes
    }

    /// The slot that the ring begins at.
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    /// Where `consumed` is.
    #[inline]
    pub(super) fn consumed(&self) -> usize {
        (self.first % HEADS) as usize * SLOT_BYTES
    }

    /// Where `revoked` is.
    pub(super) fn revoked(&self) -> usize {
        self.consumed() + SLOT_BYTES / 2
    }

    #[inline]
    fn place(&self, index: u32) -> usize {
        (self.first.wrapping_add(index) & (self.slots - 1)) as usize
    }

    /// Where slot `index` (free-running) begins.
    #[inline]
    pub(super) fn slot(&self, index: u32) -> usize {
        SLOTS_AT + self.place(index) * SLOT_BYTES
    }

    /// Where the chunk of slot `index` begins. There must be chunks.
    #[inline]
    pub(super) fn chunk(&self, index: u32) -> usize {
        let first = SLOTS_AT + self.slots as usize * SLOT_BYTES;
        first + self.place(index) * stride(self.chunk_bytes as usize)
    }

    /// The phase bit of slot `index`: turns with each round, and is 1 in the first, for memory begins as zeroes.
    #[inline]
    pub(super) fn phase(&self, index: u32) -> bool {
        index & self.slots == 0
    }

    /// The length of the segment.
    pub(super) fn bytes(&self) -> usize {
        let chunks = if self.chunk_bytes == 0 { 0 } else { self.slots as usize * stride(self.chunk_bytes as usize) };
        SLOTS_AT + self.slots as usize * SLOT_BYTES + chunks
    }
}

/// Places for `consumed` and `revoked`: a page of them.
const HEADS: u32 = 32;
const SLOTS_AT: usize = HEADS as usize * SLOT_BYTES;
/// Credit updates and a goodbye that may lie beside a whole window of messages.
const CONTROL_SLOTS: u32 = 2;
const SLOTS_MIN: u32 = 8;
/// A deeper window goes through the ring in more than one go. Acknowledgements have 20 bits; this is far below.
const SLOTS_MAX: u32 = 1_024;
/// Longer messages travel in several chunks: the peer copies one while the next is written, and one turn is never held
/// up by more than this.
const CHUNK_MAX: u32 = 16 << 10;

const _: () = assert!(SLOTS_MAX < super::word::ACK_MASK / 2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::fuzzing;

    fn config(depth: u32, message_bytes_max: u32) -> Config {
        Config { depth, ..fuzzing::config(message_bytes_max) }
    }

    #[test]
    fn what_one_side_makes_the_other_accepts_and_nothing_overlaps() {
        for (depth, bytes) in [(1, 1), (1, 120), (1, 121), (32, 4096), (4096, 8 << 20)] {
            for first in [0, 1, 7, 31, 32, 1_023, u32::MAX] {
                let geometry = Geometry::of(&config(depth, bytes)).beginning_at(first);
                let (slots, chunk, first) = (geometry.slots(), geometry.chunk_bytes(), geometry.first());
                assert_eq!(Geometry::checked(slots, chunk, first), Some(geometry));
                let mut places: Vec<usize> = (0..slots).map(|index| geometry.slot(index)).collect();
                places.sort_unstable();
                assert!(geometry.revoked() + 8 <= places[0] && geometry.consumed() + 64 == geometry.revoked());
                assert!(places.windows(2).all(|pair| pair[0] + SLOT_BYTES == pair[1]));
                let end = places[places.len() - 1] + SLOT_BYTES;
                assert!(end <= geometry.bytes());
                for index in (0..slots).filter(|_| chunk > 0) {
                    assert!(geometry.chunk(index) >= end);
                    assert!(geometry.chunk(index) + chunk as usize <= geometry.bytes());
                }
                assert!(geometry.phase(0) && !geometry.phase(slots) && geometry.phase(2 * slots));
            }
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for (slots, chunk) in [(0, 64), (4, 64), (9, 64), (2_048, 64), (64, 63), (64, 32 << 10), (u32::MAX, u32::MAX)] {
            assert_eq!(Geometry::checked(slots, chunk, 0), None, "{slots} {chunk}");
        }
        assert_eq!(Geometry::checked(64, 64, 64), None);
    }
}
