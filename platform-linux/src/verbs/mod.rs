//! The data path: device, protection domain, completion queue, memory region and queue pair, each with one owner.
//!
//! Order of release: queue pair, then memory region, then connection id; protection domain and completion queues after
//! the queue pairs. Each object holds what it must not outlive, so the order keeps itself, whichever wrapper goes
//! first and whichever step of setting up failed. Memory is deregistered before it is unmapped ([`Region`]).

mod cq;
mod device;
mod engine;
mod fabric;
mod limits;
mod mr;
mod one_sided;
mod pd;
mod qp;
mod queues;
mod region;
mod timing;
mod wr;

pub use cq::{Cq, CqError, CqId};
pub use device::{AsyncEvent, AsyncKind, AsyncPlace, Device, Limits, LinkLayer, Port};
pub(crate) use engine::engine_on;
pub use fabric::{Counters, VerbsFabric};
pub use limits::{LimitError, Lowered, lowered_defaults};
pub use mr::{Access, Mr, MrError};
pub(crate) use one_sided::expose;
pub use pd::Pd;
pub use qp::{Qp, QpAttributes, QpCaps, QpError, QpSizes};
pub use queues::{QueueError, QueueOptions, Queues};
pub use region::{Region, RegionKey};
pub(crate) use timing::ack_timeout_code;

#[cfg(test)]
mod fake;
