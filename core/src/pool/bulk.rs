//! Several buffers at once.

use core::marker::PhantomData;
use core::ptr::NonNull;

use super::buf::Buf;
use crate::config::BATCH_MAX;

/// Several free buffers in the program's hands: a sequence of [`Buf`], filled by [`Pool::take_bulk`](super::Pool::take_bulk).
///
/// Numbers move from the stack to here and back as a copy of a few words, so taking many and giving back those that were
/// not needed costs less than one by one. [`Pool::release_bulk`](super::Pool::release_bulk) takes what is left; what is
/// dropped is lost to its pool, as a dropped [`Buf`] is. Filled in place and used again, for it is large to move.
///
/// For programs with a pool of their own. The engine does not hold buffers: it lends them to the device straight from the
/// stack ([`Pool::lend_receives`](super::Pool::lend_receives)).
#[derive(Debug)]
#[must_use = "dropped buffers are lost to their pool"]
pub struct Bulk<'m> {
    pub(super) start: NonNull<u8>,
    len: u32,
    stride: u32,
    /// Numbers of buffers; those from `first` to before `end` are ours.
    indices: [u32; BATCH_MAX],
    first: usize,
    end: usize,
    memory: PhantomData<&'m mut [u8]>,
}

// SAFETY: it is the exclusive right to some buffers of the memory borrowed for 'm, like as many `Buf`s.
unsafe impl Send for Bulk<'_> {}

impl Bulk<'_> {
    /// Without buffers.
    pub const fn new() -> Self {
        let start = NonNull::dangling();
        Self { start, len: 0, stride: 0, indices: [0; BATCH_MAX], first: 0, end: 0, memory: PhantomData }
    }

    /// Takes over the topmost `count` of the `free` buffers, at most [`BATCH_MAX`], of a pool whose memory begins at
    /// `start`. The caller takes them off the pool's free stack.
    #[inline]
    pub(super) fn fill(&mut self, start: NonNull<u8>, (len, stride): (u32, u32), free: &[u32], count: usize) {
        assert!(self.indices().is_empty(), "buffers that were taken before would be lost");
        match free.last_chunk() {
            // A length that is known is copied without a call: the topmost of these are ours.
            Some(top) => self.indices = *top,
            None => self.indices[BATCH_MAX - free.len()..].copy_from_slice(free),
        }
        (self.start, self.len, self.stride) = (start, len, stride);
        (self.first, self.end) = (BATCH_MAX - count, BATCH_MAX);
    }

    /// All of them were given back.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.end = self.first;
    }

    /// The numbers of those that are left.
    #[inline]
    pub(super) fn indices(&self) -> &[u32] {
        &self.indices[self.first..self.end]
    }
}

impl Default for Bulk<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'m> Iterator for Bulk<'m> {
    type Item = Buf<'m>;

    #[inline]
    fn next(&mut self) -> Option<Buf<'m>> {
        let (last, ours) = self.indices().split_last()?;
        let index = *last;
        self.end = self.first + ours.len();
        // SAFETY: the number is from the pool's stack, so the offset lies within the pool's memory (checked by Pool::new).
        // It is on no list any more, so this is the only `Buf` for it.
        let start = unsafe { self.start.add(index as usize * self.stride as usize) };
        Some(Buf { start, len: self.len, index, memory: PhantomData })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.first, Some(self.end - self.first))
    }
}

impl ExactSizeIterator for Bulk<'_> {}
