//! Unix sockets that keep packets apart (`SOCK_SEQPACKET`), pass descriptors and tell who is at the other end. Nothing here
//! waits.

use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::name::Name;
use crate::sys::os::{CallError, Errno, check};

/// One socket, non-blocking.
pub(super) struct Socket(OwnedFd);

/// The process at the other end, as the kernel noted it when it connected or began to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Its id; 0 if it is in a process namespace that cannot be seen from here.
    pub pid: u32,
    /// Its effective user.
    pub uid: u32,
}

/// What a read found.
pub(super) enum Received {
    /// Nothing yet.
    Nothing,
    /// A packet of so many bytes, with the descriptors that came along.
    Packet(usize, Vec<OwnedFd>),
    /// A packet with more descriptors than this process may have open, and those that it has got.
    Cut(Vec<OwnedFd>),
    /// The peer is gone.
    End,
}

/// Descriptors in one packet, at most.
pub(super) const FDS_MAX: usize = super::exposed::REGIONS_MAX;

/// Descriptors in one packet that a peer can send: `SCM_MAX_FD` of the kernel.
const PASSED_MAX: usize = 253;
/// Room for them.
// SAFETY: plain arithmetic.
const CONTROL_MAX: usize = unsafe { libc::CMSG_SPACE((PASSED_MAX * size_of::<libc::c_int>()) as u32) } as usize;

