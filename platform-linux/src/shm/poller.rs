//! The epoll set that watches sockets. Nothing here waits.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::socket::{Socket, own};
use crate::sys::os::{CallError, Errno, check};

/// An epoll set: which of many sockets have something to be read, or have lost their peer.
pub(super) struct Poller(OwnedFd);

/// Sockets told in one go.
pub(super) const READY_MAX: usize = 32;

impl Poller {
    pub(super) fn new() -> Result<Self, CallError> {
        // SAFETY: takes a number and returns one.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        // SAFETY: a fresh descriptor that nobody else owns.
        own(fd, "epoll_create1", |fd| Poller(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Watches `socket`, to be told as `token`. Ends by itself when the socket is closed.
    pub(super) fn add(&self, socket: &Socket, token: u64) -> Result<(), CallError> {
        self.control(libc::EPOLL_CTL_ADD, socket, token)
    }

    /// Gives a watched socket another token.
    pub(super) fn rename(&self, socket: &Socket, token: u64) -> Result<(), CallError> {
        self.control(libc::EPOLL_CTL_MOD, socket, token)
    }

    /// Stops to watch a socket; one that is not watched stays so.
    pub(super) fn remove(&self, socket: &Socket) {
        // The only failure is that it is not there.
        let _ = self.control(libc::EPOLL_CTL_DEL, socket, 0);
    }

    fn control(&self, operation: libc::c_int, socket: &Socket, token: u64) -> Result<(), CallError> {
        let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLRDHUP) as u32, u64: token };
        // SAFETY: both descriptors are open, and the event is ours.
        check("epoll_ctl", || unsafe {
            libc::epoll_ctl(self.0.as_raw_fd(), operation, socket.as_fd().as_raw_fd(), &raw mut event)
        })
    }

    /// The tokens of sockets that are ready now; writes them to `tokens` and gives their number.
    pub(super) fn ready(&self, tokens: &mut [u64; READY_MAX]) -> Result<usize, CallError> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; READY_MAX];
        // SAFETY: `events` is ours and as long as we say.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), READY_MAX as libc::c_int, 0) };
        let Ok(count) = usize::try_from(count) else {
            return match Errno::last() {
                Errno(libc::EINTR) => Ok(0),
                errno => Err(CallError { call: "epoll_wait", errno }),
            };
        };
        for (token, event) in tokens.iter_mut().zip(&events[..count]) {
            *token = event.u64;
        }
        Ok(count)
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
