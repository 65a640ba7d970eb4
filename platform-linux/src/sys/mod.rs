//! The boundary to C: names, constants and calling conventions of libibverbs, librdmacm and the kernel.
//!
//! Nothing outside this module names `rdma_sys` or `io_uring`, so either can be exchanged here.

pub(crate) mod code;
pub(crate) mod host;
pub(crate) mod os;
pub(crate) mod rdmacm;
pub(crate) mod uring;
pub(crate) mod verbs;
