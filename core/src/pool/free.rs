//! The pool itself: a stack of free buffers and, for each lent one, who has it.

use core::marker::PhantomData;
use core::ptr::NonNull;

use super::buf::{Buf, Direction, Layout};
use super::bulk::Bulk;
use crate::config::{BATCH_MAX, POOL_BUFFERS_MAX};
use crate::id::WorkId;

/// Room for the book-keeping of one buffer. The caller provides one for each.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct PoolSlot([u64; 2]);

/// A set of equal buffers, last in first out: what is taken is what was given back last, and so the warmest. All
/// operations are O(1), or O(n) for n buffers at once, but for [`Pool::reclaim_all`].
#[derive(Debug)]
pub struct Pool<'m> {
    pub(super) start: NonNull<u8>,
    /// Length of the memory that the buffers lie in, in bytes.
    pub(super) bytes: usize,
    region_offset: u64,
    pub(super) stride: u32,
    pub(super) len: u32,
    pub(super) from: Direction,
    pub(super) free: u32,
    /// By buffer: the word of the work it was lent for; 0 while it is free or in the program's hands.
    pub(super) lenders: &'m mut [u64],
    /// The numbers of the free buffers; the first `free` count.
    pub(super) stack: &'m mut [u32],
    memory: PhantomData<&'m mut [u8]>,
}

/// Where a pool's buffers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holding {
    /// With the device.
    pub(crate) lent: u32,
    /// Of these, on behalf of a connection that is no more.
    pub(crate) lent_by_dead: u32,
    /// Not in exactly one place; 0, or a sign that some are not.
    pub(crate) twice_or_lost: u32,
}

// SAFETY: the pool owns the exclusive borrow of its memory and its slots, both of which may move between threads.
unsafe impl Send for Pool<'_> {}

/// A pool cannot be laid out as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The memory is too short.
    #[error("{buffers} buffers at a stride of {stride} bytes need {} bytes, but {bytes} were given", *buffers as u64 * *stride as u64)]
    Memory {
        /// Buffers asked.
        buffers: usize,
        /// Distance from buffer to buffer in bytes.
        stride: u32,
        /// Bytes given.
        bytes: usize,
    },
    /// More buffers than a work id can number, or none.
    #[error("a pool of {buffers} buffers is out of range: 1 to {}", POOL_BUFFERS_MAX)]
    Buffers {
        /// Buffers asked.
        buffers: usize,
    },
    /// A buffer would be empty or longer than the stride.
    #[error("buffers of {len} bytes do not fit a stride of {stride}")]
    Stride {
        /// Length of a buffer in bytes.
        len: u32,
        /// Distance from buffer to buffer in bytes.
        stride: u32,
    },
}

impl<'m> Pool<'m> {
    /// Lays `slots.len()` buffers of `len` bytes, `stride` bytes apart, over `memory`, which starts `region_offset`
    /// bytes into the registered region. All are free.
    ///
    /// # Errors
    /// See [`PoolError`]; nothing was kept.
    pub fn new(
        from: Direction,
        memory: &'m mut [u8],
        region_offset: u64,
        (len, stride): (u32, u32),
        slots: &'m mut [PoolSlot],
    ) -> Result<Self, PoolError> {
        let buffers = slots.len();
        if buffers == 0 || buffers > POOL_BUFFERS_MAX {
            return Err(PoolError::Buffers { buffers });
        }
        if len == 0 || len > stride {
            return Err(PoolError::Stride { len, stride });
        }
        if (memory.len() as u64) < buffers as u64 * u64::from(stride) {
            return Err(PoolError::Memory { buffers, stride, bytes: memory.len() });
        }
        let (lenders, stack) = split(slots);
        lenders.fill(0);
        // The stack's top is its last place: buffer 0 is taken first.
        stack.iter_mut().zip((0..buffers as u32).rev()).for_each(|(place, index)| *place = index);
        let bytes = buffers * stride as usize;
        // A `&mut [u8]` is never null; for an empty one the checks above have returned.
        let start = NonNull::from(memory).cast();
        let free = buffers as u32;
        Ok(Self { start, bytes, region_offset, stride, len, from, free, lenders, stack, memory: PhantomData })
    }

    /// Buffers that are free now.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// All buffers.
    pub fn total(&self) -> u32 {
        self.lenders.len() as u32
    }

    /// Length of a buffer in bytes.
    pub fn buffer_bytes(&self) -> u32 {
        self.len
    }

    /// Where its buffers lie in the registered region.
    pub fn layout(&self) -> Layout {
        Layout { region_offset: self.region_offset, stride: self.stride, len: self.len }
    }

