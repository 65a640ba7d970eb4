//! The connection side of a connection, and of a client that may become one.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use spinwire_core::cm::event::PrivateData;
use spinwire_core::id::ConnId;
use spinwire_core::time::Instant;

use super::exposed::PeerRegion;
use super::layout::Geometry;
use super::memory::PeerMemory;
use super::name::Name;
use super::pulse::PeerPulse;
use super::socket::{Credentials, Socket};

/// The connection side of one connection.
pub(super) struct Conn {
    pub(super) id: ConnId,
    pub(super) socket: Socket,
    pub(super) stage: Stage,
    pub(super) peer: Option<Credentials>,
    /// The peer's segment, until the fabric has it.
    pub(super) offer: Option<Offer>,
    pub(super) pulse: Option<PeerPulse>,
    /// What the peer has exposed, until the fabric has it.
    pub(super) regions: Vec<PeerRegion>,
}

/// How far a connection is.
pub(super) enum Stage {
    /// It is known where to ask, and nothing was sent yet.
    New(Name),
    /// The request waits for room in the server's backlog.
    Busy(Box<Request>),
    /// The request is out.
    Asked,
    /// The client's request is the engine's; no answer is out yet.
    Adopted,
    /// The accept is out.
    Accepted,
    /// Both sides have both segments.
    Up,
    /// The socket has nothing more to tell.
    Over,
}

/// What an active connection asks with.
pub(super) struct Request {
    pub(super) name: Name,
    pub(super) geometry: Geometry,
    pub(super) data: PrivateData,
    pub(super) segment: OwnedFd,
}

/// What a peer passed: memory that it writes and we read.
pub(super) struct Offer {
    pub(super) memory: PeerMemory,
    pub(super) geometry: Geometry,
    /// Its buffers, if it lends them.
    pub(super) arena: Option<Rc<PeerMemory>>,
}

/// A client that the engine has not answered yet.
pub(super) struct Incoming {
    pub(super) socket: Socket,
    /// Tells it from others that were in its place.
    pub(super) serial: u32,
    /// The listener it came to.
    pub(super) listener: u32,
    pub(super) peer: Credentials,
    pub(super) deadline: Instant,
    /// What it has exposed.
    pub(super) regions: Vec<PeerRegion>,
    /// What its request brought.
    pub(super) offer: Option<(Offer, PeerPulse)>,
}
