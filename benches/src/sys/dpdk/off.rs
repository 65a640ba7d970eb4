//! DPDK is not there.

use std::convert::Infallible;

/// Why `rte_ring` and `rte_mempool` do not take part; `None` if they do.
pub const MISSING: Option<&str> = Some(env!("SPINWIRE_NO_DPDK"));

/// `rte_mempool`, which is not there.
pub struct Mempool(Infallible);

impl Mempool {
    /// A pool of `count` buffers of `buffer_bytes`.
    ///
    /// # Errors
    /// Why there is none.
    pub fn new(_count: u32, _buffer_bytes: u32) -> Result<Self, String> {
        Err(env!("SPINWIRE_NO_DPDK").to_owned())
    }

    /// Takes one buffer and releases it, `times` times.
    pub fn single(&mut self, _times: u64) {
        match self.0 {}
    }

    /// Takes 32 buffers in one call and releases them in another, until that is `times` buffers or more.
    pub fn bulk_32(&mut self, _times: u64) {
        match self.0 {}
    }
}
