//! One slot of a ring: a word that says what is there, and up to 120 bytes of payload behind it.
//!
//! ```text
//! word   63      44 | 43 | 42   | 41    | 40      34 | 33      | 32    | 31          0
//!        consumed   | 0  | lent | chunk | length     | has imm | phase | immediate data
//! ```
//!
//! The word is written last (S1, release) and read first (S2, acquire, pairs with S1): whoever sees the phase turned sees
//! all of the slot. A message of up to 56 bytes is in the same cache line, one of up to 120 in two. A longer one lies
//! in a buffer of the sender's that is lent to the peer (behind the word then stand where in the arena and how many bytes, 64
//! bits each), or in the slot's chunk (behind the word: the bytes in this chunk and those of the whole message, 32 bits each).
//!
//! `consumed` tells how many of the other direction's descriptors its writer has taken (low 20 bits), so that an answer is
//! an acknowledgement as well and costs no further cache line.

use core::sync::atomic::{AtomicU64, Ordering};

use super::word::Word;

/// A slot's length: two cache lines, which x86 fetches together.
pub(super) const SLOT_BYTES: usize = 128;
/// The payload that a slot takes.
pub const INLINE_MAX: usize = SLOT_BYTES - 8;
/// The payload that is in the word's own line.
pub(super) const FIRST_LINE_MAX: usize = 56;

/// A slot that nothing ever comes to.
#[repr(align(128))]
struct Nowhere([AtomicU64; SLOT_BYTES / 8]);
static NOWHERE: Nowhere = Nowhere([const { AtomicU64::new(0) }; SLOT_BYTES / 8]);

/// Such a slot, to be read: where a connection looks before its peer's memory is known.
pub(super) fn nowhere() -> *const u8 {
    NOWHERE.0.as_ptr().cast()
}

/// Reads the word of a slot (S2).
///
/// # Safety
/// `slot` begins a slot that stays mapped.
#[inline]
pub(super) unsafe fn load(slot: *const u8) -> Word {
    // SAFETY: mapped (caller) and aligned to 128; the peer may write at any time, so it is read as an atomic, once.
    Word(unsafe { AtomicU64::from_ptr(slot.cast_mut().cast()) }.load(Ordering::Acquire))
}

/// Asks for the second line of a slot together with the first, which is loaded next: two transfers at once and not one after
/// the other.
///
/// # Safety
/// `slot` begins a slot that stays mapped.
#[inline]
pub(super) unsafe fn prefetch_second_line(slot: *const u8) {
    // SAFETY: inside the slot (caller).
    prefetch(unsafe { slot.add(SLOT_BYTES / 2) });
}

/// Asks for a line that is soon to be read. Any address will do: it is a hint.
#[inline]
pub(super) fn prefetch<T>(line: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch changes nothing that a program can see, and faults at no address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// Asks for the lines of a slot that is going to be written, so that they are on their way while it is still being decided
/// what to write. A hint: without it the same happens, later.
///
/// # Safety
/// `slot` begins a slot of memory that this process writes.
#[inline]
pub(super) unsafe fn prefetch_for_writing(slot: *const u8, both_lines: bool) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: inside the slot (caller); a prefetch changes nothing that a program can see. (Written as an instruction, for the
    // intrinsic makes it one for reading unless the whole program is compiled for processors that are known to have it; those
    // that do not take it as none.)
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) slot, options(nostack, preserves_flags, readonly));
        if both_lines {
            let second = slot.add(SLOT_BYTES / 2);
            core::arch::asm!("prefetchw [{}]", in(reg) second, options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slot, both_lines);
}

/// Publishes a slot (S1).
///
/// # Safety
/// `slot` begins a slot of memory that this process writes.
#[inline]
pub(super) unsafe fn store(slot: *mut u8, word: Word) {
    // SAFETY: mapped, ours to write (caller), aligned to 128.
    unsafe { AtomicU64::from_ptr(slot.cast()) }.store(word.0, Ordering::Release);
}

/// Copies up to 120 bytes into a slot, word by word: full-width stores of the width they are read in stall nobody. The second
/// line comes first, so that nothing is waited for between the stores to the first, which the peer polls: else it takes the
/// line away in between, and it has to be fetched again for the word.
///
/// # Safety
/// `len` is at most [`INLINE_MAX`]; `from` has `len` readable bytes, `slot` begins a slot of memory that this process
/// writes, and the two do not overlap.
#[inline(always)]
pub(super) unsafe fn write_inline(slot: *mut u8, from: *const u8, len: usize) {
    if len < FIRST_LINE_MAX {
        // SAFETY: `0..len` is in both (caller).
        return unsafe { write_words(slot, from, 0, len) };
    }
    // SAFETY: `FIRST_LINE_MAX..len` and what is before it are in both (caller), and begin at whole words. The first line is
    // all loads, then all stores, as the compiler knows its length.
    unsafe {
        if len == FIRST_LINE_MAX + 8 {
            write_word(slot, FIRST_LINE_MAX, load_local(from.add(FIRST_LINE_MAX)));
        } else if len > FIRST_LINE_MAX {
            write_words(slot, from, FIRST_LINE_MAX, len);
        }
        let line: FirstLine = core::array::from_fn(|n| load_local(from.add(8 * n)));
        slot.add(8).cast::<FirstLine>().write(line);
    }
}

/// The payload in a slot's first line.
type FirstLine = [u64; FIRST_LINE_MAX / 8];

