//! Memory that does not move.

use core::ptr::NonNull;

/// Memory that stays mapped, readable and writable at one place for as long as its owner lives, wherever that moves.
///
/// # Safety
/// As said, for all `len()` bytes from `base()`, which are initialised; both never change, and nothing but the owner's
/// users through these two methods touches the bytes.
pub unsafe trait StableMemory {
    /// The first byte.
    fn base(&self) -> NonNull<u8>;
    /// The length in bytes.
    fn len(&self) -> usize;
    /// Whether there is not a single byte.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
