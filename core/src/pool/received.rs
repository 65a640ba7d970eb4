//! A received message while a callback is shown it.

use super::Pool;
use super::buf::{Buf, Direction, Lease};
use crate::id::WorkId;

/// The buffer of a completed receive. Until it is given on, by one of the methods that take it, nothing has changed: the pool
/// knows it as lent for that receive. Meanwhile the pool is borrowed, so nobody else can get hold of the buffer.
#[derive(Debug)]
pub(crate) struct Received<'p, 'm> {
    pool: &'p mut Pool<'m>,
    index: u32,
}

impl<'m> Pool<'m> {
    /// The buffer that is lent for exactly the receive `work`; as [`Pool::reclaim`], but nothing changes yet.
    #[inline(always)]
    pub(crate) fn received(&mut self, work: WorkId) -> Option<Received<'_, 'm>> {
        debug_assert!(self.from == Direction::Recv);
        let index = work.index();
        let is_lent = self.lenders.get(index as usize).is_some_and(|lender| *lender == work.to_bits());
        is_lent.then_some(Received { pool: self, index })
    }
}

impl<'m> Received<'_, 'm> {
    /// Its first `len` bytes; `None` if it is shorter.
    #[inline(always)]
    pub(crate) fn first(&mut self, len: u32) -> Option<&mut [u8]> {
        let buf = self.pool.buf(self.index);
        if len > buf.len {
            return None;
        }
        // SAFETY: `start` points to `buf.len` initialised bytes inside the memory the pool borrowed for 'm. The buffer is
        // lent, so no usable `Buf` for it exists (the one here is gone without touching the bytes), and none can be made
        // while this borrows the pool; the device is done with it.
        Some(unsafe { core::slice::from_raw_parts_mut(buf.start.as_ptr(), len as usize) })
    }

    /// Gives it back to the pool.
    #[inline(always)]
    pub(crate) fn release(mut self) {
        self.set_lender(0);
        // SAFETY: this buffer was not on the stack, so there are fewer on it than the pool has; it has a place for each.
        unsafe { *self.pool.stack.get_unchecked_mut(self.pool.free as usize) = self.index };
        self.pool.free += 1;
    }

    /// Hands it to the device again, for `work`.
    #[inline(always)]
    pub(crate) fn lend(mut self, work: WorkId) -> Lease {
        self.set_lender(work.to_bits());
        Lease::new(Direction::Recv, self.index)
    }

    /// Takes it into the program's hands.
    pub(crate) fn into_buf(mut self) -> Buf<'m> {
        self.set_lender(0);
        self.pool.buf(self.index)
    }

    #[inline(always)]
    fn set_lender(&mut self, word: u64) {
        // SAFETY: `Pool::received` has found the lender of this buffer, and a pool never has fewer.
        unsafe { *self.pool.lenders.get_unchecked_mut(self.index as usize) = word };
    }
}
