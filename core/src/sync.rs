//! Atomics and cells: the one file that names them.
//!
//! A normal build uses `core`; under `cfg(loom)` the same names are loom's, so that the model checker sees every atomic
//! access and every access to a slot. Nothing else in this crate mentions either.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" CARGO_PROFILE_RELEASE_LTO=off CARGO_TARGET_DIR=target/loom \
//!     cargo test -p spinwire-core --release --test loom_ring
//! ```
#![allow(unsafe_code)]

use core::mem::MaybeUninit;

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU64, Ordering};

/// A value alone on its cache lines, so that two cores which write two of these never fight over one line.
///
/// 128 bytes and not 64, because x86 fetches lines in pairs and some arm64 cores have lines of 128 bytes. Around an
/// array it puts the first element at the start of a line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CacheLine<T>(pub T);

/// Room for one item, written by one thread and taken by another.
///
/// In a normal build this is exactly a `MaybeUninit<T>`: same size, same alignment, no flag. Who may touch it, and
/// when, is decided by the indices of the ring that owns it. Dropping a slot does not drop an item left in it.
#[cfg(not(loom))]
#[repr(transparent)]
pub struct Slot<T>(MaybeUninit<T>);

/// Room for one item, written by one thread and taken by another. Under loom every access is recorded and checked.
#[cfg(loom)]
pub struct Slot<T>(loom::cell::UnsafeCell<MaybeUninit<T>>);

/// What a cache line that is asked for ahead of time is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetch {
    /// To be read: the line is shared.
    Read,
    /// To be written: the line is taken away from other cores.
    Write,
}

/// How much [`prefetch`] asks for: enough that a line is there when its turn comes, and few enough lines to be under way
/// at the same time.
pub(crate) const PREFETCH_BYTES: usize = 1024;

/// Asks for the cache lines of [`PREFETCH_BYTES`] bytes from `start` on to be brought to this core, and waits for nothing.
/// Only a hint: any address will do, and on other processors than x86-64 it is nothing.
#[inline(always)]
pub(crate) fn prefetch<T>(start: *const T, what: Prefetch) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    macro_rules! lines {
        ($line:literal) => {
            // SAFETY: a prefetch changes no memory or register and faults at no address.
            unsafe {
                core::arch::asm!(
                    concat!($line, "+0]"), concat!($line, "+64]"), concat!($line, "+128]"), concat!($line, "+192]"), concat!($line, "+256]"), concat!($line, "+320]"), concat!($line, "+384]"), concat!($line, "+448]"), concat!($line, "+512]"), concat!($line, "+576]"), concat!($line, "+640]"), concat!($line, "+704]"), concat!($line, "+768]"), concat!($line, "+832]"), concat!($line, "+896]"), concat!($line, "+960]"),
                    in(reg) start,
                    options(readonly, nostack, preserves_flags),
                )
            }
        };
    }
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    match what {
        Prefetch::Read => lines!("prefetcht0 [{0}"),
        Prefetch::Write => lines!("prefetchw [{0}"),
    }
    #[cfg(any(miri, loom, not(target_arch = "x86_64")))]
    let _ = (start, what);
}

/// Asks for the lines of `count` items from `start` on, to be written. As [`prefetch`], for what is no ring.
#[inline(always)]
pub(crate) fn prefetch_items<T>(start: *const T, count: usize) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    for line in (0..size_of::<T>() * count).step_by(64) {
        let line = start.cast::<u8>().wrapping_add(line);
        // SAFETY: a prefetch changes no memory or register and faults at no address.
        unsafe {
            core::arch::asm!("prefetchw [{}]", in(reg) line, options(readonly, nostack, preserves_flags));
        }
    }
    #[cfg(any(miri, loom, not(target_arch = "x86_64")))]
    let _ = (start, count);
}

/// As [`prefetch`] for writing, but of the one line that is [`PREFETCH_BYTES`] after `start`.
#[inline(always)]
pub(crate) fn prefetch_line_for_write<T>(start: *const T) {
    let line = start.cast::<u8>().wrapping_add(PREFETCH_BYTES);
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    // SAFETY: a prefetch changes no memory or register and faults at no address.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) line, options(readonly, nostack, preserves_flags));
    }
    #[cfg(any(miri, loom, not(target_arch = "x86_64")))]
    let _ = line;
}

#[cfg(not(loom))]
impl<T> Slot<T> {
    /// An empty slot.
    pub const fn new() -> Self {
        Slot(MaybeUninit::uninit())
    }

