//! The part of librdmacm that we use: owners of an event channel, an id and a fetched event, and their calls.
//!
//! What librdmacm asks of its callers, and how it is kept here:
//! - an id is destroyed before its channel: [`Id`] holds the [`Channel`];
//! - an id is destroyed once, and after its queue pair: the queue pair's owner holds the [`Id`];
//! - destroying an id waits until its fetched events are acknowledged: `Event` is private to [`Channel::next`],
//!   which acknowledges before it returns;
//! - calls on an id without a device dereference null inside the library: each such call looks at `verbs` first.

mod channel;

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;
use std::net::SocketAddr;
use std::rc::Rc;

pub(crate) use channel::{Channel, EventCopy};
pub(crate) use rdma_sys::{rdma_cm_id, rdma_create_qp};

use super::code::c_codes;
use super::net::{RawSocketAddr, read_sockaddr};
use super::os::{CallError, Errno, check, note_destroy};
use super::verbs::ibv_context;

/// Option level of an id. Absent from rdma-sys, as are the next two; from `rdma_cma.h`.
const RDMA_OPTION_ID: c_int = 0;
/// One byte: ACK timeout code of the queue pair.
const RDMA_OPTION_ID_ACK_TIMEOUT: c_int = 3;
/// "As many as the device has", for reads and atomics served, and outstanding.
const RDMA_MAX_RESP_RES: u8 = 0xff;
const RDMA_MAX_INIT_DEPTH: u8 = 0xff;

/// Private data on a connect request for RC over RDMA_PS_TCP; one byte more is `EINVAL`.
pub(crate) const CONNECT_DATA_MAX: usize = 56;
/// Private data on an accept.
pub(crate) const ACCEPT_DATA_MAX: usize = 196;
/// Private data on a reject.
pub(crate) const REJECT_DATA_MAX: usize = 148;

c_codes! {
    /// What a connection event says. From `enum rdma_cm_event_type`.
    EventKind {
        0 AddrResolved "address resolved",
        1 AddrError "address not resolved",
        2 RouteResolved "route resolved",
        3 RouteError "route not resolved",
        4 ConnectRequest "connect request",
        5 ConnectResponse "connect response",
        6 ConnectError "connect error",
        7 Unreachable "unreachable",
        8 Rejected "rejected",
        9 Established "established",
        10 Disconnected "disconnected",
        11 DeviceRemoval "device removed",
        12 MulticastJoin "multicast group joined",
        13 MulticastError "multicast error",
        14 AddrChange "address moved to another device",
        15 TimewaitExit "time-wait over",
    }
}

impl EventKind {
    /// Whether the library fills the connection parameters of such an event.
    fn has_conn_params(self) -> bool {
        use EventKind as K;
        matches!(self, K::ConnectRequest | K::ConnectResponse | K::Rejected | K::Established | K::Disconnected)
    }
}

/// Opens all devices. See `rdma_get_devices(3)`.
///
/// # Safety
/// The list may only be given back by `rdma_free_devices`.
pub(crate) unsafe fn get_devices(count: &mut c_int) -> *mut *mut ibv_context {
    // SAFETY: `count` is ours; the result is the caller's affair.
    unsafe { rdma_sys::rdma_get_devices(count) }
}

/// An rdma_cm id for reliable connections. Destroyed on drop.
pub(crate) struct Id {
    raw: NonNull<rdma_cm_id>,
    // Held so that it closes after the id.
    _channel: Rc<Channel>,
}

/// How a connection is asked for or accepted; counts as the queue pair carries them, 0 to 7.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnParams<'a> {
    pub private_data: &'a [u8],
    /// Retries without acknowledgement. Ours; ignored when accepting, where the connecting side's is used.
    pub retries: u8,
    /// Retries after receiver-not-ready. For the peer's queue pair, not ours.
    pub rnr_retries: u8,
}

