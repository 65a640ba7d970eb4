//! A bounded queue between two threads: one pushes, one pops, neither waits.
//!
//! The ring allocates nothing. It lives in memory it is given, a [`Header`] and a slice of [`Slot`]s, so it can stand
//! in a hugepage arena, in a static, or on a stack. [`split`] makes the two halves, [`Producer`] and [`Consumer`],
//! which may be sent to a thread each but not shared.
//!
//! ```
//! use spinwire_core::ring::{Header, PopError, Slot, split};
//!
//! let mut header = Header::new();
//! let mut slots: [Slot<u32>; 4] = Default::default();
//! let (mut producer, mut consumer) = split(&mut header, &mut slots)?;
//!
//! producer.push(7).unwrap();
//! drop(producer);                                     // closes the ring ...
//! assert_eq!(consumer.pop(), Ok(7));                  // ... but what was pushed comes out first
//! assert_eq!(consumer.pop(), Err(PopError::Closed));
//! # Ok::<(), spinwire_core::ring::RingError>(())
//! ```
//!
//! # Layout
//!
//! ```text
//! Header    0 | tail   written by the producer: items ever pushed   |
//!         128 | head   written by the consumer: items ever popped   |
//!         256 | left   bits: producer gone, consumer gone           |
//! slots       | 0 | 1 | ... | capacity - 1 |     item number i is in slot i mod capacity
//! ```
//!
//! Indices count items and are never reduced; they wrap at the width of `usize`. That is only right when the capacity
//! divides the wrap, so capacities are powers of two and all others are refused. Each half keeps its own index (exact)
//! and the last value it saw of the other's (`_seen`: maybe old, never ahead). It reads the other's cache line only
//! when the copy says that the ring is full, or empty.
//!
//! # Ordering
//!
//! | name | access | pairs with | and so |
//! |---|---|---|---|
//! | T1 | producer stores `tail`, release | T2 | an item is whole before it can be seen |
//! | T2 | consumer loads `tail`, acquire | T1 | |
//! | H1 | consumer stores `head`, release | H2 | a slot is empty before it is written again |
//! | H2 | producer loads `head`, acquire | H1 | |
//! | L1 | a half that leaves sets its bit of `left`, acquire and release | L1, L2 | all it did is seen by the other |
//! | L2 | a half loads `left`, acquire, *before* T2 or H2 | L1 | "closed" is never seen before the last item |
//!
//! # End of life
//!
//! Dropping a half closes the ring. The half that is dropped last drops the items that are still inside: each item is
//! dropped exactly once, by the ring or by whoever popped it. If a half is forgotten (`mem::forget`), they leak.
#![allow(unsafe_code)]

mod batch;
mod index;
mod layout;
mod spsc;

pub use crate::sync::Slot;
pub use batch::{Drain, Reserve};
pub use layout::Header;
pub use spsc::{Consumer, PopError, Producer, PushError, split, split_starting_at};

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
