//! The words of the connection state machine: states, inputs, guards, steps, limits.

use core::fmt;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Active side: asked for, nothing done yet.
    Opening,
    /// Passive side: a request that was given a slot.
    Requested,
    /// Active side: waits for ADDR_RESOLVED.
    AddrResolving,
    /// Active side: waits for ROUTE_RESOLVED.
    RouteResolving,
    /// Active side: waits for the peer's answer.
    Connecting,
    /// Active side: an attempt failed, the next one is due a little later.
    BackingOff,
    /// Passive side: accepted, waits for ESTABLISHED or the first message.
    Accepting,
    /// Up: messages flow.
    Established,
    /// Closed by the application: what was sent is still on its way.
    Lingering,
    /// Disconnected: posted receives come back, messages that had arrived are still delivered.
    Draining,
    /// Over; the slot is free again. Never stored.
    Closed,
}

/// What can happen to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// The engine takes up a new connection.
    Start,
    /// RDMA_CM_EVENT_ADDR_RESOLVED.
    AddrResolved,
    /// RDMA_CM_EVENT_ADDR_ERROR.
    AddrError,
    /// RDMA_CM_EVENT_ROUTE_RESOLVED.
    RouteResolved,
    /// RDMA_CM_EVENT_ROUTE_ERROR.
    RouteError,
    /// RDMA_CM_EVENT_CONNECT_RESPONSE: not for queue pairs the library owns.
    ConnectResponse,
    /// RDMA_CM_EVENT_CONNECT_ERROR.
    ConnectError,
    /// RDMA_CM_EVENT_UNREACHABLE.
    Unreachable,
    /// RDMA_CM_EVENT_REJECTED.
    Rejected,
    /// RDMA_CM_EVENT_ESTABLISHED, with private data this side accepts.
    Established,
    /// RDMA_CM_EVENT_ESTABLISHED, with private data this side cannot accept.
    HelloBad,
    /// RDMA_CM_EVENT_DISCONNECTED.
    Disconnected,
    /// RDMA_CM_EVENT_DEVICE_REMOVAL.
    DeviceRemoval,
    /// RDMA_CM_EVENT_MULTICAST_JOIN.
    MulticastJoin,
    /// RDMA_CM_EVENT_MULTICAST_ERROR.
    MulticastError,
    /// RDMA_CM_EVENT_ADDR_CHANGE.
    AddrChange,
    /// RDMA_CM_EVENT_TIMEWAIT_EXIT.
    TimewaitExit,
    /// An event number this version does not know.
    Unknown,
    /// The device or the queue pair reported a fatal asynchronous event.
    DeviceFatal,
    /// A message arrived.
    Data,
    /// A work request failed, or could not be posted.
    WorkFailed,
    /// The peer broke the protocol.
    PeerFault,
    /// The application closed the connection.
    LocalClose,
    /// Nothing was heard of the peer for the keepalive's interval.
    Quiet,
    /// Every send is confirmed.
    SendsDone,
    /// Every posted receive is back.
    Drained,
    /// The state's deadline passed.
    Deadline,
    /// A step failed on the spot.
    StepFailed,
}

/// On what a row depends besides state and input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// On nothing.
    Always,
    /// The retry policy grants another attempt after this failure. Comes before the row without a guard.
    Again,
}

/// What is to be done on a transition, in order. A step that fails ends the list and feeds [`Input::StepFailed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// rdma_resolve_addr, on an id of its own for each attempt.
    ResolveAddr,
    /// rdma_resolve_route.
    ResolveRoute,
    /// Tie the request's id to the connection.
    Adopt,
    /// rdma_create_qp.
    CreateQp,
    /// Post the first receives: before the peer can send.
    PostRecvs,
    /// rdma_connect.
    Connect,
    /// rdma_accept.
    Accept,
    /// Set what can only be set on a queue pair that is up.
    Tune,
    /// Tell the application that the connection is up.
    Open,
    /// Deliver what arrived before the peer's answer was seen.
    DeliverHeld,
    /// Queue a message that asks the peer for a sign of life.
    Ask,
    /// Queue the goodbye message.
    Goodbye,
    /// rdma_disconnect, once.
    Disconnect,
    /// Destroy the attempt's queue pair, then its id; take the buffers back. What still comes of it is stale.
    Abandon,
    /// Destroy the queue pair, then the id; take the buffers back; report the end; free the slot.
    Release,
}

