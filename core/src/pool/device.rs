//! The device's hand, for a device that is simulated inside the process.

use super::Pool;
use crate::id::ConnId;

impl Pool<'_> {
    /// The bytes of a buffer that `conn` has lent, as its device sees them; `None` when it has not lent that buffer.
    ///
    /// Crate-private and for the simulator only: while a real device may touch the buffer, nobody else can.
    pub(crate) fn lent_bytes(&mut self, index: u32, conn: ConnId) -> Option<&mut [u8]> {
        if *self.lenders.get(index as usize)? != conn.to_bits() {
            return None;
        }
        let buf = self.buf(index);
        // SAFETY: `start` points to `len` initialised bytes inside the memory the pool borrowed. The buffer is lent, so
        // no usable `Buf` for it exists (`lend` took it), and none can be made while the returned slice borrows the
        // pool. The `Buf` made here is dropped without touching the bytes.
        Some(unsafe { core::slice::from_raw_parts_mut(buf.start.as_ptr(), buf.len as usize) })
    }
}
