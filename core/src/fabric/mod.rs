//! The two seams to the outside: [`Fabric`] moves data, [`Control`] makes and ends connections.
//!
//! Both are implemented by a platform (verbs over rdma_cm) and by the tests' fakes. Everything here is called from one
//! thread, never blocks, and allocates nothing. The engine is generic over the implementations, so a call costs what
//! the implementation costs.

mod buffers;
mod one_sided;

pub use buffers::BufferMap;
pub use one_sided::{OneSidedOp, OneSidedWr};

use crate::cm::event::CmEvent;
use crate::config::BATCH_MAX;
use crate::id::{ConnId, EndpointId, RequestId, WorkId};
use crate::pool::{Direction, Lease};
use crate::time::Instant;

/// Completions of one poll, at most [`BATCH_MAX`].
pub type Batch = heapless::Vec<Completion, BATCH_MAX>;

/// The data path.
pub trait Fabric {
    /// Tells where the buffers are that will be posted. Called once, before anything else.
    fn prepare(&mut self, buffers: &BufferMap);

    /// Appends receive completions to `out` until it is full or the queue is empty.
    ///
    /// The order is that of arrival per connection. No order is promised against [`Fabric::poll_send`].
    fn poll_recv(&mut self, out: &mut Batch);

    /// Appends send completions to `out` until it is full or the queue is empty. In posting order per connection.
    fn poll_send(&mut self, out: &mut Batch);

    /// Posts receives in one chain. The buffers belong to the device until their completion or until the queue pair is
    /// destroyed, also when the connection fails. Which of a connection's receives a message takes is the fabric's choice.
    ///
    /// # Errors
    /// The first `taken` were posted, the rest were not.
    fn post_recv(&mut self, conn: ConnId, chain: &[RecvWr]) -> Result<(), PostError>;

    /// Posts sends as one chain with one doorbell: all of `chain.0`, then all of `chain.1` (the two halves of a ring
    /// that wraps; the second may be empty, the first never is). Inline payloads are copied during the call; other buffers belong
    /// to the device until a completion retires them or until the queue pair is destroyed.
    ///
    /// # Errors
    /// The first `taken` of both halves together were posted, the rest were not.
    fn post_send(&mut self, conn: ConnId, chain: (&[SendWr], &[SendWr])) -> Result<(), PostError>;

    /// Posts one-sided operations as one chain with one doorbell, in order, behind what was posted on the connection
    /// before: a send that is posted later arrives when what these write is in the peer's memory. Each comes back by a
    /// completion in [`Fabric::poll_send`], in order; its buffer belongs to the device until then, or until the queue pair
    /// is destroyed. What [`SendWr`]s retire is not affected.
    ///
    /// An operation that the peer does not allow fails with [`WcStatus::REM_ACCESS_ERR`] and breaks the queue pair.
    ///
    /// # Errors
    /// The first `taken` were posted, the rest were not. `EOPNOTSUPP` (95) from a fabric that has no such operations, as
    /// by default.
    fn post_one_sided(&mut self, conn: ConnId, chain: &[OneSidedWr]) -> Result<(), PostError> {
        let _ = (conn, chain);
        Err(PostError { taken: 0, errno: 95 })
    }

    /// Reads and atomics that the connection may have under way, once it is up: what the two devices agreed on. 0, as by
    /// default, where there can be none.
    fn reads_max(&self, conn: ConnId) -> u32 {
        let _ = conn;
        0
    }

    /// The number of the connection's queue pair, which all its completions carry; `None` while it has no queue pair.
    /// The engine asks once, when [`Action::CreateQp`] has succeeded, and panics if there is none then.
    fn qp_num(&self, conn: ConnId) -> Option<u32>;
}

/// The connection path.
///
/// Implementations acknowledge an event to the library below *before* they hand it out, so nothing done about an event
/// can wait for its acknowledgement.
pub trait Control {
    /// The data path the connections of this control belong to.
    type Fabric: Fabric;

    /// The next connection event, if one waits. When none does this costs a memory load (or, where the kernel refuses
    /// the means, a call on a time budget read from `now`).
    fn poll_event(&mut self, now: Instant) -> Option<CmEvent>;

