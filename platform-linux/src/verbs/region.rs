//! Memory and its registration, kept together.

use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr::NonNull;

use super::mr::{Access, Mr, MrError};
use super::pd::Pd;
use crate::mem::StableMemory;

/// A piece of memory registered with a device. Deregistered before the memory goes.
pub struct Region<M> {
    // Declared first: dropped first.
    mr: Mr,
    memory: M,
    /// Whether a key is out there. Not told by the borrow alone: a key that was forgotten ends it.
    lent: Cell<bool>,
}

/// What a fabric needs to address a region. Holds the region's borrow, so that nobody but the pools made from the same
/// [`Region::split`] can touch the bytes while a device may.
#[derive(Debug)]
pub struct RegionKey<'m> {
    base: NonNull<u8>,
    len: u64,
    lkey: u32,
    region: PhantomData<&'m mut [u8]>,
    lent: &'m Cell<bool>,
}

impl Drop for RegionKey<'_> {
    fn drop(&mut self) {
        self.lent.set(false);
    }
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
        Ok(Region { mr, memory, lent: Cell::new(false) })
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
    ///
    /// # Panics
    /// When the key of an earlier call was forgotten instead of dropped: the queue pairs of its fabric were not
    /// destroyed then, and may still have the device write into the bytes.
    pub fn split(&mut self) -> (RegionKey<'_>, &mut [u8]) {
        assert!(!self.lent.replace(true), "the region's key was forgotten, and queue pairs may still use the region");
        let (base, len) = (self.memory.base(), self.memory.len());
        let key = RegionKey { base, len: len as u64, lkey: self.mr.lkey(), region: PhantomData, lent: &self.lent };
        // SAFETY: initialised and mapped for as long as the owner lives, which `self` is borrowed for; `&mut self` makes
        // this the only reference. The key makes none: it is for addresses, handed to the device. No earlier key is left,
        // so no queue pair of an earlier fabric is (it destroys or stops them before it drops its key).
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
        let lent = Box::leak(Box::new(Cell::new(true)));
        RegionKey { len: memory.len() as u64, base: NonNull::from(memory).cast(), lkey, region: PhantomData, lent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::{Device, Pd};

    struct Leaked(&'static mut [u8]);

    // SAFETY: initialised, never freed, and reached by these two methods alone.
    unsafe impl StableMemory for Leaked {
        fn base(&self) -> NonNull<u8> {
            NonNull::from(&*self.0).cast()
        }
        fn len(&self) -> usize {
            self.0.len()
        }
    }

    /// Never dropped: no library knows the registration.
    fn region() -> core::mem::ManuallyDrop<Region<Leaked>> {
        let pd = Pd::from_fake(Device::from_fake(NonNull::dangling()));
        let region = Region { mr: Mr::from_fake(pd), memory: Leaked(vec![0; 64].leak()), lent: Cell::new(false) };
        core::mem::ManuallyDrop::new(region)
    }

    #[test]
    fn a_region_can_be_used_again_after_its_key_is_dropped() {
        let mut region = region();
        for _ in 0..2 {
            let (key, bytes) = region.split();
            assert_eq!((key.len, bytes.len()), (64, 64));
        }
    }

    #[test]
    #[should_panic(expected = "key was forgotten")]
    fn a_region_is_not_handed_out_again_while_queue_pairs_may_use_it() {
        let mut region = region();
        core::mem::forget(region.split().0);
        region.split();
    }
}
