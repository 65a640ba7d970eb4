//! The sending half of a connection: a queue of posted sends, and the ring it is launched into.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering, fence};

use spinwire_core::fabric::{Batch, Completion, Outcome, SendWr, WcStatus};
use spinwire_core::id::WorkId;

use super::hook::{self, Point};
use super::layout::Geometry;
use super::local::LocalMemory;
use super::receiver::Lie;
use super::slot::{self, INLINE_MAX};
use super::word::{ACK_MASK, Body, Word};

/// Sends in posting order. A send is queued until the ring has room, launched while its descriptors lie there, and done
/// once the peer has taken the last of them: that is what an acknowledgement means on a reliable connection.
#[repr(C)]
pub(super) struct Sender {
    /// Our own segment; it outlives this.
    base: NonNull<u8>,
    /// Descriptors published.
    sent: u64,
    /// Where in the segment the next one goes, and its phase bit: what [`Geometry`] says of `sent`.
    slot_at: u32,
    phase: bool,
    /// Of these, taken by the peer.
    acked: u64,
    /// A ring of as many entries as the engine has send slots.
    queue: Box<[Entry]>,
    posted: u32,
    launched: u32,
    completed: u32,
    geometry: Geometry,
    /// Bytes of the next send that went into the ring already.
    progress: u32,
    /// The peer reads the arena: a long message is not copied here.
    lends: bool,
}

#[derive(Clone, Copy)]
struct Entry {
    wr_id: WorkId,
    offset: u64,
    len: u32,
    imm: Option<u32>,
    signaled: bool,
    /// One past its last descriptor.
    end: u64,
}

impl Sender {
    /// `base` begins a segment of this geometry that this process made and that outlives the sender.
    pub(super) fn new(geometry: Geometry, base: NonNull<u8>, send_slots: u32) -> Self {
        let empty = Entry { wr_id: WorkId::from_bits(0), offset: 0, len: 0, imm: None, signaled: false, end: 0 };
        let queue = vec![empty; send_slots.next_power_of_two() as usize].into();
        Self {
            geometry,
            base,
            slot_at: geometry.slot(0) as u32,
            phase: geometry.phase(0),
            sent: 0,
            acked: 0,
            queue,
            posted: 0,
            launched: 0,
            completed: 0,
            progress: 0,
            lends: false,
        }
    }

    /// From now on the peer reads long messages where they are: the arena that sends are posted from was lent to it.
    pub(super) fn lend(&mut self) {
        self.lends = true;
    }

    /// A send is likely to be posted soon, about as long as the last message that came: see [`slot::prefetch_for_writing`].
    #[inline]
    pub(super) fn expect(&self, wide: bool) {
        // SAFETY: a slot of our own segment.
        unsafe { slot::prefetch_for_writing(self.slot(), wide) };
    }

    /// Asks for the entry of the send that is posted next.
    #[inline]
    pub(super) fn prefetch(&self) {
        slot::prefetch(self.queue.as_ptr().wrapping_add(self.posted as usize & (self.queue.len() - 1)));
    }

    /// Queues a send; the errno if it cannot be: the queue is full, or the message too long for the geometry. A short one
    /// is written into the ring at once, if nothing is before it and there is room, and carries `consumed`: on `None` it is not.
    /// Tells whether it was.
    #[inline(always)]
    pub(super) fn post(&mut self, wr: &SendWr, local: &LocalMemory<'_>, consumed: Option<u64>) -> Result<bool, i32> {
        if self.posted.wrapping_sub(self.completed) as usize == self.queue.len() {
            return Err(libc::ENOMEM);
        }
        let is_short = wr.len as usize <= INLINE_MAX;
        if !is_short && self.geometry.chunk_bytes() == 0 {
            return Err(libc::EMSGSIZE);
        }
        let buffers = local.buffers();
        let (offset, len) = match &wr.buf {
            Some(lease) => {
                assert!(wr.len <= buffers.capacity(lease), "a send is longer than its buffer");
                (buffers.offset(lease), wr.len)
            }
            None => (0, 0),
        };
        let mut is_launched = false;
        let mut entry = Entry { wr_id: wr.wr_id, offset, len, imm: wr.imm, signaled: wr.signaled, end: 0 };
        if let Some(consumed) = consumed
            && is_short
            && !self.is_waiting()
            && self.has_room()
        {
            self.write_short(&entry, local, consumed);
            entry.end = self.sent;
            self.launched = self.launched.wrapping_add(1);
            is_launched = true;
        }
        let mask = self.queue.len() - 1;
        self.queue[self.posted as usize & mask] = entry;
        self.posted = self.posted.wrapping_add(1);
        Ok(is_launched)
    }

