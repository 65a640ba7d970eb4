//! Buffers for messages, over registered memory that is handed in.
//!
//! Receives and sends have a pool each, so replies cannot starve receives. A buffer is at any time in exactly one of
//! three hands, and the types say in which:
//!
//! ```text
//!            take()                lend()
//!   free  ----------->  Buf  ----------------->  Lease (the device may read or write it)
//!    ^                   |  ^                      |
//!    |     release()     |  |      reclaim()       |
//!    +-------------------+  +----------------------+
//! ```
//!
//! [`Buf`] is the only way to touch the bytes, and neither it nor [`Lease`] can be copied: a posted buffer cannot be
//! written, and one that was given back cannot be given back again. A completion brings only an index;
//! [`Pool::reclaim`] turns it into a buffer if, and only if, exactly that connection has lent it.

#![allow(unsafe_code)]

mod buf;
mod free;

pub use buf::{Buf, Direction, Lease};
pub(crate) use free::Holding;
pub use free::{Pool, PoolError, PoolSlot};
