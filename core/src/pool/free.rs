//! The pool itself: a stack of free buffers and, for each lent one, who has it.

use core::marker::PhantomData;
use core::ptr::NonNull;

use super::buf::{Buf, Direction, Lease};
use crate::config::POOL_BUFFERS_MAX;
use crate::id::ConnId;

/// The book-keeping of one buffer. The caller provides one for each.
#[derive(Clone, Copy, Debug, Default)]
pub struct PoolSlot {
    /// The connection that has lent the buffer with index of this slot; 0 while it is free or in the program's hands.
    pub(super) lender: u64,
    /// Not about that buffer: place n of the stack of free indices.
    free: u32,
}

/// A set of equal buffers. All operations but [`Pool::reclaim_all`] are O(1) and touch one [`PoolSlot`].
#[derive(Debug)]
pub struct Pool<'m> {
    start: NonNull<u8>,
    region_offset: u64,
    stride: u32,
    len: u32,
    from: Direction,
    free: u32,
    pub(super) slots: &'m mut [PoolSlot],
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
        for (place, slot) in slots.iter_mut().enumerate() {
            // The stack's top is its last place: buffer 0 is taken first.
            *slot = PoolSlot { lender: 0, free: (buffers - 1 - place) as u32 };
        }
        // A `&mut [u8]` is never null; for an empty one the checks above have returned.
        let start = NonNull::from(memory).cast();
        Ok(Self { start, region_offset, stride, len, from, free: buffers as u32, slots, memory: PhantomData })
    }

    /// Buffers that are free now.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// All buffers.
    pub fn total(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Length of a buffer in bytes.
    pub fn buffer_bytes(&self) -> u32 {
        self.len
    }

    /// Takes the buffer that was given back last; `None` when all are in use.
    #[inline]
    pub fn take(&mut self) -> Option<Buf<'m>> {
        self.free = self.free.checked_sub(1)?;
        let index = self.slots[self.free as usize].free;
        Some(self.buf(index))
    }

    /// Gives a buffer back.
    ///
    /// # Panics
    /// When the buffer is from another pool.
    #[inline]
    pub fn release(&mut self, buf: Buf<'m>) {
        assert!(self.is_ours(&buf), "a buffer was given to a pool it is not from");
        self.push_free(buf.index);
    }

    /// Hands a buffer to the device on behalf of `conn`.
    ///
    /// # Panics
    /// When the buffer is from another pool.
    #[inline]
    pub fn lend(&mut self, buf: Buf<'m>, conn: ConnId) -> Lease {
        assert!(self.is_ours(&buf), "a buffer was lent from a pool it is not from");
        self.slots[buf.index as usize].lender = conn.to_bits();
        let offset = self.region_offset + u64::from(buf.index) * u64::from(self.stride);
        Lease { offset, len: self.len, index: buf.index, from: self.from }
    }

    /// Takes back the buffer a completion names, if exactly `conn` has lent it. `None` for a number the pool does not
    /// have, a buffer of somebody else, and one that was taken back already: a stale or forged completion.
    #[inline]
    pub fn reclaim(&mut self, index: u32, conn: ConnId) -> Option<Buf<'m>> {
        let slot = self.slots.get_mut(index as usize)?;
        if slot.lender != conn.to_bits() {
            return None;
        }
        slot.lender = 0;
        Some(self.buf(index))
    }

    /// Frees every buffer `conn` has still lent and returns how many there were. For a connection whose queue pair was
    /// destroyed: the device touches none of them any more. Walks the whole pool.
    pub fn reclaim_all(&mut self, conn: ConnId) -> u32 {
        let mut count = 0;
        for index in 0..self.slots.len() as u32 {
            if let Some(buf) = self.reclaim(index, conn) {
                self.release(buf);
                count += 1;
            }
        }
        count
    }

    /// Who holds what, while the program itself holds nothing. Walks the whole pool.
    pub(crate) fn holding(&self, is_live: impl Fn(ConnId) -> bool) -> Holding {
        let lenders = self.slots.iter().map(|slot| ConnId::from_bits(slot.lender));
        let lent = lenders.clone().flatten().count() as u32;
        let lent_by_dead = lenders.clone().flatten().filter(|&lender| !is_live(lender)).count() as u32;
        let free = self.slots[..self.free as usize].iter().map(|slot| slot.free);
        let free_but_lent = free.clone().filter(|&index| self.slots[index as usize].lender != 0).count() as u32;
        // Each number once: told by count, sum and sum of squares, without memory to tick them off in.
        let sums = |indices: &mut dyn Iterator<Item = u64>| {
            indices.fold((0, 0, 0), |(count, sum, squares), n| (count + 1, sum + n, squares + n * n))
        };
        let lent_indices = lenders.enumerate().filter(|(_, lender)| lender.is_some()).map(|(index, _)| index as u64);
        let found = sums(&mut free.map(u64::from).chain(lent_indices));
        let missing = found != sums(&mut (0..self.slots.len() as u64));
        Holding { lent, lent_by_dead, twice_or_lost: free_but_lent + u32::from(missing) }
    }

    fn is_ours(&self, buf: &Buf<'m>) -> bool {
        (buf.index as usize) < self.slots.len() && self.buf(buf.index).start == buf.start
    }

    fn push_free(&mut self, index: u32) {
        self.slots[self.free as usize].free = index;
        self.free += 1;
    }

    /// The handle to buffer `index`. Private: callers have just taken the index out of the free stack or out of the
    /// lender's hands (or drop the handle without touching the bytes), so there is one usable handle per index.
    pub(super) fn buf(&self, index: u32) -> Buf<'m> {
        // SAFETY: index < slots.len(), so the offset lies within the memory whose length `new` has checked.
        let start = unsafe { self.start.add(index as usize * self.stride as usize) };
        Buf { start, len: self.len, index, memory: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;
    use std::vec::Vec;

    fn conn(slot: u16) -> ConnId {
        ConnId::new(slot, 1)
    }

    #[test]
    fn buffers_do_not_overlap_and_come_back_last_in_first_out() {
        let (mut memory, mut slots) = (vec![0; 300], vec![PoolSlot::default(); 3]);
        let mut pool = Pool::new(Direction::Send, &mut memory, 0, (64, 100), &mut slots).unwrap();
        let mut held: Vec<_> = core::iter::from_fn(|| pool.take()).collect();
        assert_eq!((held.len(), pool.free()), (3, 0));
        for (n, buf) in held.iter_mut().enumerate() {
            assert!(buf.iter().all(|&byte| byte == 0));
            buf.fill(n as u8 + 1);
        }
        for (n, buf) in held.iter().enumerate() {
            assert!(buf.len() == 64 && buf.iter().all(|&byte| byte == n as u8 + 1));
        }
        let last = held.remove(1);
        let start = last.start;
        pool.release(last);
        assert_eq!(pool.take().unwrap().start, start);
    }

    #[test]
    fn only_the_lender_gets_a_buffer_back_and_only_once() {
        let (mut memory, mut slots) = (vec![0; 64], vec![PoolSlot::default(); 2]);
        let mut pool = Pool::new(Direction::Recv, &mut memory, 4_096, (32, 32), &mut slots).unwrap();
        let _first = pool.take().unwrap();
        let second = pool.take().unwrap();
        let lease = pool.lend(second, conn(7));
        assert_eq!((lease.offset(), lease.index(), lease.capacity()), (4_096 + 32, 1, 32));
        assert!(pool.reclaim(1, conn(8)).is_none(), "another connection");
        assert!(pool.reclaim(1, ConnId::new(7, 2)).is_none(), "another life of the slot");
        assert!(pool.reclaim(0, conn(7)).is_none(), "in the program's hands");
        assert!(pool.reclaim(99, conn(7)).is_none(), "no such buffer");
        assert!(pool.reclaim(1, conn(7)).is_some());
        assert!(pool.reclaim(1, conn(7)).is_none(), "a second completion for the same work");
    }

    #[test]
    fn everything_a_dead_connection_has_lent_is_freed() {
        let (mut memory, mut slots) = (vec![0; 640], vec![PoolSlot::default(); 10]);
        let mut pool = Pool::new(Direction::Recv, &mut memory, 0, (64, 64), &mut slots).unwrap();
        for n in 0..10 {
            let buf = pool.take().unwrap();
            let _ = pool.lend(buf, conn(n % 2));
        }
        assert_eq!(pool.reclaim_all(conn(0)), 5);
        assert_eq!((pool.free(), pool.reclaim_all(conn(0)), pool.reclaim_all(conn(1)), pool.free()), (5, 0, 5, 10));
    }

    #[test]
    #[should_panic(expected = "not from")]
    fn a_buffer_of_another_pool_is_refused() {
        let (mut memory_a, mut slots_a) = (vec![0; 64], vec![PoolSlot::default(); 2]);
        let (mut memory_b, mut slots_b) = (vec![0; 64], vec![PoolSlot::default(); 2]);
        let mut a = Pool::new(Direction::Send, &mut memory_a, 0, (32, 32), &mut slots_a).unwrap();
        let mut b = Pool::new(Direction::Send, &mut memory_b, 0, (32, 32), &mut slots_b).unwrap();
        b.release(a.take().unwrap());
    }

    #[test]
    fn layouts_that_do_not_fit_are_refused() {
        let (mut memory, mut slots) = (vec![0; 100], vec![PoolSlot::default(); 2]);
        assert!(matches!(
            Pool::new(Direction::Send, &mut memory, 0, (64, 64), &mut slots),
            Err(PoolError::Memory { .. })
        ));
        assert!(matches!(
            Pool::new(Direction::Send, &mut memory, 0, (64, 32), &mut slots),
            Err(PoolError::Stride { .. })
        ));
        assert!(matches!(
            Pool::new(Direction::Send, &mut memory, 0, (0, 32), &mut slots),
            Err(PoolError::Stride { .. })
        ));
        assert!(matches!(Pool::new(Direction::Send, &mut memory, 0, (8, 8), &mut []), Err(PoolError::Buffers { .. })));
    }
}
