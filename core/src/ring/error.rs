//! What can go wrong, one type per operation.

use core::convert::Infallible;
use core::fmt;

/// Why a ring cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// The number of slots is not a power of two (zero is none either).
    #[error("ring capacity must be a power of two, got {slots}")]
    NotPowerOfTwo {
        /// The number of slots that was given.
        slots: usize,
    },
}

/// What the other half did that no half of ours does. Only possible in memory that is shared with another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerFault {
    /// An index that was read from the header is not within one capacity of our own.
    #[error("peer broke the ring: popped {head}, pushed {tail}, but there are {capacity} slots")]
    Index {
        /// Items popped, by the consumer's count.
        head: u64,
        /// Items pushed, by the producer's count.
        tail: u64,
        /// Number of slots.
        capacity: u64,
    },
    /// The stamp of a slot belongs neither to the item that is due there nor to the one before it.
    #[error("peer broke the ring: slot of item {number} has stamp {stamp}")]
    Stamp {
        /// The item that is due, counted from 0.
        number: u64,
        /// What its slot says.
        stamp: u64,
    },
}

/// Why an item was not pushed. The item comes back.
///
/// `F` is [`PeerFault`] for rings in shared memory. For all others it is [`Infallible`], so that
/// [`Peer`](Self::Peer) cannot occur and a `match` need not name it.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PushError<T, F = Infallible> {
    /// Every slot holds an item that was not popped yet, or was not given back yet.
    #[error("ring is full")]
    Full(T),
    /// The ring was full and the consumer is gone: nobody will make room.
    #[error("ring is closed: its consumer is gone")]
    Closed(T),
    /// The consumer broke the rules, now or earlier; this half is of no use any more.
    #[error("{1}")]
    Peer(T, F),
}

/// Why no item was popped. For `F` see [`PushError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PopError<F = Infallible> {
    /// Nothing waits now; the producer may push more.
    #[error("ring is empty")]
    Empty,
    /// The producer is gone and everything it pushed was popped.
    #[error("ring is closed: its producer is gone and nothing is left")]
    Closed,
    /// The producer broke the rules, now or earlier; this half is of no use any more.
    #[error("{0}")]
    Peer(F),
}

impl<T, F> PushError<T, F> {
    /// The item that was not pushed.
    pub fn into_item(self) -> T {
        match self {
            PushError::Full(item) | PushError::Closed(item) | PushError::Peer(item, _) => item,
        }
    }
}

impl<T, F: fmt::Debug> fmt::Debug for PushError<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PushError::Full(_) => f.write_str("Full(..)"),
            PushError::Closed(_) => f.write_str("Closed(..)"),
            PushError::Peer(_, fault) => write!(f, "Peer(.., {fault:?})"),
        }
    }
}
