//! The connection id, and which call it is ready for.
//!
//! librdmacm does not survive calls that come too early: without a device it follows a null pointer. So the owner keeps
//! the step an id has reached, and a call on the wrong step is an error that never reaches the library.

use core::fmt;
use core::time::Duration;
use std::net::SocketAddr;
use std::rc::Rc;

use super::channel::Channel;
use crate::runtime::{LinkOptions, RETRIES_MAX};
use crate::sys::code::Code;
use crate::sys::os::{CallError, Errno};
use crate::sys::rdmacm::{self, ConnParams, EventKind};
use crate::verbs::{Device, ack_timeout_code};

/// An rdma_cm id for a reliable connection. Destroyed with its last owner: a queue pair on it is one, so the id
/// cannot go first.
pub struct CmId {
    raw: Rc<rdmacm::Id>,
    step: Step,
}

/// How far an id has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Just made.
    New,
    /// Has a local address.
    Bound,
    /// Takes connect requests.
    Listening,
    /// Looks for the device and the far side's address.
    ResolvingAddress,
    /// Has a device.
    AddressResolved,
    /// Looks for the way.
    ResolvingRoute,
    /// May connect.
    RouteResolved,
    /// Has asked for a connection.
    Connecting,
    /// Came with a connect request that is not answered yet.
    Requested,
    /// Has accepted.
    Accepted,
    /// Is connected.
    Established,
    /// Is no longer of use: refused, failed, disconnected or the device is gone.
    Down,
}

/// A call on an id failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The id is not at the step that the call needs. The library was not called.
    #[error("{call} on an id that is {at}; it has to be {needs}")]
    WrongStep {
        /// The call.
        call: &'static str,
        /// Where the id is.
        at: Step,
        /// Where it has to be, in words.
        needs: &'static str,
    },
    /// The library refused.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl From<IdError> for CallError {
    /// A wrong step becomes the `EINVAL` that a careful library would have given.
    fn from(error: IdError) -> CallError {
        match error {
            IdError::WrongStep { call, .. } => CallError { call, errno: Errno(libc::EINVAL) },
            IdError::Call(error) => error,
        }
    }
}

fn params<'a>(options: &LinkOptions, private_data: &'a [u8]) -> ConnParams<'a> {
    let (retries, rnr_retries) = (options.retries.min(RETRIES_MAX), options.rnr_retries.min(RETRIES_MAX));
    ConnParams { private_data, retries, rnr_retries }
}

impl CmId {
    /// Makes an id whose events carry `token`.
    ///
    /// # Errors
    /// What `rdma_create_id` gave.
    pub fn new(channel: &Channel, token: u64) -> Result<CmId, CallError> {
        Ok(CmId { raw: rdmacm::Id::new(&channel.0, token)?, step: Step::New })
    }

    pub(super) fn from_request(raw: Rc<rdmacm::Id>) -> CmId {
        CmId { raw, step: Step::Requested }
    }

    /// How far it has come.
    pub fn step(&self) -> Step {
        self.step
    }

    /// Sets what its later events carry.
    pub fn set_token(&mut self, token: u64) {
        self.raw.set_token(token);
    }

    /// Whether it is bound to a device.
    pub fn has_device(&self) -> bool {
        self.raw.context().is_some()
    }

    /// The device it is bound to, if it is to one.
    ///
    /// # Errors
    /// What asking the device for its limits gave.
    pub fn device(&self) -> Result<Option<Device>, CallError> {
        self.raw.context().map(Device::of_id).transpose()
    }

