//! The boundary to C: names, constants and calling conventions of libibverbs, librdmacm and the kernel.
//!
//! Nothing outside this module names `rdma_sys` or `io_uring`, so either can be exchanged here.

#[cfg(feature = "rdma")]
pub(crate) mod code;
pub(crate) mod host;
#[cfg(feature = "rdma")]
pub(crate) mod net;
pub(crate) mod os;
#[cfg(feature = "rdma")]
pub(crate) mod rdmacm;
pub(crate) mod uring;
#[cfg(feature = "rdma")]
pub(crate) mod verbs;
