//! The data path: device, protection domain, completion queue, memory region and queue pair, each with one owner.
//!
//! Order of release: queue pair, then memory region, then connection id; protection domain and completion queues after
//! the queue pairs. Each object holds what it must not outlive, so the order keeps itself, whichever wrapper goes
//! first and whichever step of setting up failed.

mod cq;
mod device;
mod limits;
mod mr;
mod pd;
mod qp;
mod timing;

pub use cq::{Cq, CqError};
pub use device::{AsyncEvent, AsyncKind, AsyncPlace, Device, Limits, LinkLayer, Port};
pub use limits::{LimitError, Lowered, Size, lowered_defaults};
pub use mr::{Access, Mr, MrError};
pub use pd::Pd;
pub use qp::{Qp, QpAttributes, QpCaps, QpError, QpSizes};
pub(crate) use timing::ack_timeout_code;
