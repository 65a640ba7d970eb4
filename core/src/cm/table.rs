//! The connection state machine as a table: (state, input) -> (next state, steps). Nothing else is in this file.
//!
//! A combination that is not listed is of no consequence: the engine counts it and stays where it is. The whole table,
//! every state against every input, is rendered and kept as a snapshot by a test.

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
    /// Every send is confirmed.
    SendsDone,
    /// Every posted receive is back.
    Drained,
    /// The state's deadline passed.
    Deadline,
    /// A step failed on the spot.
    StepFailed,
}

/// What is to be done on a transition, in order. A step that fails ends the list and feeds [`Input::StepFailed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// rdma_resolve_addr.
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
    /// Queue the goodbye message.
    Goodbye,
    /// rdma_disconnect, once.
    Disconnect,
    /// Destroy the queue pair, then the id; take the buffers back; report the end; free the slot.
    Release,
}

/// One row: where it leads and what is done on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The next state.
    pub to: State,
    /// The steps, in order.
    pub steps: &'static [Step],
}

/// Looks up what `input` means in `state`; `None`: nothing.
#[inline]
pub fn next(state: State, input: Input) -> Option<Row> {
    use {Input as I, State as S, Step::*};
    let (to, steps): (State, &'static [Step]) = match (state, input) {
        (S::Opening, I::Start) => (S::AddrResolving, &[ResolveAddr]),
        (S::AddrResolving, I::AddrResolved) => (S::RouteResolving, &[ResolveRoute]),
        (S::RouteResolving, I::RouteResolved) => (S::Connecting, &[CreateQp, PostRecvs, Connect]),
        (S::Connecting, I::Established) => (S::Established, &[Tune, Open]),
        // The peer believes it is connected: tell it otherwise.
        (S::Connecting, I::HelloBad | I::PeerFault | I::WorkFailed) => (S::Draining, &[Disconnect]),

        (S::Requested, I::Start) => (S::Accepting, &[Adopt, CreateQp, PostRecvs, Accept]),
        // A message proves that the peer is up, and can be seen before the event.
        (S::Accepting, I::Established | I::Data) => (S::Established, &[Tune, Open]),
        // Connected, sent and gone before its ESTABLISHED was seen: what it sent is still delivered.
        (S::Accepting, I::Disconnected | I::WorkFailed | I::PeerFault) => (S::Draining, &[Disconnect]),

        (S::Opening | S::Requested, I::LocalClose | I::DeviceRemoval | I::DeviceFatal) => (S::Closed, &[Release]),
        (
            S::AddrResolving | S::RouteResolving | S::Connecting | S::Accepting,
            I::AddrError
            | I::RouteError
            | I::ConnectResponse
            | I::ConnectError
            | I::Unreachable
            | I::Rejected
            | I::Disconnected
            | I::DeviceRemoval
            | I::DeviceFatal
            | I::LocalClose
            | I::Deadline
            | I::StepFailed,
        ) => (S::Closed, &[Release]),

        (S::Established, I::LocalClose) => (S::Lingering, &[Goodbye]),
        (
            S::Established,
            // Has a deadline only after the peer's goodbye, when nothing but its disconnect can follow.
            I::Deadline
            | I::Disconnected
            | I::Unreachable
            | I::ConnectError
            | I::Rejected
            | I::DeviceFatal
            | I::WorkFailed
            | I::PeerFault
            | I::StepFailed,
        ) => (S::Draining, &[Disconnect]),
        (
            S::Lingering,
            I::SendsDone
            | I::Deadline
            | I::Disconnected
            | I::Unreachable
            | I::ConnectError
            | I::Rejected
            | I::DeviceFatal
            | I::WorkFailed
            | I::PeerFault
            | I::StepFailed,
        ) => (S::Draining, &[Disconnect]),
        // A disconnect that failed changes nothing: what has arrived is still delivered until the deadline.
        (S::Draining, I::Drained | I::Deadline) => (S::Closed, &[Release]),
        (S::Established | S::Lingering | S::Draining, I::DeviceRemoval) => (S::Closed, &[Release]),

        _ => return None,
    };
    Some(Row { to, steps })
}

impl State {
    /// All states a connection can be stored in.
    pub const ALL: [State; 9] = [
        State::Opening,
        State::Requested,
        State::AddrResolving,
        State::RouteResolving,
        State::Connecting,
        State::Accepting,
        State::Established,
        State::Lingering,
        State::Draining,
    ];
}

impl Input {
    /// All inputs.
    pub const ALL: [Input; 27] = [
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
            State::Accepting => "accept",
            State::Established => "connection",
            State::Lingering => "waiting for sends",
            State::Draining => "drain",
            State::Closed => "closed",
        })
    }
}
