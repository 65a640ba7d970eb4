//! The way to the device and back: who a buffer is lent for.

use super::Pool;
use super::buf::{Buf, Direction, Lease};
use crate::fabric::RecvWr;
use crate::id::WorkId;
use crate::sync::prefetch_items;

impl<'m> Pool<'m> {
    /// Hands a buffer to the device for `work`.
    ///
    /// # Panics
    /// When the buffer is from another pool.
    #[inline]
    pub fn lend(&mut self, buf: Buf<'m>, work: WorkId) -> Lease {
        assert!(self.place(&buf) < self.bytes, "a buffer was lent from a pool it is not from");
        // SAFETY: the buffer is from this pool, as was just checked, and the pool has a lender for each of its buffers.
        unsafe { *self.lenders.get_unchecked_mut(buf.index as usize) = work.to_bits() };
        Lease::new(self.from, buf.index)
    }

    /// Asks for the line that says who has lent a buffer. A hint, as good for a buffer that is not there.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        prefetch_items(self.lenders.as_ptr().wrapping_add(index as usize), 1);
    }

    /// Takes back the buffer `index`, if it is lent for exactly `work`. `None` for a number the pool does not have, a buffer
    /// that is lent for anything else, and one that was taken back already: a stale or forged completion.
    #[inline]
    pub fn reclaim(&mut self, index: u32, work: WorkId) -> Option<Buf<'m>> {
        let lender = self.lenders.get_mut(index as usize).filter(|lender| **lender == work.to_bits())?;
        *lender = 0;
        Some(self.buf(index))
    }

    /// Takes up to `chain.len()` free buffers and hands each to the device as a receive of the connection whose receives are
    /// like `work`: lent for the work id that goes into the chain. Returns how many.
    ///
    /// # Panics
    /// When it is not a pool of receive buffers.
    #[inline]
    pub fn lend_receives(&mut self, work: WorkId, chain: &mut [RecvWr]) -> usize {
        assert!(self.from == Direction::Recv, "receives are posted from another pool");
        let kept = self.free.saturating_sub(chain.len() as u32);
        let taken = &self.stack[kept as usize..self.free as usize];
        let chain = &mut chain[..taken.len()];
        for (&index, wr) in taken.iter().zip(chain) {
            let work = work.with_index(index);
            // SAFETY: a number on the stack is one of this pool's, which has a lender for each.
            unsafe { *self.lenders.get_unchecked_mut(index as usize) = work.to_bits() };
            *wr = RecvWr::of_work(work);
        }
        self.free = kept;
        taken.len()
    }

    /// Takes back the buffer `index` and frees it, as [`Pool::reclaim`] and [`Pool::release`] would. Whether it was lent for
    /// `work`; otherwise nothing was done.
    #[inline]
    pub fn free_lent(&mut self, index: u32, work: WorkId) -> bool {
        let Some(lender) = self.lenders.get_mut(index as usize).filter(|lender| **lender == work.to_bits()) else {
            return false;
        };
        *lender = 0;
        // SAFETY: this buffer was not on the stack, so there are fewer on it than the pool has; it has a place for each.
        unsafe { *self.stack.get_unchecked_mut(self.free as usize) = index };
        self.free += 1;
        true
    }

    /// Frees many buffers that were lent for `work`, each as [`Pool::free_lent`] would.
    #[inline]
    pub(crate) fn freeing(&mut self, work: WorkId) -> Freeing<'_> {
        let Self { lenders, stack, free, .. } = self;
        let start = *free as usize;
        Freeing { work, lenders, stack, start, at: start, free }
    }

    /// Frees every buffer that is lent for any work of the connection that `work` is of, and returns how many there were. For
    /// a connection whose queue pair was destroyed: the device touches none of them any more. Walks the whole pool.
    pub fn reclaim_all(&mut self, work: WorkId) -> u32 {
        let total = self.total();
        let freed = |index| {
            let lent_for = WorkId::from_bits(self.lenders[index as usize]);
            u32::from(lent_for.is_of(work) && self.free_lent(index, lent_for))
        };
        (0..total).map(freed).sum()
    }
}

/// See [`Pool::freeing`]. The number of free buffers is in a register until the end.
#[derive(Debug)]
pub(crate) struct Freeing<'p> {
    work: WorkId,
    lenders: &'p mut [u64],
    stack: &'p mut [u32],
    start: usize,
    at: usize,
    free: &'p mut u32,
}

impl Freeing<'_> {
    /// Whether the buffer was lent for that work; otherwise nothing was done.
    #[inline(always)]
    pub(crate) fn free(&mut self, lease: &Lease) -> bool {
        let lender = self.lenders.get_mut(lease.index() as usize).filter(|lender| **lender == self.work.to_bits());
        let Some(lender) = lender else { return false };
        *lender = 0;
        // SAFETY: this buffer was not on the stack, so there are fewer on it than the pool has; it has a place for each.
        unsafe { *self.stack.get_unchecked_mut(self.at) = lease.index() };
        self.at += 1;
        true
    }

    /// Buffers freed so far.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.at - self.start
    }
}

impl Drop for Freeing<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        *self.free = self.at as u32;
    }
}
