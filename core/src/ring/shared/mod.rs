//! The same rings in memory shared with another process that is not trusted.
//!
//! # What is promised
//!
//! Whatever the other process writes into the memory, at any moment, this side
//! - never reads or writes outside the region, for it keeps the geometry and its own index to itself and checks each
//!   index of the peer against them, in release builds too;
//! - never loops for longer than the capacity, and never waits;
//! - reads each word of an item once, so that what it checked is what it uses;
//! - takes any bytes for an item, for items are [`Plain`]; what they mean is for the receiver to check;
//! - reports a [`PeerFault`](super::PeerFault) if an index or a stamp cannot be true. The half is then closed for good.
//!
//! Every access is an atomic one, so that there is no data race to speak of, even with a peer in the same process.
//!
//! What is not promised: that a peer which dies is noticed (it never sets its mark; watch the process or a socket), and
//! that memory stays there: a memory file that the peer can shrink ends this process with a bus error, so seal it
//! (`F_SEAL_SHRINK`).
//!
//! # Layout
//!
//! A [`Header`], then the slots. A slot of the batch layout is the item, rounded up to 8 bytes. A slot of the latency
//! layout is a stamp of 8 bytes, then the item; rounded up to 16, 32 or 64 bytes, or a multiple of 64, so that it never
//! lies across more cache lines than it must. Memory that is all zero is an empty ring, so nobody prepares anything:
//! one process makes the memory, each attaches one half.
//!
//! ```
//! use core::ptr::NonNull;
//! use spinwire_core::ring::shared::{Region, latency};
//! use spinwire_core::sync::CacheLine;
//!
//! let mut memory = [const { CacheLine([0_u8; 128]) }; 20];    // in practice: a mapped memory file
//! let (start, len) = (NonNull::from(&mut memory).cast(), size_of_val(&memory));
//! // SAFETY: the memory outlives both halves and is used by nobody else in this process.
//! let region = unsafe { Region::new(start, len) }?;
//! let mut producer = latency::attach_producer::<u64>(region, 128)?;
//! let mut consumer = latency::attach_consumer::<u64>(region, 128)?;
//! producer.push(7).unwrap();
//! assert_eq!(consumer.pop(), Ok(7));
//! # Ok::<(), spinwire_core::ring::shared::AttachError>(())
//! ```

mod words;

#[cfg(not(loom))]
use core::ptr::NonNull;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::RingError;
use super::header::Header;
use crate::sync::AtomicU64;
pub use words::Words;

/// Items that may come from anybody: every pattern of bits is a valid value, and no byte is padding.
///
/// Numbers, arrays of them, and `repr(C)` structs that derive zerocopy's `FromBytes`, `IntoBytes` and `Immutable`.
pub trait Plain: FromBytes + IntoBytes + Immutable + Copy {}

impl<T: FromBytes + IntoBytes + Immutable + Copy> Plain for T {}

/// Why a half cannot be attached to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// The number of slots is none that rings have.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The region does not start at a multiple of 128.
    #[error("a shared ring must start at a multiple of 128 bytes, got address {address:#x}")]
    Misaligned {
        /// Where it starts.
        address: usize,
    },
    /// The header and that many slots do not fit.
    #[error("a shared ring of {capacity} slots takes {needed} bytes, but the region has {len}")]
    TooSmall {
        /// The number of slots that was asked for.
        capacity: usize,
        /// Bytes that take; the largest number there is if it is more than that.
        needed: usize,
        /// Bytes there are.
        len: usize,
    },
}

/// Memory shared with another process, mapped here for `'m`, in which one ring lives.
#[derive(Clone, Copy, Debug)]
pub struct Region<'m> {
    header: &'m Header,
    words: &'m [AtomicU64],
}

