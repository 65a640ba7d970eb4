//! What a memcpy can hand from core to core: a few chunks in a ring, filled by one side and emptied by the other.

use std::cell::UnsafeCell;
use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Board, Word};

/// Bytes of a chunk, and how many there are. Together they fit into a second-level cache of today, which measured best.
pub const CHUNK: usize = 32 << 10;
const CHUNKS: usize = 8;

/// The ring.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Bulk {
    /// Chunks filled and chunks emptied, free-running.
    filled: Word,
    emptied: Word,
    /// Chunks taken by the receiver and given to the sender; each side has one owner.
    owned: [AtomicBool; 2],
    chunks: [UnsafeCell<[u8; CHUNK]>; CHUNKS],
}

// SAFETY: a chunk is touched by one side at a time. The sender owns those that `emptied` (acquire) says are free until it
// stores `filled` (release), the receiver owns them from there on; `owned` sees to it that there is one of each.
unsafe impl Sync for Bulk {}

impl Default for Bulk {
    fn default() -> Self {
        Bulk {
            filled: Word::default(),
            emptied: Word::default(),
            owned: Default::default(),
            chunks: std::array::from_fn(|_| UnsafeCell::new([0; CHUNK])),
        }
    }
}

/// The side that fills. There is one at a time.
#[derive(Debug)]
pub struct Sender(&'static Board);

/// The side that empties. There is one at a time.
#[derive(Debug)]
pub struct Receiver(&'static Board);

impl Sender {
    /// `None` while there is one.
    pub fn take(board: &'static Board) -> Option<Self> {
        (!board.bulk.owned[0].swap(true, Ordering::AcqRel)).then_some(Sender(board))
    }

    /// Copies up to a chunk of `bytes` into the ring, when there is room.
    pub fn send(&mut self, bytes: &[u8]) {
        let Bulk { filled, emptied, chunks, .. } = &self.0.bulk;
        let at = filled.get();
        while at - emptied.get() == CHUNKS as u64 {
            hint::spin_loop();
        }
        // SAFETY: the chunk is this side's, see `Sync`: it was emptied and is not filled yet, and `self` is the only sender.
        let chunk = unsafe { &mut *chunks[at as usize % CHUNKS].get() };
        chunk[..bytes.len()].copy_from_slice(bytes);
        filled.set(at + 1);
    }
}

impl Receiver {
    /// `None` while there is one.
    pub fn take(board: &'static Board) -> Option<Self> {
        (!board.bulk.owned[1].swap(true, Ordering::AcqRel)).then_some(Receiver(board))
    }

    /// Copies the next chunk into `out`, when there is one.
    pub fn receive(&mut self, out: &mut [u8]) {
        let Bulk { filled, emptied, chunks, .. } = &self.0.bulk;
        let at = emptied.get();
        while filled.get() == at {
            hint::spin_loop();
        }
        // SAFETY: the chunk is this side's, see `Sync`: it was filled and is not emptied yet, and `self` is the only receiver.
        let chunk = unsafe { &*chunks[at as usize % CHUNKS].get() };
        out.copy_from_slice(&chunk[..out.len()]);
        emptied.set(at + 1);
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.bulk.owned[0].store(false, Ordering::Release);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.0.bulk.owned[1].store(false, Ordering::Release);
    }
}