/// Reads a word of a message. By itself: of an answer in place, which was just copied out of a slot word by word, a wider
/// load would wait until those words are in the cache, for it cannot have two stores forwarded to it.
///
/// # Safety
/// `from` has 8 readable bytes.
#[inline]
unsafe fn load_local(from: *const u8) -> u64 {
    #[repr(C, packed)]
    #[derive(Clone, Copy)]
    struct Unaligned(u64);
    // SAFETY: readable (caller), and the type asks for no alignment. Volatile, so that two are not made one.
    unsafe { from.cast::<Unaligned>().read_volatile() }.0
}

/// Writes the word `offset` bytes behind a slot's first one.
///
/// # Safety
/// As [`load_word`], of a slot of memory that this process writes.
#[inline(always)]
unsafe fn write_word(slot: *mut u8, offset: usize, word: u64) {
    // SAFETY: inside the slot and aligned (caller).
    unsafe { slot.add(8 + offset).cast::<u64>().write(word) };
}

/// Copies the bytes `done..end` of a message into its slot.
///
/// # Safety
/// As [`write_inline`]; `done` is a multiple of 8, at most `end`, and that at most `len`.
#[inline]
unsafe fn write_words(slot: *mut u8, from: *const u8, mut done: usize, end: usize) {
    while end - done >= 8 {
        // SAFETY: `done + 8 <= end`, inside both (caller).
        unsafe { write_word(slot, done, load_local(from.add(done))) };
        done += 8;
    }
    if done < end {
        let mut rest = [0; 8];
        for (n, byte) in rest.iter_mut().enumerate().take(end - done) {
            // SAFETY: `done + n < end`.
            *byte = unsafe { from.add(done + n).read() };
        }
        // SAFETY: the slot has room for whole words up to its end, and `done < end <= INLINE_MAX`, a multiple of 8.
        unsafe { write_word(slot, done, u64::from_ne_bytes(rest)) };
    }
}

/// Copies up to 120 bytes out of a slot of the peer's. Each word is read once, whatever the peer does meanwhile.
///
/// # Safety
/// `len` is at most [`INLINE_MAX`]; `slot` begins a mapped slot, `to` has `len` writable bytes of this process's own.
#[inline(always)]
pub(super) unsafe fn read_inline(slot: *const u8, to: *mut u8, len: usize) {
    if len < FIRST_LINE_MAX {
        // SAFETY: `0..len` is in both (caller).
        return unsafe { read_words(slot, to, 0, len) };
    }
    // SAFETY: as many words as the compiler knows, so without a loop; and what is behind them. All up to `len` is in both.
    unsafe {
        for done in (0..FIRST_LINE_MAX).step_by(8) {
            to.add(done).cast::<u64>().write_unaligned(load_word(slot, done));
        }
        if len == FIRST_LINE_MAX + 8 {
            to.add(FIRST_LINE_MAX).cast::<u64>().write_unaligned(load_word(slot, FIRST_LINE_MAX));
        } else if len > FIRST_LINE_MAX {
            read_words(slot, to, FIRST_LINE_MAX, len);
        }
    }
}

/// Copies the bytes `done..end` of a message out of its slot.
///
/// # Safety
/// As [`read_inline`]; `done` is a multiple of 8, at most `end`, and that at most `len`.
#[inline]
unsafe fn read_words(slot: *const u8, to: *mut u8, mut done: usize, end: usize) {
    while end - done >= 8 {
        // SAFETY: `done + 8 <= end`, inside both (caller).
        unsafe { to.add(done).cast::<u64>().write_unaligned(load_word(slot, done)) };
        done += 8;
    }
    if done < end {
        // SAFETY: a whole word is in the slot: `done < end <= INLINE_MAX`, a multiple of 8.
        let rest = unsafe { load_word(slot, done) }.to_ne_bytes();
        for (n, byte) in rest.into_iter().enumerate().take(end - done) {
            // SAFETY: `done + n < end`.
            unsafe { to.add(done + n).write(byte) };
        }
    }
}

/// Reads the word `offset` bytes behind a slot's first one.
///
/// # Safety
/// `slot` begins a mapped slot; `offset` is a multiple of 8 and less than [`INLINE_MAX`].
#[inline]
pub(super) unsafe fn load_word(slot: *const u8, offset: usize) -> u64 {
    // SAFETY: inside the slot and aligned (caller). Relaxed: ordered by S2 of this slot; the peer may write all the same.
    unsafe { AtomicU64::from_ptr(slot.add(8 + offset).cast_mut().cast()) }.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(128))]
    struct Slot([u8; SLOT_BYTES]);

    #[test]
    fn every_length_goes_in_and_out_and_touches_nothing_beyond() {
        let message: Vec<u8> = (1..=INLINE_MAX as u8).collect();
        for len in 0..=INLINE_MAX {
            let mut slot = Slot([0; SLOT_BYTES]);
            let mut out = [0xee; INLINE_MAX + 8];
            // SAFETY: both are arrays of our own, long enough for `len`.
            unsafe {
                write_inline(slot.0.as_mut_ptr(), message.as_ptr(), len);
                read_inline(slot.0.as_ptr(), out.as_mut_ptr(), len);
            }
            assert_eq!(&slot.0[..8], &[0; 8], "the word is written by `store` alone");
            assert!(slot.0[8 + len.next_multiple_of(8)..].iter().all(|&byte| byte == 0));
            assert_eq!(&out[..len], &message[..len]);
            assert!(out[len..].iter().all(|&byte| byte == 0xee), "length {len}");
        }
    }

    #[test]
    fn long_copies_take_exactly_their_length() {
        for len in [0, 1, 7, 121, 4_096, 16_384] {
            let from: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let mut to = vec![0xee; len + 1];
            // SAFETY: both are vectors of our own, long enough for `len`.
            unsafe { crate::mem::copy_shared(from.as_ptr(), to.as_mut_ptr(), len) };
            assert_eq!((&to[..len], to[len]), (&from[..], 0xee));
        }
    }
}
