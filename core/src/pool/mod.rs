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
//! [`Pool::reclaim`] turns it into a buffer if, and only if, it is lent for exactly that work: so a second completion of a
//! receive is told from the first also while its buffer is on its way as the answer.
//!
//! A posted buffer cannot be written:
//!
//! ```compile_fail,E0382
//! # use spinwire_core::{id::WorkId, pool::{Buf, Pool}};
//! fn write_after_lend<'m>(pool: &mut Pool<'m>, mut buf: Buf<'m>, work: WorkId) {
//!     let _lease = pool.lend(buf, work);
//!     buf[0] = 1; // the device may be reading it
//! }
//! ```
//!
//! One that was given back cannot be given back again, and a lease cannot be turned into bytes:
//!
//! ```compile_fail,E0382
//! # use spinwire_core::pool::{Buf, Pool};
//! fn release_twice<'m>(pool: &mut Pool<'m>, buf: Buf<'m>) {
//!     pool.release(buf);
//!     pool.release(buf);
//! }
//! ```
//!
//! ```compile_fail,E0608
//! # use spinwire_core::pool::Lease;
//! fn read_a_lease(lease: &Lease) -> u8 {
//!     lease[0]
//! }
//! ```
//!
//! A buffer's bytes cannot be kept beyond the buffer:
//!
//! ```compile_fail,E0505
//! # use spinwire_core::{id::WorkId, pool::{Buf, Pool}};
//! fn keep_the_bytes<'m>(pool: &mut Pool<'m>, buf: Buf<'m>, work: WorkId) -> u8 {
//!     let bytes: &[u8] = &buf;
//!     let _lease = pool.lend(buf, work);
//!     bytes[0]
//! }
//! ```

#![allow(unsafe_code)]

mod buf;
mod bulk;
#[cfg(feature = "sim")]
mod device;
mod free;
mod lent;
mod received;

pub use buf::{Buf, Direction, Layout, Lease};
pub use bulk::Bulk;
pub(crate) use free::Holding;
pub use free::{Pool, PoolError, PoolSlot};
