//! One connection's state, and the table of all.

mod credit;
mod op_queue;
mod release;
mod send_queue;
mod table;

pub use credit::{Credits, Imm, MessageKind};
pub use op_queue::OpQueue;
pub use release::{NotHeld, ReleaseWindow, WindowError};
pub use send_queue::{Others, SendQueue};
pub use table::{LineAligned, Place, Slot, Table, TableError, Vacant};

use core::mem::offset_of;

use crate::cm::event::Peer;
use crate::cm::reason::CloseReason;
use crate::cm::table::State;
use crate::config::Sizing;
use crate::id::{ConnId, EndpointId, RequestId, WorkId, WorkKind};
use crate::time::{Instant, Nanos};

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This side asked for it.
    Endpoint(EndpointId),
    /// A peer asked for it.
    Request(RequestId),
}

/// What a connection has to do besides sending data, as a set: what is empty most of the time is one comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due(u8);

impl Due {
    pub(crate) const NOTHING: Due = Due(0);
    /// The goodbye.
    pub(crate) const GOODBYE: Due = Due(1);
    /// A question whether the peer is alive.
    pub(crate) const ASK: Due = Due(2);
    /// The answer to the peer's question.
    pub(crate) const ANSWER: Due = Due(4);
    /// One-sided operations are to be posted.
    pub(crate) const OPERATIONS: Due = Due(8);
    /// The control messages among them.
    pub(crate) const MESSAGES: Due = Due(7);

    pub(crate) fn has(self, what: Due) -> bool {
        self.0 & what.0 != 0
    }

    pub(crate) fn add(&mut self, what: Due) {
        self.0 |= what.0;
    }

    pub(crate) fn remove(&mut self, what: Due) {
        self.0 &= !what.0;
    }
}

/// A question whether the peer is alive that has no answer yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// When it became due.
    pub(crate) at: Instant,
    /// The send it went out as; `None` while there is no credit for it.
    pub(crate) seq: Option<u32>,
}

/// The number of a queue pair, or none: compared in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QpNum(u64);

impl QpNum {
    /// There is no queue pair.
    pub(crate) const NONE: QpNum = QpNum(u64::MAX);

    pub(crate) const fn of(num: u32) -> Self {
        Self(num as u64)
    }
}

/// One connection.
///
/// What a message touches comes first, and with the table's word in front of it fills two cache lines; with many connections
/// these are what each message waits for.
#[derive(Debug)]
#[repr(C)]
pub struct Conn {
    /// The number of its queue pair while it is [steady](Conn::is_steady), else none.
    steady: QpNum,
    /// Work ids of its sends, but for the index.
    pub(crate) send_work: WorkId,
    /// What the platform knows the present attempt by: in events, actions and work ids. Of the first attempt, and so for
    /// most connections, it is the connection's own handle. Set by [`Conn::begin_attempt`].
    pub(crate) link: ConnId,
    /// When something last arrived.
    pub(crate) heard: Instant,
    pub(crate) credits: Credits,
    pub(crate) sends: SendQueue,
    /// Receives the device has, and those of held messages.
    pub(crate) recv_posted: u32,
    /// Largest message the peer takes.
    pub(crate) send_bytes_max: u32,
    /// Work ids of its receives, but for the index.
    pub(crate) recv_work: WorkId,
    /// What is still to be done besides sending data.
    pub(crate) due: Due,
    pub(crate) state: State,
    /// The application wants it closed.
    pub(crate) close_asked: bool,
    /// A send was refused for lack of room: on_writable is due.
    pub(crate) starved: bool,
    /// on_open was called.
    pub(crate) opened: bool,
    /// The peer said goodbye.
    pub(crate) goodbye: bool,
    /// The deadline was put off, because the loop was behind.
    pub(crate) extended: bool,
    /// The peer answers questions whether it is alive.
    pub(crate) answers_asks: bool,
    /// The number of its queue pair: from there its completions come. `None` while it has none and nothing can be posted.
    pub(crate) qp_num: QpNum,
    /// Messages that wait for the peer's hello. They lie in front of the ring of sends.
    pub(crate) held: u32,
    /// The peer broke the rules: nothing it says is believed any more.
    pub(crate) faulted: bool,
    /// Attempts to connect that were begun.
    pub(crate) attempts: u32,
    pub(crate) origin: Origin,
    pub(crate) peer: Option<Peer>,
    /// Since nothing was heard for too long.
    pub(crate) asked: Option<Asked>,
    /// When no further attempt is begun and the present one ends; [`Instant::NEVER`] on the passive side.
    pub(crate) give_up_at: Instant,
    /// What ended the attempt before this one.
    pub(crate) failed_before: Option<CloseReason>,
    /// When the application's close was taken up.
    pub(crate) lingers_since: Instant,
    /// The first cause of its end.
    pub(crate) reason: Option<CloseReason>,
    /// See [`CloseReport`](crate::cm::reason::CloseReport).
    pub(crate) unconfirmed_after: Option<Nanos>,
}

