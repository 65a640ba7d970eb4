//! [`Control`] over rdma_cm: the connection path of one core, performed in its loop.

mod events;

use core::marker::PhantomData;
use core::time::Duration;
use std::net::SocketAddr;

use spinwire_core::cm::event::CmEvent;
use spinwire_core::fabric::{Action, ActionError, Control};
use spinwire_core::id::{ConnId, EndpointId, ListenerId, RequestId};
use spinwire_core::time::Instant;

use super::address::{AddressError, explain, without_device};
use super::channel::{Channel, ChannelError};
use super::id::CmId;
use super::options::{ControlCounters, ControlOptions, Endpoint};
use super::token::Token;
use crate::readiness::{Readiness, Watch};
use crate::sys::os::{CallError, Errno, wait_readable};
use crate::verbs::{AsyncEvent, CqId, Device, VerbsFabric};

/// Connections' ids, listeners and endpoints of one core; events in, actions out.
///
/// Events are acknowledged to librdmacm before they are handed out, so no action on an id waits for this loop.
pub struct VerbsControl<'m> {
    // Ids go when the control does, before the channel. Queue pairs hold theirs, so those go first in any case.
    conns: Vec<Option<(ConnId, CmId)>>,
    requests: Vec<Option<CmId>>,
    listeners: Vec<CmId>,
    endpoints: Vec<Endpoint>,
    device: Device,
    options: ControlOptions,
    watch: Watch,
    channel_bit: u32,
    device_bit: u32,
    /// What is not drained yet of what the watch showed.
    pending: u32,
    channel: Channel,
    counters: ControlCounters,
    last_failure: Option<CallError>,
    last_device_event: Option<AsyncEvent>,
    /// The completion queues of our fabric, from its first queue pair on: without one, nothing breaks them.
    cqs: Option<[CqId; 2]>,
    cq_failed: bool,
    fabric: PhantomData<fn(&'m ())>,
}

/// Connect requests that can wait for the engine at once. It answers each in the turn that brought it.
const REQUESTS_MAX: usize = 1_024;

