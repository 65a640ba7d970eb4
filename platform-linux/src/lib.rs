//! The performing half of Spinwire: rdma_cm, verbs, hugepages and pinned cores on Linux.
//!
//! | a program needs | for |
//! |---|---|
//! | [`address`] | where to listen or connect to: `rdma://192.0.2.1:7471`, `shm://name` |
//! | [`runtime`] | a loop: [`runtime::Options`], [`runtime::AnySetup`] for its core, memory and device, [`runtime::AnyReactor`] to run it |
//! | [`signals`] | SIGINT, SIGTERM and SIGHUP as a flag that the loop reads |
//! | [`mem`] | pages, and regions that peers may reach by one-sided operations |
//! | `spinwire_core::turn` | what it implements (`Handler`) and is handed (`Cx`) |
//!
//! Below that, [`shm`] is the fabric between processes of one machine and [`readiness`] tells what waits on a descriptor
//! without a system call; with the feature `rdma`, `verbs` owns what the data path needs and `cm` what the connection path
//! needs. [`cpu`] pins threads, [`clock`] tells the time, and `sys` is the only module that names the C libraries. Objects
//! that depend on each other hold each other, so no order of dropping is wrong.
//!
//! Linux on x86-64; other 64-bit processors are not tried. What is used of the kernel came by 5.14; the lab's is 6.1. Where
//! io_uring is missing or not allowed, events are seen by poll(2).
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
pub mod words;

#[cfg(feature = "rdma")]
pub use sys::os::failed_destroys;
pub use sys::os::{CallError, Errno};
