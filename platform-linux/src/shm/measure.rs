//! Two processes' data path without an engine, and a bare cache line beside it: to be measured, not to be built on.
//!
//! What a whole echo costs is the sum of the cache lines that travel, of what this fabric does around them, and of the loop.
//! With the first two measured beside the whole, in one run, each part is known.

use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use spinwire_core::config::Config;
use spinwire_core::fabric::{Batch, BufferMap, Fabric, RecvWr, SendWr};
use spinwire_core::id::{ConnId, WorkId, WorkKind};
use spinwire_core::pool::{Direction, Pool, PoolSlot};

use super::conn::Offer;
use super::fabric::ShmFabric;
use super::local::LocalMemory;
use super::memory::{AttachError, OwnMemory, PeerMemory};
use super::name::Name;
use super::socket::{Received, Socket};
use super::wire::{PACKET_MAX, Packet, Terms};
use crate::mem::{Arena, stride};
use crate::sys::os::{CallError, Errno};

/// Two processes, each with a page that it writes and the other reads, and with one connection.
pub struct Pair<'m> {
    own: OwnMemory,
    peer: PeerMemory,
    fabric: ShmFabric<'m>,
    send: [SendWr; 1],
    recv: [RecvWr; 1],
    batch: Batch,
    /// Its end says that the other process is gone.
    _socket: Socket,
}

/// Lines in a page, two cache lines apart.
const LINES: usize = 32;
const LINE_BYTES: usize = 128;
/// The other process gets so long to appear.
const PATIENCE: Duration = Duration::from_secs(10);

impl<'m> Pair<'m> {
    /// Waits for the other process at `name`. `config` sizes the connection; messages are all of `bytes`.
    ///
    /// # Errors
    /// A call that failed, or `ETIMEDOUT`.
    pub fn listen(name: &Name, config: &Config, arena: &'m mut Arena, bytes: u32) -> Result<Self, CallError> {
        let listener = Socket::new()?;
        listener.bind(name)?;
        listener.listen()?;
        let socket = within(PATIENCE, || listener.accept())?;
        Self::exchange(socket, config, arena, bytes)
    }

    /// Joins the other process at `name`.
    ///
    /// # Errors
    /// As [`listen`](Self::listen).
    pub fn connect(name: &Name, config: &Config, arena: &'m mut Arena, bytes: u32) -> Result<Self, CallError> {
        let socket = Socket::new()?;
        within(PATIENCE, || match socket.connect(name) {
            Ok(()) => Ok(Some(())),
            Err(CallError { errno: Errno(libc::ECONNREFUSED | libc::EAGAIN), .. }) => Ok(None),
            Err(error) => Err(error),
        })?;
        Self::exchange(socket, config, arena, bytes)
    }

