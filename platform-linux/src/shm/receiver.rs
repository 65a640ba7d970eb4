//! The receiving half of a connection: the peer's ring, and the receives posted for it.

use core::sync::atomic::{AtomicU64, Ordering, fence};
use std::rc::Rc;

use spinwire_core::fabric::WcStatus;

use super::layout::{Geometry, Walk};
use super::memory::PeerMemory;
use super::slot::{self, INLINE_MAX};
use super::word::{Body, Word};
use crate::mem::copy_shared;

/// The peer's ring, read. Whatever it says is checked here, in every build, before it is used, and is read once.
#[repr(C)]
pub(super) struct Receiver {
    /// Where the next descriptor will be: in the peer's segment, or nowhere as long as that is not known.
    slot: *const u8,
    /// Where the peer's segment begins.
    base: *const u8,
    /// Descriptors taken.
    consumed: u64,
    /// Where in the segment the next one is.
    walk: Walk,
    /// The last message took both lines of its slot: the next one likely does.
    is_wide: bool,
    geometry: Geometry,
    partial: Option<Partial>,
    memory: Option<PeerMemory>,
    /// The peer's buffers, if it lends them.
    arena: Option<Rc<PeerMemory>>,
}

/// A message of which some has been copied.
#[derive(Clone, Copy)]
struct Partial {
    got: u32,
    total: u32,
    imm: Option<u32>,
    /// Where in the peer's arena it is; else it comes in chunks.
    lent_at: Option<usize>,
}

/// What a descriptor brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// A part of a message; nothing to report yet.
    Part,
    /// The peer has gone on without this connection, and with the buffer: the message is lost, as what follows it.
    Revoked,
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
    /// A buffer that is not in the memory that was lent, or none was.
    Lent = 5,
}

impl Lie {
    /// How a receive that meets it completes.
    pub(super) const STATUS: WcStatus = WcStatus(7);
}

impl Receiver {
    /// Nothing comes until the peer's memory is [there](Self::attach).
    pub(super) fn new(geometry: Geometry) -> Self {
        Self {
            slot: slot::nowhere(),
            base: slot::nowhere(),
            consumed: 0,
            walk: geometry.walk(),
            is_wide: false,
            geometry,
            partial: None,
            memory: None,
            arena: None,
        }
    }

    /// Reads the peer's ring from now on, in memory of at least [`Geometry::bytes`]. `arena` has the buffers that the peer lends.
    pub(super) fn attach(&mut self, memory: PeerMemory, geometry: Geometry, arena: Option<Rc<PeerMemory>>) {
        self.base = memory.base().as_ptr();
        (self.memory, self.geometry, self.arena) = (Some(memory), geometry, arena);
        self.walk = geometry.walk();
        self.slot = self.base.wrapping_add(self.walk.at as usize);
    }

    /// Whether the peer's memory is known.
    #[inline]
    pub(super) fn is_attached(&self) -> bool {
        self.memory.is_some()
    }

    /// Descriptors taken so far.
    #[inline]
    pub(super) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Whether the last short message took both lines of its slot.
    #[inline]
    pub(super) fn is_wide(&self) -> bool {
        self.is_wide
    }

    /// Where the next descriptor will be, and what its phase bit is then. Mapped as long as this lives.
    #[inline]
    pub(super) fn next(&self) -> (*const u8, bool) {
        (self.slot, self.walk.phase)
    }

    /// The next descriptor's word, if it is there.
    #[inline]
    pub(super) fn peek(&self) -> Option<Word> {
        // SAFETY: a slot of the peer's mapped segment, at an offset from our own numbers, or the one that nothing comes to.
        let word = unsafe { slot::load(self.slot) };
        (word.phase() == self.walk.phase).then_some(word)
    }

    /// How many of our descriptors the peer says it has taken, by its counter.
    #[inline]
    pub(super) fn peer_counter(&self) -> u64 {
        // SAFETY: inside the peer's mapped segment and aligned; read as an atomic, for the peer may write.
        let counter = unsafe { AtomicU64::from_ptr(self.in_memory(self.geometry.consumed()).cast_mut().cast()) };
        // C2, pairs with C1: what the peer had to read in the slots it has taken, it has read.
        counter.load(Ordering::Acquire)
    }

    /// Of a message that is whole in its slot, which [`peek`](Self::peek) saw: how long it is, if that is at most `max`.
    #[inline(always)]
    pub(super) fn whole(&self, word: Word, max: u32) -> Option<u32> {
        if self.partial.is_some() { None } else { word.inline(max) }
    }

    /// Takes such a message.
    ///
    /// # Safety
    /// [`whole`](Self::whole) said so many `bytes`, and `to` has as many writable ones of this process's own.
    #[inline(always)]
    pub(super) unsafe fn copy_whole(&mut self, bytes: u32, to: *mut u8) {
        // SAFETY: at most INLINE_MAX (`Word::inline`), and the buffer's room (caller).
        unsafe { slot::read_inline(self.slot, to, bytes as usize) };
        self.is_wide = bytes as usize > slot::FIRST_LINE_MAX;
        self.advance();
    }

