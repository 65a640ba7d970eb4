//! The event channel: connection events as values, given back to the library before anyone acts on them.

use std::os::fd::BorrowedFd;
use std::rc::Rc;

use super::address::{NoRdma, diagnose};
use super::id::CmId;
use crate::sys::code::Code;
use crate::sys::os::{CallError, Errno};
use crate::sys::rdmacm::{self, EventKind};

/// A channel of rdma_cm events that never waits. Cheap to clone; closed after the last id on it.
#[derive(Clone)]
pub struct Channel(pub(super) Rc<rdmacm::Channel>);

/// Why there is no channel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// This machine has no RDMA at all, or not enough of it.
    #[error(transparent)]
    NoRdma(#[from] NoRdma),
    /// It has, but opening failed.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// One connection event. Nothing in it is borrowed from the library.
pub struct Event {
    /// The token of the id concerned; of the listener for a connect request.
    pub token: u64,
    /// What happened.
    pub kind: Code<EventKind>,
    /// A reason code for a rejection, a negative error number for other failures, else 0.
    pub status: i32,
    /// The new id that a connect request brings. Dropping it refuses the request.
    pub request: Option<CmId>,
    copy: rdmacm::EventCopy,
}

impl Event {
    /// Private data from the far side, zero-padded to a length that the transport chose.
    pub fn private_data(&self) -> &[u8] {
        self.copy.private_data()
    }
}

impl Channel {
    /// Opens a channel.
    ///
    /// # Errors
    /// [`ChannelError::NoRdma`] says what is missing and how to get it.
    pub fn open() -> Result<Channel, ChannelError> {
        match rdmacm::Channel::open() {
            Ok(channel) => Ok(Channel(channel)),
            Err(error @ CallError { errno: Errno(libc::EMFILE | libc::ENFILE | libc::ENOMEM), .. }) => {
                Err(error.into())
            }
            Err(error) => Err(diagnose("/".as_ref(), error)),
        }
    }

    /// The next event, if one waits. Costs an allocation and a system call also when none does: see
    /// [`readiness`](crate::readiness) for how not to call it in vain.
    ///
    /// # Errors
    /// What `rdma_get_cm_event` gave, other than that nothing waits.
    pub fn next(&self) -> Result<Option<Event>, CallError> {
        let Some(mut copy) = self.0.next()? else {
            return Ok(None);
        };
        let request = copy.request.take().map(CmId::from_request);
        Ok(Some(Event { token: copy.token, kind: copy.kind, status: copy.status, request, copy }))
    }

    /// Readable when an event waits.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }

    /// Events fetched from and given back to the library: always equal.
    pub fn counts(&self) -> (u64, u64) {
        self.0.counts()
    }
}
