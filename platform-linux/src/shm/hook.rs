//! Places at which a test can end or stop this process. In a build that is not for tests they are nothing.

/// Where in the middle of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    /// The payload of a short message is in its slot, the word is not.
    Word,
    /// A part of a long message is in its chunk, the word is not.
    Chunk,
    /// A part of a long message is published, the next is not written.
    Part,
}

#[cfg(not(test))]
#[inline(always)]
pub(super) fn reach(_: Point) {}

#[cfg(test)]
pub(super) use super::soak::reach;
