//! Tests over real RDMA devices: two Soft-RoCE devices joined by one wire, as `ci/vm` sets them up.
//!
//! `ci/vm -- cargo test -p spinwire-linux --test rxe -- --ignored` runs them. They take turns, because some count the
//! kernel objects of the whole process. `ci/test` gives each a process of its own.

mod calls;
mod common;
mod echo;
mod limits;
mod removal;
mod setup;
