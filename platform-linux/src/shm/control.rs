//! [`Control`] over Unix sockets: the connection path of one core, performed in its loop.

mod perform;

use core::marker::PhantomData;
use core::time::Duration;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use spinwire_core::cm::event::{CmEvent, CmEventKind, Peer, PrivateData, Target};
use spinwire_core::fabric::{Action, ActionError, Control};
use spinwire_core::id::{ConnId, EndpointId, ListenerId, RequestId};
use spinwire_core::time::{Instant, Nanos};

use super::arenas::PeerArenas;
use super::closer::{Closer, Whose};
use super::conn::{Conn, Incoming};
use super::dropped::{DropReason, Dropped};
use super::exposed::{self, OwnRegion, REGIONS_MAX};
use super::fabric::ShmFabric;
use super::listener::{ListenError, Listener};
use super::name::Name;
use super::options::{ControlError, ShmControlCounters, ShmControlOptions};
use super::poller::Poller;
use super::pulse::Pulse;
use super::socket::{Credentials, Socket};
use super::token::Token;
use super::wire::Packet;
use crate::mem::memfd::limit;
use crate::readiness::{Readiness, Watch};
use crate::sys::os::{CallError, Errno, wait_readable};

/// Connections' sockets, listeners and endpoints of one core; events in, actions out.
pub struct ShmControl<'m> {
    pub(super) conns: Vec<Option<Conn>>,
    pub(super) incoming: Vec<Option<Incoming>>,
    /// Places of `incoming` that are taken.
    pub(super) waiting_clients: usize,
    /// A client could not be let in, for want of a descriptor most likely.
    pub(super) starved: bool,
    /// Connections whose request waits for room at the server.
    pub(super) busy: usize,
    pub(super) last_serial: u32,
    pub(super) listeners: Vec<Listener>,
    endpoints: Vec<Name>,
    pub(super) options: ShmControlOptions,
    watch: Watch,
    pub(super) poller: Poller,
    /// The poller may have more to tell.
    pub(super) pending: bool,
    pub(super) events: VecDeque<CmEvent>,
    pub(super) pulse: Pulse,
    /// This core's buffers and their length, if they may be lent.
    pub(super) arena: Option<(Arc<OwnedFd>, u64)>,
    pub(super) peer_arenas: PeerArenas,
    pub(super) closer: Closer,
    /// What this core exposes to its peers.
    exposed: Vec<Rc<OwnRegion>>,
    pub(super) next_tick: Instant,
    pub(super) next_look: Instant,
    pub(super) now: Instant,
    pub(super) counters: ShmControlCounters,
    pub(super) last_dropped: Option<Dropped>,
    pub(super) last_failure: Option<CallError>,
    fabric: PhantomData<fn(&'m ())>,
}

/// Clients that can be between their arrival and the engine's answer at once.
const INCOMING_MAX: usize = 1_024;
/// With few open files, a quarter of them, and at least so many: those who say nothing are not to use up what connections need.
const INCOMING_MIN: usize = 16;
/// Between two ticks.
pub(super) const TICK: Nanos = Nanos::from_millis(10);

