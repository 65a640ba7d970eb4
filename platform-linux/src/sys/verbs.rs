//! The part of libibverbs that we use, by its own names, with what rdma-sys leaves out or gets wrong.
//!
//! Left out on purpose: the extended verbs. rdma-sys 0.3.0 compares `abi_compat` with `u32::MAX` where the library
//! stores `UINTPTR_MAX`, so they fail on every 64-bit machine; and rxe's versions are faulty in rdma-core 44.

use core::ptr::NonNull;

pub(crate) use rdma_sys::{
    atomic_t, ibv_access_flags, ibv_ack_async_event, ibv_alloc_pd, ibv_async_event, ibv_context, ibv_cq, ibv_create_cq,
    ibv_create_qp, ibv_dealloc_pd, ibv_dereg_mr, ibv_destroy_cq, ibv_destroy_qp, ibv_device_attr, ibv_get_async_event,
    ibv_get_device_name, ibv_modify_qp, ibv_mr, ibv_pd, ibv_port_attr, ibv_port_state, ibv_qp, ibv_qp_attr,
    ibv_qp_attr_mask, ibv_qp_init_attr, ibv_qp_state, ibv_qp_type, ibv_query_device, ibv_query_qp, ibv_recv_wr,
    ibv_reg_mr_iova2, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wc, ibv_wc_flags, ibv_wr_opcode, rdma_t, wr_t,
};

use super::code::c_codes;
use super::os::{CallError, Errno, check, check_code};

/// `IBV_QPS_ERR`.
pub(crate) const QP_STATE_ERROR: u32 = rdma_sys::ibv_qp_state::IBV_QPS_ERR;

c_codes! {
    /// What happened on a device outside of its completion queues. From `enum ibv_event_type`.
    AsyncKind {
        0 CqError "completion queue overrun or protection error",
        1 QpFatal "queue pair failed",
        2 QpRequestError "queue pair got an invalid request",
        3 QpAccessError "queue pair got a request without access rights",
        4 CommunicationEstablished "first packet on a queue pair not yet connected",
        5 SqDrained "send queue drained",
        6 PathMigrated "path migrated",
        7 PathMigrationError "path migration failed",
        8 DeviceFatal "device failed",
        9 PortActive "port became active",
        10 PortError "port went down",
        11 LidChange "local identifier changed",
        12 PkeyChange "partition key table changed",
        13 SubnetManagerChange "subnet manager changed",
        14 SrqError "shared receive queue failed",
        15 SrqLimitReached "shared receive queue fell to its limit",
        16 LastWqeReached "last work request of a shared receive queue consumed",
        17 ClientReregister "subnet manager asks for registration",
        18 GidChange "address table changed",
        19 WqFatal "work queue failed",
    }
}

impl AsyncKind {
    /// The kind of object that the event's union names.
    pub(crate) fn subject(self) -> AsyncSubject {
        use AsyncKind as K;
        match self {
            K::QpFatal | K::QpRequestError | K::QpAccessError | K::CommunicationEstablished => AsyncSubject::Qp,
            K::SqDrained | K::PathMigrated | K::PathMigrationError | K::LastWqeReached => AsyncSubject::Qp,
            K::PortActive | K::PortError | K::LidChange | K::PkeyChange => AsyncSubject::Port,
            K::SubnetManagerChange | K::ClientReregister | K::GidChange => AsyncSubject::Port,
            K::CqError => AsyncSubject::Cq,
            K::DeviceFatal | K::SrqError | K::SrqLimitReached | K::WqFatal => AsyncSubject::Other,
        }
    }
}

/// See [`AsyncKind::subject`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AsyncSubject {
    Cq,
    Qp,
    Port,
    Other,
}

c_codes! {
    /// The network below a port. From the `IBV_LINK_LAYER_*` values, which rdma-sys does not carry.
    LinkLayer {
        0 Unspecified "unspecified",
        1 InfiniBand "InfiniBand",
        2 Ethernet "Ethernet",
    }
}

/// Posts a chain of sends. On failure also gives the first work request that was not taken.
///
/// Cost: one doorbell, which is one `write` on rxe and none on hardware.
///
/// # Safety
/// `qp` is a live queue pair used by this thread alone; `first` starts a chain of valid work requests whose buffers
/// stay valid and untouched until their completion (inline ones: until this returns).
#[inline]
pub(crate) unsafe fn post_send(qp: NonNull<ibv_qp>, first: *mut ibv_send_wr) -> Result<(), PostFailure<ibv_send_wr>> {
    let mut bad = core::ptr::null_mut();
    // SAFETY: the caller's promise.
    let code = unsafe { rdma_sys::ibv_post_send(qp.as_ptr(), first, &mut bad) };
    check_code("ibv_post_send", code).map_err(|error| PostFailure { errno: error.errno, bad })
}

/// Posts a chain of receives. On failure also gives the first work request that was not taken. No system call.
///
/// # Safety
/// As [`post_send`]; the buffers may be written by the device until their completion.
#[inline]
pub(crate) unsafe fn post_recv(qp: NonNull<ibv_qp>, first: *mut ibv_recv_wr) -> Result<(), PostFailure<ibv_recv_wr>> {
    let mut bad = core::ptr::null_mut();
    // SAFETY: the caller's promise.
    let code = unsafe { rdma_sys::ibv_post_recv(qp.as_ptr(), first, &mut bad) };
    check_code("ibv_post_recv", code).map_err(|error| PostFailure { errno: error.errno, bad })
}

/// A post that was refused, in whole or from some work request on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PostFailure<W> {
    pub errno: Errno,
    /// The first work request that was not taken; null if the provider did not say, which means the whole chain.
    pub bad: *mut W,
}

/// Fills `entries` with completions and gives how many there were. No system call.
///
/// ibv_poll_cq(3) promises a negative number on failure and nothing about `errno`, and providers put numbers of their
/// own there (mlx: `CQ_POLL_ERR`, -2), so every failure is `EIO`.
///
/// # Safety
/// `cq` is a live completion queue polled by this thread alone; `entries` may be overwritten.
#[inline]
pub(crate) unsafe fn poll_cq(cq: NonNull<ibv_cq>, entries: &mut [ibv_wc]) -> Result<usize, CallError> {
    let wish = i32::try_from(entries.len()).unwrap_or(i32::MAX);
    // SAFETY: the caller's promise; `entries` has room for `wish` completions.
    match unsafe { rdma_sys::ibv_poll_cq(cq.as_ptr(), wish, entries.as_mut_ptr()) } {
        n @ 0.. => Ok(n as usize),
        _ => Err(CallError { call: "ibv_poll_cq", errno: Errno(libc::EIO) }),
    }
}

/// Reads a port's attributes. The memory is zeroed first, because older kernels and libraries fill less of it.
///
/// # Safety
/// `context` is an open device.
pub(crate) unsafe fn query_port(context: NonNull<ibv_context>, port: u8) -> Result<ibv_port_attr, CallError> {
    // SAFETY: all zeroes is a valid ibv_port_attr: integers only.
    let mut attributes: ibv_port_attr = unsafe { core::mem::zeroed() };
    // SAFETY: the device is open (caller). The symbol writes the older, shorter layout, a prefix of this struct.
    check("ibv_query_port", || unsafe {
        rdma_sys::ibv_query_port(context.as_ptr(), port, core::ptr::from_mut(&mut attributes).cast())
    })?;
    Ok(attributes)
}

/// A completion to be overwritten by [`poll_cq`].
pub(crate) fn empty_wc() -> ibv_wc {
    // SAFETY: all zeroes is a valid ibv_wc: integers only.
    unsafe { core::mem::zeroed() }
}
