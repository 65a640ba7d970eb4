//! The sends of one connection, from the application's call to the completion that retires them.
//!
//! One ring of work requests with three free-running counters:
//!
//! ```text
//!      retired          posted             tail
//!         |   in flight    |    gathered    |   free ...
//! ```
//!
//! A signalled completion retires everything up to its own sequence number, for the device completes in order. A failed
//! completion does the same: what failed before it has shown a completion of its own. Unsignalled sends that succeeded
//! show none, so nothing here ever waits for each send by itself.

use crate::fabric::SendWr;
use crate::id::{INDEX_MASK, WorkId};
use crate::pool::Direction;

/// Counters of one connection's ring. The ring's slots live elsewhere and are passed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendQueue {
    retired: u32,
    posted: u32,
    tail: u32,
    /// Sends since the last signalled one.
    unsignaled: u32,
    /// The application's sends that are not retired.
    app: u32,
    /// Control messages that are not retired.
    control: u32,
}

impl SendQueue {
    /// A ring whose counters start at `start`; tests start them near the wrap.
    pub const fn starting_at(start: u32) -> Self {
        Self { retired: start, posted: start, tail: start, unsignaled: 0, app: 0, control: 0 }
    }

    /// Sends that wait for the flush.
    pub const fn gathered(&self) -> u32 {
        self.tail.wrapping_sub(self.posted)
    }

    /// Sends the device has.
    pub const fn in_flight(&self) -> u32 {
        self.posted.wrapping_sub(self.retired)
    }

    /// Slots in use.
    pub const fn occupied(&self) -> u32 {
        self.tail.wrapping_sub(self.retired)
    }

    /// The application's sends that are not retired.
    pub const fn app(&self) -> u32 {
        self.app
    }

    /// Control messages that are not retired.
    pub const fn control(&self) -> u32 {
        self.control
    }

    /// The sequence number of the oldest gathered send.
    pub const fn post_seq(&self) -> u32 {
        self.posted
    }

    /// Queues a send behind the others.
    ///
    /// # Panics
    /// The ring is full. Its size is the sum of what each kind of sender may queue, and each is checked before.
    #[inline]
    pub fn push(&mut self, ring: &mut [SendWr], wr: SendWr) {
        assert!((self.occupied() as usize) < ring.len(), "a send queue took more than its slots");
        self.app += u32::from(wr.is_app());
        self.control += u32::from(wr.buf.is_none());
        ring[slot(self.tail, ring.len())] = wr;
        self.tail = self.tail.wrapping_add(1);
    }

    /// Queues a send before all that are gathered: a credit update must not wait behind data that waits for credits.
    /// Moves each gathered send by one.
    ///
    /// # Panics
    /// As [`SendQueue::push`].
    pub fn push_front(&mut self, ring: &mut [SendWr], wr: SendWr) {
        self.push(ring, wr);
        let mut seq = self.tail.wrapping_sub(1);
        while seq != self.posted {
            let before = seq.wrapping_sub(1);
            ring.swap(slot(seq, ring.len()), slot(before, ring.len()));
            seq = before;
        }
    }

    /// Whether the send that is posted next is signalled: every `signal_every`-th, and each that `must`.
    #[inline]
    pub fn signal(&mut self, must: bool, signal_every: u32) -> bool {
        self.unsignaled += 1;
        let signaled = must || self.unsignaled >= signal_every;
        if signaled {
            self.unsignaled = 0;
        }
        signaled
    }

    /// The first `count` gathered sends, as one or two slices.
    ///
    /// # Panics
    /// There are not that many.
    #[inline]
    pub fn chain<'r>(&self, ring: &'r mut [SendWr], count: u32) -> (&'r mut [SendWr], &'r mut [SendWr]) {
        assert!(count <= self.gathered());
        let start = slot(self.posted, ring.len());
        let first = (ring.len() - start).min(count as usize);
        let (low, high) = ring.split_at_mut(start);
        (&mut high[..first], &mut low[..count as usize - first])
    }

    /// The device took `count` of them.
    #[inline]
    pub fn advance(&mut self, count: u32) {
        debug_assert!(count <= self.gathered());
        self.posted = self.posted.wrapping_add(count);
    }

    /// How many sends a completion with sequence bits `index` retires: it and all before it. `None` when no such send is
    /// in flight.
    #[inline]
    pub fn retired_by(&self, index: u32) -> Option<u32> {
        let count = (index.wrapping_sub(self.retired) & INDEX_MASK) + 1;
        (count <= self.in_flight()).then_some(count)
    }

    /// Whether the send with sequence number `seq` is retired: the device has confirmed it.
    pub const fn is_retired(&self, seq: u32) -> bool {
        // Within half the range of what is in the ring.
        self.retired.wrapping_sub(seq).wrapping_sub(1) < u32::MAX / 2
    }

    /// Takes the oldest send out of the ring.
    ///
    /// # Panics
    /// The ring is empty.
    #[inline]
    pub fn pop(&mut self, ring: &mut [SendWr]) -> SendWr {
        assert!(self.occupied() > 0);
        let wr = core::mem::replace(&mut ring[slot(self.retired, ring.len())], SendWr::EMPTY);
        if self.in_flight() == 0 {
            self.posted = self.posted.wrapping_add(1);
        }
        self.retired = self.retired.wrapping_add(1);
        self.app -= u32::from(wr.is_app());
        self.control -= u32::from(wr.buf.is_none());
        wr
    }
}

