//! The sends of one connection, from the application's call to the completion that retires them.
//!
//! One ring of work requests with four free-running counters:
//!
//! ```text
//!      retired        posted         cleared        tail
//!         |  in flight   |    ready     |   waiting    |   free ...
//! ```
//!
//! A send is cleared when it has what it needs to go out, a credit of the peer's; those that wait for one wait in order.
//!
//! A signalled completion retires everything up to its own sequence number, for the device completes in order. A failed
//! completion does the same: what failed before it has shown a completion of its own. Unsignalled sends that succeeded
//! show none, so nothing here ever waits for each send by itself.

mod answer;
mod retire;

pub use retire::Others;

use crate::fabric::SendWr;
use crate::id::WorkId;
use crate::pool::Direction;

/// One connection's ring: where it lies, and its counters. The slots of all rings live elsewhere and are passed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendQueue {
    /// Its first slot, and the number of its slots less one.
    base: u32,
    mask: u32,
    retired: u32,
    posted: u32,
    cleared: u32,
    /// Sends between `cleared` and the tail: none, most of the time.
    waiting: u32,
    /// Every n-th send is signalled.
    signal_every: u32,
    /// Sends until the next signalled one, that one included.
    until_signal: u32,
    /// The application's sends that are not retired.
    app: u32,
    /// Control messages that are not retired.
    control: u32,
}

impl SendQueue {
    /// A ring of `len` slots, a power of two, from slot `base` on, whose counters start at `start`; tests start them near the
    /// wrap.
    pub const fn new(base: u32, len: u32, start: u32) -> Self {
        debug_assert!(len.is_power_of_two());
        Self {
            base,
            mask: len - 1,
            retired: start,
            posted: start,
            cleared: start,
            waiting: 0,
            signal_every: 1,
            until_signal: 1,
            app: 0,
            control: 0,
        }
    }

    /// Sends that are not posted yet.
    pub const fn gathered(&self) -> u32 {
        self.tail().wrapping_sub(self.posted)
    }

    /// Sends that go out with the next flush.
    #[inline]
    pub const fn ready(&self) -> u32 {
        self.cleared.wrapping_sub(self.posted)
    }

    /// Sends that wait for a credit.
    #[inline]
    pub const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Sends the device has.
    pub const fn in_flight(&self) -> u32 {
        self.posted.wrapping_sub(self.retired)
    }

    /// Slots in use.
    pub const fn occupied(&self) -> u32 {
        self.tail().wrapping_sub(self.retired)
    }

    /// The application's sends that are not retired.
    pub const fn app(&self) -> u32 {
        self.app
    }

    /// Control messages that are not retired.
    pub const fn control(&self) -> u32 {
        self.control
    }

    /// Answers in place that are not retired.
    pub const fn answers(&self) -> u32 {
        self.occupied() - self.app - self.control
    }

    /// The sequence number that is given out next.
    #[inline]
    const fn tail(&self) -> u32 {
        self.cleared.wrapping_add(self.waiting)
    }

    /// The sequence number of the send that is cleared next.
    pub const fn clear_seq(&self) -> u32 {
        self.cleared
    }

