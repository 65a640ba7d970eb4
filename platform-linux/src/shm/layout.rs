//! How a segment is laid out. Both sides compute it from two numbers of the handshake; nothing about it is ever read from
//! shared memory.
//!
//! ```text
//!      0 | consumed (8 bytes): descriptors of the peer's that its maker has taken         |
//!    128 | slot 0 | slot 1 | ... | slot n-1 |    128 bytes each: a descriptor and up to 120 bytes of payload
//!        | chunk 0 | chunk 1 | ... | chunk n-1 |  the payload of slot i, where it is longer
//! ```

use spinwire_core::config::Config;

use super::slot::{INLINE_MAX, SLOT_BYTES};
use crate::mem::stride;

/// The two numbers, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    slots: u32,
    chunk_bytes: u32,
}

impl Geometry {
    /// What one side of a connection needs for `config`: a slot for each message that the peer may have to take in.
    pub(super) fn of(config: &Config) -> Self {
        let slots = (config.depth + CONTROL_SLOTS).next_power_of_two().clamp(SLOTS_MIN, SLOTS_MAX);
        let chunk_bytes = match config.message_bytes_max {
            bytes if bytes as usize <= INLINE_MAX => 0,
            bytes => bytes.next_multiple_of(64).min(CHUNK_MAX),
        };
        Self { slots, chunk_bytes }
    }

    /// Takes a peer's numbers; `None` when they are out of range.
    pub(super) fn checked(slots: u32, chunk_bytes: u32) -> Option<Self> {
        let slots_fit = slots.is_power_of_two() && (SLOTS_MIN..=SLOTS_MAX).contains(&slots);
        let chunk_fits = chunk_bytes.is_multiple_of(64) && chunk_bytes <= CHUNK_MAX;
        (slots_fit && chunk_fits).then_some(Self { slots, chunk_bytes })
    }

    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    /// The payload that one chunk takes; 0 when there are none.
    pub(super) fn chunk_bytes(&self) -> u32 {
        self.chunk_bytes
    }

    /// Where slot `index` (free-running) begins.
    #[inline]
    pub(super) fn slot(&self, index: u32) -> usize {
        SLOTS_AT + (index & (self.slots - 1)) as usize * SLOT_BYTES
    }

    /// Where the chunk of slot `index` begins. There must be chunks.
    #[inline]
    pub(super) fn chunk(&self, index: u32) -> usize {
        let first = SLOTS_AT + self.slots as usize * SLOT_BYTES;
        first + (index & (self.slots - 1)) as usize * stride(self.chunk_bytes as usize)
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

/// Where `consumed` is.
pub(super) const CONSUMED_AT: usize = 0;
const SLOTS_AT: usize = 128;
/// Credit updates and a goodbye that may lie beside a whole window of messages.
const CONTROL_SLOTS: u32 = 2;
const SLOTS_MIN: u32 = 8;
/// A deeper window goes through the ring in more than one go. Acknowledgements have 20 bits; this is far below.
const SLOTS_MAX: u32 = 1_024;
/// Longer messages travel in several chunks: the peer copies one while the next is written, and one turn is never held
/// up by more than this.
const CHUNK_MAX: u32 = 16 << 10;

const _: () = assert!(SLOTS_MAX < super::slot::ACK_MASK / 2);

#[cfg(test)]
mod tests {
    use super::*;
    use spinwire_core::config::Mode;

    fn config(depth: u32, message_bytes_max: u32) -> Config {
        Config {
            mode: Mode::Spinwire,
            depth,
            message_bytes_max,
            inline_bytes_max: 0,
            timeouts: Default::default(),
            retry: Default::default(),
            keepalive: None,
            seed: 0,
        }
    }

    #[test]
    fn what_one_side_makes_the_other_accepts_and_nothing_overlaps() {
        for (depth, bytes) in [(1, 1), (1, 120), (1, 121), (32, 4096), (4096, 8 << 20)] {
            let geometry = Geometry::of(&config(depth, bytes));
            assert_eq!(Geometry::checked(geometry.slots(), geometry.chunk_bytes()), Some(geometry));
            let last = geometry.slots() - 1;
            assert!(geometry.slot(last) + SLOT_BYTES <= geometry.bytes());
            if geometry.chunk_bytes() > 0 {
                assert!(geometry.slot(last) + SLOT_BYTES <= geometry.chunk(0));
                assert!(geometry.chunk(last) + geometry.chunk_bytes() as usize <= geometry.bytes());
            }
            assert!(geometry.phase(0) && !geometry.phase(geometry.slots()) && geometry.phase(2 * geometry.slots()));
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for (slots, chunk) in [(0, 64), (4, 64), (9, 64), (2_048, 64), (64, 63), (64, 32 << 10), (u32::MAX, u32::MAX)] {
            assert_eq!(Geometry::checked(slots, chunk), None, "{slots} {chunk}");
        }
    }
}