    /// Writes queued sends into the ring as far as there is room; each carries `consumed`.
    pub(super) fn launch(&mut self, local: &LocalMemory<'_>, consumed: u64) {
        let mask = self.queue.len() - 1;
        while self.is_waiting() && self.has_room() {
            let at = self.launched as usize & mask;
            let entry = self.queue[at];
            let Entry { offset, len, imm, .. } = entry;
            let whole = if len as usize <= INLINE_MAX {
                self.write_short(&entry, local, consumed);
                true
            } else if self.lends && self.progress == 0 {
                // SAFETY: the two words behind the first of a slot of our own.
                unsafe { self.slot().add(8).cast::<[u64; 2]>().write([offset, len.into()]) };
                self.publish(Body::Lent, imm, consumed);
                true
            } else {
                self.write_chunk(local.address(offset, len), len);
                self.publish(Body::Chunk, imm, consumed);
                hook::reach(Point::Part);
                self.progress == len
            };
            if whole {
                self.queue[at].end = self.sent;
                self.launched = self.launched.wrapping_add(1);
                self.progress = 0;
            }
        }
    }

    /// Whether the next slot is free: the peer has taken what it held.
    #[inline]
    fn has_room(&self) -> bool {
        self.sent - self.acked < u64::from(self.geometry.slots())
    }

    /// The next slot, which is free when there [is room](Self::has_room).
    #[inline]
    fn slot(&self) -> *mut u8 {
        // SAFETY: inside our own segment, which outlives this: the offset comes from our own numbers.
        unsafe { self.base.as_ptr().add(self.slot_at as usize) }
    }

    /// Writes a message of at most [`INLINE_MAX`] bytes into the next slot, which is free.
    #[inline(always)]
    fn write_short(&mut self, entry: &Entry, local: &LocalMemory<'_>, consumed: u64) {
        let from = local.address(entry.offset, entry.len).cast_const();
        debug_assert!(entry.len as usize <= INLINE_MAX);
        // SAFETY: a leased buffer of `len` bytes that nobody writes while it is lent; a slot of our own.
        unsafe { slot::write_inline(self.slot(), from, entry.len as usize) };
        self.publish(Body::Inline(entry.len), entry.imm, consumed);
    }

    #[inline(always)]
    fn publish(&mut self, body: Body, imm: Option<u32>, consumed: u64) {
        let word = Word::new(self.phase, body, imm, consumed as u32);
        hook::reach(if matches!(body, Body::Chunk) { Point::Chunk } else { Point::Word });
        // SAFETY: a slot of our own segment.
        unsafe { slot::store(self.slot(), word) };
        self.sent += 1;
        let next = self.sent as u32;
        (self.slot_at, self.phase) = (self.geometry.slot(next) as u32, self.geometry.phase(next));
    }

