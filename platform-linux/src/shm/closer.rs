//! Closing what strangers passed. A close can take as long as whoever made the descriptor likes: that of a socket that lingers,
//! of a file whose server does not answer, and of a socket with packets that nobody has read and that carry such
//! descriptors. A loop cannot wait for that, so a thread does.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use super::memory::AttachError;
use crate::sys::os::{CallError, Errno};

/// The thread that closes; it ends when this goes. Handing something over never waits.
pub(super) struct Closer {
    to: Sender<OwnedFd>,
    /// Handed over and not closed yet.
    waiting: Arc<AtomicUsize>,
}

impl Closer {
    /// Starts the thread.
    pub(super) fn new() -> Result<Self, CallError> {
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
        let thread = thread::Builder::new().name("spinwire-close".to_owned());
        // Not joined: what it waits for may take for ever.
        thread.spawn(work).map_err(|error| CallError {
            call: "clone (a thread that closes descriptors)",
            errno: Errno(error.raw_os_error().unwrap_or(0)),
        })?;
        Ok(Self { to, waiting })
    }

    /// Has `fd` closed, some time.
    pub(super) fn close(&self, fd: OwnedFd) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // The thread is there as long as this is.
        let _ = self.to.send(fd);
    }

    /// Waits until all is closed, at most five seconds: for those who count descriptors.
    #[cfg(any(test, fuzzing))]
    pub(super) fn settle(&self) {
        let begun = std::time::Instant::now();
        while self.waiting.load(Ordering::Relaxed) > 0 && begun.elapsed().as_secs() < 5 {
            thread::yield_now();
        }
    }

    /// Those of `fds` that are memfds, whose close does not wait, if all are; the others are closed elsewhere.
    pub(super) fn memfds(&self, fds: Vec<OwnedFd>) -> Result<Vec<OwnedFd>, AttachError> {
        // SAFETY: a call on our own descriptor that touches no memory, and asks no file system: before fstat, which does.
        if fds.iter().all(|fd| unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) } >= 0) {
            return Ok(fds);
        }
        fds.into_iter().for_each(|fd| self.close(fd));
        Err(AttachError::Unfit("is no memfd"))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::mem::PageKind;
    use crate::mem::memfd;

    /// A socket whose close waits two seconds for what the other end does not read.
    fn lingering() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (unread, _) = listener.accept().unwrap();
        let linger = libc::linger { l_onoff: 1, l_linger: 2 };
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
        let (fd, _unread) = lingering();
        let begun = Instant::now();
        assert!(closer.memfds(vec![fd]).is_err());
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    }

    #[test]
    fn memfds_are_given_back() {
        let closer = Closer::new().unwrap();
        let fd = memfd::create(PageKind::Small, 4_096).unwrap();
        assert_eq!(closer.memfds(vec![fd]).unwrap().len(), 1);
        assert!(closer.memfds(Vec::new()).unwrap().is_empty());
    }
}