    /// Takes the descriptor that [`peek`](Self::peek) saw, into a buffer of `room` bytes that is lent to us: a posted receive.
    #[inline]
    pub(super) fn take(&mut self, word: Word, to: *mut u8, room: u32) -> Result<Taken, Lie> {
        match (word.body().ok_or(Lie::Descriptor)?, self.partial) {
            (_, Some(Partial { lent_at: Some(at), .. })) => Ok(self.copy_lent(at, to)),
            (Body::Inline(_) | Body::Lent, Some(_)) => Err(Lie::Order),
            (Body::Lent, None) => self.take_lent(word.imm(), to, room),
            (Body::Chunk, _) => self.take_chunk(word.imm(), to, room),
            (Body::Inline(bytes), None) => {
                let imm = word.imm();
                if bytes > room {
                    return Ok(Taken::TooLong { bytes, imm });
                }
                // SAFETY: the word's length, and the buffer's room is as long.
                unsafe { self.copy_whole(bytes, to) };
                Ok(Taken::Message { bytes, imm })
            }
        }
    }

    /// Begins with a message in a buffer of the peer's.
    fn take_lent(&mut self, imm: Option<u32>, to: *mut u8, room: u32) -> Result<Taken, Lie> {
        // SAFETY: the two words behind a slot's first.
        let (offset, bytes) = unsafe { (slot::load_word(self.slot, 0), slot::load_word(self.slot, 8)) };
        let arena = self.arena.as_ref().ok_or(Lie::Lent)?;
        let total = u32::try_from(bytes).ok().filter(|&total| total as usize > INLINE_MAX).ok_or(Lie::Length)?;
        let at = usize::try_from(offset).map_err(|_| Lie::Lent)?;
        if at.checked_add(total as usize).is_none_or(|end| end > arena.len()) {
            return Err(Lie::Lent);
        }
        if total > room {
            return Ok(Taken::TooLong { bytes: total, imm });
        }
        self.partial = Some(Partial { got: 0, total, imm, lent_at: Some(at) });
        Ok(self.copy_lent(at, to))
    }

    /// Copies a part of the message that lies `at` a place in the peer's arena, all of which was checked to be inside.
    fn copy_lent(&mut self, at: usize, to: *mut u8) -> Taken {
        let (Some(Partial { got, total, imm, .. }), Some(arena)) = (self.partial, &self.arena) else {
            unreachable!("only called with a part of a lent message")
        };
        let part = (total - got).min(PART_MAX);
        // SAFETY: `at + total` is inside the mapped arena, and `total` inside the posted buffer, which is lent to us: both
        // were checked when the message was begun, and `got + part <= total`.
        unsafe {
            let from = arena.base().as_ptr().add(at + got as usize);
            copy_shared(from, to.add(got as usize), part as usize);
        }
        if got + part < total {
            self.partial = Some(Partial { got: got + part, total, imm, lent_at: Some(at) });
            return Taken::Part;
        }
        // V2, pairs with V1: if any byte that was copied is a later one, the word says so.
        fence(Ordering::Acquire);
        // SAFETY: inside the peer's mapped segment and aligned; read as an atomic, for the peer writes it.
        let revoked = unsafe { AtomicU64::from_ptr(self.in_memory(self.geometry.revoked()).cast_mut().cast()) };
        if revoked.load(Ordering::Relaxed) != 0 {
            return Taken::Revoked;
        }
        self.partial = None;
        self.advance();
        Taken::Message { bytes: total, imm }
    }

    fn take_chunk(&mut self, imm: Option<u32>, to: *mut u8, room: u32) -> Result<Taken, Lie> {
        // SAFETY: the first word behind a slot's own.
        let lengths = unsafe { slot::load_word(self.slot, 0) };
        let (part, total) = (lengths as u32, (lengths >> 32) as u32);
        let fresh = Partial { got: 0, total, imm, lent_at: None };
        let Partial { got, total: expected, imm, lent_at } = self.partial.unwrap_or(fresh);
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
            let chunk = self.in_memory(self.geometry.chunk(self.consumed as u32));
            copy_shared(chunk, to.add(got as usize), part as usize);
        }
        self.advance();
        let got = got + part;
        if got == total {
            self.partial = None;
            return Ok(Taken::Message { bytes: total, imm });
        }
        self.partial = Some(Partial { got, total, imm, lent_at });
        Ok(Taken::Part)
    }

    /// An address in the peer's segment, which must be known and have that offset.
    #[inline]
    fn in_memory(&self, offset: usize) -> *const u8 {
        let memory = self.memory.as_ref().expect("the peer's memory is known");
        debug_assert!(offset < memory.len());
        memory.base().as_ptr().wrapping_add(offset)
    }

    /// The descriptor that comes next was taken.
    #[inline]
    fn advance(&mut self) {
        self.consumed += 1;
        self.walk.step(&self.geometry);
        self.slot = self.base.wrapping_add(self.walk.at as usize);
    }
}

/// Of a lent message, so much is copied in one go: as much as there is in a chunk.
const PART_MAX: u32 = 16 << 10;