impl Socket {
    pub(super) fn new() -> Result<Self, CallError> {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: takes numbers and returns one.
        let fd = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
        // SAFETY: a fresh descriptor that nobody else owns.
        own(fd, "socket", |fd| Socket(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(super) fn bind(&self, name: &Name) -> Result<(), CallError> {
        let (address, len) = address(name);
        // SAFETY: `address` is a sockaddr_un of which `len` bytes count.
        check("bind", || unsafe { libc::bind(self.0.as_raw_fd(), (&raw const address).cast(), len) })
    }

    pub(super) fn listen(&self) -> Result<(), CallError> {
        // SAFETY: a call on our own descriptor. The kernel lowers the backlog to `net.core.somaxconn`.
        check("listen", || unsafe { libc::listen(self.0.as_raw_fd(), BACKLOG) })
    }

    /// Connects; `EAGAIN` when the server's backlog is full.
    pub(super) fn connect(&self, name: &Name) -> Result<(), CallError> {
        let (address, len) = address(name);
        // SAFETY: `address` is a sockaddr_un of which `len` bytes count.
        check("connect", || unsafe { libc::connect(self.0.as_raw_fd(), (&raw const address).cast(), len) })
    }

    /// The next client of a listener, if one waits.
    pub(super) fn accept(&self) -> Result<Option<Socket>, CallError> {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no address is asked for, so no memory is touched.
        let fd = unsafe { libc::accept4(self.0.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags) };
        // SAFETY: a fresh descriptor that nobody else owns.
        match own(fd, "accept4", |fd| Socket(unsafe { OwnedFd::from_raw_fd(fd) })) {
            // Gone before it was taken, or a signal came: the next look finds the next one.
            Err(CallError { errno: Errno(libc::EAGAIN | libc::ECONNABORTED | libc::EINTR), .. }) => Ok(None),
            result => result.map(Some),
        }
    }

    pub(super) fn credentials(&self) -> Result<Credentials, CallError> {
        let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: `found` is ours and `len` its length.
        check("getsockopt(SO_PEERCRED)", || unsafe {
            let at = (&raw mut found).cast();
            libc::getsockopt(self.0.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, at, &mut len)
        })?;
        Ok(Credentials { pid: found.pid.try_into().unwrap_or(0), uid: found.uid })
    }

    /// Sends a packet with descriptors, at most [`FDS_MAX`]; the receiver gets duplicates.
    pub(super) fn send(&self, packet: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), CallError> {
        assert!(fds.len() <= FDS_MAX, "more descriptors than a packet carries");
        let mut part = libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
        let mut control = ControlBuffer([0; 40]);
        let mut message = header(&mut part);
        if !fds.is_empty() {
            let bytes = size_of_val(fds) as u32;
            message.msg_control = (&raw mut control).cast();
            // SAFETY: plain arithmetic.
            message.msg_controllen = unsafe { libc::CMSG_SPACE(bytes) } as usize;
            // SAFETY: the buffer is aligned for a header and has room for FDS_MAX descriptors, of which `fds.len()` are
            // written.
            unsafe {
                let first = libc::CMSG_FIRSTHDR(&raw const message);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(bytes) as usize;
                let data = libc::CMSG_DATA(first).cast::<libc::c_int>();
                for (n, fd) in fds.iter().enumerate() {
                    data.add(n).write_unaligned(fd.as_raw_fd());
                }
            }
        }
        // SAFETY: `message` describes `packet` and `control`, which outlive the call.
        let sent = unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
        if sent < 0 { Err(CallError { call: "sendmsg", errno: Errno::last() }) } else { Ok(()) }
    }

    /// Takes the next packet, if one waits. One that is longer than `packet` gives more bytes than that has.
    pub(super) fn recv(&self, packet: &mut [u8]) -> Result<Received, CallError> {
        match self.recv_once(packet) {
            // The peer closed with something unread: what it sent before comes after this.
            Err(CallError { errno: Errno(libc::ECONNRESET), .. }) => self.recv_once(packet),
            result => result,
        }
    }

    fn recv_once(&self, packet: &mut [u8]) -> Result<Received, CallError> {
        let mut part = libc::iovec { iov_base: packet.as_mut_ptr().cast(), iov_len: packet.len() };
        // Room for all that a packet can carry: what does not fit is closed within the call, however long that takes.
        let mut control = ControlBuffer([0; CONTROL_MAX]);
        let mut message = header(&mut part);
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = size_of_val(&control);
        let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_TRUNC;
        // SAFETY: `message` describes `packet` and `control`, both ours for the length of the call.
        let got = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, flags) };
        let Ok(got) = usize::try_from(got) else {
            return match Errno::last() {
                Errno(libc::EAGAIN | libc::EINTR) => Ok(Received::Nothing),
                errno => Err(CallError { call: "recvmsg", errno }),
            };
        };
        // SAFETY: the kernel has filled `control` as `message` says.
        let fds = unsafe { take_fds(&message) };
        if message.msg_flags & libc::MSG_CTRUNC != 0 {
            // Descriptors that there was no room for in our table of open files.
            return Ok(Received::Cut(fds));
        }
        Ok(if got == 0 { Received::End } else { Received::Packet(got, fds) })
    }

    /// The descriptor, to be closed elsewhere.
    pub(super) fn into_fd(self) -> OwnedFd {
        self.0
    }

    /// Tells the peer that nothing more will come or be taken.
    pub(super) fn shutdown(&self) -> Result<(), CallError> {
        // SAFETY: a call on our own descriptor.
        check("shutdown", || unsafe { libc::shutdown(self.0.as_raw_fd(), libc::SHUT_RDWR) })
    }
}

/// What only a hostile peer does.
#[cfg(any(test, fuzzing))]
impl Socket {
    /// Sends a packet with any number of descriptors.
    pub(super) fn send_any(&self, packet: &[u8], fds: &[libc::c_int]) -> Result<(), CallError> {
        let mut part = libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
        let bytes = size_of_val(fds) as u32;
        // SAFETY: plain arithmetic.
        let mut control = vec![0_u64; unsafe { libc::CMSG_SPACE(bytes) } as usize / 8];
        let mut message = header(&mut part);
        if !fds.is_empty() {
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = control.len() * 8;
            // SAFETY: the buffer is aligned for a header and has room for all of `fds`.
            unsafe {
                let first = libc::CMSG_FIRSTHDR(&raw const message);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(bytes) as usize;
                let data = libc::CMSG_DATA(first).cast::<libc::c_int>();
                fds.as_ptr().copy_to_nonoverlapping(data, fds.len());
            }
        }
        // SAFETY: `message` describes `packet` and `control`, which outlive the call.
        let sent = unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
        if sent < 0 { Err(CallError { call: "sendmsg", errno: Errno::last() }) } else { Ok(()) }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The descriptors in a received message, all of them, so that none is leaked.
///
/// # Safety
/// `message` was filled by `recvmsg`, and its control buffer is still there.
unsafe fn take_fds(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    // SAFETY: the macros walk what the kernel wrote (caller).
    let mut at = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: null, or a header the kernel wrote.
    while let Some(entry) = unsafe { at.as_ref() } {
        if entry.cmsg_level == libc::SOL_SOCKET && entry.cmsg_type == libc::SCM_RIGHTS {
            // SAFETY: plain arithmetic, and the data of a header the kernel wrote.
            let (empty, data) = unsafe { (libc::CMSG_LEN(0) as usize, libc::CMSG_DATA(at).cast::<libc::c_int>()) };
            for n in 0..(entry.cmsg_len - empty) / size_of::<libc::c_int>() {
                // SAFETY: one of the descriptors the kernel has just made for us; each is taken once.
                fds.push(unsafe { OwnedFd::from_raw_fd(data.add(n).read_unaligned()) });
            }
        }
        // SAFETY: as above.
        at = unsafe { libc::CMSG_NXTHDR(message, at) };
    }
    fds
}

/// Room for [`FDS_MAX`] descriptors and their header.
#[repr(C, align(8))]
struct ControlBuffer<const BYTES: usize>([u8; BYTES]);

// SAFETY: plain arithmetic.
const _: () = assert!(unsafe { libc::CMSG_SPACE((FDS_MAX * size_of::<libc::c_int>()) as u32) } as usize == 40);

fn header(part: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: all zeroes is a valid msghdr.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message
}

/// The address of a socket; the length says where an abstract name ends.
fn address(name: &Name) -> (libc::sockaddr_un, libc::socklen_t) {
    // SAFETY: all zeroes is a valid sockaddr_un.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = name.socket_name();
    for (to, from) in address.sun_path.iter_mut().zip(&bytes) {
        *to = *from as libc::c_char;
    }
    // A path counts with its final zero.
    let end = usize::from(name.path().is_some());
    (address, (mem::offset_of!(libc::sockaddr_un, sun_path) + bytes.len() + end) as libc::socklen_t)
}

pub(super) fn own<T>(fd: libc::c_int, call: &'static str, wrap: impl FnOnce(libc::c_int) -> T) -> Result<T, CallError> {
    if fd < 0 { Err(CallError { call, errno: Errno::last() }) } else { Ok(wrap(fd)) }
}

/// Clients that may wait in the kernel.
const BACKLOG: libc::c_int = 1_024;
