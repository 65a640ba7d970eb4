//! Clients that the application never hears of, and why.

use spinwire_core::cm::hello::Refusal;
use spinwire_core::time::Nanos;

use super::handshake::process;
use super::memory::AttachError;
use super::socket::Credentials;
use crate::sys::os::CallError;

/// A client that was turned away before the application could be asked. Prints as who it was, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", process(*.client))]
pub struct Dropped {
    /// Who it was, as the kernel noted it.
    pub client: Credentials,
    /// Why it was turned away.
    pub why: DropReason,
}

/// Why a client was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DropReason {
    /// It was told so.
    #[error("{}", refused(.0))]
    Refused(Refusal),
    /// What its request brought along cannot be used.
    #[error("{}{}", .0, hint(.0))]
    Unfit(AttachError),
    /// Its socket failed.
    #[error("{}{}", .0, super::memory::hint(.0))]
    Call(CallError),
    /// It connected and asked for nothing.
    #[error("sent no request within {0}")]
    Silent(Nanos),
    /// It went before it had asked for anything.
    #[error("went away without a request (as a server does that finds the name in use)")]
    Left,
    /// There was no room for so many that had not been answered yet. Those that have sent no request give way first.
    #[error("{0} clients were waiting for an answer, and there was no room for more")]
    Crowded(usize),
}

/// In core's words a request without a hello may be a plain rdma_cm program's; nobody is one here.
fn refused(refusal: &Refusal) -> String {
    match refusal {
        Refusal::NotSpinwire => "sent what is no spinwire's request".to_owned(),
        refusal => refusal.to_string(),
    }
}

fn hint(error: &AttachError) -> String {
    match error {
        AttachError::Unfit(_) => String::new(),
        AttachError::Call(cause) => super::memory::hint(cause),
    }
}