impl VerbsControl<'_> {
    /// Opens a channel for the connections of `device`. `slots` is the length of the engine's connection table.
    ///
    /// # Errors
    /// [`ChannelError::NoRdma`] says what is missing and how to get it.
    pub fn new(device: &Device, slots: usize, options: ControlOptions) -> Result<Self, ChannelError> {
        let channel = Channel::open()?;
        let mut watch = Watch::new(options.readiness);
        let channel_bit = watch.add(channel.fd())?;
        let device_bit = watch.add(device.async_fd())?;
        Ok(VerbsControl {
            conns: core::iter::repeat_with(|| None).take(slots).collect(),
            requests: core::iter::repeat_with(|| None).take(REQUESTS_MAX).collect(),
            listeners: Vec::new(),
            endpoints: Vec::new(),
            device: device.clone(),
            options,
            watch,
            channel_bit,
            device_bit,
            pending: 0,
            channel,
            counters: ControlCounters::default(),
            last_failure: None,
            last_device_event: None,
            cqs: None,
            cq_failed: false,
            fabric: PhantomData,
        })
    }

    /// Starts to listen. Before the loop, or between turns.
    ///
    /// # Errors
    /// [`AddressError`] says what is wrong with the address and which ones can be used.
    pub fn listen(&mut self, address: SocketAddr) -> Result<ListenerId, AddressError> {
        let number = u32::try_from(self.listeners.len()).unwrap_or(u32::MAX);
        let call_failed = |cause| explain(address, cause);
        let mut id = CmId::new(&self.channel, Token::Listener(number).pack()).map_err(call_failed)?;
        id.bind(address).map_err(|error| explain(address, error.into()))?;
        // Binding to an address without a device can succeed: 127.0.0.1 does.
        if !id.has_device()
            && let Some(error) = without_device(address)
        {
            return Err(error);
        }
        id.listen(self.options.backlog).map_err(|error| explain(address, error.into()))?;
        self.listeners.push(id);
        Ok(ListenerId(number))
    }

    /// The address a listener has, with the port that the kernel chose if 0 was asked.
    pub fn listener_address(&self, listener: ListenerId) -> Option<SocketAddr> {
        self.listeners.get(listener.0 as usize)?.local_address()
    }

    /// Names a place to connect to, for [`Action::ResolveAddr`].
    pub fn add_endpoint(&mut self, endpoint: Endpoint) -> EndpointId {
        self.endpoints.push(endpoint);
        EndpointId(u32::try_from(self.endpoints.len() - 1).unwrap_or(u32::MAX))
    }

    /// How waiting events are seen, to be reported.
    pub fn readiness(&self) -> Readiness {
        self.watch.readiness()
    }

    /// Waits in the kernel for an event, at most `limit` (rounded up to whole milliseconds). For a loop that has nothing
    /// to do; messages do not end the wait. One system call.
    pub fn wait(&self, limit: Duration) {
        wait_readable([self.channel.fd(), self.device.async_fd()], limit);
    }

    /// What was done so far.
    pub fn counters(&self) -> ControlCounters {
        self.counters
    }

    /// Events fetched from and given back to librdmacm: always equal.
    pub fn event_counts(&self) -> (u64, u64) {
        self.channel.counts()
    }

    /// The last failure that the engine could not be told.
    pub fn last_failure(&self) -> Option<CallError> {
        self.last_failure
    }

    /// The last event of the device itself, such as a port that went down.
    pub fn last_device_event(&self) -> Option<AsyncEvent> {
        self.last_device_event
    }

    /// Whether the device reported one of our completion queues as broken (`IBV_EVENT_CQ_ERR`): an overrun or a
    /// protection error. No completion comes from it any more, so no connection can be served.
    pub fn cq_failed(&self) -> bool {
        self.cq_failed
    }

    /// The local address of a connection, while it has an id.
    pub fn local_address(&self, conn: ConnId) -> Option<SocketAddr> {
        self.conns.get(conn.slot())?.as_ref().filter(|(owner, _)| *owner == conn)?.1.local_address()
    }

    fn note_failure(&mut self, error: CallError) {
        self.counters.failures += 1;
        self.last_failure = Some(error);
    }

    fn id(&mut self, conn: ConnId, call: &'static str) -> Result<&mut CmId, CallError> {
        let entry = self.conns.get_mut(conn.slot()).and_then(Option::as_mut);
        match entry {
            Some((owner, id)) if *owner == conn => Ok(id),
            _ => Err(CallError { call, errno: Errno(libc::ENOTCONN) }),
        }
    }

    /// Gives an id to a connection whose slot is free.
    fn place(&mut self, conn: ConnId, mut id: CmId, call: &'static str) -> Result<&mut CmId, CallError> {
        match self.conns.get_mut(conn.slot()) {
            Some(slot @ None) => {
                id.set_token(Token::Conn(conn).pack());
                Ok(&mut slot.insert((conn, id)).1)
            }
            // The engine destroys the id of a slot before it uses the slot again.
            Some(Some(_)) => Err(CallError { call, errno: Errno(libc::EBUSY) }),
            None => Err(CallError { call, errno: Errno(libc::ENOSPC) }),
        }
    }

    fn try_perform(&mut self, fabric: &mut VerbsFabric<'_>, conn: ConnId, action: Action<'_>) -> Result<(), CallError> {
        let options = self.options;
        match action {
            Action::ResolveAddr(EndpointId(number)) => {
                const CALL: &str = "rdma_resolve_addr";
                let missing = CallError { call: CALL, errno: Errno(libc::EDESTADDRREQ) };
                let endpoint = *self.endpoints.get(number as usize).ok_or(missing)?;
                let id = CmId::new(&self.channel, Token::Conn(conn).pack())?;
                let id = self.place(conn, id, CALL)?;
                Ok(id.resolve_address(endpoint.source, endpoint.target, options.resolve)?)
            }
            Action::ResolveRoute => Ok(self.id(conn, "rdma_resolve_route")?.resolve_route(options.resolve)?),
            Action::Adopt(RequestId(number)) => {
                const CALL: &str = "rdma_accept";
                let gone = CallError { call: CALL, errno: Errno(libc::ECONNABORTED) };
                let id = self.requests.get_mut(number as usize).and_then(Option::take).ok_or(gone)?;
                self.place(conn, id, CALL).map(drop)
            }
            Action::CreateQp => {
                self.cqs = Some(fabric.queues().cq_ids());
                let id = self.id(conn, "rdma_create_qp")?;
                id.ready_for_qp()?;
                fabric.open(conn, id.raw())
            }
            Action::Connect(data) => Ok(self.id(conn, "rdma_connect")?.connect(&options.link, data)?),
            Action::Accept(data) => Ok(self.id(conn, "rdma_accept")?.accept(&options.link, data)?),
            Action::Tune => {
                let none = CallError { call: "ibv_modify_qp", errno: Errno(libc::ENOTCONN) };
                fabric.qp(conn).ok_or(none)?.set_rnr_delay(options.link.rnr_delay)
            }
            Action::Disconnect => Ok(self.id(conn, "rdma_disconnect")?.disconnect()?),
            Action::DestroyQp => fabric.close(conn),
            Action::DestroyId => {
                if let Some(slot) = self.conns.get_mut(conn.slot()) {
                    slot.take_if(|(owner, _)| *owner == conn);
                }
                Ok(())
            }
        }
    }
}

impl<'m> Control for VerbsControl<'m> {
    type Fabric = VerbsFabric<'m>;

    #[inline]
    fn poll_event(&mut self, now: Instant) -> Option<CmEvent> {
        match self.watch.check(now) {
            Ok(bits) => self.pending |= bits,
            Err(error) => self.note_failure(error),
        }
        if self.pending == 0 { None } else { self.drain() }
    }

    fn perform(&mut self, fabric: &mut Self::Fabric, conn: ConnId, action: Action<'_>) -> Result<(), ActionError> {
        self.try_perform(fabric, conn, action).map_err(|CallError { call, errno }| ActionError { call, errno: errno.0 })
    }

    fn endpoints(&self) -> u32 {
        u32::try_from(self.endpoints.len()).unwrap_or(u32::MAX)
    }

    fn reject(&mut self, request: RequestId, private_data: &[u8]) {
        let Some(mut id) = self.requests.get_mut(request.0 as usize).and_then(Option::take) else {
            return;
        };
        // If this fails, dropping the id refuses the request all the same, without the words.
        if let Err(error) = id.reject(private_data) {
            self.note_failure(error.into());
        }
    }
}
