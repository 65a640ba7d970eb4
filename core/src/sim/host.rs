//! What the network knows of a machine and of an rdma_cm id.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::vec::Vec;

use super::cq::Cqe;
use super::qp::Qp;
use super::witness::Witness;
use crate::cm::event::CmEvent;
use crate::fabric::Action;
use crate::id::{ConnId, WorkId};

/// How far an id has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// rdma_resolve_addr was called.
    AddrResolving,
    /// ADDR_RESOLVED was fetched.
    AddrResolved,
    /// rdma_resolve_route was called.
    RouteResolving,
    /// ROUTE_RESOLVED was fetched.
    RouteResolved,
    /// rdma_connect was called.
    Connecting,
    /// A request that nobody has answered yet.
    Requested,
    /// A request that became a connection.
    Adopted,
    /// rdma_accept was called.
    Accepted,
    /// ESTABLISHED was fetched.
    Up,
    /// Disconnected, refused or failed.
    Down,
}

/// One rdma_cm id.
#[derive(Debug)]
pub struct End {
    /// The machine it is on.
    pub node: usize,
    /// The engine's name for it, once it has one.
    pub conn: Option<ConnId>,
    /// The application's, where the two differ: after an attempt that failed.
    pub handle: Option<ConnId>,
    /// How far it has come.
    pub phase: Phase,
    /// The far side's id, once there is one.
    pub peer: Option<usize>,
    /// The machine it connects to.
    pub target: usize,
    /// Its queue pair.
    pub qp: Option<Qp>,
    /// Destroyed, or its machine is gone.
    pub gone: bool,
    /// This side asked to disconnect.
    pub disconnected: bool,
    /// Messages of the application that were put into its receives.
    pub arrived: u64,
    /// What it was told of the far side in private data cannot be read.
    pub(super) unreadable: bool,
    /// The far side's goodbye arrived.
    pub(super) goodbye: bool,
    /// Events that were fetched and not acknowledged.
    pub(super) unacknowledged: u32,
    /// Sends may meet no receive here, and what comes from here need make no sense.
    pub hostile: bool,
    /// What it was told in private data is not what the far side said, so anything can look like a fault of that side.
    pub(super) misled: bool,
    /// Messages in its receives that no engine may believe, and that were not seen yet.
    pub(super) lies: Vec<WorkId>,
}

impl End {
    /// An id on `node` in `phase`, for a connection with `target`.
    pub fn new(node: usize, phase: Phase, target: usize) -> Self {
        Self {
            node,
            conn: None,
            handle: None,
            phase,
            peer: None,
            target,
            qp: None,
            gone: false,
            disconnected: false,
            arrived: 0,
            unreadable: false,
            goodbye: false,
            unacknowledged: 0,
            hostile: false,
            misled: false,
            lies: Vec::new(),
        }
    }
}

/// One machine.
#[derive(Debug, Default)]
pub struct Host {
    /// Requests find a listener here.
    pub listening: bool,
    /// Its program has ended.
    pub dead: bool,
    /// The ids, by [`ConnId::to_bits`] of the engine's name for them, and of the application's once it is open.
    pub conns: BTreeMap<u64, usize>,
    /// Connections whose id was destroyed.
    pub over: BTreeSet<u64>,
    /// Connection events to fetch, with the id they are of.
    pub events: VecDeque<(CmEvent, Option<usize>)>,
    /// Completions of receives.
    pub recv_cq: VecDeque<Cqe>,
    /// Completions of sends.
    pub send_cq: VecDeque<Cqe>,
    /// Receives a queue pair has room for.
    pub recv_posted_max: usize,
    /// Sends a queue pair has room for.
    pub send_slots: u64,
    /// What it has exposed to its peers.
    pub exposed: Vec<u8>,
    /// The n-th action of this name from now fails.
    pub fail: Option<(&'static str, u32)>,
    /// Numbers of queue pairs that were destroyed, and how many numbers there ever were.
    pub(super) qp_numbers: (Vec<u32>, u32),
    /// Requests accepted.
    pub accepted: u32,
    /// Requests refused.
    pub rejected: u32,
    /// Ids on which something was posted since [`Wire::settle`](super::Wire::settle).
    pub posted: Vec<usize>,
    /// Turns its engine has begun.
    pub(super) turn: u64,
    /// It is in one.
    pub(super) in_turn: bool,
    /// The step it is in, as far as that is seen from here: the last one that looked for something.
    pub(super) step: u8,
    /// What its engine was shown, by slot and generation of the connection.
    pub(super) witnesses: BTreeMap<(usize, u64), Witness>,
}

impl Host {
    /// The number of a new queue pair: devices give out those first that became free last.
    pub(super) fn qp_number(&mut self) -> u32 {
        let (free, count) = &mut self.qp_numbers;
        free.pop().unwrap_or_else(|| {
            *count += 1;
            *count
        })
    }
}

/// The call behind an action, as its manual page names it.
pub fn call_of(action: Action<'_>) -> &'static str {
    match action {
        Action::ResolveAddr(_) => "rdma_resolve_addr",
        Action::ResolveRoute => "rdma_resolve_route",
        Action::Adopt(_) => "adopt",
        Action::CreateQp => "rdma_create_qp",
        Action::Connect(_) => "rdma_connect",
        Action::Accept(_) => "rdma_accept",
        Action::Tune => "ibv_modify_qp",
        Action::Disconnect => "rdma_disconnect",
        Action::DestroyQp => "rdma_destroy_qp",
        Action::DestroyId => "rdma_destroy_id",
    }
}