    /// Its own address, once it has one.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.raw.local_address()
    }

    /// The address at the other end, once it is known.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.raw.peer_address()
    }

    pub(crate) fn raw(&self) -> &Rc<rdmacm::Id> {
        &self.raw
    }

    /// Takes note of an event of this id. Every event has to pass here before the next call is made.
    pub fn on_event(&mut self, kind: Code<EventKind>) {
        use EventKind as K;
        let Code::Known(kind) = kind else { return };
        self.step = match (self.step, kind) {
            (Step::ResolvingAddress, K::AddrResolved) => Step::AddressResolved,
            (Step::ResolvingRoute, K::RouteResolved) => Step::RouteResolved,
            (Step::Connecting | Step::Accepted, K::Established) => Step::Established,
            (_, K::AddrError | K::RouteError | K::ConnectError | K::Rejected) => Step::Down,
            (_, K::Disconnected | K::DeviceRemoval) => Step::Down,
            (Step::Connecting, K::Unreachable) => Step::Down,
            (step, _) => step,
        };
    }

    /// See `rdma_bind_addr(3)`.
    ///
    /// # Errors
    /// `EADDRINUSE`, `EADDRNOTAVAIL`, `ENODEV`: see [`address::explain`](super::address::explain).
    pub fn bind(&mut self, address: SocketAddr) -> Result<(), IdError> {
        self.need("rdma_bind_addr", self.step == Step::New, "new")?;
        self.raw.bind(address)?;
        self.step = Step::Bound;
        Ok(())
    }

    /// See `rdma_listen(3)`. When `backlog` requests wait, the kernel drops further ones without a word.
    ///
    /// # Errors
    /// What `rdma_listen` gave.
    pub fn listen(&mut self, backlog: i32) -> Result<(), IdError> {
        self.need("rdma_listen", self.step == Step::Bound, "bound")?;
        self.raw.listen(backlog)?;
        self.step = Step::Listening;
        Ok(())
    }

    /// See `rdma_resolve_addr(3)`; the kernel rounds the time limit up to milliseconds.
    ///
    /// # Errors
    /// What `rdma_resolve_addr` gave at once; later failures come as an event.
    pub fn resolve_address(
        &mut self,
        source: Option<SocketAddr>,
        target: SocketAddr,
        limit: Duration,
    ) -> Result<(), IdError> {
        self.need("rdma_resolve_addr", matches!(self.step, Step::New | Step::Bound), "new or bound")?;
        self.raw.resolve_addr(source, target, millis(limit))?;
        self.step = Step::ResolvingAddress;
        Ok(())
    }

    /// See `rdma_resolve_route(3)`.
    ///
    /// # Errors
    /// What `rdma_resolve_route` gave at once; later failures come as an event.
    pub fn resolve_route(&mut self, limit: Duration) -> Result<(), IdError> {
        self.need("rdma_resolve_route", self.step == Step::AddressResolved, "address resolved")?;
        self.raw.resolve_route(millis(limit))?;
        self.step = Step::ResolvingRoute;
        Ok(())
    }

    /// Whether a queue pair can be made on it: it has a device, and is neither connected nor down.
    ///
    /// # Errors
    /// [`IdError::WrongStep`] if it cannot.
    pub fn ready_for_qp(&self) -> Result<(), IdError> {
        let ready = matches!(self.step, Step::AddressResolved | Step::RouteResolved | Step::Requested);
        self.need("rdma_create_qp", ready, "resolved or requested")
    }

    /// Asks the far side for a connection. `private_data`: at most 56 bytes.
    ///
    /// # Errors
    /// `EINVAL` for longer private data, else what the library gave.
    pub fn connect(&mut self, options: &LinkOptions, private_data: &[u8]) -> Result<(), IdError> {
        self.need("rdma_connect", self.step == Step::RouteResolved, "route resolved")?;
        self.raw.set_ack_timeout(ack_timeout_code(options.ack_timeout))?;
        self.raw.connect(params(options, private_data))?;
        self.step = Step::Connecting;
        Ok(())
    }

    /// Accepts a connect request. `private_data`: at most 196 bytes.
    ///
    /// # Errors
    /// `EINVAL` for longer private data, else what the library gave.
    pub fn accept(&mut self, options: &LinkOptions, private_data: &[u8]) -> Result<(), IdError> {
        self.need("rdma_accept", self.step == Step::Requested, "requested")?;
        self.raw.set_ack_timeout(ack_timeout_code(options.ack_timeout))?;
        self.raw.accept(params(options, private_data))?;
        self.step = Step::Accepted;
        Ok(())
    }

    /// Refuses a connect request. `private_data`: at most 148 bytes. The far side sees REJECTED with status 28.
    ///
    /// # Errors
    /// `EINVAL` for longer private data, else what the library gave.
    pub fn reject(&mut self, private_data: &[u8]) -> Result<(), IdError> {
        self.need("rdma_reject", self.step == Step::Requested, "requested")?;
        self.raw.reject(private_data)?;
        self.step = Step::Down;
        Ok(())
    }

    /// Ends the connection: its queue pair goes to the error state and posted work comes back flushed. An id whose
    /// connection is down already is fine with that. No event is certain to follow.
    ///
    /// # Errors
    /// [`IdError::WrongStep`] on an id that never had a connection, else what the library gave.
    pub fn disconnect(&mut self) -> Result<(), IdError> {
        let had_connection = matches!(self.step, Step::Connecting | Step::Accepted | Step::Established | Step::Down);
        self.need("rdma_disconnect", had_connection, "connecting, connected or down")?;
        self.step = Step::Down;
        match self.raw.disconnect() {
            // EINVAL is the kernel's word for "not connected any more"; the queue pair was moved all the same.
            Ok(()) | Err(CallError { errno: Errno(libc::EINVAL), .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn need(&self, call: &'static str, ready: bool, needs: &'static str) -> Result<(), IdError> {
        if ready { Ok(()) } else { Err(IdError::WrongStep { call, at: self.step, needs }) }
    }
}

fn millis(limit: Duration) -> i32 {
    i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).max(1)
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::New => "new",
            Step::Bound => "bound",
            Step::Listening => "listening",
            Step::ResolvingAddress => "resolving its address",
            Step::AddressResolved => "address resolved",
            Step::ResolvingRoute => "resolving its route",
            Step::RouteResolved => "route resolved",
            Step::Connecting => "connecting",
            Step::Requested => "requested",
            Step::Accepted => "accepted",
            Step::Established => "established",
            Step::Down => "down",
        })
    }
}
