//! A slot's first word: what is in the slot.

use super::slot::INLINE_MAX;

/// The bits of `consumed` in a word.
pub(super) const ACK_MASK: u32 = (1 << 20) - 1;

const PHASE: u64 = 1 << 32;
const HAS_IMM: u64 = 1 << 33;
const LEN_SHIFT: u32 = 34;
const LEN_MASK: u64 = 0x7f;
const CHUNK: u64 = 1 << 41;
const LENT: u64 = 1 << 42;
const RESERVED: u64 = 1 << 43;
const ACK_SHIFT: u32 = 44;

/// A slot's first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

/// Where the payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// So many bytes behind the word.
    Inline(u32),
    /// In the chunk.
    Chunk,
    /// In the sender's arena.
    Lent,
}

impl Word {
    pub(super) fn new(phase: bool, body: Body, imm: Option<u32>, consumed: u32) -> Self {
        let body = match body {
            Body::Inline(len) => u64::from(len) << LEN_SHIFT,
            Body::Chunk => CHUNK,
            Body::Lent => LENT,
        };
        let imm = imm.map_or(0, |imm| HAS_IMM | u64::from(imm));
        let phase = if phase { PHASE } else { 0 };
        Self(phase | body | imm | u64::from(consumed & ACK_MASK) << ACK_SHIFT)
    }

    pub(super) fn phase(self) -> bool {
        self.0 & PHASE != 0
    }

    pub(super) fn consumed(self) -> u32 {
        (self.0 >> ACK_SHIFT) as u32
    }

    pub(super) fn imm(self) -> Option<u32> {
        (self.0 & HAS_IMM != 0).then_some(self.0 as u32)
    }

    /// The length of a payload behind the word, if it is at most `max`, which is at most [`INLINE_MAX`]. One comparison: where
    /// the payload is elsewhere, and for a word that no writer makes, a bit above the length is set.
    #[inline]
    pub(super) fn inline(self, max: u32) -> Option<u32> {
        debug_assert!(max as usize <= INLINE_MAX);
        let len = (self.0 >> LEN_SHIFT) as u32 % (1 << (ACK_SHIFT - LEN_SHIFT));
        (len <= max).then_some(len)
    }

    /// Where the payload is; `None` for a word that no writer makes.
    pub(super) fn body(self) -> Option<Body> {
        let len = (self.0 >> LEN_SHIFT & LEN_MASK) as u32;
        match self.0 & (RESERVED | LENT | CHUNK) {
            CHUNK if len == 0 => Some(Body::Chunk),
            LENT if len == 0 => Some(Body::Lent),
            0 if len as usize <= INLINE_MAX => Some(Body::Inline(len)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_what_was_put_in() {
        for phase in [false, true] {
            for (imm, consumed) in [(None, 0), (Some(0), 1), (Some(u32::MAX), ACK_MASK), (Some(7), u32::MAX)] {
                let inline = [0, 1, INLINE_MAX as u32].map(Body::Inline);
                for body in inline.into_iter().chain([Body::Chunk, Body::Lent]) {
                    let word = Word::new(phase, body, imm, consumed);
                    assert_eq!((word.phase(), word.body(), word.imm()), (phase, Some(body), imm));
                    for max in [0, 1, INLINE_MAX as u32] {
                        let fits = matches!(body, Body::Inline(len) if len <= max);
                        assert_eq!(word.inline(max).map(Body::Inline), fits.then_some(body));
                    }
                    assert_eq!(word.consumed(), consumed & ACK_MASK);
                }
            }
        }
        assert!(!Word(0).phase(), "fresh memory holds no message of the first round");
    }

    #[test]
    fn words_that_no_writer_makes_have_no_body() {
        let (one, two) = (1 << LEN_SHIFT, CHUNK | LENT);
        for bits in [two, RESERVED, 121 << LEN_SHIFT, 127 << LEN_SHIFT, CHUNK | one, LENT | one, u64::MAX] {
            assert_eq!((Word(bits).body(), Word(bits).inline(INLINE_MAX as u32)), (None, None), "{bits:#x}");
        }
    }
}