impl<'m> Region<'m> {
    /// Views the `len` bytes at `start` as a region. Nothing is read or written.
    ///
    /// # Errors
    /// [`AttachError::Misaligned`]; [`AttachError::TooSmall`] if not even the header fits.
    ///
    /// # Safety
    /// For all of `'m`, the memory stays mapped for reading and writing, and this process uses it through halves
    /// attached to regions, or other atomics of 8 bytes, alone. Other processes may do with it what they like.
    #[cfg(not(loom))]
    pub unsafe fn new(start: NonNull<u8>, len: usize) -> Result<Self, AttachError> {
        let address = start.addr().get();
        if !address.is_multiple_of(align_of::<Header>()) {
            return Err(AttachError::Misaligned { address });
        }
        let Some(rest) = len.checked_sub(size_of::<Header>()) else {
            return Err(AttachError::TooSmall { capacity: 0, needed: size_of::<Header>(), len });
        };
        // SAFETY: aligned and long enough, as was checked. Header and words are made of atomics, for which any bytes
        // are valid and which may be shared. The caller vouches for the rest.
        let (header, words) = unsafe {
            let words = start.add(size_of::<Header>()).cast();
            (start.cast().as_ref(), NonNull::slice_from_raw_parts(words, rest / 8).as_ref())
        };
        Ok(Region { header, words })
    }

    /// A region made of memory of this program, for tests.
    pub fn of(header: &'m Header, words: &'m [AtomicU64]) -> Self {
        Region { header, words }
    }
}

/// Attaching to one of the two layouts.
macro_rules! layout {
    ($(#[$doc:meta])* $layout:ident, $stamped:literal) => {
        $(#[$doc])*
        pub mod $layout {
            use super::*;

            /// The half that pushes.
            pub type Producer<'m, T> = super::super::Producer<Words<'m, T, $stamped>>;
            /// The half that pops.
            pub type Consumer<'m, T> = super::super::Consumer<Words<'m, T, $stamped>>;

            /// The half that pushes, for a ring of `capacity` slots in `region`, which is all zero or was only used by
            /// the other half.
            ///
            /// The other side must be told the capacity and the type of the items by other means: nothing in the memory
            /// says so, for nothing in it is believed.
            ///
            /// # Errors
            /// [`AttachError::Ring`] if `capacity` is not a power of two; [`AttachError::TooSmall`].
            pub fn attach_producer<T: Plain>(region: Region<'_>, capacity: usize) -> Result<Producer<'_, T>, AttachError> {
                attach_producer_at(region, capacity, 0)
            }

            /// The half that pops. As [`attach_producer`].
            ///
            /// # Errors
            /// As [`attach_producer`].
            pub fn attach_consumer<T: Plain>(region: Region<'_>, capacity: usize) -> Result<Consumer<'_, T>, AttachError> {
                attach_consumer_at(region, capacity, 0)
            }

            /// Makes the region, whatever is in it, an empty ring whose first item is number `start`. For tests, and to
            /// use a region again when both its halves are gone; memory that is all zero is a ring that starts at 0.
            ///
            /// # Errors
            /// As [`attach_producer`].
            pub fn prepare<T: Plain>(region: Region<'_>, capacity: usize, start: u64) -> Result<(), AttachError> {
                Words::<T, $stamped>::new(region, capacity).map(|words| words.reset(start))
            }

            /// As [`attach_producer`], for a ring that was [prepared](prepare) to start with item `start`.
            ///
            /// # Errors
            /// As [`attach_producer`].
            pub fn attach_producer_at<T: Plain>(region: Region<'_>, capacity: usize, start: u64) -> Result<Producer<'_, T>, AttachError> {
                Ok(Producer::new(Words::new(region, capacity)?, start))
            }

            /// As [`attach_consumer`], for a ring that was [prepared](prepare) to start with item `start`.
            ///
            /// # Errors
            /// As [`attach_producer`].
            pub fn attach_consumer_at<T: Plain>(region: Region<'_>, capacity: usize, start: u64) -> Result<Consumer<'_, T>, AttachError> {
                Ok(Consumer::new(Words::new(region, capacity)?, start))
            }
        }
    };
}

layout! {
    /// The latency layout in shared memory.
    latency, true
}
layout! {
    /// The batch layout in shared memory.
    batch, false
}
