//! What a one-sided operation is to a fabric.

use crate::id::WorkId;
use crate::pool::Lease;
use crate::remote::Rights;

/// One operation on memory of the peer's, which its program does not notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneSidedOp {
    /// `len` bytes of the buffer into the peer's memory.
    Write,
    /// `len` bytes of the peer's memory into the buffer.
    Read,
    /// Puts `new` into the peer's aligned word of 8 bytes if it is `expected`. What it was goes into the buffer, as 8
    /// bytes in host order.
    CompareSwap {
        /// What the word has to be.
        expected: u64,
        /// What it then becomes.
        new: u64,
    },
    /// Adds to the peer's aligned word of 8 bytes, wrapping. What it was goes into the buffer, as 8 bytes in host order.
    FetchAdd {
        /// What is added.
        add: u64,
    },
}

impl OneSidedOp {
    /// What it is called in reports.
    pub const fn name(self) -> &'static str {
        match self {
            OneSidedOp::Write => "write",
            OneSidedOp::Read => "read",
            OneSidedOp::CompareSwap { .. } => "compare-and-swap",
            OneSidedOp::FetchAdd { .. } => "fetch-and-add",
        }
    }

    /// What the peer has to allow for it.
    pub const fn needs(self) -> Rights {
        match self {
            OneSidedOp::Write => Rights::WRITE,
            OneSidedOp::Read => Rights::READ,
            OneSidedOp::CompareSwap { .. } | OneSidedOp::FetchAdd { .. } => Rights::ATOMIC,
        }
    }

    /// Whether it brings something back: then it counts against [`Fabric::reads_max`](super::Fabric::reads_max).
    pub const fn brings(self) -> bool {
        !matches!(self, OneSidedOp::Write)
    }
}

/// A one-sided operation to post. Each is signalled.
#[derive(Debug)]
pub struct OneSidedWr {
    /// Comes back with the completion.
    pub wr_id: WorkId,
    /// What is to be done.
    pub op: OneSidedOp,
    /// Where in the peer's terms: [`RemoteRegion::place`](crate::remote::RemoteRegion::place).
    pub addr: u64,
    /// The key of the peer's region.
    pub key: u32,
    /// The buffer at this side, the device's until the completion. There is one in all that is posted.
    pub buf: Option<Lease>,
    /// Bytes, at least 1 and at most the buffer's; 8 for atomics.
    pub len: u32,
    /// Copy what is written at post time (`IBV_SEND_INLINE`).
    pub inline: bool,
    /// The application's word for it. Means nothing to a fabric.
    pub user: u64,
}

impl OneSidedWr {
    /// Nothing: what an unused slot of a ring holds.
    pub const EMPTY: OneSidedWr = OneSidedWr {
        wr_id: WorkId::from_bits(0),
        op: OneSidedOp::Write,
        addr: 0,
        key: 0,
        buf: None,
        len: 0,
        inline: false,
        user: 0,
    };
}
