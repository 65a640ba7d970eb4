//! The performing half of Spinwire: rdma_cm, verbs, hugepages and pinned cores on Linux.
//!
//! `sys` is the only module that names the C libraries; [`verbs`] owns what the data path needs, [`cm`] what the
//! connection path needs. [`mem`] makes the memory, [`cpu`] pins threads, [`clock`] tells the time. Objects that depend
//! on each other hold each other, so no order of dropping is wrong.
#![deny(unsafe_code)]

pub mod clock;
pub mod cm;
pub mod cpu;
#[allow(unsafe_code)]
pub mod mem;
pub mod runtime;
#[allow(unsafe_code)]
pub mod shm;
#[allow(unsafe_code)]
mod sys;
#[allow(unsafe_code)]
pub mod verbs;

pub use sys::os::{CallError, Errno, failed_destroys};