/// How long a connection may stay in a state. Each but [`Limit::Turn`] is a timer that feeds [`Input::Deadline`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Until the end of the turn: nothing is waited for.
    Turn,
    /// [`Timeouts::resolve`](crate::config::Timeouts::resolve), and the rest of [`Retry::within`](crate::config::Retry::within).
    Resolve,
    /// [`Timeouts::connect`](crate::config::Timeouts::connect), and on the active side the rest of
    /// [`Retry::within`](crate::config::Retry::within).
    Connect,
    /// The pause before the next attempt.
    Backoff,
    /// The keepalive's limit without a sign of the peer; after the peer's goodbye
    /// [`Timeouts::linger`](crate::config::Timeouts::linger). Without a keepalive (raw mode, or switched off) an idle
    /// connection is not a wait, and has no deadline: a peer that vanished is noticed when the kernel says DISCONNECTED,
    /// or by the next send, whose retries run out.
    Keepalive,
    /// [`Timeouts::linger`](crate::config::Timeouts::linger).
    Linger,
    /// [`Timeouts::drain`](crate::config::Timeouts::drain).
    Drain,
}

impl State {
    /// All states a connection can be stored in.
    pub const ALL: [State; 10] = [
        State::Opening,
        State::Requested,
        State::AddrResolving,
        State::RouteResolving,
        State::Connecting,
        State::BackingOff,
        State::Accepting,
        State::Established,
        State::Lingering,
        State::Draining,
    ];

    /// How long a connection may stay in this state.
    pub const fn limit(self) -> Limit {
        match self {
            State::Opening | State::Requested | State::Closed => Limit::Turn,
            State::AddrResolving | State::RouteResolving => Limit::Resolve,
            State::Connecting | State::Accepting => Limit::Connect,
            State::BackingOff => Limit::Backoff,
            State::Established => Limit::Keepalive,
            State::Lingering => Limit::Linger,
            State::Draining => Limit::Drain,
        }
    }

    /// An attempt to connect is under way.
    pub const fn is_attempt(self) -> bool {
        matches!(self, State::AddrResolving | State::RouteResolving | State::Connecting)
    }
}

impl Input {
    /// All inputs.
    pub const ALL: [Input; 28] = [
        Input::Start,
        Input::AddrResolved,
        Input::AddrError,
        Input::RouteResolved,
        Input::RouteError,
        Input::ConnectResponse,
        Input::ConnectError,
        Input::Unreachable,
        Input::Rejected,
        Input::Established,
        Input::HelloBad,
        Input::Disconnected,
        Input::DeviceRemoval,
        Input::MulticastJoin,
        Input::MulticastError,
        Input::AddrChange,
        Input::TimewaitExit,
        Input::Unknown,
        Input::DeviceFatal,
        Input::Data,
        Input::WorkFailed,
        Input::PeerFault,
        Input::LocalClose,
        Input::Quiet,
        Input::SendsDone,
        Input::Drained,
        Input::Deadline,
        Input::StepFailed,
    ];
}

impl fmt::Display for State {
    /// The step in words, as error messages want it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Opening | State::Requested => "set-up",
            State::AddrResolving => "address resolution",
            State::RouteResolving => "route resolution",
            State::Connecting => "connect",
            State::BackingOff => "pause before the next attempt",
            State::Accepting => "accept",
            State::Established => "connection",
            State::Lingering => "waiting for sends",
            State::Draining => "drain",
            State::Closed => "closed",
        })
    }
}
