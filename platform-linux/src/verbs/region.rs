//! Memory and its registration, kept together.

use core::marker::PhantomData;
use core::ptr::NonNull;

use super::mr::{Access, Mr, MrError};
use super::pd::Pd;

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

/// A piece of memory registered with a device. Deregistered before the memory goes.
pub struct Region<M> {
    // Declared first: dropped first.
    mr: Mr,
    memory: M,
}

/// What a fabric needs to address a region. Holds the region's borrow, so that nobody but the pools made from the same
/// [`Region::split`] can touch the bytes while a device may.
#[derive(Debug)]
pub struct RegionKey<'m> {
    base: NonNull<u8>,
    len: u64,
    lkey: u32,
    region: PhantomData<&'m mut [u8]>,
}

impl<M: StableMemory> Region<M> {
    /// Registers all of `memory` for work that this process posts; no peer can reach it by itself.
    ///
    /// # Errors
    /// See [`MrError`]; the memory is dropped then.
    pub fn register(pd: &Pd, memory: M) -> Result<Region<M>, MrError> {
        // SAFETY: mapped, readable and writable while `memory` lives (its trait's promise), which is longer than the
        // registration: it is dropped after it. References to the bytes come only from `split`.
        let mr = unsafe { Mr::register(pd, memory.base(), memory.len(), Access::Local)? };
        Ok(Region { mr, memory })
    }

    /// The memory's owner, to ask for its placement.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The registration.
    pub fn mr(&self) -> &Mr {
        &self.mr
    }

    /// The two halves of using the region: the key for the fabric, the bytes for the buffer pools.
    pub fn split(&mut self) -> (RegionKey<'_>, &mut [u8]) {
        let (base, len) = (self.memory.base(), self.memory.len());
        let key = RegionKey { base, len: len as u64, lkey: self.mr.lkey(), region: PhantomData };
        // SAFETY: initialised and mapped for as long as the owner lives, which `self` is borrowed for; `&mut self` makes
        // this the only reference. The key makes none: it is for addresses, handed to the device.
        (key, unsafe { core::slice::from_raw_parts_mut(base.as_ptr(), len) })
    }
}

impl RegionKey<'_> {
    /// The key that work requests name the region by.
    pub(super) fn lkey(&self) -> u32 {
        self.lkey
    }

    /// The address of `len` bytes from `offset`.
    ///
    /// # Panics
    /// When they are not inside the region: the lease is of another one.
    #[inline]
    pub(super) fn address(&self, offset: u64, len: u32) -> u64 {
        let end = offset.checked_add(u64::from(len));
        assert!(end.is_some_and(|end| end <= self.len), "a lease of another region was posted");
        self.base.as_ptr() as u64 + offset
    }

    #[cfg(test)]
    pub(super) fn from_fake(memory: &mut [u8], lkey: u32) -> RegionKey<'_> {
        RegionKey { len: memory.len() as u64, base: NonNull::from(memory).cast(), lkey, region: PhantomData }
    }
}
