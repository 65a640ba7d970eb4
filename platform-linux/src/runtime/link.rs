//! What a reliable connection over RDMA does about loss.

use std::time::Duration;

/// How persistent a connection is about loss and about a peer that is not ready. Times, never InfiniBand codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkOptions {
    /// Wait for an acknowledgement before sending again, 8 us to 2.4 h; the next longer of 4.096 us x 2^n is taken.
    /// rdma_cm's own choice on Soft-RoCE is 2.1 s.
    pub ack_timeout: Duration,
    /// Times a send without acknowledgement is repeated, 0 to 6. (7 means for ever on some devices.)
    pub retries: u8,
    /// How long a peer is told to wait that found no receive posted here, 10 us to 491 ms, taken as the next longer
    /// delay that InfiniBand knows.
    pub rnr_delay: Duration,
    /// Times the peer may find no receive posted here before it gives up, 0 to 6. (7 means for ever.)
    pub rnr_retries: u8,
}

/// Largest finite retry count: the field has three bits, and 7 stands for "for ever".
pub(crate) const RETRIES_MAX: u8 = 6;

impl Default for LinkOptions {
    /// 134 ms x (6 + 1) until a silent peer is given up, about a second; 0.64 ms for a peer to wait.
    fn default() -> Self {
        LinkOptions {
            ack_timeout: Duration::from_millis(134),
            retries: RETRIES_MAX,
            rnr_delay: Duration::from_micros(640),
            rnr_retries: RETRIES_MAX,
        }
    }
}