    /// Views uninitialised memory, such as a part of a hugepage arena, as empty slots. Costs nothing.
    pub fn from_uninit(memory: &mut [MaybeUninit<T>]) -> &mut [Slot<T>] {
        let (data, len) = (memory.as_mut_ptr(), memory.len());
        // SAFETY: `Slot<T>` is a transparent wrapper of `MaybeUninit<T>`, so pointer and length stay valid, and the
        // exclusive borrow of `memory` passes to the result.
        unsafe { core::slice::from_raw_parts_mut(data.cast::<Slot<T>>(), len) }
    }

    /// Puts `item` in. An item that was there before is forgotten, not dropped.
    #[inline(always)]
    pub fn write(&mut self, item: T) {
        self.0.write(item);
    }

    /// Moves the item out.
    ///
    /// # Safety
    /// The slot holds an item, and the caller never takes it a second time.
    #[inline(always)]
    pub unsafe fn take(&mut self) -> T {
        // SAFETY: the caller says that an item is there, and that this is its only move out.
        unsafe { self.0.assume_init_read() }
    }

    /// Puts a copy of each item into the slot beside it: one copy of memory.
    ///
    /// # Safety
    /// There are as many slots as items.
    #[inline(always)]
    pub(crate) unsafe fn write_all(slots: &mut [Slot<T>], items: &[T])
    where
        T: Copy,
    {
        debug_assert!(slots.len() == items.len());
        // SAFETY: both are as long as the caller says, a slot is laid out as its item is, and an exclusive borrow
        // overlaps nothing.
        unsafe { core::ptr::copy_nonoverlapping(items.as_ptr(), slots.as_mut_ptr().cast(), items.len()) };
    }

    /// Moves the item of each slot to the place beside it: one copy of memory.
    ///
    /// # Safety
    /// As [`take`](Self::take), for all of them; there are as many slots as items.
    #[inline(always)]
    pub(crate) unsafe fn take_all(slots: &mut [Slot<T>], items: &mut [T])
    where
        T: Copy,
    {
        debug_assert!(slots.len() == items.len());
        // SAFETY: as in `write_all`; the caller says that the slots are full.
        unsafe { core::ptr::copy_nonoverlapping(slots.as_ptr().cast(), items.as_mut_ptr(), items.len()) };
    }
}

#[cfg(loom)]
impl<T> Slot<T> {
    /// An empty slot.
    pub fn new() -> Self {
        Slot(loom::cell::UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Puts `item` in. An item that was there before is forgotten, not dropped.
    pub fn write(&mut self, item: T) {
        self.0.with_mut(|slot| {
            // SAFETY: `self` is borrowed exclusively, so the cell's pointer is valid and nobody else uses it; loom
            // fails the model if another thread does.
            unsafe { (*slot).write(item) };
        });
    }

    /// Moves the item out.
    ///
    /// # Safety
    /// The slot holds an item, and the caller never takes it a second time.
    pub unsafe fn take(&mut self) -> T {
        // SAFETY: as above for the pointer; the caller says that an item is there, and that this is its only move out.
        self.0.with_mut(|slot| unsafe { (*slot).assume_init_read() })
    }

    /// Puts a copy of each item into the slot beside it.
    ///
    /// # Safety
    /// There are as many slots as items.
    pub(crate) unsafe fn write_all(slots: &mut [Slot<T>], items: &[T])
    where
        T: Copy,
    {
        assert!(slots.len() == items.len());
        slots.iter_mut().zip(items).for_each(|(slot, item)| slot.write(*item));
    }

    /// Moves the item of each slot to the place beside it.
    ///
    /// # Safety
    /// As [`take`](Self::take), for all of them; there are as many slots as items.
    pub(crate) unsafe fn take_all(slots: &mut [Slot<T>], items: &mut [T])
    where
        T: Copy,
    {
        assert!(slots.len() == items.len());
        // SAFETY: the caller's duty, slot by slot.
        slots.iter_mut().zip(items).for_each(|(slot, item)| *item = unsafe { slot.take() });
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Slot::new()
    }
}

impl<T> core::fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Slot")
    }
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Slot<[u8; 3]>>() == 3 && align_of::<Slot<u64>>() == align_of::<u64>());
    assert!(size_of::<CacheLine<u8>>() == 128 && align_of::<CacheLine<u8>>() == 128);
};
