//! Why a connection ended, or never began.

use super::event::{CmEventKind, Peer};
use super::hello::{HelloError, Refusal};
use super::table::State;
use crate::fabric::WcStatus;
use crate::time::Nanos;

/// The first thing that ended a connection. What follows from it (flushes, a second DISCONNECTED) is not reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// This side closed it.
    #[error("closed by this side")]
    Local,
    /// The peer said goodbye, then disconnected.
    #[error("closed by the peer")]
    Peer,
    /// The peer disconnected without a goodbye: its process ended or was killed, its program dropped what held the connection
    /// without closing it first, or it is not a Spinwire.
    #[error("the peer disconnected without a goodbye (its process ended, or its program did not close the connection)")]
    PeerGone,
    /// The peer refused, and said why.
    #[error("refused by the peer: {0}")]
    Refused(Refusal),
    /// Nobody listens there (REJECTED with InfiniBand reason 8).
    #[error("nobody listens at that address")]
    NobodyListens,
    /// The peer's connection manager refused with this InfiniBand reason code (10: stale connection, 28: the program
    /// refused without saying why).
    #[error("rejected by the peer with InfiniBand reason code {code} ({})", reject_words(*.code))]
    Rejected {
        /// The code, IBTA volume 1, 12.6.7.2.
        code: i32,
    },
    /// An rdma_cm event that means failure.
    #[error("{step} failed: {} with status {status}", event_words(*.step, *.event, *.status))]
    Event {
        /// The state it met.
        step: State,
        /// The event.
        event: CmEventKind,
        /// Its status: a negative errno, for UNREACHABLE over UD a reason.
        status: i32,
    },
    /// A step took too long.
    #[error("{step} took longer than {limit}")]
    TimedOut {
        /// The state that timed out.
        step: State,
        /// The limit that passed.
        limit: Nanos,
    },
    /// All attempts to connect together took too long; this is where the last one was.
    #[error("not connected within {limit}: the last attempt was at {step}")]
    GaveUp {
        /// The state of the last attempt.
        step: State,
        /// The limit that passed, counted from the first attempt.
        limit: Nanos,
    },
    /// The peer was asked for a sign of life and gave none.
    #[error("nothing was heard of the peer for {silent}: {}", silence_words(*.asked, *.acknowledged))]
    KeepaliveLost {
        /// How long nothing had arrived.
        silent: Nanos,
        /// It could be asked: there was a credit for it.
        asked: bool,
        /// Its device acknowledged the question: the machine lives, and the way to it.
        acknowledged: bool,
    },
    /// A call failed on the spot.
    #[error("{step}: {call} failed with errno {errno}")]
    Call {
        /// The state that made the call.
        step: State,
        /// The call.
        call: &'static str,
        /// Its errno.
        errno: i32,
    },
    /// A work request failed.
    #[error("{what} failed: {} (status {}, vendor code {vendor:#x})", status.words(), status.0)]
    Completion {
        /// `send`, `receive`, or the name of a one-sided operation.
        what: &'static str,
        /// The status.
        status: WcStatus,
        /// The vendor's code.
        vendor: u32,
    },
    /// A work request could not be posted.
    #[error("posting a {what} failed with errno {errno}")]
    Post {
        /// `send`, `receive` or `one-sided operation`.
        what: &'static str,
        /// Its errno.
        errno: i32,
    },
    /// The peer's answer to our connect request is not a Spinwire's.
    #[error("the peer's answer is not acceptable: {0}")]
    Hello(#[from] HelloError),
    /// The peer broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    Protocol(#[from] ProtocolError),
    /// The device is gone.
    #[error("the RDMA device was removed")]
    DeviceRemoved,
    /// The device failed.
    #[error("the RDMA device reported a fatal error")]
    DeviceFatal,
}

/// What a peer can do wrong once it is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// More bytes than the buffer has.
    #[error("sent {got} bytes, at most {max} expected")]
    TooLong {
        /// Bytes the completion claims.
        got: u32,
        /// Bytes of the buffer.
        max: u32,
    },
    /// More bytes than the posted receive has; the device saw it, and does not say how many.
    #[error("sent a message longer than its receive of {max} bytes")]
    Overrun {
        /// Bytes of the buffer.
        max: u32,
    },
    /// A message without immediate data, or with bits set that have no meaning.
    #[error("sent immediate data {imm:?} that has no meaning")]
    Imm {
        /// What came.
        imm: Option<u32>,
    },
    /// A message that tells of a write with immediate, of another length than such a message has.
    #[error("told of a write with immediate in {got} bytes, {expected} expected")]
    WriteImm {
        /// Bytes that came.
        got: u32,
        /// Bytes such a message has.
        expected: u32,
    },
    /// More credits than there are receives.
    #[error("gave {got} credits on top of {have}, at most {max} are possible")]
    Credits {
        /// Credits that came.
        got: u32,
        /// Credits we had.
        have: u32,
        /// The peer's window.
        max: u32,
    },
}

/// How a connection's end went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseReport {
    /// The first cause.
    pub reason: CloseReason,
    /// Who was at the far side, where that was known: also of a request that was accepted and never came up.
    pub peer: Option<Peer>,
    /// Whether it was ever up.
    pub was_open: bool,
    /// Messages accepted from the application that were never handed to the device.
    pub unsent: u32,
    /// After a local close: the peer did not confirm all sends within this time, and they were given up. The local
    /// resources are released all the same.
    pub unconfirmed_after: Option<Nanos>,
    /// Attempts to connect that were made; 0 where the peer asked for the connection, or where not one was begun.
    pub attempts: u32,
    /// What ended the attempt before the last, if there was one.
    pub failed_before: Option<CloseReason>,
}

const fn silence_words(asked: bool, acknowledged: bool) -> &'static str {
    match (asked, acknowledged) {
        (true, true) => "its device acknowledges, its program does not answer (stopped, or too busy)",
        (true, false) => "its device does not acknowledge (machine stopped, or the way to it is cut)",
        (false, _) => "it has taken all it has room for and does not go on (stopped, or too busy)",
    }
}

const fn reject_words(code: i32) -> &'static str {
    match code {
        1 => "no queue pair",
        3 => "no resources",
        4 => "timeout",
        6 => "invalid communication id",
        8 => "nobody listens",
        10 => "stale connection",
        24 | 25 => "redirected to another port",
        28 => "refused by the program",
        _ => "see IBTA volume 1, 12.6.7.2",
    }
}

/// Linux' ETIMEDOUT, as a status: over shared memory, of a peer whose loop does not turn.
const TIMED_OUT: i32 = -110;

const fn event_words(step: State, event: CmEventKind, status: i32) -> &'static str {
    match event {
        CmEventKind::Unreachable if matches!((step, status), (State::Established, TIMED_OUT)) => {
            "the peer's program stands still (stopped, or too busy)"
        }
        CmEventKind::AddrError => "the address cannot be resolved",
        CmEventKind::RouteError => "no route to the address",
        CmEventKind::ConnectError => "the connection could not be set up",
        CmEventKind::Unreachable => "the peer is unreachable",
        CmEventKind::Disconnected => "the peer disconnected",
        _ => "unexpected event",
    }
}
