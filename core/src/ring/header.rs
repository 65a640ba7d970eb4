//! The shared part of a ring: what one half writes and the other reads, apart from the items.

#[cfg(loom)]
use crate::sync::CacheLine as Line;
use crate::sync::{AtomicU64, Ordering};

/// The shared part of a ring: both indices and the marks of who has left, on cache lines of their own (384 bytes).
///
/// One header serves one ring at a time. It can be used again once both halves are gone. All zero is a new header, so
/// fresh memory of the kernel is one.
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    /// Items ever pushed. The producer writes it, in the batch layout only.
    pub(super) tail: Line<AtomicU64>,
    /// Items ever popped whose slots were given back. The consumer writes it.
    pub(super) head: Line<AtomicU64>,
    /// [`PRODUCER`] and [`CONSUMER`], once they have left.
    pub(super) left: Line<AtomicU64>,
}

/// A word with a cache line pair of its own. All of it are atomics: a peer in shared memory may write to what is never read,
/// too, and bytes between the words would have to stay as they are while a reference to the header is held.
#[cfg(not(loom))]
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Line<T>(pub(super) T, [T; 15]);

/// The bit of the producer in [`Header::left`].
pub(super) const PRODUCER: u64 = 1 << 0;
/// The bit of the consumer.
pub(super) const CONSUMER: u64 = 1 << 1;

impl Header {
    /// A header for a ring yet to be made.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        const fn zero() -> Line<AtomicU64> {
            Line(AtomicU64::new(0), [const { AtomicU64::new(0) }; 15])
        }
        Header { tail: zero(), head: zero(), left: zero() }
    }

    /// A header for a ring yet to be made.
    #[cfg(loom)]
    pub fn new() -> Self {
        Header { tail: Default::default(), head: Default::default(), left: Default::default() }
    }

    /// Sets both indices to `start` and both halves present. Relaxed: nobody else uses the header yet, and whatever
    /// sends a half to another thread orders the rest.
    pub(super) fn reset(&self, start: u64) {
        self.tail.0.store(start, Ordering::Relaxed);
        self.head.0.store(start, Ordering::Relaxed);
        self.left.0.store(0, Ordering::Relaxed);
    }

    /// Sets the caller's bit and says whether the other half had left before, so that the caller is the last one.
    pub(super) fn leave(&self, bit: u64) -> bool {
        // L1. Release: the other half sees all we did when it sees our bit. Acquire: if its bit is set, we see all it
        // did. One of the two comes second in the order of this word, and only that one gets `true`.
        self.left.0.fetch_or(bit, Ordering::AcqRel) & !bit != 0
    }

    /// Whether the half of `bit` has left. Ask *before* looking at its index or stamps (L2, pairs with L1): then these
    /// are final.
    #[inline(always)]
    pub(super) fn has_left(&self, bit: u64) -> bool {
        self.left.0.load(Ordering::Acquire) & bit != 0
    }
}

impl Default for Header {
    fn default() -> Self {
        Header::new()
    }
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Header>() == 384 && align_of::<Header>() == 128);
    assert!(core::mem::offset_of!(Header, tail) == 0);
    assert!(core::mem::offset_of!(Header, head) == 128);
    assert!(core::mem::offset_of!(Header, left) == 256);
};