impl SendWr {
    /// Nothing: what an unused slot of a ring holds.
    pub const EMPTY: SendWr =
        SendWr { wr_id: WorkId::from_bits(0), buf: None, len: 0, imm: None, signaled: false, inline: false };

    /// Whether it counts against the application's slots: answers in place and control messages do not.
    fn is_app(&self) -> bool {
        self.buf.as_ref().is_some_and(|buf| buf.from() == Direction::Send)
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
    use crate::testing::Random;
    use std::collections::VecDeque;
    use std::vec::Vec;

    fn ring(len: usize) -> Vec<SendWr> {
        core::iter::repeat_with(|| SendWr::EMPTY).take(len).collect()
    }

    /// Random pushes, flushes and completions against a plain queue, with the counters started near their wrap and
    /// completions that arrive late, each retiring all before it.
    #[test]
    fn agrees_with_a_model_over_the_wrap() {
        for (seed, len) in [1usize, 2, 8, 64].into_iter().enumerate() {
            let mut random = Random::new(seed as u64);
            let (mut queue, mut ring) = (SendQueue::starting_at(u32::MAX - 500), ring(len));
            let mut model: VecDeque<(u32, bool)> = VecDeque::new();
            let mut flown = 0usize;
            for _ in 0..200_000 {
                match random.below(3) {
                    0 if model.len() < len => {
                        let wr = SendWr { len: random.next() as u32, ..SendWr::EMPTY };
                        if random.below(8) == 0 {
                            model.insert(flown, (wr.len, false));
                            queue.push_front(&mut ring, wr);
                        } else {
                            model.push_back((wr.len, false));
                            queue.push(&mut ring, wr);
                        }
                    }
                    1 => {
                        let count = random.below(queue.gathered() as u64 + 1) as u32;
                        let (first, second) = queue.chain(&mut ring, count);
                        let tags: Vec<_> = first.iter().chain(second.iter()).map(|wr| wr.len).collect();
                        let expected: Vec<_> =
                            model.iter().skip(flown).take(count as usize).map(|entry| entry.0).collect();
                        assert_eq!(tags, expected);
                        for entry in model.iter_mut().skip(flown).take(count as usize) {
                            entry.1 = queue.signal(random.below(10) == 0, 3);
                        }
                        queue.advance(count);
                        flown += count as usize;
                    }
                    _ => {
                        let signaled: Vec<_> = (0..flown).filter(|&n| model[n].1).collect();
                        if signaled.is_empty() {
                            continue;
                        }
                        let last = signaled[random.below(signaled.len() as u64) as usize];
                        let oldest = queue.post_seq().wrapping_sub(flown as u32);
                        let retires = queue.retired_by(oldest.wrapping_add(last as u32) & INDEX_MASK).unwrap();
                        assert_eq!(retires as usize, last + 1);
                        for _ in 0..retires {
                            assert_eq!(queue.pop(&mut ring).len, model.pop_front().unwrap().0);
                        }
                        flown -= retires as usize;
                    }
                }
                assert_eq!((queue.occupied() as usize, queue.in_flight() as usize), (model.len(), flown));
                // Never more than signal_every - 1 unsignalled sends in a row.
                assert!(model.iter().take(flown).fold(0, |run, entry| if entry.1 { 0 } else { run + 1 }) < 3);
            }
        }
    }

    #[test]
    fn a_completion_of_nothing_in_flight_is_recognised() {
        let (mut queue, mut ring) = (SendQueue::starting_at(10), ring(4));
        assert_eq!(queue.retired_by(10), None);
        queue.push(&mut ring, SendWr::EMPTY);
        assert_eq!(queue.retired_by(10), None, "gathered, not posted");
        queue.advance(1);
        assert_eq!((queue.retired_by(9), queue.retired_by(10), queue.retired_by(11)), (None, Some(1), None));
    }

    #[test]
    #[should_panic(expected = "more than its slots")]
    fn a_full_ring_is_never_overwritten() {
        let (mut queue, mut ring) = (SendQueue::default(), ring(1));
        queue.push(&mut ring, SendWr::EMPTY);
        queue.push(&mut ring, SendWr::EMPTY);
    }
}
