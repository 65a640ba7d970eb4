//! Closing what others passed. A close can take as long as whoever made the descriptor likes: that of a socket that lingers,
//! of a file whose server does not answer, and of a socket with packets that nobody has read and that carry such
//! descriptors. A loop cannot wait for that, so threads do: one for what strangers passed, and one for those who were let in,
//! so that no stranger holds up theirs. What waits is bounded: beyond [`WAITING_MAX`] no client is let in, for each brings a
//! descriptor more, and one that is let in what a single packet carries, 253 at most. Those who are connected never wait for it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use super::memory::AttachError;
use super::socket::FDS_MAX;
use super::unmap;
use crate::sys::os::{CallError, Errno};

/// The threads that close; they end when this goes. Handing something over never waits.
pub(crate) struct Closer {
    strangers: Lane,
    peers: Lane,
}

/// Whose descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// Of those who were not let in.
    Strangers,
    /// Of those who were.
    Peers,
}

/// One thread.
struct Lane {
    to: Sender<OwnedFd>,
    /// Handed over and not closed yet.
    waiting: Arc<AtomicUsize>,
}

/// Descriptors that may wait to be closed in one lane, besides those of all connections; then no client is let in until fewer
/// do.
pub(super) const WAITING_MAX: usize = 64;

/// Why no client is let in, as a call that failed.
pub(super) const FULL: CallError = CallError {
    call: "accept4 (not called: too many descriptors that clients have passed take long to close)",
    errno: Errno(libc::EAGAIN),
};

impl Lane {
    fn new() -> Result<Self, CallError> {
        let (to, from) = mpsc::channel::<OwnedFd>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&waiting);
        let work = move || {
            for fd in from {
                drop(fd);
                // Relaxed: a count on its own, it orders nothing.
                left.fetch_sub(1, Ordering::Relaxed);
            }
        };
        let thread = thread::Builder::new().name("spinwire-close".to_owned()).stack_size(STACK_BYTES);
        // Not joined: what it waits for may take for ever.
        thread.spawn(work).map_err(|error| CallError {
            call: "clone (a thread that closes descriptors)",
            errno: Errno(error.raw_os_error().unwrap_or(0)),
        })?;
        Ok(Self { to, waiting })
    }

    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// Closing takes little.
pub(super) const STACK_BYTES: usize = 256 << 10;

impl Closer {
    /// Starts the threads, and the one that unmaps, on the CPUs that the calling thread may use: so before it is pinned.
    pub(crate) fn new() -> Result<Self, CallError> {
        unmap::start()?;
        Ok(Self { strangers: Lane::new()?, peers: Lane::new()? })
    }

    /// Has `fd` closed, some time.
    pub(super) fn close(&self, fd: OwnedFd, whose: Whose) {
        let lane = match whose {
            Whose::Strangers => &self.strangers,
            Whose::Peers => &self.peers,
        };
        lane.waiting.fetch_add(1, Ordering::Relaxed);
        // The thread is there as long as this is.
        let _ = lane.to.send(fd);
    }

    /// Whether so much waits that nobody is to be let in, at a core of so many `connections`: all of them may end at once.
    pub(super) fn is_full(&self, connections: usize) -> bool {
        self.strangers.waiting() >= WAITING_MAX || self.peers.waiting() >= WAITING_MAX + connections
    }

    /// Waits until all is closed, at most five seconds: for those who count descriptors.
    #[cfg(any(test, fuzzing))]
    pub(super) fn settle(&self) {
        let begun = std::time::Instant::now();
        while self.strangers.waiting() + self.peers.waiting() > 0 && begun.elapsed().as_secs() < 5 {
            thread::yield_now();
        }
    }

    /// Has all of `fds` closed, some time.
    pub(super) fn close_all(&self, fds: Vec<OwnedFd>, whose: Whose) {
        fds.into_iter().for_each(|fd| self.close(fd, whose));
    }

    /// Gives `fds` back if they are no more than a packet of the handshake carries, and all are memfds, whose close does not
    /// wait; else all are closed elsewhere.
    pub(super) fn memfds(&self, fds: Vec<OwnedFd>) -> Result<Vec<OwnedFd>, AttachError> {
        if fds.len() > FDS_MAX {
            self.close_all(fds, Whose::Peers);
            return Err(AttachError::Unfit("comes with more descriptors than any packet of the handshake"));
        }
        // SAFETY: a call on our own descriptor that touches no memory, and asks no file system: before fstat, which does.
        if fds.iter().all(|fd| unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) } >= 0) {
            return Ok(fds);
        }
        self.close_all(fds, Whose::Peers);
        Err(AttachError::Unfit("is no memfd"))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::mem::PageKind;
    use crate::mem::memfd;

    /// A socket whose close waits so long for what the other end does not read.
    pub(crate) fn lingering(seconds: i32) -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (unread, _) = listener.accept().unwrap();
        let linger = libc::linger { l_onoff: 1, l_linger: seconds };
        // SAFETY: `linger` is ours and of the length that is said.
        let set = unsafe {
            let at = (&raw const linger).cast();
            libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, at, size_of_val(&linger) as u32)
        };
        assert_eq!(set, 0);
        stream.set_nonblocking(true).unwrap();
        while std::io::Write::write(&mut &stream, &vec![0; 1 << 16]).is_ok() {}
        stream.set_nonblocking(false).unwrap();
        (stream.into(), unread)
    }

    #[test]
    fn what_takes_long_to_close_holds_nobody_up() {
        let closer = Closer::new().unwrap();
        let (fd, _unread) = lingering(2);
        let begun = Instant::now();
        assert!(closer.memfds(vec![fd]).is_err());
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    }

    #[test]
    fn what_waits_is_counted_and_one_lane_does_not_hold_up_the_other() {
        let closer = Closer::new().unwrap();
        let (fd, _unread) = lingering(2);
        let begun = Instant::now();
        closer.close(fd, Whose::Strangers);
        let null = || std::fs::File::open("/dev/null").unwrap().into();
        for _ in 1..WAITING_MAX {
            assert!(!closer.is_full(0));
            closer.close(null(), Whose::Strangers);
        }
        assert!(closer.is_full(1_000));
        closer.close(null(), Whose::Peers);
        while closer.peers.waiting() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(1), "the peers' lane waits for the strangers'");
        }
        closer.settle();
        assert!(!closer.is_full(0) && begun.elapsed() > Duration::from_secs(1));
    }

    #[test]
    fn memfds_are_given_back() {
        let closer = Closer::new().unwrap();
        let fd = memfd::create(PageKind::Small, 4_096).unwrap();
        assert_eq!(closer.memfds(vec![fd]).unwrap().len(), 1);
        assert!(closer.memfds(Vec::new()).unwrap().is_empty());
    }
}
