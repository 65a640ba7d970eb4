//! Handles that cannot be confused: connections with a generation, work ids that find their owner without a map.

use core::fmt;

/// Names one connection for the whole life of its engine. Another engine, also of the same process, has handles of its own,
/// which may have the same numbers.
///
/// The low 16 bits are the slot in the connection table, the high 48 bits the generation of that slot. A slot that is
/// used a million times a second repeats its generation after nine years, so a stale handle is recognised, never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnId(u64);

impl ConnId {
    /// Names no connection: generations count from 1.
    pub(crate) const NONE: ConnId = ConnId(0);

    /// Generations count from 1, so the all-zero value is never a live connection.
    pub(crate) const fn new(slot: u16, generation: u64) -> Self {
        debug_assert!(generation != 0 && generation <= GENERATION_MAX);
        Self((generation << SLOT_BITS) | slot as u64)
    }

    /// The slot in the connection table.
    pub const fn slot(self) -> usize {
        (self.0 & SLOT_MASK) as usize
    }

    /// Which life of the slot this is, from 1.
    pub const fn generation(self) -> u64 {
        self.0 >> SLOT_BITS
    }

    /// What the platform knows the next attempt of a connection by: the same slot, the next generation. The connection
    /// keeps its own handle; what still comes of the attempt before carries the name of that.
    pub(crate) const fn next_attempt(self) -> ConnId {
        let generation = if self.generation() == GENERATION_MAX { 1 } else { self.generation() + 1 };
        ConnId::new(self.slot() as u16, generation)
    }

    /// The handle as one word, for a place that holds only words (the context of an rdma_cm id).
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The inverse of [`ConnId::to_bits`] for a word that is known to be one.
    #[inline]
    pub(crate) const fn of_word(bits: u64) -> Self {
        debug_assert!(bits >> SLOT_BITS != 0);
        Self(bits)
    }

    /// The inverse of [`ConnId::to_bits`]; `None` for words that no handle has.
    pub const fn from_bits(bits: u64) -> Option<Self> {
        if bits >> SLOT_BITS == 0 { None } else { Some(Self(bits)) }
    }
}

impl fmt::Debug for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conn {}.{}", self.slot(), self.generation())
    }
}

impl fmt::Display for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What a work request was posted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkKind {
    /// A posted receive; the index names the buffer in the receive pool.
    Recv,
    /// A posted send; the index is the low 20 bits of its sequence number on the connection.
    Send,
    /// A one-sided operation; the index is the low 20 bits of its sequence number among those of the connection.
    OneSided,
}

/// The 64 bits of a work request's `wr_id`.
///
/// ```text
///  63        44 43    40 39                  16 15          0
/// |   index    |  kind  |  generation, low 24  |    slot     |
/// ```
///
/// A completion carries it back unchanged, also a failed one (ibv_poll_cq(3)), so its owner is found by a shift. The
/// generation tells a completion of an earlier life of the slot; 2^24 lives would have to pass while it is in flight
/// for it to be mistaken.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorkId(u64);

impl WorkId {
    /// Packs the parts; `index` keeps its low 20 bits.
    pub const fn new(conn: ConnId, kind: WorkKind, index: u32) -> Self {
        let kind = match kind {
            WorkKind::Recv => 1,
            WorkKind::Send => 2,
            WorkKind::OneSided => 3,
        };
        let index = (index & INDEX_MASK) as u64;
        Self((index << INDEX_SHIFT) | (kind << KIND_SHIFT) | (conn.0 & TAG_MASK))
    }

    /// The word as the device carries it.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Takes a word from a completion. Any word is accepted; [`WorkId::kind`] tells whether it is one of ours.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The slot in the connection table.
    pub const fn slot(self) -> usize {
        (self.0 & SLOT_MASK) as usize
    }

    /// The same connection and kind, with another index, of which it keeps the low 20 bits.
    #[inline]
    pub const fn with_index(self, index: u32) -> Self {
        Self(self.0 << (64 - INDEX_SHIFT) >> (64 - INDEX_SHIFT) | (index as u64) << INDEX_SHIFT)
    }