    /// What the handshake of two engines does, without its care.
    fn exchange(socket: Socket, config: &Config, arena: &'m mut Arena, bytes: u32) -> Result<Self, CallError> {
        let unfit = CallError { call: "recvmsg", errno: Errno(libc::EPROTO) };
        let distance = stride(bytes as usize);
        assert!(arena.len() >= 2 * distance, "room for two messages");
        let (local, memory) = LocalMemory::split(arena);
        let mut slots = [PoolSlot::default(), PoolSlot::default()];
        let pool = Pool::new(Direction::Recv, memory, 0, (bytes, distance as u32), &mut slots);
        let mut pool = pool.map_err(|_| CallError { call: "buffers", errno: Errno(libc::EINVAL) })?;
        let buffers = BufferMap { recv: pool.layout(), send: pool.layout(), inline_bytes_max: 0 };
        let mut lend = |kind| {
            let buf = pool.take().expect("two buffers");
            pool.lend(buf, WorkId::new(CONN, kind, 0))
        };
        let (sent, received) = (lend(WorkKind::Send), lend(WorkKind::Recv));

        let mut fabric = ShmFabric::new(local, config, 1, false);
        fabric.prepare(&buffers);
        fabric.open(CONN).map_err(|error| error.cause())?;
        let mut own = OwnMemory::new(LINES * LINE_BYTES, false).map_err(|error| error.cause)?;
        let (segment, page) = (fabric.take_fd(CONN).ok_or(unfit)?, own.take_fd().ok_or(unfit)?);
        let terms = Terms { geometry: fabric.geometry(CONN).ok_or(unfit)?, arena_bytes: 0 };
        let request = Packet::Request(terms, Default::default()).encode();
        socket.send(&request, &[segment.as_fd(), page.as_fd()])?;
        let mut packet = [0; PACKET_MAX];
        let (len, fds) = within(PATIENCE, || match socket.recv(&mut packet)? {
            Received::Nothing => Ok(None),
            Received::End | Received::Cut(_) => Err(unfit),
            Received::Packet(len, fds) => Ok(Some((len, fds))),
        })?;
        let (Some(Ok(Packet::Request(Terms { geometry, .. }, _))), Ok([segment, page])) =
            (packet.get(..len).map(Packet::decode), <[_; 2]>::try_from(fds))
        else {
            return Err(unfit);
        };
        let map = |fd, bytes| {
            PeerMemory::map(fd, bytes).map_err(|error| match error {
                AttachError::Call(call) => call,
                AttachError::Unfit(_) => unfit,
            })
        };
        let offer = Offer { memory: map(segment, geometry.bytes())?, geometry, arena: None };
        fabric.attach(CONN, offer, false)?;
        let recv = [RecvWr::new(WorkId::new(CONN, WorkKind::Recv, 0), received)];
        fabric.post_recv(CONN, &recv).map_err(|error| CallError { call: "post", errno: Errno(error.errno) })?;
        let wr_id = WorkId::new(CONN, WorkKind::Send, 0);
        let send = [SendWr { wr_id, buf: Some(sent), len: bytes, imm: None, signaled: true }];
        let peer = map(page, LINES * LINE_BYTES)?;
        Ok(Self { own, peer, fabric, send, recv, batch: Batch::new(), _socket: socket })
    }

    /// Writes a line of the own page.
    ///
    /// # Panics
    /// If there is no such line: there are 32.
    #[inline]
    pub fn store(&self, line: usize, value: u64) {
        assert!(line < LINES);
        // SAFETY: inside our own page and aligned; the peer only reads it.
        let word = unsafe { AtomicU64::from_ptr(self.own.base().as_ptr().add(line * LINE_BYTES).cast()) };
        word.store(value, Ordering::Release);
    }

    /// Reads a line of the other process's page.
    ///
    /// # Panics
    /// If there is no such line: there are 32.
    #[inline]
    pub fn load(&self, line: usize) -> u64 {
        assert!(line < LINES);
        // SAFETY: inside the peer's mapped page and aligned; read as an atomic, for the peer writes it.
        let word = unsafe { AtomicU64::from_ptr(self.peer.base().as_ptr().add(line * LINE_BYTES).cast()) };
        word.load(Ordering::Acquire)
    }

    /// Posts the message. One may be under way in each direction.
    #[inline]
    pub fn post(&mut self) {
        self.fabric.post_send(CONN, (&self.send, &[])).expect("one message is under way");
    }

    /// Takes the other's message, if it is there.
    #[inline]
    pub fn poll(&mut self) -> bool {
        self.fabric.poll_recv(&mut self.batch);
        if self.batch.is_empty() {
            return false;
        }
        self.batch.clear();
        self.fabric.post_recv(CONN, &self.recv).expect("it was just taken");
        true
    }

    /// Takes back what the other has acknowledged.
    #[inline]
    pub fn reap(&mut self) {
        self.fabric.poll_send(&mut self.batch);
        self.batch.clear();
    }
}

/// The connection's slot and generation.
const CONN: ConnId = match ConnId::from_bits(1 << 16) {
    Some(conn) => conn,
    None => panic!("a sound id"),
};

/// Asks until there is something.
fn within<T>(limit: Duration, mut ask: impl FnMut() -> Result<Option<T>, CallError>) -> Result<T, CallError> {
    let begun = Instant::now();
    loop {
        if let Some(found) = ask()? {
            return Ok(found);
        }
        if begun.elapsed() > limit {
            return Err(CallError { call: "the other process: connect", errno: Errno(libc::ETIMEDOUT) });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
