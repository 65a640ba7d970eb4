//! The performing half of Spinwire: rdma_cm, verbs, hugepages and pinned cores on Linux.
//!
//! `sys` is the only module that names the C libraries; [`verbs`] owns what the data path needs, [`cm`] what the
//! connection path needs. [`mem`] makes the memory, [`cpu`] pins threads, [`clock`] tells the time. Objects that depend
//! on each other hold each other, so no order of dropping is wrong.
#![deny(unsafe_code)]

pub mod address;
pub mod clock;
#[cfg(feature = "rdma")]
pub mod cm;
pub mod cpu;
#[allow(unsafe_code)]
pub mod mem;
pub mod readiness;
pub mod runtime;
#[allow(unsafe_code)]
pub mod shm;
pub mod signals;
#[allow(unsafe_code)]
mod sys;
#[cfg(feature = "rdma")]
#[allow(unsafe_code)]
pub mod verbs;

#[cfg(feature = "rdma")]
pub use sys::os::failed_destroys;
pub use sys::os::{CallError, Errno};
