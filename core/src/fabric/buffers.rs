//! Where the buffers are that a fabric is given to post.

use super::RecvWr;
use crate::pool::{Direction, Layout, Lease};

/// The two pools of an engine as its fabric sees them: what it turns names of buffers into addresses with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferMap {
    /// The receive buffers; also those of answers in place.
    pub recv: Layout,
    /// The send buffers.
    pub send: Layout,
    /// Payloads of sends up to this many bytes are copied at post time, where the fabric can (`IBV_SEND_INLINE`).
    pub inline_bytes_max: u32,
}

impl BufferMap {
    /// Where a leased buffer starts, in bytes from the start of the registered region.
    #[inline]
    pub const fn offset(&self, lease: &Lease) -> u64 {
        self.of(lease).offset(lease.index())
    }

    /// The length of a leased buffer in bytes.
    #[inline]
    pub const fn capacity(&self, lease: &Lease) -> u32 {
        self.of(lease).len
    }

    /// Where the buffer of a receive starts, as [`BufferMap::offset`]. All are [`recv.len`](Layout::len) bytes long.
    #[inline]
    pub const fn recv_offset(&self, wr: &RecvWr) -> u64 {
        self.recv.offset(wr.wr_id().index())
    }

    /// Whether a payload of `len` bytes is copied at post time.
    #[inline]
    pub const fn is_inline(&self, len: u32) -> bool {
        len > 0 && len <= self.inline_bytes_max
    }

    #[inline]
    const fn of(&self, lease: &Lease) -> &Layout {
        match lease.from() {
            Direction::Recv => &self.recv,
            Direction::Send => &self.send,
        }
    }
}
