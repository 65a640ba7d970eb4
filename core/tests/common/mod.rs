//! What the engine's tests share: engines in one process over a seeded network on virtual time.
//!
//! [`net`] is the connection manager and the wire, [`control`] an engine's way to it, [`qp`] the queue pairs, [`world`] drives engines over them and checks
//! every sum after every turn, [`app`] is an application that notices when a message is lost, doubled or changed.
#![allow(dead_code, reason = "each test program uses its part")]

pub mod app;
pub mod control;
pub mod net;
pub mod qp;
pub mod random;
pub mod world;

/// Milliseconds in nanoseconds.
pub const MS: u64 = 1_000_000;
