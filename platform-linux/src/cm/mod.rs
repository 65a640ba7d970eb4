//! The connection path: rdma_cm ids and events, and seeing that an event waits without asking the kernel.

pub mod address;
mod channel;
mod control;
mod id;
mod kind;
mod locate;
mod options;
mod token;

pub use crate::sys::code::Code;
pub use crate::sys::rdmacm::EventKind;
pub use channel::{Channel, ChannelError, Event};
pub use control::VerbsControl;
pub use id::{CmId, IdError, Step};
pub use locate::{LocateError, device_for_connecting, device_for_listening};
pub use options::{ControlCounters, ControlOptions, Endpoint};
