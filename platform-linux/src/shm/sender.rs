//! The sending half of a connection: a queue of posted sends, and the ring it is launched into.

mod done;

use core::ptr::NonNull;

use spinwire_core::fabric::SendWr;
use spinwire_core::id::WorkId;

use super::hook::{self, Point};
use super::layout::{Geometry, Walk};
use super::local::LocalMemory;
use super::slot::{self, INLINE_MAX};
use super::word::{Body, Word};

/// Sends in posting order. A send is queued until the ring has room, launched while its descriptors lie there, and done
/// once the peer has taken the last of them: that is what an acknowledgement means on a reliable connection.
#[repr(C)]
pub(super) struct Sender {
    /// Our own segment; it outlives this.
    base: NonNull<u8>,
    /// Descriptors published.
    sent: u64,
    /// Where the next one goes.
    walk: Walk,
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

/// A send that is not done.
#[derive(Clone, Copy)]
struct Entry {
    wr_id: WorkId,
    /// One past its last descriptor, once it is launched.
    end: u64,
    signaled: bool,
    /// What it is, until it is launched.
    waiting: Waiting,
}

/// A message that is to be launched.
#[derive(Clone, Copy)]
struct Waiting {
    from: *const u8,
    len: u32,
    imm: Option<u32>,
}

impl Sender {
    /// `base` begins a segment of this geometry that this process made and that outlives the sender.
    pub(super) fn new(geometry: Geometry, base: NonNull<u8>, send_slots: u32) -> Self {
        let waiting = Waiting { from: core::ptr::null(), len: 0, imm: None };
        let empty = Entry { wr_id: WorkId::from_bits(0), end: 0, signaled: false, waiting };
        let queue = vec![empty; send_slots.next_power_of_two() as usize].into();
        Self {
            geometry,
            base,
            walk: geometry.walk(),
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
        let (from, len) = local.payload(wr);
        let at = self.posted as usize & (self.queue.len() - 1);
        if let Some(consumed) = consumed
            && len as usize <= INLINE_MAX
            && !self.is_waiting()
            && self.has_room()
        {
            self.write_short(from, len, wr.imm, consumed);
            let entry = &mut self.queue[at];
            (entry.wr_id, entry.end, entry.signaled) = (wr.wr_id, self.sent, wr.signaled);
            self.posted = self.posted.wrapping_add(1);
            self.launched = self.posted;
            return Ok(true);
        }
        if len as usize > INLINE_MAX && self.geometry.chunk_bytes() == 0 {
            return Err(libc::EMSGSIZE);
        }
        let waiting = Waiting { from, len, imm: wr.imm };
        self.queue[at] = Entry { wr_id: wr.wr_id, end: 0, signaled: wr.signaled, waiting };
        self.posted = self.posted.wrapping_add(1);
        Ok(false)
    }

    /// Writes queued sends into the ring as far as there is room; each carries `consumed`.
    pub(super) fn launch(&mut self, local: &LocalMemory<'_>, consumed: u64) {
        let mask = self.queue.len() - 1;
        while self.is_waiting() && self.has_room() {
            let at = self.launched as usize & mask;
            let Waiting { from, len, imm } = self.queue[at].waiting;
            let whole = if len as usize <= INLINE_MAX {
                self.write_short(from, len, imm, consumed);
                true
            } else if self.lends && self.progress == 0 {
                // SAFETY: the two words behind the first of a slot of our own.
                unsafe { self.slot().add(8).cast::<[u64; 2]>().write([local.offset(from), len.into()]) };
                self.publish(Body::Lent, imm, consumed);
                true
            } else {
                self.write_chunk(from, len);
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
        unsafe { self.base.as_ptr().add(self.walk.at as usize) }
    }

    /// Writes a message of at most [`INLINE_MAX`] bytes into the next slot, which is free. The bytes are in a leased buffer,
    /// which nobody writes.
    #[inline(always)]
    fn write_short(&mut self, from: *const u8, len: u32, imm: Option<u32>, consumed: u64) {
        debug_assert!(len as usize <= INLINE_MAX);
        // SAFETY: a leased buffer of `len` bytes that nobody writes while it is lent; a slot of our own.
        unsafe { slot::write_inline(self.slot(), from, len as usize) };
        self.publish(Body::Inline(len), imm, consumed);
    }

    #[inline(always)]
    fn publish(&mut self, body: Body, imm: Option<u32>, consumed: u64) {
        let word = Word::new(self.walk.phase, body, imm, consumed as u32);
        hook::reach(if matches!(body, Body::Chunk) { Point::Chunk } else { Point::Word });
        // SAFETY: a slot of our own segment.
        unsafe { slot::store(self.slot(), word) };
        self.sent += 1;
        self.walk.step(&self.geometry);
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
}