/// Bytes of a slot that a message touches: two lines.
pub(crate) const TOUCHED: usize = size_of::<u64>() + offset_of!(Conn, qp_num);
const _: () = assert!(TOUCHED == 128 && size_of::<Slot<Conn>>() == 320);

impl Vacant for Conn {
    const VACANT: Self = Self::new(Origin::Endpoint(EndpointId(0)), None);
    type Aligned = LineAligned;
}

impl Conn {
    pub(crate) const fn new(origin: Origin, peer: Option<Peer>) -> Self {
        Self {
            origin,
            link: ConnId::NONE,
            recv_work: WorkId::from_bits(0),
            send_work: WorkId::from_bits(0),
            peer,
            state: match origin {
                Origin::Endpoint(_) => State::Opening,
                Origin::Request(_) => State::Requested,
            },
            extended: false,
            heard: Instant::ZERO,
            asked: None,
            answers_asks: false,
            attempts: 0,
            give_up_at: Instant::NEVER,
            failed_before: None,
            lingers_since: Instant::NEVER,
            reason: None,
            unconfirmed_after: None,
            steady: QpNum::NONE,
            sends: SendQueue::new(0, 1, 0),
            credits: Credits::RAW,
            recv_posted: 0,
            held: 0,
            faulted: false,
            send_bytes_max: 0,
            opened: false,
            goodbye: false,
            starved: false,
            close_asked: false,
            due: Due::NOTHING,
            qp_num: QpNum::NONE,
        }
    }

    /// From here on the platform knows it by `link`.
    pub(crate) fn begin_attempt(&mut self, link: ConnId) {
        self.link = link;
        self.recv_work = WorkId::new(link, WorkKind::Recv, 0);
        self.send_work = WorkId::new(link, WorkKind::Send, 0);
    }

    /// Whether a data message goes out with the next flush: it carries credits, and is an answer.
    pub(crate) fn data_goes(&self) -> bool {
        self.sends.ready() > 0 || (self.sends.waiting() > 0 && self.credits.for_data() > 0)
    }

    /// Up, nobody closes it, nothing is due and nothing waits: what arrives is data and what is sent can go. All of that is
    /// one comparison on the hot path. What may change it [unsettles](Conn::unsettle) the connection and marks it dirty; the
    /// flush that deals with it settles it again.
    #[inline]
    pub(crate) fn is_steady(&self) -> bool {
        let steady = self.steady != QpNum::NONE;
        debug_assert!(!steady || self.flows() && !self.has_control_due());
        steady
    }

    /// Whether it is steady, and `qp_num` is the number of its queue pair.
    #[inline]
    pub(crate) fn is_steady_on(&self, qp_num: u32) -> bool {
        debug_assert!(!self.is_steady() || self.steady == self.qp_num);
        self.steady == QpNum::of(qp_num)
    }

    /// Whether so many receives are missing that it is worth a post: a batch of them, for then there are fewer than are
    /// always to be posted.
    #[inline]
    pub(crate) fn lacks_receives(&self, sizing: &Sizing) -> bool {
        self.recv_posted < sizing.recv_posted_min
    }

    /// Something happened that the hot path does not deal with.
    #[inline]
    pub(crate) fn unsettle(&mut self) {
        self.steady = QpNum::NONE;
    }

    /// A control message is to be queued.
    pub(crate) fn want(&mut self, what: Due) {
        self.due.add(what);
        self.unsettle();
    }

    /// What was due has been dealt with, as far as possible now.
    pub(crate) fn settle(&mut self) {
        let steady = self.flows() && !self.has_control_due() && !self.credits.peer_has_none(self.recv_posted);
        self.steady = if steady { self.qp_num } else { QpNum::NONE };
    }

    /// A control message is due, or data waits for credits that may have come.
    fn has_control_due(&self) -> bool {
        self.due != Due::NOTHING || self.sends.waiting() > 0 || self.credits.many_owed()
    }

    /// Whether the peer should be told of its credits, if nothing else goes out.
    pub(crate) fn update_is_due(&self) -> bool {
        self.credits.update_is_due(self.recv_posted)
    }

    /// Messages go both ways: it is up, and nobody closes it. Then it was opened, and there is no reason for an end yet.
    #[inline]
    pub(crate) fn flows(&self) -> bool {
        self.state == State::Established && !self.close_asked
    }

    /// Sends that are not posted yet; held messages lie in the same ring and are none.
    pub(crate) fn unsent(&self) -> u32 {
        self.sends.gathered() - self.held
    }

    /// Sends of a connection the application has closed went nowhere, as far as is known now.
    pub(crate) fn note_unconfirmed(&mut self, now: Instant) {
        if self.state == State::Lingering {
            self.unconfirmed_after = Some(now.since(self.lingers_since));
        }
    }
}
