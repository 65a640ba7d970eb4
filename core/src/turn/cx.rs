//! What a handler may do during a callback.

use super::core_state::Core;
use crate::cm::event::Peer;
use crate::conn::{Conn, Origin};
use crate::id::{ConnId, EndpointId};
use crate::stats::Stats;
use crate::time::Instant;

/// The handler's side of the engine. Every method is O(1), makes no call into the operating system and sends nothing
/// by itself: the engine flushes at the end of the turn, one doorbell per connection.
#[derive(Debug)]
pub struct Cx<'a, 'm> {
    pub(super) core: &'a mut Core<'m>,
    /// Credits that the message which the callback is shown has brought, and to which slot's connection. They are booked
    /// after the callback, with everything else about the message, or when it sends on that connection. What it sends there
    /// goes out right after it, or is marked then.
    brought: Option<(usize, u32)>,
}

impl<'a, 'm> Cx<'a, 'm> {
    #[inline(always)]
    pub(super) fn new(core: &'a mut Core<'m>) -> Self {
        Self { core, brought: None }
    }

    /// For a message on the connection in `slot`, which brought so many credits.
    #[inline(always)]
    pub(super) fn with_credits(core: &'a mut Core<'m>, slot: usize, credits: u32) -> Self {
        Self { core, brought: Some((slot, credits)) }
    }

    /// Credits that are not booked yet.
    #[inline(always)]
    pub(super) fn credits_left(self) -> u32 {
        self.brought.map_or(0, |(_, credits)| credits)
    }
}

/// A message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The connection's queue is full. Back-pressure, not a fault: [`Handler::on_writable`](super::Handler::on_writable)
    /// tells when there is room.
    #[error("the send queue is full")]
    WouldBlock,
    /// The message is longer than the peer, or this side's buffers, can take.
    #[error("a message of {asked} bytes is too long: at most {max}")]
    TooLong {
        /// Bytes asked.
        asked: u32,
        /// Bytes possible on this connection.
        max: u32,
    },
    /// The connection is not up (not yet, not any more, or the handle is of an earlier life). Not any more is also what holds
    /// between the end of the peer and [`Handler::on_close`](super::Handler::on_close), while what it sent is still taken.
    #[error("the connection is not established")]
    NotOpen,
}

/// No connection could be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Every slot has a connection.
    #[error("table full, {live} of {capacity}")]
    TableFull {
        /// Connections there are.
        live: u32,
        /// Connections there can be.
        capacity: u32,
    },
    /// The platform knows no such endpoint.
    #[error("there is no endpoint {asked}: {endpoints} are known, numbered from 0")]
    NoEndpoint {
        /// The number asked for.
        asked: u32,
        /// How many there are; none where an engine only listens.
        endpoints: u32,
    },
}

impl Cx<'_, '_> {
    /// The stamp of this turn.
    pub fn now(&self) -> Instant {
        self.core.now
    }

    /// Begins a connection to an endpoint that the platform knows; a client of `spinwire-linux` has one, `EndpointId(0)`.
    /// [`Handler::on_open`](super::Handler::on_open) or [`Handler::on_close`](super::Handler::on_close) tells what became
    /// of it.
    ///
    /// # Errors
    /// The table is full, or there is no such endpoint; nothing was begun.
    pub fn connect(&mut self, endpoint: EndpointId) -> Result<ConnId, ConnectError> {
        let (EndpointId(asked), endpoints) = (endpoint, self.core.endpoints);
        if asked >= endpoints {
            return Err(ConnectError::NoEndpoint { asked, endpoints });
        }
        self.core.begin(Origin::Endpoint(endpoint), None)
    }

    /// Queues a message with a copy of `bytes`.
    ///
    /// # Errors
    /// See [`SendError`]; nothing was queued.
    pub fn send(&mut self, conn: ConnId, bytes: &[u8]) -> Result<(), SendError> {
        // A length beyond 32 bits is beyond every maximum.
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.send_with(conn, len, |buf| buf.copy_from_slice(bytes))
    }

    /// Queues a message of `len` bytes that `fill` writes straight into the registered buffer. The buffer's old content
    /// is still in it: `fill` has to write every byte that is to be sent.
    ///
    /// # Errors
    /// See [`SendError`]; `fill` was not called and nothing was queued.
    pub fn send_with(&mut self, conn: ConnId, len: u32, fill: impl FnOnce(&mut [u8])) -> Result<(), SendError> {
        let brought = self.brought.as_mut().filter(|(slot, _)| *slot == conn.slot()).map(|(_, credits)| credits);
        self.core.queue_app(conn, brought, len, fill)
    }

    /// Closes a connection: what was sent is still delivered (within the linger time), then both sides are
    /// disconnected. [`Handler::on_close`](super::Handler::on_close) follows. Closing twice, or a dead handle, is nothing.
    pub fn close(&mut self, conn: ConnId) {
        self.core.request_close(conn);
    }

    /// Closes every connection.
    pub fn close_all(&mut self) {
        self.core.request_close_all();
    }

    /// Connections that are not over yet.
    pub fn live(&self) -> u32 {
        self.core.conns.live()
    }

    /// What the platform knows the present attempt of a connection by, to ask the platform about it; `None` for a dead
    /// handle. The same as `conn` unless it was tried again.
    pub fn link(&self, conn: ConnId) -> Option<ConnId> {
        self.core.conns.get(conn).map(|conn| conn.link)
    }

    /// Who is at the far side, where the control side knows.
    pub fn peer(&self, conn: ConnId) -> Option<Peer> {
        self.core.conns.get(conn)?.peer
    }

    /// The largest message that can be sent on this connection; `None` for a dead handle.
    pub fn message_bytes_max(&self, conn: ConnId) -> Option<u32> {
        self.core.conns.get(conn).map(|conn| conn.send_bytes_max)
    }

    /// Messages that the peer has receives for at one time: what is sent beyond them waits at this side. `None` for a dead
    /// handle, before the peer's hello, and for a peer that is no Spinwire.
    pub fn window(&self, conn: ConnId) -> Option<u32> {
        self.core.conns.get(conn)?.credits.window_for_data()
    }

    /// Messages of a connection that are queued at this side, for want of credits or until the turn ends, and not handed to
    /// the device yet; control messages that are due count too. `None` for a dead handle.
    pub fn queued(&self, conn: ConnId) -> Option<u32> {
        self.core.conns.get(conn).map(Conn::unsent)
    }

    /// The counters so far.
    pub fn stats(&self) -> &Stats {
        &self.core.stats
    }
}