impl ShmControl<'_> {
    /// A control without listeners. `slots` is the length of the engine's connection table.
    ///
    /// # Errors
    /// The kernel gives no epoll set, no shared page or no watch on the set.
    pub fn new(slots: usize, options: ShmControlOptions) -> Result<Self, ControlError> {
        Self::with_closer(slots, options, Closer::new()?)
    }

    /// The same with threads that were started before the calling thread was pinned.
    pub(crate) fn with_closer(slots: usize, options: ShmControlOptions, closer: Closer) -> Result<Self, ControlError> {
        let poller = Poller::new()?;
        let mut watch = Watch::new(options.readiness);
        watch.add(poller.as_fd())?;
        let places = (limit(libc::RLIMIT_NOFILE).rlim_cur / 4).clamp(INCOMING_MIN as u64, INCOMING_MAX as u64) as usize;
        Ok(ShmControl {
            conns: std::iter::repeat_with(|| None).take(slots).collect(),
            incoming: std::iter::repeat_with(|| None).take(places).collect(),
            waiting_clients: 0,
            starved: false,
            busy: 0,
            last_serial: 0,
            listeners: Vec::new(),
            endpoints: Vec::new(),
            options,
            watch,
            poller,
            pending: true,
            events: VecDeque::with_capacity(2 * INCOMING_MAX),
            pulse: Pulse::new()?,
            arena: None,
            peer_arenas: PeerArenas::default(),
            closer,
            exposed: Vec::new(),
            next_tick: Instant::ZERO,
            next_look: Instant::ZERO,
            now: Instant::ZERO,
            counters: ShmControlCounters::default(),
            last_dropped: None,
            last_failure: None,
            fabric: PhantomData,
        })
    }

    /// Starts to listen. Before the loop, or between turns.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn listen(&mut self, name: &Name) -> Result<ListenerId, ListenError> {
        let number = u32::try_from(self.listeners.len()).unwrap_or(u32::MAX);
        let listener = Listener::bind(name, &self.options.users)?;
        self.poller
            .add(&listener.socket, Token::Listener(number).pack())
            .map_err(|cause| ListenError::Call { name: name.clone(), cause })?;
        self.listeners.push(listener);
        Ok(ListenerId(number))
    }

    /// Whether a listener found the socket file of a dead server in its place, and removed it.
    pub fn replaced_a_dead_one(&self, listener: ListenerId) -> bool {
        self.listeners.get(listener.0 as usize).is_some_and(Listener::replaced)
    }

    /// Names a place to connect to, for [`Action::ResolveAddr`].
    pub fn add_endpoint(&mut self, name: Name) -> EndpointId {
        self.endpoints.push(name);
        EndpointId(u32::try_from(self.endpoints.len() - 1).unwrap_or(u32::MAX))
    }

    /// Exposes a region to the peers of all connections that are made from now on.
    ///
    /// # Panics
    /// There are [`REGIONS_MAX`] already.
    pub(crate) fn expose(&mut self, region: Rc<OwnRegion>) {
        assert!(self.exposed.len() < REGIONS_MAX, "more regions than can be passed");
        self.exposed.push(region);
    }

    /// Passes what is exposed to the peer, before the request or the accept.
    pub(super) fn pass_regions(&self, socket: &Socket) -> Result<(), CallError> {
        if self.exposed.is_empty() {
            return Ok(());
        }
        let fds: Vec<_> = self.exposed.iter().map(|region| region.fd().as_fd()).collect();
        let table = exposed::table(self.exposed.iter().map(Rc::as_ref));
        socket.send(&Packet::Exposed(table).encode(), &fds)
    }

    /// How waiting events are seen, to be reported.
    pub fn readiness(&self) -> Readiness {
        self.watch.readiness()
    }

    /// Waits in the kernel for an event, at most `limit` and at most 50 ms: peers watch that this loop turns. For a loop
    /// that has nothing to do; messages do not end the wait. One system call.
    pub fn wait(&self, limit: Duration) {
        wait_readable([self.poller.as_fd()], limit.min(Duration::from_millis(50)));
    }

    /// What was done so far.
    pub fn counters(&self) -> ShmControlCounters {
        self.counters
    }

    /// The last client that was turned away before the engine saw it.
    pub fn last_dropped(&self) -> Option<Dropped> {
        self.last_dropped
    }

    /// The last failure that the engine could not be told.
    pub fn last_failure(&self) -> Option<CallError> {
        self.last_failure
    }

    pub(super) fn note_failure(&mut self, error: CallError) {
        self.counters.failures += 1;
        self.last_failure = Some(error);
    }

    pub(super) fn note_dropped(&mut self, client: Credentials, why: DropReason) {
        self.counters.dropped += 1;
        self.last_dropped = Some(Dropped { client, why });
    }

    pub(super) fn push(
        &mut self,
        target: Target,
        kind: CmEventKind,
        status: i32,
        data: PrivateData,
        peer: Option<Peer>,
    ) {
        self.events.push_back(CmEvent { target, kind, status, private_data: data, peer });
    }

    /// An event of a connection that carries nothing.
    pub(super) fn push_plain(&mut self, conn: ConnId, kind: CmEventKind, status: i32) {
        self.push(Target::Conn(conn), kind, status, PrivateData::new(), None);
    }

    pub(super) fn conn(&mut self, id: ConnId, call: &'static str) -> Result<&mut Conn, CallError> {
        let entry = self.conns.get_mut(id.slot()).and_then(Option::as_mut);
        entry.filter(|conn| conn.id == id).ok_or(CallError { call, errno: Errno(libc::ENOTCONN) })
    }

    pub(super) fn place(&mut self, conn: Conn) -> Result<(), CallError> {
        let full = |errno| CallError { call: "socket", errno: Errno(errno) };
        match self.conns.get_mut(conn.id.slot()) {
            Some(slot @ None) => *slot = Some(conn),
            // The engine destroys what a slot has before it uses the slot again.
            Some(Some(_)) => return Err(full(libc::EBUSY)),
            None => return Err(full(libc::ENOSPC)),
        }
        Ok(())
    }
}

/// Cut to what there is room for; the engine's own is shorter.
fn private_data(bytes: &[u8]) -> PrivateData {
    bytes.iter().copied().take(spinwire_core::config::CONNECT_PRIVATE_DATA_MAX).collect()
}

impl<'m> Control for ShmControl<'m> {
    type Fabric = ShmFabric<'m>;

    #[inline]
    fn poll_event(&mut self, now: Instant) -> Option<CmEvent> {
        if now >= self.next_tick {
            self.tick(now);
        }
        match self.watch.check(now) {
            Ok(0) => {}
            Ok(_) => self.pending = true,
            Err(error) => self.note_failure(error),
        }
        if !self.pending && self.events.is_empty() { None } else { self.drain(now) }
    }

    fn perform(&mut self, fabric: &mut Self::Fabric, conn: ConnId, action: Action<'_>) -> Result<(), ActionError> {
        self.try_perform(fabric, conn, action).map_err(|CallError { call, errno }| ActionError { call, errno: errno.0 })
    }

    fn endpoints(&self) -> u32 {
        u32::try_from(self.endpoints.len()).unwrap_or(u32::MAX)
    }

    fn reject(&mut self, request: RequestId, data: &[u8]) {
        if let Some(incoming) = self.take_incoming(request.0) {
            self.refuse(&incoming.socket, REFUSED_BY_PROGRAM, private_data(data));
            self.part_with(incoming.socket, Whose::Peers);
        }
    }
}

/// The code of a refusal by the program: IBTA volume 1, 12.6.7.2.
pub(super) const REFUSED_BY_PROGRAM: i32 = 28;
