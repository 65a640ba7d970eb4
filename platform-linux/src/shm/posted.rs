//! The receives posted on a connection.

use spinwire_core::fabric::RecvWr;
use spinwire_core::id::WorkId;

use super::local::LocalMemory;
use super::slot;

/// A posted receive: into a whole buffer of the receive pool, all of which are as long.
#[derive(Clone, Copy)]
pub(super) struct Receive {
    pub(super) wr_id: WorkId,
    pub(super) to: *mut u8,
}

/// Posted receives. A message takes the one that was posted last: its buffer is the warmest, and a connection that has
/// little under way goes on in few of them, however many are posted. (Receives are all alike, and nobody asks which is
/// used.)
pub(super) struct Posted {
    stack: Box<[Receive]>,
    len: u32,
    /// The last one has a part of a message, so it stays the last until it has all of it.
    is_begun: bool,
}

impl Posted {
    pub(super) fn new(recv_posted: u32) -> Self {
        let empty = Receive { wr_id: WorkId::from_bits(0), to: core::ptr::null_mut() };
        Self { stack: vec![empty; recv_posted as usize].into(), len: 0, is_begun: false }
    }

    /// Adds one; `false` when there are as many as there can be.
    #[inline(always)]
    pub(super) fn post(&mut self, wr: &RecvWr, local: &LocalMemory<'_>) -> bool {
        if self.len as usize == self.stack.len() {
            return false;
        }
        self.stack[self.len as usize] = Receive { wr_id: wr.wr_id(), to: local.receive(wr) };
        if self.is_begun {
            self.stack.swap(self.len as usize - 1, self.len as usize);
        }
        self.len += 1;
        true
    }

    /// The one that the next message goes into.
    #[inline]
    pub(super) fn next(&self) -> Option<Receive> {
        self.stack.get((self.len as usize).wrapping_sub(1)).copied()
    }

    /// A part of a message went into that one, and the rest follows.
    pub(super) fn begin(&mut self) {
        self.is_begun = true;
    }

    /// Asks for the entry of that one.
    #[inline]
    pub(super) fn prefetch(&self) {
        slot::prefetch(self.stack.as_ptr().wrapping_add(self.len as usize).wrapping_sub(1));
    }

    /// Takes that one out; it must be there.
    #[inline]
    pub(super) fn pop(&mut self) {
        debug_assert_ne!(self.len, 0);
        self.len -= 1;
        self.is_begun = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::{Arena, ArenaConfig};
    use spinwire_core::fabric::BufferMap;
    use spinwire_core::pool::{Direction, Pool, PoolSlot};

    #[test]
    fn a_receive_that_is_begun_stays_the_next_and_else_the_last_one_is() {
        let mut arena = Arena::allocate(&ArenaConfig { bytes: 4 * 128, ..ArenaConfig::default() }).unwrap();
        let (mut local, memory) = LocalMemory::split(&mut arena);
        let mut slots = [PoolSlot::default(); 4];
        let mut pool = Pool::new(Direction::Recv, memory, 0, (64, 128), &mut slots).unwrap();
        local.prepare(&BufferMap { recv: pool.layout(), send: pool.layout(), inline_bytes_max: 0 });
        let mut chain = [const { RecvWr::EMPTY }; 4];
        assert_eq!(pool.lend_receives(WorkId::from_bits(1), &mut chain), 4);
        let mut posted = Posted::new(3);
        let next = |posted: &Posted| posted.next().map(|receive| receive.wr_id);
        assert!(next(&posted).is_none());
        assert!(posted.post(&chain[0], &local) && posted.post(&chain[1], &local));
        assert_eq!(next(&posted), Some(chain[1].wr_id()));
        posted.begin();
        assert!(posted.post(&chain[2], &local) && !posted.post(&chain[3], &local));
        assert_eq!(next(&posted), Some(chain[1].wr_id()), "the rest of its message is to come");
        posted.pop();
        assert_eq!(next(&posted), Some(chain[2].wr_id()));
        assert!(posted.post(&chain[3], &local));
        assert_eq!(next(&posted), Some(chain[3].wr_id()));
    }
}
