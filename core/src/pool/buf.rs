//! The two states of a buffer that is not free.

use core::marker::PhantomData;
use core::num::NonZeroU32;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use crate::config::POOL_BUFFERS_MAX;

/// Which pool a buffer is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Direction {
    /// The receive pool; also a received message that is sent back in place.
    Recv = 1 << 30,
    /// The send pool.
    Send = 1 << 31,
}

/// A buffer in the program's hands: its bytes may be read and written, the device does not know of it.
///
/// Give it back with [`Pool::release`](super::Pool::release) or to the device with [`Pool::lend`](super::Pool::lend).
/// Dropping it leaks the buffer until the pool itself goes, which [`Pool::free`](super::Pool::free) then shows.
#[derive(Debug)]
#[must_use = "a dropped buffer is lost to its pool"]
pub struct Buf<'m> {
    pub(super) start: NonNull<u8>,
    pub(super) len: u32,
    pub(super) index: u32,
    pub(super) memory: PhantomData<&'m mut [u8]>,
}

impl Buf<'_> {
    /// Its number in its pool.
    #[inline]
    pub const fn index(&self) -> u32 {
        self.index
    }
}

// SAFETY: a Buf is the exclusive right to `len` bytes of the memory borrowed for 'm, like the `&'m mut [u8]` its
// PhantomData stands for, and that is Send. `start` points nowhere else (kept by Pool::buf).
unsafe impl Send for Buf<'_> {}

impl Deref for Buf<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points to `len` initialised bytes inside the memory the pool borrowed for 'm, and this Buf is
        // the only handle to them: the pool makes one Buf per index at a time (Pool::buf's callers see to that).
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len as usize) }
    }
}

impl DerefMut for Buf<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in deref, and `&mut self` makes this the only slice.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len as usize) }
    }
}

/// A buffer in the device's hands. Neither pointer nor offset, only a name: where the buffer is, a fabric has been told
/// once ([`Fabric::prepare`](crate::fabric::Fabric::prepare)).
#[derive(Debug)]
pub struct Lease {
    /// The buffer's number, and above it the bit of the pool it is from.
    name: NonZeroU32,
}

const _: () = assert!(POOL_BUFFERS_MAX <= Direction::Recv as usize, "a number would reach into the bits for the pool");

impl Lease {
    #[inline]
    pub(super) const fn new(from: Direction, index: u32) -> Self {
        // One of the bits is set.
        let Some(name) = NonZeroU32::new(index | from as u32) else { unreachable!() };
        Self { name }
    }

    /// The buffer's number in its pool.
    #[inline]
    pub const fn index(&self) -> u32 {
        self.name.get() & !(Direction::Recv as u32 | Direction::Send as u32)
    }

    /// The pool it is from.
    #[inline]
    pub const fn from(&self) -> Direction {
        if self.name.get() & Direction::Send as u32 == 0 { Direction::Recv } else { Direction::Send }
    }
}

/// Where the buffers of a pool lie in the registered region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Where the first starts, in bytes from the start of the region.
    pub region_offset: u64,
    /// Distance from buffer to buffer in bytes.
    pub stride: u32,
    /// Length of a buffer in bytes.
    pub len: u32,
}

impl Layout {
    /// Where buffer `index` starts, in bytes from the start of the region.
    #[inline]
    pub const fn offset(&self, index: u32) -> u64 {
        self.region_offset + index as u64 * self.stride as u64
    }
}
