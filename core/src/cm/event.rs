//! What the connection manager reports, as plain values.

use core::fmt;
use core::net::SocketAddr;

use crate::config::PRIVATE_DATA_MAX;
use crate::id::{ConnId, ListenerId, RequestId};

/// Private data as it arrived: zero-padded and longer than what was sent (56 bytes on a request, 196 on an answer,
/// 148 on a refusal over RoCE), so whoever reads it must carry a length of its own.
pub type PrivateData = heapless::Vec<u8, PRIVATE_DATA_MAX>;

/// One event of the connection manager, already acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CmEvent {
    /// Whom it concerns.
    pub target: Target,
    /// What happened.
    pub kind: CmEventKind,
    /// The event's status as rdma_get_cm_event(3) gives it: for REJECTED an InfiniBand reason code, for UNREACHABLE
    /// and the ERROR events a negative errno, else 0.
    pub status: i32,
    /// Private data that came with it; empty when there was none.
    pub private_data: PrivateData,
    /// Who is at the far side, where that is known: on requests, and on ESTABLISHED where it is learned only then.
    pub peer: Option<Peer>,
}

/// Who is at the far side of a connection, as far as the fabric tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A network address.
    Address(SocketAddr),
    /// A process of this machine.
    Process {
        /// Its id; 0 when it is in a process namespace that cannot be seen from here.
        pid: u32,
        /// The user it ran as when it connected or began to listen.
        uid: u32,
    },
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Address(address) => address.fmt(f),
            Peer::Process { pid: 0, uid } => write!(f, "a process out of sight (user {uid})"),
            Peer::Process { pid, uid } => write!(f, "process {pid} (user {uid})"),
        }
    }
}

/// Whom an event concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A connection. The handle may be of an earlier life of its slot; the engine checks.
    Conn(ConnId),
    /// A new request at a listener.
    Request(ListenerId, RequestId),
    /// A listener itself (its device went away, its address changed).
    Listener(ListenerId),
    /// Every connection on the device: a fatal asynchronous event of the device.
    Device,
}

/// The event's kind: `enum rdma_cm_event_type` of rdma_cm(7), with the numbers it cannot name kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmEventKind {
    /// Address resolved (active side).
    AddrResolved,
    /// Address not resolved.
    AddrError,
    /// Route resolved (active side).
    RouteResolved,
    /// Route not resolved.
    RouteError,
    /// A peer asks for a connection (passive side).
    ConnectRequest,
    /// The peer accepted, and we have to establish: only for queue pairs the library does not own.
    ConnectResponse,
    /// Connecting failed for a reason of our own.
    ConnectError,
    /// The peer cannot be reached or does not answer. Kernels from 6.0 also send it on an established connection.
    Unreachable,
    /// The peer refused.
    Rejected,
    /// The connection is up.
    Established,
    /// The connection is down.
    Disconnected,
    /// The device went away; the id must be destroyed.
    DeviceRemoval,
    /// A multicast group was joined.
    MulticastJoin,
    /// A multicast group was left on an error.
    MulticastError,
    /// The address moved to another device (bonding).
    AddrChange,
    /// The queue pair left the time-wait state and may be reused.
    TimewaitExit,
    /// The device reported a fatal asynchronous event (IBV_EVENT_DEVICE_FATAL, CQ_ERR); not an rdma_cm event.
    DeviceFatal,
    /// A number this version does not know.
    Unknown(u32),
}