    /// Carries out one action of a connection. What it leads to comes back as an event.
    ///
    /// # Errors
    /// The call that failed and its errno. The engine then gives the connection up; [`Action::DestroyQp`] and
    /// [`Action::DestroyId`] are performed nevertheless and must cope with what was never made.
    fn perform(&mut self, fabric: &mut Self::Fabric, conn: ConnId, action: Action<'_>) -> Result<(), ActionError>;

    /// How many endpoints there are to connect to, numbered from 0.
    fn endpoints(&self) -> u32;

    /// Refuses a connection request that was never given a connection, with up to
    /// [`CONNECT_PRIVATE_DATA_MAX`](crate::config::CONNECT_PRIVATE_DATA_MAX) bytes for the far side. The request is gone afterwards.
    fn reject(&mut self, request: RequestId, private_data: &[u8]);
}

/// What the engine wants done for one connection. The order in which a connection asks is fixed by the transition
/// table ([`crate::cm::table`]); an implementation never sees a call its connection is not ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Active side: make an id and resolve the address of the endpoint (rdma_resolve_addr(3)).
    ResolveAddr(EndpointId),
    /// Active side: rdma_resolve_route(3).
    ResolveRoute,
    /// Passive side: the request becomes this connection; its later events carry the connection's handle.
    Adopt(RequestId),
    /// Make the queue pair (rdma_create_qp(3)) and everything the fabric needs to post on it.
    CreateQp,
    /// Active side: send the connect request with this private data (rdma_connect(3)).
    Connect(&'a [u8]),
    /// Passive side: accept with this private data (rdma_accept(3)).
    Accept(&'a [u8]),
    /// The connection is up: set what can only be set now (`min_rnr_timer`).
    Tune,
    /// End the connection; posted work starts to come back flushed (rdma_disconnect(3); EINVAL, already down, is success).
    Disconnect,
    /// Destroy the queue pair. After it returns the device touches none of the connection's buffers any more.
    DestroyQp,
    /// Destroy the id; no event of the connection comes after that.
    DestroyId,
}

/// An action failed on the spot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed with errno {errno}")]
pub struct ActionError {
    /// The call that failed, as its manual page names it.
    pub call: &'static str,
    /// Its positive errno.
    pub errno: i32,
}

/// A post failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("post failed with errno {errno} after {taken} work requests")]
pub struct PostError {
    /// How many work requests of the chain were posted before the one that failed.
    pub taken: u32,
    /// The positive errno.
    pub errno: i32,
}

/// A receive to post: into the whole of the buffer that its work id names, of the receive pool.
#[derive(Debug)]
#[repr(transparent)]
pub struct RecvWr {
    work: WorkId,
}

impl RecvWr {
    /// Nothing: what an unused place of a chain holds.
    pub const EMPTY: RecvWr = RecvWr { work: WorkId::from_bits(0) };

    /// A receive into `buf`, of the connection and kind of `work`.
    ///
    /// # Panics
    /// The buffer is not from the receive pool.
    pub fn new(work: WorkId, buf: Lease) -> Self {
        assert!(buf.from() == Direction::Recv, "a receive into a send buffer");
        Self { work: work.with_index(buf.index()) }
    }

    /// Of a buffer that was lent for exactly `work`.
    #[inline]
    pub(crate) const fn of_work(work: WorkId) -> Self {
        Self { work }
    }

    /// Comes back with the completion. Its index is that of the buffer.
    #[inline]
    pub const fn wr_id(&self) -> WorkId {
        self.work
    }
}

/// A send to post.
#[derive(Debug)]
pub struct SendWr {
    /// Comes back with the completion, if one comes.
    pub wr_id: WorkId,
    /// Immediate data in host byte order; `None` for a plain send.
    pub imm: Option<u32>,
    /// The payload's buffer; `None` for a message without payload.
    pub buf: Option<Lease>,
    /// Payload length in bytes, at most the buffer's. Whether it is copied at post time is the fabric's business
    /// ([`BufferMap::is_inline`]).
    pub len: u32,
    /// Ask for a completion (`IBV_SEND_SIGNALED`).
    pub signaled: bool,
}

/// A completion, with only the fields that mean something: of a failed one no more than status, vendor code, queue
/// pair number and work id are defined (ibv_poll_cq(3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The work id that was posted.
    pub wr_id: WorkId,
    /// The local queue pair's number. The engine believes a completion only if it is that of the connection its work id
    /// names.
    pub qp_num: u32,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was carried out. For a receive, `bytes` arrived, with immediate data if there was any (host byte order).
    /// For a send both fields mean nothing and are zero and `None`.
    Done {
        /// Bytes received. A claim of the peer's: the engine checks it against the buffer.
        bytes: u32,
        /// Immediate data in host byte order.
        imm: Option<u32>,
    },
    /// It failed.
    Failed {
        /// `ibv_wc_status` as a number; 5 is a flush, which is normal while closing.
        status: WcStatus,
        /// The vendor's code, for a support case.
        vendor: u32,
    },
}

/// `ibv_wc_status` as a number: it comes from C, so any value can be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WcStatus(pub u32);

impl WcStatus {
    /// The message did not fit into the posted receive.
    pub const LOC_LEN_ERR: WcStatus = WcStatus(1);
    /// The work request was flushed because the queue pair went to the error state.
    pub const WR_FLUSH_ERR: WcStatus = WcStatus(5);
    /// The peer does not allow that operation there, or there is no such memory.
    pub const REM_ACCESS_ERR: WcStatus = WcStatus(10);
    /// The peer did not acknowledge within timeout x retries.
    pub const RETRY_EXC_ERR: WcStatus = WcStatus(12);
    /// The peer had no receive posted for too long.
    pub const RNR_RETRY_EXC_ERR: WcStatus = WcStatus(13);

    /// The status in words, as ibv_wc_status_str(3) would put it.
    pub const fn words(self) -> &'static str {
        match self.0 {
            0 => "success",
            1 => "local length error: the message is longer than the posted receive",
            2 => "local queue pair operation error; on Soft-RoCE also: the message is longer than its receive",
            3 => "local end-to-end context error",
            4 => "local protection error",
            5 => "flushed",
            6 => "memory window bind error",
            7 => "bad response",
            8 => "local access error",
            9 => "remote invalid request: the peer's receive is too small or the operation is not allowed",
            10 => "remote access error",
            11 => "remote operation error",
            12 => "transport retry counter exceeded: the peer does not acknowledge",
            13 => "receiver-not-ready retry counter exceeded: the peer posted no receive buffer",
            14 => "local rdd violation",
            15 => "remote invalid rd request",
            16 => "remote aborted",
            17 => "invalid end-to-end context number",
            18 => "invalid end-to-end context state",
            19 => "fatal error",
            20 => "response timeout",
            21 => "general error",
            _ => "unknown completion status",
        }
    }
}
