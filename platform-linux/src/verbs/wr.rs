//! Work requests built once: posting changes only what varies.
//!
//! One chain per fabric and direction, not per connection: a provider copies work requests into its own queue during
//! the post, so they can serve the next connection at once, and stay in the cache.

use core::ptr::{self, NonNull};

use spinwire_core::fabric::PostError;

use crate::sys::verbs::{PostFailure, ibv_recv_wr, ibv_send_wr, ibv_sge};

/// What the two kinds of work request have in common.
pub(super) trait WorkRequest: Sized {
    /// A work request with one piece of memory, all else zero.
    fn template(sge: *mut ibv_sge) -> Self;
    fn set_next(&mut self, next: *mut Self);
}

impl WorkRequest for ibv_send_wr {
    fn template(sge: *mut ibv_sge) -> Self {
        // SAFETY: all zeroes is a valid ibv_send_wr: null pointers and integers.
        let mut wr: ibv_send_wr = unsafe { core::mem::zeroed() };
        wr.sg_list = sge;
        wr
    }

    fn set_next(&mut self, next: *mut Self) {
        self.next = next;
    }
}

impl WorkRequest for ibv_recv_wr {
    fn template(sge: *mut ibv_sge) -> Self {
        ibv_recv_wr { wr_id: 0, next: ptr::null_mut(), sg_list: sge, num_sge: 1 }
    }

    fn set_next(&mut self, next: *mut Self) {
        self.next = next;
    }
}

/// `len` work requests, each linked to the next and to its own piece of memory.
///
/// Both arrays are kept as raw pointers, because they point into each other.
pub(super) struct Chain<W: WorkRequest> {
    wrs: NonNull<[W]>,
    sges: NonNull<[ibv_sge]>,
}

impl<W: WorkRequest> Chain<W> {
    pub(super) fn new(len: u32) -> Self {
        let len = len.max(1) as usize;
        let sges = leak((0..len).map(|_| ibv_sge { addr: 0, length: 0, lkey: 0 }).collect());
        // SAFETY: `i` is below the length of the allocation.
        let wrs = leak((0..len).map(|i| W::template(unsafe { sges.cast::<ibv_sge>().as_ptr().add(i) })).collect());
        let mut chain = Chain { wrs, sges };
        for i in 0..len - 1 {
            let next = chain.at(i + 1);
            chain.entry(i).0.set_next(next);
        }
        chain
    }

    pub(super) fn len(&self) -> usize {
        self.wrs.len()
    }

    /// Work request `index` and its piece of memory, to be filled.
    ///
    /// # Panics
    /// When the chain is not that long.
    #[inline]
    pub(super) fn entry(&mut self, index: usize) -> (&mut W, &mut ibv_sge) {
        assert!(index < self.len(), "a chain longer than the {} planned was posted", self.len());
        // SAFETY: in range, allocated and initialised until drop; `&mut self` makes these the only references, and the
        // two arrays are apart.
        unsafe { (&mut *self.at(index), &mut *self.sges.cast::<ibv_sge>().as_ptr().add(index)) }
    }

    /// Posts the first `count` work requests by `run`, which gets the first of a chain that ends after them.
    #[inline]
    pub(super) fn post(
        &mut self,
        count: usize,
        run: impl FnOnce(*mut W) -> Result<(), PostFailure<W>>,
    ) -> Result<(), PostError> {
        self.entry(count - 1).0.set_next(ptr::null_mut());
        let result = run(self.at(0));
        if count < self.len() {
            let next = self.at(count);
            self.entry(count - 1).0.set_next(next);
        }
        result.map_err(|failure| PostError { taken: self.taken(count, failure.bad), errno: failure.errno.0 })
    }

    /// How many of `count` were posted before the one at `bad`. None if the provider does not say: what it took then
    /// comes back when the queue pair is flushed, and is counted again by its work id.
    fn taken(&self, count: usize, bad: *mut W) -> u32 {
        let offset = (bad as usize).wrapping_sub(self.at(0) as usize) / size_of::<W>();
        if bad.is_null() || offset >= count { 0 } else { offset as u32 }
    }

    fn at(&self, index: usize) -> *mut W {
        debug_assert!(index < self.wrs.len());
        // SAFETY: below the length of the allocation (callers).
        unsafe { self.wrs.cast::<W>().as_ptr().add(index) }
    }
}

impl<W: WorkRequest> Drop for Chain<W> {
    fn drop(&mut self) {
        // SAFETY: both came from boxes in `new`, and nothing refers to them any more: posts copy.
        unsafe {
            drop(Box::from_raw(self.wrs.as_ptr()));
            drop(Box::from_raw(self.sges.as_ptr()));
        }
    }
}

fn leak<T>(items: Vec<T>) -> NonNull<[T]> {
    NonNull::from(Box::leak(items.into_boxed_slice()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::os::Errno;

    fn walk(mut at: *mut ibv_recv_wr) -> usize {
        let mut count = 0;
        // SAFETY: a chain in a test, alive.
        while let Some(wr) = unsafe { at.as_ref() } {
            count += 1;
            at = wr.next;
        }
        count
    }

    #[test]
    fn a_post_sees_exactly_the_work_requests_it_was_given() {
        let mut chain = Chain::<ibv_recv_wr>::new(8);
        for count in [1, 8, 3, 8, 1, 7] {
            let mut seen = 0;
            chain
                .post(count, |first| {
                    seen = walk(first);
                    Ok(())
                })
                .unwrap();
            assert_eq!(seen, count);
        }
    }

    #[test]
    fn what_was_taken_is_counted_up_to_the_bad_one() {
        let mut chain = Chain::<ibv_recv_wr>::new(4);
        let mut fail_at = |index: Option<usize>| {
            let wrs = chain.at(0);
            let bad = index.map_or(ptr::null_mut(), |i| wrs.wrapping_add(i));
            chain.post(3, |_| Err(PostFailure { errno: Errno(libc::ENOMEM), bad })).unwrap_err()
        };
        assert_eq!(fail_at(Some(0)), PostError { taken: 0, errno: libc::ENOMEM });
        assert_eq!(fail_at(Some(2)).taken, 2);
        assert_eq!(fail_at(None).taken, 0, "a provider that does not say");
        assert_eq!(fail_at(Some(17)).taken, 0, "a pointer that is not ours");
    }
}
