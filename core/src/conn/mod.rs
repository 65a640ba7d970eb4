//! One connection's state, and the table of all.

mod credit;
mod send_queue;
mod table;

pub use credit::{Credits, Imm, MessageKind};
pub use send_queue::SendQueue;
pub use table::{Place, Slot, Table, TableError, Vacant};

use crate::cm::event::Peer;
use crate::cm::reason::CloseReason;
use crate::cm::table::State;
use crate::id::{EndpointId, RequestId};
use crate::time::{Instant, Nanos};

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This side asked for it.
    Endpoint(EndpointId),
    /// A peer asked for it.
    Request(RequestId),
}

/// One connection.
#[derive(Debug)]
pub struct Conn {
    pub(crate) origin: Origin,
    pub(crate) peer: Option<Peer>,
    pub(crate) state: State,
    /// When the state gives up; [`Instant::NEVER`] for none.
    pub(crate) deadline: Instant,
    /// The deadline was put off, because the loop was behind.
    pub(crate) extended: bool,
    /// When the application's close was taken up.
    pub(crate) lingers_since: Instant,
    /// The first cause of its end.
    pub(crate) reason: Option<CloseReason>,
    /// See [`CloseReport`](crate::cm::reason::CloseReport).
    pub(crate) unconfirmed_after: Option<Nanos>,
    pub(crate) sends: SendQueue,
    pub(crate) credits: Credits,
    /// Receives the device has.
    pub(crate) recv_posted: u32,
    /// Receive buffers on their way back as answers.
    pub(crate) answers: u32,
    /// Largest message the peer takes.
    pub(crate) send_bytes_max: u32,
    /// on_open was called.
    pub(crate) opened: bool,
    /// The peer said goodbye.
    pub(crate) goodbye: bool,
    /// A send was refused for lack of room: on_writable is due.
    pub(crate) starved: bool,
    /// The application wants it closed.
    pub(crate) close_asked: bool,
    /// Our own goodbye is still to be queued.
    pub(crate) goodbye_due: bool,
    /// The number of its queue pair: from there its completions come. `None` while it has none and nothing can be posted.
    pub(crate) qp_num: Option<u32>,
}

impl Vacant for Conn {
    const VACANT: Self = Self::new(Origin::Endpoint(EndpointId(0)), None);
}

impl Conn {
    pub(crate) const fn new(origin: Origin, peer: Option<Peer>) -> Self {
        Self {
            origin,
            peer,
            state: match origin {
                Origin::Endpoint(_) => State::Opening,
                Origin::Request(_) => State::Requested,
            },
            deadline: Instant::NEVER,
            extended: false,
            lingers_since: Instant::NEVER,
            reason: None,
            unconfirmed_after: None,
            sends: SendQueue::starting_at(0),
            credits: Credits::RAW,
            recv_posted: 0,
            answers: 0,
            send_bytes_max: 0,
            opened: false,
            goodbye: false,
            starved: false,
            close_asked: false,
            goodbye_due: false,
            qp_num: None,
        }
    }
}
