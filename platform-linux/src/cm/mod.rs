//! The connection path: rdma_cm ids and events, and seeing that an event waits without asking the kernel.

pub mod address;
mod channel;
mod id;
pub mod readiness;

pub use channel::{Channel, ChannelError, Event};
pub use id::{CmId, IdError, LinkOptions, Step};
pub use crate::sys::code::Code;
pub use crate::sys::rdmacm::EventKind;