    /// As [`WorkId::with_index`], of one whose index is 0.
    #[inline]
    pub(crate) const fn at(self, index: u32) -> Self {
        debug_assert!(self.index() == 0);
        Self(self.0 | (index as u64) << INDEX_SHIFT)
    }

    /// Whether both name work of one kind that was posted in one life of one slot, whatever their indices.
    #[inline]
    pub const fn is_like(self, other: WorkId) -> bool {
        // The index is above everything else.
        (self.0 ^ other.0) << (64 - INDEX_SHIFT) == 0
    }

    /// Whether both are of one life of one slot, whatever their kinds and indices.
    #[inline]
    pub const fn is_of(self, other: WorkId) -> bool {
        (self.0 ^ other.0) & TAG_MASK == 0
    }

    /// What was posted; `None` for a word that no work id of ours has.
    pub const fn kind(self) -> Option<WorkKind> {
        match (self.0 >> KIND_SHIFT) & 0xf {
            1 => Some(WorkKind::Recv),
            2 => Some(WorkKind::Send),
            3 => Some(WorkKind::OneSided),
            _ => None,
        }
    }

    /// Whether it is that of a one-sided operation.
    #[inline]
    pub const fn is_one_sided(self) -> bool {
        (self.0 >> KIND_SHIFT) & 0xf == 3
    }

    /// Buffer index of a receive, low 20 bits of the sequence number of anything else.
    pub const fn index(self) -> u32 {
        (self.0 >> INDEX_SHIFT) as u32 & INDEX_MASK
    }
}

impl fmt::Debug for WorkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let generation = (self.0 & TAG_MASK) >> SLOT_BITS;
        write!(f, "{:?} #{} of slot {} life {}", self.kind(), self.index(), self.slot(), generation)
    }
}

/// A listener, as numbered by the control side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u32);

/// A connection request that waits for an answer, as numbered by the control side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub u32);

/// A place to connect to, as numbered by the control side: names are resolved before the loop starts, because a
/// look-up can block for seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndpointId(pub u32);

const SLOT_BITS: u32 = 16;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
/// Largest generation: 48 bits.
pub(crate) const GENERATION_MAX: u64 = (1 << 48) - 1;
const TAG_MASK: u64 = (1 << 40) - 1;
const KIND_SHIFT: u32 = 40;
const INDEX_SHIFT: u32 = 44;
/// 20 bits: what a work id can carry of a buffer index or a sequence number.
pub(crate) const INDEX_MASK: u32 = (1 << 20) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_id_gives_back_what_went_in() {
        for (slot, generation, index) in [(0, 1, 0), (65_535, GENERATION_MAX, INDEX_MASK), (7, 1 << 24, 12_345)] {
            let conn = ConnId::new(slot, generation);
            for kind in [WorkKind::Recv, WorkKind::Send, WorkKind::OneSided] {
                let work = WorkId::from_bits(WorkId::new(conn, kind, index).to_bits());
                assert_eq!((work.slot(), work.kind(), work.index()), (slot as usize, Some(kind), index));
                assert!(work.is_like(WorkId::new(conn, kind, 77)));
                assert_eq!(WorkId::new(conn, kind, 77).with_index(index), work);
            }
        }
    }

    #[test]
    fn another_life_of_the_slot_is_told_apart() {
        let work = WorkId::new(ConnId::new(3, 9), WorkKind::Recv, 1);
        let other = |slot, generation, kind| WorkId::new(ConnId::new(slot, generation), kind, 1);
        assert!(work.is_like(other(3, 9, WorkKind::Recv)));
        assert!(!work.is_like(other(3, 10, WorkKind::Recv)));
        assert!(!work.is_like(other(4, 9, WorkKind::Recv)));
        assert!(!work.is_like(other(3, 9, WorkKind::Send)));
        assert!(work.is_of(other(3, 9, WorkKind::Send).with_index(7)));
        assert!(!work.is_of(other(3, 10, WorkKind::Recv)) && !work.is_of(other(4, 9, WorkKind::Recv)));
    }

    #[test]
    fn foreign_words_are_recognised() {
        assert_eq!(WorkId::from_bits(0).kind(), None);
        assert_eq!(WorkId::from_bits(u64::MAX).kind(), None);
        assert_eq!(ConnId::from_bits(0xffff), None);
    }
}