    /// Takes the buffer that was given back last; `None` when all are in use.
    #[inline]
    pub fn take(&mut self) -> Option<Buf<'m>> {
        // Below 0 there is no place on the stack.
        let top = self.free.wrapping_sub(1);
        let index = *self.stack.get(top as usize)?;
        self.free = top;
        Some(self.buf(index))
    }

    /// Gives a buffer back.
    ///
    /// # Panics
    /// When the buffer is from another pool.
    #[inline]
    pub fn release(&mut self, buf: Buf<'m>) {
        assert!(self.place(&buf) < self.bytes, "a buffer was given to a pool it is not from");
        self.stack[self.free as usize] = buf.index;
        self.free += 1;
    }

    /// Takes `count` buffers in one go: fewer if not so many are free, and at most [`BATCH_MAX`].
    ///
    /// # Panics
    /// When there are buffers in `bulk`: they would be lost.
    #[inline]
    pub fn take_bulk(&mut self, count: usize, bulk: &mut Bulk<'m>) {
        let free = &self.stack[..self.free as usize];
        let count = count.min(BATCH_MAX).min(free.len());
        bulk.fill(self.start, (self.len, self.stride), free, count);
        self.free -= count as u32;
    }

    /// Gives back what is left in `bulk`, which is empty then.
    ///
    /// # Panics
    /// When they are from another pool.
    #[inline]
    pub fn release_bulk(&mut self, bulk: &mut Bulk<'m>) {
        let (left, room) = (bulk.indices(), &mut self.stack[self.free as usize..]);
        assert!(left.is_empty() || bulk.start == self.start, "buffers were given to a pool they are not from");
        match (left.first_chunk::<BATCH_MAX>(), room.first_chunk_mut()) {
            // A length that is known is copied without a call.
            (Some(whole), Some(room)) => *room = *whole,
            _ => room[..left.len()].copy_from_slice(left),
        }
        self.free += left.len() as u32;
        bulk.clear();
    }

    /// Who holds what, while the program itself holds nothing. Walks the whole pool.
    pub(crate) fn holding(&self, is_live: impl Fn(WorkId) -> bool) -> Holding {
        let lenders = self.lenders.iter().map(|&lender| (lender != 0).then_some(WorkId::from_bits(lender)));
        let lent = lenders.clone().flatten().count() as u32;
        let lent_by_dead = lenders.clone().flatten().filter(|&lender| !is_live(lender)).count() as u32;
        let free = self.stack[..self.free as usize].iter().copied();
        let free_but_lent = free.clone().filter(|&index| self.lenders[index as usize] != 0).count() as u32;
        // Each number once: told by count, sum and sum of squares, without memory to tick them off in.
        let sums = |indices: &mut dyn Iterator<Item = u64>| {
            indices.fold((0, 0, 0), |(count, sum, squares), n| (count + 1, sum + n, squares + n * n))
        };
        let lent_indices = lenders.enumerate().filter(|(_, lender)| lender.is_some()).map(|(index, _)| index as u64);
        let found = sums(&mut free.map(u64::from).chain(lent_indices));
        let missing = found != sums(&mut (0..u64::from(self.total())));
        Holding { lent, lent_by_dead, twice_or_lost: free_but_lent + u32::from(missing) }
    }

    /// Where the buffer starts in this pool's memory, which no other pool has while this one has borrowed it: less than
    /// its length exactly if the buffer is from this pool.
    #[inline]
    pub(super) fn place(&self, buf: &Buf<'m>) -> usize {
        buf.start.addr().get().wrapping_sub(self.start.addr().get())
    }

    /// The handle to buffer `index`. Private: callers have just taken the index out of the free stack or out of the
    /// lender's hands (or drop the handle without touching the bytes), so there is one usable handle per index.
    #[inline]
    pub(super) fn buf(&self, index: u32) -> Buf<'m> {
        // SAFETY: index < total(), so the offset lies within the memory whose length `new` has checked.
        let start = unsafe { self.start.add(index as usize * self.stride as usize) };
        Buf { start, len: self.len, index, memory: PhantomData }
    }
}

/// Room for as many lenders, and as many places of the stack.
fn split(slots: &mut [PoolSlot]) -> (&mut [u64], &mut [u32]) {
    let count = slots.len();
    let words = slots.as_mut_ptr().cast::<u64>();
    // SAFETY: `slots` is exclusively borrowed and, by `repr(C)`, 2 * count initialised words without padding. The first
    // `count` of them become the lenders, and of the rest the first half, of which any bits are valid, the stack.
    unsafe {
        let lenders = core::slice::from_raw_parts_mut(words, count);
        let stack = core::slice::from_raw_parts_mut(words.add(count).cast::<u32>(), count);
        (lenders, stack)
    }
}