    /// Writes the next part of a message of `len` bytes into the chunk of the next slot.
    fn write_chunk(&mut self, from: *const u8, len: u32) {
        let part = (len - self.progress).min(self.geometry.chunk_bytes());
        // SAFETY: `progress + part <= len`, inside the leased buffer; the chunk belongs to the free slot `sent` and has
        // `chunk_bytes`. The two words behind the slot's first are ours to write.
        unsafe {
            let chunk = self.base.as_ptr().add(self.geometry.chunk(self.sent as u32));
            chunk.copy_from_nonoverlapping(from.add(self.progress as usize), part as usize);
            self.slot().add(8).cast::<u64>().write(u64::from(len) << 32 | u64::from(part));
        }
        self.progress += part;
    }

    /// The peer says with an answer how many descriptors it has taken (low 20 bits). The answer may be older than what its
    /// counter has said, but no more than a ring is long: each answer is read, in order.
    #[inline]
    pub(super) fn on_answer(&mut self, consumed: u32) -> Result<(), Lie> {
        let more = consumed.wrapping_sub(self.acked as u32) & ACK_MASK;
        // Older: less than nothing. The ring is far smaller than half the range.
        if more > ACK_MASK / 2 { Ok(()) } else { self.take_off(more.into()) }
    }

    /// The peer says the same by its counter, in full: it may be older by any number of answers.
    #[inline]
    pub(super) fn on_counter(&mut self, consumed: u64) -> Result<(), Lie> {
        self.take_off(consumed.saturating_sub(self.acked))
    }

    /// The peer has taken so many more.
    #[inline]
    fn take_off(&mut self, more: u64) -> Result<(), Lie> {
        if more > self.sent - self.acked {
            return Err(Lie::Acknowledgement);
        }
        self.acked += more;
        Ok(())
    }

    /// Descriptors published.
    #[inline]
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Descriptors that the peer has taken.
    #[inline]
    pub(super) fn acked(&self) -> u64 {
        self.acked
    }

    /// Whether something was posted that is not done.
    #[inline]
    pub(super) fn is_busy(&self) -> bool {
        self.completed != self.posted
    }

    /// Whether something waits for room in the ring.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.launched != self.posted
    }

    /// Whether the oldest send waits for the peer.
    #[inline]
    pub(super) fn waits_for_ack(&self) -> bool {
        self.acked != self.sent
    }

    /// Reports what is done, as far as `out` has room.
    #[inline]
    pub(super) fn complete(&mut self, out: &mut Batch, qp_num: u32) {
        let mask = self.queue.len() - 1;
        while self.completed != self.launched {
            let entry = &self.queue[self.completed as usize & mask];
            if entry.end > self.acked {
                return;
            }
            if entry.signaled {
                let outcome = Outcome::Done { bytes: 0, imm: None };
                if out.push(Completion { wr_id: entry.wr_id, qp_num, outcome }).is_err() {
                    return;
                }
            }
            self.completed = self.completed.wrapping_add(1);
        }
    }

    /// Says that lent buffers may be used again, before they are: what the peer has not taken by then it does not take.
    #[cold]
    fn revoke(&mut self) {
        if self.lends && self.completed != self.launched {
            // SAFETY: inside our own segment, which outlives this, and aligned; the peer only reads it.
            let revoked = unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(self.geometry.revoked()).cast()) };
            revoked.store(1, Ordering::Relaxed);
            // V1, pairs with V2: who has read what a buffer is used for next sees that it was revoked.
            fence(Ordering::SeqCst);
        }
    }

    /// Reports everything posted as flushed, as far as `out` has room: the connection is over.
    pub(super) fn flush(&mut self, out: &mut Batch, qp_num: u32) {
        self.revoke();
        let mask = self.queue.len() - 1;
        while self.is_busy() {
            let wr_id = self.queue[self.completed as usize & mask].wr_id;
            let outcome = Outcome::Failed { status: WcStatus::WR_FLUSH_ERR, vendor: 0 };
            if out.push(Completion { wr_id, qp_num, outcome }).is_err() {
                return;
            }
            self.completed = self.completed.wrapping_add(1);
        }
        self.launched = self.posted;
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.revoke();
    }
}
