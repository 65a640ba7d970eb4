//! What a visit of a link touches, asked for ahead of it: of many links it is in no near cache, and each line would else be
//! waited for by itself.

use core::mem::offset_of;

use super::super::slot;
use super::Link;

/// The lines of a link that a message touches.
const HOT_LINES: usize = offset_of!(Link, own).div_ceil(64);
const _: () = assert!(HOT_LINES <= 4);

impl Link {
    /// Asks for the lines of the link itself.
    #[inline]
    pub(in super::super) fn prefetch(&self) {
        for line in 0..HOT_LINES {
            slot::prefetch((&raw const *self).cast::<u8>().wrapping_add(64 * line));
        }
    }

    /// Asks for what a message that has come and its answer need besides.
    #[inline]
    pub(in super::super) fn prefetch_work(&self) {
        self.recvs.prefetch();
        if self.answers {
            self.sender.expect(self.receiver.is_wide());
            self.sender.prefetch();
        }
    }

    /// Asks for the buffer of the next message.
    #[inline]
    pub(in super::super) fn prefetch_buffer(&self) {
        if let Some(receive) = self.recvs.next() {
            slot::prefetch(receive.to);
        }
    }
}
