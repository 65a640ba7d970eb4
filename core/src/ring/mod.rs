//! Bounded queues between two threads.
#![allow(unsafe_code)]

pub mod batch;
mod consumer;
mod drain;
mod error;
mod header;
mod index;
mod lanes;
pub mod latency;
mod local;
mod memory;
mod producer;
mod reserve;
pub mod shared;

pub use consumer::Consumer;
pub use drain::Drain;
pub use error::{PeerFault, PopError, PushError, RingError};
pub use header::Header;
pub use lanes::{LaneFault, Lanes};
pub use local::Local;
pub use memory::Memory;
pub use producer::Producer;
pub use reserve::Reserve;