impl Id {
    /// Makes an id whose events carry `token`.
    pub(crate) fn new(channel: &Rc<Channel>, token: u64) -> Result<Rc<Id>, CallError> {
        let mut raw = core::ptr::null_mut();
        // SAFETY: the channel is open and held by the id; the token is only carried, never followed.
        check("rdma_create_id", || unsafe {
            let ps = rdma_sys::rdma_port_space::RDMA_PS_TCP;
            rdma_sys::rdma_create_id(channel.raw.as_ptr(), &mut raw, token as usize as *mut c_void, ps)
        })?;
        let raw = NonNull::new(raw).ok_or(CallError { call: "rdma_create_id", errno: Errno(0) })?;
        Ok(Rc::new(Id { raw, _channel: Rc::clone(channel) }))
    }

    pub(crate) fn as_ptr(&self) -> *mut rdma_cm_id {
        self.raw.as_ptr()
    }

    /// Sets what the id's later events carry.
    pub(crate) fn set_token(&self, token: u64) {
        // SAFETY: alive until drop; the field is the user's.
        unsafe { (*self.raw.as_ptr()).context = token as usize as *mut c_void }
    }

    /// The device that the id is bound to, if it is to any.
    pub(crate) fn context(&self) -> Option<NonNull<ibv_context>> {
        // SAFETY: alive until drop.
        NonNull::new(unsafe { (*self.raw.as_ptr()).verbs })
    }

    /// The id's own address, once it has one.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        // SAFETY: alive until drop; the union is as long as any socket address.
        unsafe { read_sockaddr(&raw const (*self.raw.as_ptr()).route.addr.src_addr_union.src_addr) }
    }

    /// The address at the other end, once it is known.
    pub(crate) fn peer_address(&self) -> Option<SocketAddr> {
        // SAFETY: as above.
        unsafe { read_sockaddr(&raw const (*self.raw.as_ptr()).route.addr.dst_addr_union.dst_addr) }
    }

    /// See `rdma_bind_addr(3)`.
    pub(crate) fn bind(&self, address: SocketAddr) -> Result<(), CallError> {
        let mut raw = RawSocketAddr::new(address);
        // SAFETY: both alive through the call.
        check("rdma_bind_addr", || unsafe { rdma_sys::rdma_bind_addr(self.as_ptr(), raw.as_ptr()) })
    }

    /// See `rdma_listen(3)`.
    pub(crate) fn listen(&self, backlog: i32) -> Result<(), CallError> {
        // SAFETY: alive until drop.
        check("rdma_listen", || unsafe { rdma_sys::rdma_listen(self.as_ptr(), backlog) })
    }

    /// See `rdma_resolve_addr(3)`.
    pub(crate) fn resolve_addr(
        &self,
        source: Option<SocketAddr>,
        target: SocketAddr,
        timeout_ms: i32,
    ) -> Result<(), CallError> {
        let mut source = source.map(RawSocketAddr::new);
        let source = source.as_mut().map_or(core::ptr::null_mut(), RawSocketAddr::as_ptr);
        let mut target = RawSocketAddr::new(target);
        // SAFETY: all alive through the call; a null source is allowed.
        check("rdma_resolve_addr", || unsafe {
            rdma_sys::rdma_resolve_addr(self.as_ptr(), source, target.as_ptr(), timeout_ms)
        })
    }

    /// See `rdma_resolve_route(3)`.
    pub(crate) fn resolve_route(&self, timeout_ms: i32) -> Result<(), CallError> {
        self.with_device("rdma_resolve_route", |id| {
            // SAFETY: alive, and bound to a device, which the library dereferences.
            unsafe { rdma_sys::rdma_resolve_route(id, timeout_ms) }
        })
    }

    /// Sets the ACK timeout of the queue pair by its InfiniBand code. Before connect or accept.
    pub(crate) fn set_ack_timeout(&self, code: u8) -> Result<(), CallError> {
        let mut value = code;
        // SAFETY: alive until drop; the option takes one byte, read during the call.
        check("rdma_set_option", || unsafe {
            let value = (&raw mut value).cast();
            rdma_sys::rdma_set_option(self.as_ptr(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, value, 1)
        })
    }

    /// See `rdma_connect(3)`. Private data beyond [`CONNECT_DATA_MAX`] is `EINVAL`.
    pub(crate) fn connect(&self, params: ConnParams<'_>) -> Result<(), CallError> {
        let mut raw = params.raw("rdma_connect", CONNECT_DATA_MAX)?;
        // SAFETY: alive, and bound to a device, which the library dereferences; private data outlives the call.
        self.with_device("rdma_connect", |id| unsafe { rdma_sys::rdma_connect(id, &mut raw) })
    }

    /// See `rdma_accept(3)`. Private data beyond [`ACCEPT_DATA_MAX`] is `EINVAL`.
    pub(crate) fn accept(&self, params: ConnParams<'_>) -> Result<(), CallError> {
        let mut raw = params.raw("rdma_accept", ACCEPT_DATA_MAX)?;
        // SAFETY: alive, and bound to a device, which the library dereferences; private data outlives the call.
        self.with_device("rdma_accept", |id| unsafe { rdma_sys::rdma_accept(id, &mut raw) })
    }

    /// See `rdma_reject(3)`. Private data beyond [`REJECT_DATA_MAX`] is `EINVAL`.
    pub(crate) fn reject(&self, private_data: &[u8]) -> Result<(), CallError> {
        let len = data_len("rdma_reject", private_data, REJECT_DATA_MAX)?;
        // SAFETY: alive; private data outlives the call.
        check("rdma_reject", || unsafe { rdma_sys::rdma_reject(self.as_ptr(), private_data.as_ptr().cast(), len) })
    }

    /// See `rdma_disconnect(3)`.
    pub(crate) fn disconnect(&self) -> Result<(), CallError> {
        // SAFETY: alive, and bound to a device.
        self.with_device("rdma_disconnect", |id| unsafe { rdma_sys::rdma_disconnect(id) })
    }

    /// Runs a call that the library only survives on an id with a device; `EINVAL` without.
    fn with_device(&self, call: &'static str, run: impl FnOnce(*mut rdma_cm_id) -> c_int) -> Result<(), CallError> {
        match self.context() {
            Some(_) => check(call, || run(self.as_ptr())),
            None => Err(CallError { call, errno: Errno(libc::EINVAL) }),
        }
    }
}