    /// The oldest send that waits.
    #[inline]
    pub fn next_waiting<'r>(&self, rings: &'r mut [SendWr]) -> Option<&'r mut SendWr> {
        if self.waiting() == 0 { None } else { Some(&mut rings[self.slot(self.cleared)]) }
    }

    /// Queues a send behind the others.
    ///
    /// # Panics
    /// The ring is full. Its size is the sum of what each kind of sender may queue, and each is checked before.
    #[inline]
    pub fn push(&mut self, rings: &mut [SendWr], wr: SendWr) {
        assert!(self.occupied() <= self.mask, "a send queue took more than its slots");
        self.app += u32::from(wr.is_app());
        self.control += u32::from(wr.buf.is_none());
        rings[self.slot(self.tail())] = wr;
        self.waiting += 1;
    }

    /// Queues a send before all that wait: a credit update must not wait behind data that waits for credits. Moves each of
    /// those by one.
    ///
    /// # Panics
    /// As [`SendQueue::push`].
    pub fn push_front(&mut self, rings: &mut [SendWr], wr: SendWr) {
        self.push(rings, wr);
        let mut seq = self.tail().wrapping_sub(1);
        while seq != self.cleared {
            let before = seq.wrapping_sub(1);
            rings.swap(self.slot(seq), self.slot(before));
            seq = before;
        }
    }

    /// From the next send on, every `n`-th is signalled; `n` is at least 1.
    pub const fn signal_every(&mut self, n: u32) {
        (self.signal_every, self.until_signal) = (n, n);
    }

    /// Clears the oldest send that waits; there is one. Returns whether it is signalled: every n-th is, and each that `must`.
    #[inline]
    pub const fn clear(&mut self, must: bool) -> bool {
        self.waiting -= 1;
        self.cleared = self.cleared.wrapping_add(1);
        self.signals(must)
    }

    /// Counts a send that was cleared. Returns whether it is signalled.
    #[inline(always)]
    pub(crate) const fn signals(&mut self, must: bool) -> bool {
        self.until_signal -= 1;
        if self.until_signal > 0 && !must {
            return false;
        }
        self.until_signal = self.signal_every;
        true
    }

    /// The first of those that are ready. There is one.
    #[inline]
    pub(crate) fn next_ready<'r>(&self, rings: &'r mut [SendWr]) -> &'r mut SendWr {
        debug_assert!(self.ready() > 0);
        &mut rings[self.slot(self.posted)]
    }

    /// The sends that are ready, unless they lie at both ends of the ring.
    #[inline]
    pub(crate) fn whole_chain<'r>(&self, rings: &'r [SendWr]) -> Option<&'r [SendWr]> {
        let (start, count) = (self.posted & self.mask, self.ready());
        if start + count > self.mask + 1 { None } else { Some(&rings[self.slot(self.posted)..][..count as usize]) }
    }

    /// The sends that are ready, as one or two slices.
    #[inline]
    pub fn chain<'r>(&self, rings: &'r mut [SendWr]) -> (&'r mut [SendWr], &'r mut [SendWr]) {
        self.part(rings, self.posted, self.ready())
    }

    /// The device took `count` of them.
    #[inline]
    pub fn advance(&mut self, count: u32) {
        debug_assert!(count <= self.ready());
        self.posted = self.posted.wrapping_add(count);
    }

    /// The `count` slots from sequence number `seq` on, as one or two slices.
    #[inline]
    fn part<'r>(&self, rings: &'r mut [SendWr], seq: u32, count: u32) -> (&'r mut [SendWr], &'r mut [SendWr]) {
        let start = seq & self.mask;
        let end = start + count;
        if end <= self.mask + 1 {
            return (&mut rings[(self.base + start) as usize..(self.base + end) as usize], &mut []);
        }
        let (low, high) = rings[self.base as usize..][..=self.mask as usize].split_at_mut(start as usize);
        (high, &mut low[..(end - self.mask - 1) as usize])
    }

    /// Where sequence number `seq` has its slot: the length is a power of two, so the counters may wrap freely.
    #[inline]
    const fn slot(&self, seq: u32) -> usize {
        (self.base + (seq & self.mask)) as usize
    }
}

impl SendWr {
    /// Nothing: what an unused slot of a ring holds.
    pub const EMPTY: SendWr = SendWr { wr_id: WorkId::from_bits(0), imm: None, buf: None, len: 0, signaled: false };

    /// Whether it counts against the application's slots: answers in place and control messages do not.
    fn is_app(&self) -> bool {
        self.buf.as_ref().is_some_and(|buf| buf.from() == Direction::Send)
    }
}

#[cfg(test)]
mod tests;
