//! Bounded queues between two threads or two processes: one side pushes, one pops, neither waits.
//!
//! A ring allocates nothing. It lives in memory it is given, a [`Header`] and a slice of slots, so it can stand in a
//! hugepage arena, in a static, or on a stack. `split` makes the two halves, [`Producer`] and [`Consumer`], which may be
//! sent to a thread each but not shared. Many producers have a ring each: [`Lanes`].
//!
//! ```
//! use spinwire_core::ring::{Header, PopError, latency};
//!
//! let mut header = Header::new();
//! let mut slots: [latency::Slot<u32>; 4] = Default::default();
//! let (mut producer, mut consumer) = latency::split(&mut header, &mut slots)?;
//!
//! producer.push(7).unwrap();
//! producer.close();                                   // dropping it does the same ...
//! assert_eq!(consumer.pop(), Ok(7));                  // ... and what was pushed comes out first
//! assert_eq!(consumer.pop(), Err(PopError::Closed));
//! # Ok::<(), spinwire_core::ring::RingError>(())
//! ```
//!
//! # Which to take
//!
//! Two layouts win two different games; the halves are the same types with the same methods.
//!
//! | what counts | take | because |
//! |---|---|---|
//! | how soon one item is seen; requests and answers; up to 56 bytes | [`latency`] | item and flag cross in one cache line, where an index crosses in a second one |
//! | items per second in batches; items of whole cache lines | [`batch`] | one store announces a batch, and slots are items alone, to be copied or filled in place |
//! | the other side is another process | [`shared::latency`], [`shared::batch`] | the same two, in memory that is not believed |
//! | more than one producer | [`Lanes`] of any of them | no producer ever waits for another |
//!
//! # Layout
//!
//! ```text
//! Header      0 | tail   written by the producer: items ever pushed (batch only)        |
//!           128 | head   written by the consumer: items ever popped, slots given back   |
//!           256 | left   bits: producer gone, consumer gone                             |
//!
//! latency     0 | stamp 8 | item .......... |     item number n is in slot n mod capacity;
//!  slots     16 | stamp 8 | item .......... |     it is there when the stamp is n + 1
//!
//! batch       0 | item | item | item | item |     item number n is in slot n mod capacity;
//!  slots        | item | item | ...         |     it is there when tail is above n
//! ```
//!
//! Counters are 64 bits wide, count items, and are never reduced. They may start anywhere and wrap, which is only right
//! when the capacity divides the wrap: capacities are powers of two and all others are refused. Each half keeps its own
//! index (exact) and what it last saw of the other's (maybe old, never ahead). It reads the other's cache line only when
//! that says that the ring is full, or empty.
//!
//! # Giving back
//!
//! Popped slots are given back to the producer lazily, for each store to `head` costs both sides a cache line: when the
//! consumer has come to another eighth of the ring; when it looks and finds nothing; when it is dropped; and on
//! [`give_back`](Consumer::give_back). So `Full` may be reported while up to an eighth of the slots is free, but only to a
//! producer whose consumer has not looked again since. Rings of up to eight slots give back at once.
//!
//! # Fetching ahead
//!
//! A line that the other core has takes some 60 ns to come. A half with much to do asks for slots a kilobyte ahead, once for
//! as many items as that is: the producer, to write them, and the consumer, unless the ring ran dry lately, for then it
//! would take lines away from the producer that is about to write them. Items of a line or more are asked for one by one.
//! These are hints, and do nothing on other processors than x86-64.
//!
//! # Ordering
//!
//! | name | access | pairs with | and so |
//! |---|---|---|---|
//! | T1 | batch: producer stores `tail`, release | T2 | an item is whole before it can be seen |
//! | T2 | batch: consumer loads `tail`, acquire | T1 | |
//! | S1 | latency: producer stores the stamp, release; of a batch, the last item's first | S2 | an item is whole, and the rest of its batch, before it can be seen |
//! | S2 | latency: consumer loads the stamp, acquire | S1 | |
//! | H1 | consumer stores `head`, release | H2 | a slot is empty before it is written again |
//! | H2 | producer loads `head`, acquire | H1 | |
//! | L1 | a half that leaves sets its bit of `left`, acquire and release | L1, L2 | all it did is seen by the other |
//! | L2 | a half loads `left`, acquire, *before* T2, S2 or H2 | L1 | "closed" is never seen before the last item |
//!
//! # End of life
//!
//! Dropping a half closes the ring. The half that is dropped last drops the items that are still inside: each item is
//! dropped exactly once, by the ring or by whoever popped it. If a half is forgotten (`mem::forget`), they leak.
#![allow(unsafe_code)]

pub mod batch;
mod consumer;
mod drain;
mod error;
mod header;
mod index;
mod lanes;
pub mod latency;
mod local;
mod memory;
mod producer;
mod reserve;
pub mod shared;

pub use consumer::Consumer;
pub use drain::Drain;
pub use error::{PeerFault, PopError, PushError, RingError};
pub use header::Header;
pub use lanes::{LaneFault, LanePop, Lanes};
pub use local::Local;
pub use memory::Memory;
pub use producer::Producer;
pub use reserve::Reserve;
