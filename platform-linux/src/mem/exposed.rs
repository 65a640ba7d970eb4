//! Memory that peers may read and change by themselves. Its owner gets at it by copies and atomics, never by a reference:
//! it changes at any time.

use core::any::Any;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use std::rc::Rc;

use spinwire_core::remote::RemoteRegion;

/// A region that this core has exposed to its peers: made by `Setup::expose` or `ShmSetup::expose`, zeroed. Cheap to clone;
/// the memory goes with the last clone and the setup.
///
/// **Atomics.** Words that peers change by compare-and-swap or fetch-and-add are read here with
/// [`load_u64`](Self::load_u64). There is no such operation for the owner: over RDMA the processor's atomics are not atomic
/// against the device's (`IBV_ATOMIC_HCA`, which is what devices have), so it could not mean the same on both fabrics. An
/// owner that has to take part does so over a connection to itself.
#[derive(Clone)]
pub struct ExposedRegion {
    base: NonNull<u8>,
    len: usize,
    remote: RemoteRegion,
    _memory: Rc<dyn Any>,
}

impl ExposedRegion {
    /// # Safety
    /// `memory` keeps the `len` bytes from `base` mapped, readable, writable and initialised, and `base` is aligned to 8.
    /// No reference to them exists while it lives.
    pub(crate) unsafe fn new(base: NonNull<u8>, len: usize, remote: RemoteRegion, memory: Rc<dyn Any>) -> Self {
        assert!(base.as_ptr().addr().is_multiple_of(8) && remote.len() == len as u64);
        Self { base, len, remote, _memory: memory }
    }

    /// The token to send to peers, who use it on connections to this core.
    pub fn remote(&self) -> RemoteRegion {
        self.remote
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is not a single byte in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies the bytes from `offset` on into `to`. A peer that writes them at this moment shows in part.
    ///
    /// # Panics
    /// They are not inside the region.
    pub fn read_at(&self, offset: usize, to: &mut [u8]) {
        let from = self.place(offset, to.len());
        // SAFETY: `to.len()` mapped bytes from there, kept by `memory`; `to` is the caller's own.
        unsafe { copy_shared(from, to.as_mut_ptr(), to.len()) };
    }

    /// Copies `from` into the region, from `offset` on. A peer that reads them at this moment sees a part.
    ///
    /// # Panics
    /// They are not inside the region.
    pub fn write_at(&self, offset: usize, from: &[u8]) {
        let to = self.place(offset, from.len());
        // SAFETY: as in `read_at`, the other way round.
        unsafe { copy_shared(from.as_ptr(), to, from.len()) };
    }

    /// Loads the word of 8 bytes at `offset` (acquire): what a peer wrote before it changed the word is seen after it.
    ///
    /// # Panics
    /// It is not inside the region, or not aligned to 8.
    #[inline]
    pub fn load_u64(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Stores the word of 8 bytes at `offset` (release): a peer that reads it, and what was written before it after that,
    /// sees both. Not for words that peers change by atomics: one of both changes would be lost.
    ///
    /// # Panics
    /// It is not inside the region, or not aligned to 8.
    #[inline]
    pub fn store_u64(&self, offset: usize, value: u64) {
        self.word(offset).store(value, Ordering::Release);
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8), "offset {offset} is not that of a word");
        // SAFETY: inside, aligned (`base` is, and so is the offset), and mapped for as long as `self` is borrowed. Others
        // change it by atomics or, as the caller knows, as they like; it is never more than a word of bits.
        unsafe { AtomicU64::from_ptr(self.place(offset, 8).cast()) }
    }

    #[inline]
    fn place(&self, offset: usize, len: usize) -> *mut u8 {
        let end = offset.checked_add(len);
        let inside = end.is_some_and(|end| end <= self.len);
        assert!(inside, "{len} bytes from {offset} are not inside a region of {} bytes", self.len);
        // SAFETY: inside, checked above.
        unsafe { self.base.as_ptr().add(offset) }
    }
}

impl fmt::Debug for ExposedRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExposedRegion").field("len", &self.len).field("remote", &self.remote).finish_non_exhaustive()
    }
}

/// Copies into or out of memory that others may be changing. What comes out may be a mixture, but each byte is read and
/// written once.
///
/// # Safety
/// `from` has `len` readable bytes, `to` has `len` writable ones, and the two do not overlap.
#[inline]
pub(crate) unsafe fn copy_shared(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: both ranges are valid (caller) and the direction flag is clear, as the ABI demands. To the compiler this is
    // an instruction that touches memory it knows nothing about. Stores that follow it in the program are not seen before
    // it (Intel SDM volume 3, 9.2.4).
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    for n in 0..len {
        // SAFETY: inside both ranges (caller). Volatile: once, although others may change it.
        unsafe { to.add(n).write_volatile(from.add(n).read_volatile()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinwire_core::remote::Rights;

    fn region() -> ExposedRegion {
        let words: Rc<Box<[u64; 4]>> = Rc::new(Box::new([0; 4]));
        let base = NonNull::from(&words[0]).cast();
        let remote = RemoteRegion::new(0, 32, 0, Rights::ALL).unwrap();
        // SAFETY: the box is in the keeper and used through the region alone.
        unsafe { ExposedRegion::new(base, 32, remote, words) }
    }

    #[test]
    fn bytes_and_words_are_the_same_memory() {
        let region = region();
        region.write_at(3, b"through and through");
        let mut bytes = [0; 19];
        region.read_at(3, &mut bytes);
        assert_eq!(&bytes, b"through and through");
        region.store_u64(24, u64::from_le_bytes(*b"numbers!").to_le());
        region.read_at(24, &mut bytes[..8]);
        assert_eq!((&bytes[..8], region.load_u64(24)), (&b"numbers!"[..], u64::from_ne_bytes(*b"numbers!")));
        assert_eq!((region.len(), region.is_empty()), (32, false));
    }

    #[test]
    fn what_is_not_inside_is_a_panic() {
        for act in [
            (|region: &ExposedRegion| region.read_at(32, &mut [0])) as fn(&ExposedRegion),
            |region| region.write_at(usize::MAX, &[1, 2]),
            |region| region.store_u64(32, 0),
            |region| assert_eq!(region.load_u64(4), 0),
        ] {
            let outcome = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| act(&region())));
            assert!(outcome.is_err());
        }
    }
}
