//! The device's hand, for a device that is simulated inside the process.

use super::Pool;
use crate::id::WorkId;

impl Pool<'_> {
    /// The bytes of a buffer that is lent for some work of the connection that `work` is of, as its device sees them; `None`
    /// when it has not lent that buffer.
    ///
    /// Crate-private and for the simulator only: while a real device may touch the buffer, nobody else can.
    pub(crate) fn lent_bytes(&mut self, index: u32, work: WorkId) -> Option<&mut [u8]> {
        let lent_for = WorkId::from_bits(*self.lenders.get(index as usize)?);
        if !lent_for.is_of(work) {
            return None;
        }
        let buf = self.buf(index);
        // SAFETY: `start` points to `len` initialised bytes inside the memory the pool borrowed. The buffer is lent, so
        // no usable `Buf` for it exists (`lend` took it), and none can be made while the returned slice borrows the
        // pool. The `Buf` made here is dropped without touching the bytes.
        Some(unsafe { core::slice::from_raw_parts_mut(buf.start.as_ptr(), buf.len as usize) })
    }
}
