//! Several buffers at once.

use core::marker::PhantomData;
use core::ptr::NonNull;

use super::buf::Buf;
use crate::config::BATCH_MAX;

/// Free buffers in the program's hands, as [`Pool::take_bulk`](super::Pool::take_bulk) gave them: a sequence of [`Buf`].
///
/// Moving numbers from the stack to here and back is a copy of a few words, so taking many and giving back those that
/// were not needed costs less than one by one. [`Pool::release_bulk`](super::Pool::release_bulk) takes what is left; what
/// is dropped is lost to its pool, as a dropped [`Buf`] is.
#[derive(Debug)]
#[must_use = "dropped buffers are lost to their pool"]
pub struct Bulk<'m> {
    pub(super) start: NonNull<u8>,
    len: u32,
    stride: u32,
    count: usize,
    /// Numbers of buffers; the first `count` are ours.
    indices: [u32; BATCH_MAX],
    memory: PhantomData<&'m mut [u8]>,
}

// SAFETY: it is the exclusive right to `count` buffers of the memory borrowed for 'm, like as many `Buf`s.
unsafe impl Send for Bulk<'_> {}

impl Bulk<'_> {
    /// Takes over the buffers `taken`, at most [`BATCH_MAX`], of a pool whose memory begins at `start`. The caller has just
    /// taken them out of the pool's free stack.
    #[inline]
    pub(super) fn new(start: NonNull<u8>, (len, stride): (u32, u32), taken: &[u32]) -> Self {
        let mut indices = [0; BATCH_MAX];
        indices[..taken.len()].copy_from_slice(taken);
        Self { start, len, stride, count: taken.len(), indices, memory: PhantomData }
    }

    /// The numbers of those that are left.
    #[inline]
    pub(super) fn indices(&self) -> &[u32] {
        &self.indices[..self.count]
    }
}

impl<'m> Iterator for Bulk<'m> {
    type Item = Buf<'m>;

    #[inline]
    fn next(&mut self) -> Option<Buf<'m>> {
        let last = self.count.wrapping_sub(1);
        let index = *self.indices.get(last)?;
        self.count = last;
        // SAFETY: the number is from the pool's stack, so the offset lies within the pool's memory (checked by Pool::new).
        // It is on no list any more, so this is the only `Buf` for it.
        let start = unsafe { self.start.add(index as usize * self.stride as usize) };
        Some(Buf { start, len: self.len, index, memory: PhantomData })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl ExactSizeIterator for Bulk<'_> {}
