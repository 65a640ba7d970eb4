//! DPDK as a peer, where it is installed: its ring needs only its headers and library, its pool its whole environment.

#[cfg_attr(dpdk, path = "on.rs")]
#[cfg_attr(not(dpdk), path = "off.rs")]
mod imp;

pub use imp::*;
