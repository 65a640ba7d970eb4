//! The receiving half of a connection: the peer's ring, and the receives posted for it.

use core::sync::atomic::{AtomicU64, Ordering};

use spinwire_core::fabric::{RecvWr, WcStatus};
use spinwire_core::id::WorkId;

use super::layout::{CONSUMED_AT, Geometry};
use super::local::LocalMemory;
use super::memory::PeerMemory;
use super::slot::{self, Body, Word};

/// The peer's ring, read. Whatever it says is checked here, in every build, before it is used, and is read once.
pub(super) struct Receiver {
    memory: PeerMemory,
    geometry: Geometry,
    /// Descriptors taken.
    consumed: u64,
    partial: Option<Partial>,
    /// The last message took both lines of its slot: the next one likely does.
    is_wide: bool,
}

/// A message of which some chunks have come.
#[derive(Clone, Copy)]
struct Partial {
    got: u32,
    total: u32,
    imm: Option<u32>,
}

/// What a descriptor brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// A part of a message; nothing to report yet.
    Part,
    /// A message, whole and in the posted buffer.
    Message { bytes: u32, imm: Option<u32> },
    /// A message longer than the posted buffer, of which nothing was copied: the engine names both numbers.
    TooLong { bytes: u32, imm: Option<u32> },
}

/// What a peer wrote that no Spinwire writes. The number is the vendor code of the failed receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lie {
    /// A descriptor with bits that have no meaning.
    Descriptor = 1,
    /// A part of no bytes, longer than its chunk, or beyond its message.
    Length = 2,
    /// Another message in the middle of one.
    Order = 3,
    /// More descriptors taken than were sent.
    Acknowledgement = 4,
}

impl Lie {
    /// How a receive that meets it completes.
    pub(super) const STATUS: WcStatus = WcStatus(7);
}

impl Receiver {
    /// Reads a peer's ring in memory of at least [`Geometry::bytes`].
    pub(super) fn new(memory: PeerMemory, geometry: Geometry) -> Self {
        Self { memory, geometry, consumed: 0, partial: None, is_wide: false }
    }

    /// Descriptors taken so far.
    #[inline]
    pub(super) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The next descriptor's word, if it is there. Cost when it is not: one load.
    #[inline]
    pub(super) fn peek(&self) -> Option<Word> {
        if self.is_wide {
            // SAFETY: a slot of the peer's mapped segment.
            unsafe { slot::prefetch_second_line(self.slot()) };
        }
        // SAFETY: a slot of the peer's mapped segment; the offset comes from our own numbers.
        let word = unsafe { slot::load(self.slot()) };
        (word.phase() == self.geometry.phase(self.consumed as u32)).then_some(word)
    }

    /// How many of our descriptors the peer says it has taken, by its counter.
    #[inline]
    pub(super) fn peer_counter(&self) -> u64 {
        // SAFETY: inside the peer's mapped segment and aligned; read as an atomic, for the peer may write.
        let counter = unsafe { AtomicU64::from_ptr(self.memory.base().as_ptr().add(CONSUMED_AT).cast()) };
        // C2, pairs with C1: what the peer had to read in the slots it has taken, it has read.
        counter.load(Ordering::Acquire)
    }

    /// Takes the descriptor that [`peek`](Self::peek) saw, into the `room` bytes of the arena from `offset`: a posted
    /// receive.
    #[inline]
    pub(super) fn take(&mut self, word: Word, local: &LocalMemory<'_>, receive: &Posted) -> Result<Taken, Lie> {
        let to = local.address(receive.offset, receive.room);
        match word.body().ok_or(Lie::Descriptor)? {
            Body::Inline(bytes) => {
                if self.partial.is_some() {
                    return Err(Lie::Order);
                }
                let imm = word.imm();
                if bytes > receive.room {
                    return Ok(Taken::TooLong { bytes, imm });
                }
                // SAFETY: `bytes` is at most INLINE_MAX (`Word::body`) and the buffer's room, which is lent to us.
                unsafe { slot::read_inline(self.slot(), to, bytes as usize) };
                self.is_wide = bytes as usize > slot::FIRST_LINE_MAX;
                self.consumed += 1;
                Ok(Taken::Message { bytes, imm })
            }
            Body::Chunk => self.take_chunk(word.imm(), to, receive.room),
        }
    }

    fn take_chunk(&mut self, imm: Option<u32>, to: *mut u8, room: u32) -> Result<Taken, Lie> {
        // SAFETY: the first word behind a slot's own.
        let lengths = unsafe { slot::load_word(self.slot(), 0) };
        let (part, total) = (lengths as u32, (lengths >> 32) as u32);
        let Partial { got, total: expected, imm } = self.partial.unwrap_or(Partial { got: 0, total, imm });
        if total != expected {
            return Err(Lie::Order);
        }
        if part == 0 || part > self.geometry.chunk_bytes() || part > total - got {
            return Err(Lie::Length);
        }
        if total > room {
            return Ok(Taken::TooLong { bytes: total, imm });
        }
        // SAFETY: the chunk has `chunk_bytes`, of which `part` are copied; `got + part <= total <= room` of a buffer that
        // is lent to us.
        unsafe {
            let chunk = self.memory.base().as_ptr().add(self.geometry.chunk(self.consumed as u32));
            slot::copy_foreign(chunk, to.add(got as usize), part as usize);
        }
        self.consumed += 1;
        let got = got + part;
        if got == total {
            self.partial = None;
            return Ok(Taken::Message { bytes: total, imm });
        }
        self.partial = Some(Partial { got, total, imm });
        Ok(Taken::Part)
    }

    #[inline]
    fn slot(&self) -> *const u8 {
        // SAFETY: inside the peer's mapped segment: the offset comes from our own numbers.
        unsafe { self.memory.base().as_ptr().add(self.geometry.slot(self.consumed as u32)) }
    }
}

/// A posted receive.
#[derive(Clone, Copy)]
pub(super) struct Posted {
    pub(super) wr_id: WorkId,
    pub(super) offset: u64,
    pub(super) room: u32,
}

/// Posted receives, first in, first out.
pub(super) struct RecvQueue {
    queue: Box<[Posted]>,
    posted: u32,
    taken: u32,
}

impl RecvQueue {
    pub(super) fn new(recv_posted: u32) -> Self {
        let empty = Posted { wr_id: WorkId::from_bits(0), offset: 0, room: 0 };
        Self { queue: vec![empty; recv_posted.next_power_of_two() as usize].into(), posted: 0, taken: 0 }
    }

    /// Appends one; `false` when the queue is full.
    #[inline]
    pub(super) fn post(&mut self, wr: &RecvWr) -> bool {
        if self.posted.wrapping_sub(self.taken) as usize == self.queue.len() {
            return false;
        }
        let mask = self.queue.len() - 1;
        self.queue[self.posted as usize & mask] =
            Posted { wr_id: wr.wr_id, offset: wr.buf.offset(), room: wr.buf.capacity() };
        self.posted = self.posted.wrapping_add(1);
        true
    }

    /// The oldest.
    #[inline]
    pub(super) fn first(&self) -> Option<Posted> {
        let mask = self.queue.len() - 1;
        (self.posted != self.taken).then(|| self.queue[self.taken as usize & mask])
    }

    /// Takes the oldest out, which must be there.
    #[inline]
    pub(super) fn pop(&mut self) {
        debug_assert_ne!(self.posted, self.taken);
        self.taken = self.taken.wrapping_add(1);
    }
}
