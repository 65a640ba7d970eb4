//! The one-sided operations of one connection, from the application's call to their completion.
//!
//! One ring with three free-running counters. Every operation is signalled, and a device completes in order, so
//! operations leave it one by one from its end:
//!
//! ```text
//!       done          posted         tail
//!         |  in flight   |  gathered   |   free ...
//! ```

use crate::fabric::OneSidedWr;
use crate::id::{INDEX_MASK, WorkId};

/// Counters of one connection's ring. The ring's slots live elsewhere and are passed in; their number is a power of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpQueue {
    done: u32,
    posted: u32,
    tail: u32,
    /// Reads and atomics among those that are not done.
    reads: u32,
    /// As many of them as there may be.
    reads_max: u32,
}

impl OpQueue {
    /// A ring whose counters start at `start`; tests start them near the wrap.
    pub const fn starting_at(start: u32) -> Self {
        Self { done: start, posted: start, tail: start, reads: 0, reads_max: 0 }
    }

    /// A connection comes up that may have so many reads and atomics under way.
    pub(crate) fn open(&mut self, reads_max: u32) {
        debug_assert!(self.outstanding() == 0 && self.reads == 0);
        self.reads_max = reads_max;
    }

    /// Reads and atomics that the connection may have under way.
    pub const fn reads_max(&self) -> u32 {
        self.reads_max
    }

    /// Operations that are not done.
    pub const fn outstanding(&self) -> u32 {
        self.tail.wrapping_sub(self.done)
    }

    /// Operations that are not posted yet.
    pub const fn gathered(&self) -> u32 {
        self.tail.wrapping_sub(self.posted)
    }

    /// Operations the device has.
    pub const fn in_flight(&self) -> u32 {
        self.posted.wrapping_sub(self.done)
    }

    /// Queues an operation, which is numbered after `work`.
    ///
    /// # Panics
    /// The ring is full.
    pub fn push(&mut self, ring: &mut [OneSidedWr], work: WorkId, wr: OneSidedWr) {
        assert!((self.outstanding() as usize) < ring.len(), "one-sided operations beyond their slots");
        self.reads += u32::from(wr.op.brings());
        let at = slot(self.tail, ring.len());
        ring[at] = OneSidedWr { wr_id: work.with_index(self.tail), ..wr };
        self.tail = self.tail.wrapping_add(1);
    }

    /// Whether another read or atomic may be queued. Those that are not done are counted, not those the device has: so
    /// whatever is queued can be posted, and nothing that is behind it has to wait.
    pub const fn takes_read(&self) -> bool {
        self.reads < self.reads_max
    }

    /// What is not posted yet, as far as it lies side by side.
    pub fn chain<'r>(&self, ring: &'r [OneSidedWr]) -> &'r [OneSidedWr] {
        if self.gathered() == 0 {
            return &[];
        }
        let start = slot(self.posted, ring.len());
        &ring[start..(start + self.gathered() as usize).min(ring.len())]
    }

    /// The device took the oldest `count` of those.
    pub fn advance(&mut self, count: u32) {
        debug_assert!(count <= self.gathered());
        self.posted = self.posted.wrapping_add(count);
    }

    /// Whether a completion with sequence bits `index` is that of the oldest operation the device has.
    pub const fn is_next(&self, index: u32) -> bool {
        self.in_flight() > 0 && (index ^ self.done) & INDEX_MASK == 0
    }

    /// Takes the oldest operation out, wherever it is on its way; `None` when there is none.
    pub fn pop(&mut self, ring: &mut [OneSidedWr]) -> Option<OneSidedWr> {
        if self.outstanding() == 0 {
            return None;
        }
        let at = slot(self.done, ring.len());
        let wr = core::mem::replace(&mut ring[at], OneSidedWr::EMPTY);
        self.reads -= u32::from(wr.op.brings());
        if self.in_flight() == 0 {
            self.posted = self.posted.wrapping_add(1);
        }
        self.done = self.done.wrapping_add(1);
        Some(wr)
    }
}

/// `len` is a power of two, so the counters may wrap freely.
fn slot(seq: u32, len: usize) -> usize {
    debug_assert!(len.is_power_of_two());
    seq as usize & (len - 1)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::fabric::OneSidedOp;
    use crate::testing::Random;
    use std::collections::VecDeque;
    use std::vec::Vec;

    /// Against a list, over the wrap of the counters: order, the budget of reads, and which completion is the next.
    #[test]
    fn it_behaves_as_a_list() {
        for (len, reads_max) in [(1, 1), (2, 1), (8, 3), (16, 16)] {
            let mut ring: Vec<_> = (0..len).map(|_| OneSidedWr::EMPTY).collect();
            let mut queue = OpQueue::starting_at(u32::MAX - 1_000);
            queue.open(reads_max);
            let (mut gathered, mut flying) = (VecDeque::new(), VecDeque::new());
            let mut random = Random::new(len as u64);
            for user in 0..if cfg!(miri) { 500 } else { 20_000_u64 } {
                match random.below(3) {
                    0 if (queue.outstanding() as usize) < len => {
                        let reads = random.below(2) == 0 && queue.takes_read();
                        let op = if reads { OneSidedOp::Read } else { OneSidedOp::Write };
                        let work = WorkId::from_bits(0);
                        queue.push(&mut ring, work, OneSidedWr { op, user, ..OneSidedWr::EMPTY });
                        gathered.push_back((user, op));
                        let all = gathered.iter().map(|(_, op)| op).chain(flying.iter().map(|(_, op, _)| op));
                        assert!(all.filter(|op| op.brings()).count() <= reads_max as usize);
                    }
                    1 => {
                        let chain: Vec<_> = queue.chain(&ring).iter().map(|wr| (wr.user, wr.op, wr.wr_id)).collect();
                        assert_eq!(chain.is_empty(), gathered.is_empty());
                        let taken = random.below(chain.len() as u64 + 1) as usize;
                        queue.advance(taken as u32);
                        for (user, op, wr_id) in chain.into_iter().take(taken) {
                            assert_eq!(gathered.pop_front(), Some((user, op)));
                            flying.push_back((user, op, wr_id));
                        }
                    }
                    _ => {
                        if let Some(&(user, _, wr_id)) = flying.front() {
                            assert!(queue.is_next(wr_id.index()) && !queue.is_next(wr_id.index() ^ 1));
                            assert_eq!(queue.pop(&mut ring).map(|wr| wr.user), Some(user));
                            flying.pop_front();
                        }
                    }
                }
                assert_eq!(queue.in_flight() as usize, flying.len());
                assert_eq!(queue.gathered() as usize, gathered.len());
            }
            while let Some(wr) = queue.pop(&mut ring) {
                let oldest = flying.pop_front().map(|(user, ..)| user).or_else(|| gathered.pop_front().map(|op| op.0));
                assert_eq!(Some(wr.user), oldest, "at the end everything comes back, in order");
            }
            assert!(flying.is_empty() && gathered.is_empty());
        }
    }
}