#[cfg(test)]
impl Id {
    /// An id that no library knows, on a channel of that kind, never released.
    pub(crate) fn from_fake(raw: NonNull<rdma_cm_id>) -> Rc<Id> {
        let channel = Channel { raw: NonNull::dangling(), fetched: Default::default(), acked: Default::default() };
        let leaked = Rc::new(Id { raw, _channel: Rc::new(channel) });
        core::mem::forget(Rc::clone(&leaked));
        leaked
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once. A queue pair on it would hold the id, so there is none, and no event of it
        // is fetched and unacknowledged, because `Channel::next` holds none when it returns.
        let result = check("rdma_destroy_id", || unsafe { rdma_sys::rdma_destroy_id(self.as_ptr()) });
        note_destroy(format_args!("a connection id"), result);
    }
}

impl ConnParams<'_> {
    fn raw(&self, call: &'static str, max: usize) -> Result<rdma_sys::rdma_conn_param, CallError> {
        Ok(rdma_sys::rdma_conn_param {
            private_data: self.private_data.as_ptr().cast(),
            private_data_len: data_len(call, self.private_data, max)?,
            responder_resources: RDMA_MAX_RESP_RES,
            initiator_depth: RDMA_MAX_INIT_DEPTH,
            flow_control: 1,
            retry_count: self.retries,
            rnr_retry_count: self.rnr_retries,
            // Ignored: the queue pair is made on the id.
            srq: 0,
            qp_num: 0,
        })
    }
}

fn data_len(call: &'static str, data: &[u8], max: usize) -> Result<u8, CallError> {
    match u8::try_from(data.len()) {
        Ok(len) if data.len() <= max => Ok(len),
        _ => Err(CallError { call, errno: Errno(libc::EINVAL) }),
    }
}

#[cfg(test)]
mod tests;
