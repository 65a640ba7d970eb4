//! The answering side: every message goes back as it came.

use std::fmt;

use spinwire_core::cm::event::{CmEventKind, Peer};
use spinwire_core::cm::hello::Refusal;
use spinwire_core::cm::reason::CloseReport;
use spinwire_core::id::{ConnId, ListenerId};
use spinwire_core::time::{Instant, Nanos};
use spinwire_core::turn::{Answer, Cx, Handler, Request, Verdict};

use crate::log::Log;
use crate::reason::{Over, RefusalWords, Words};
use crate::units::counted;
use spinwire_linux::runtime::Troubles;
use spinwire_linux::signals::{self, Stop};

/// Answers every message in place, without a copy, and notes who comes and goes.
#[derive(Debug)]
pub struct EchoServer {
    /// What was answered, by slot of the connection table.
    answered: Vec<u64>,
    open: u32,
    stop: Stop,
    stopping: bool,
    /// When to look at the troubles again.
    next_look: Instant,
    is_look_due: bool,
    told: Troubles,
    lost: Option<CmEventKind>,
    log: Option<Log<Event>>,
}

/// Who comes and goes.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A client is connected.
    Opened {
        /// Who it is.
        peer: Option<Peer>,
        /// Clients there are now.
        open: u32,
    },
    /// A client is gone.
    Closed {
        /// Who it is, and why.
        report: CloseReport,
        /// What was answered to it.
        messages: u64,
    },
    /// A client was refused.
    Refused {
        /// Who it is.
        peer: Option<Peer>,
        /// Why.
        refusal: Refusal,
    },
    /// Something went wrong that concerns no client that is known here.
    Troubled(Troubles),
    /// A signal came.
    Stopping {
        /// Its number.
        signal: u8,
        /// Connections that are now closed.
        live: u32,
    },
}

/// The listener went away under the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the listener is gone: the rdma device reported {0:?}")]
pub struct ListenerLost(pub CmEventKind);

impl EchoServer {
    /// A server for up to `connections_max` clients. All its memory is allocated here.
    pub fn new(connections_max: u32, stop: Stop, log: Option<Log<Event>>) -> Self {
        Self {
            answered: vec![0; connections_max as usize],
            open: 0,
            stop,
            stopping: false,
            next_look: Instant::ZERO,
            is_look_due: false,
            told: Troubles::default(),
            lost: None,
            log,
        }
    }

    /// Whether it was told to stop, or has nothing to listen on any more.
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Whether the loop is to be left: to look for troubles, which is once a second, or for good.
    #[inline]
    pub fn wants_out(&self) -> bool {
        self.stopping | self.is_look_due
    }

    /// Notes what went wrong since the last time; `now` is what the reactor says.
    pub fn look_at(&mut self, now: Troubles) {
        self.is_look_due = false;
        let new = now.since(&self.told);
        if !new.is_none() {
            self.told = now;
            self.note(Event::Troubled(new));
        }
    }

    /// How it ended.
    ///
    /// # Errors
    /// [`ListenerLost`], when that was why.
    pub fn into_result(self) -> Result<(), ListenerLost> {
        self.lost.map_or(Ok(()), |kind| Err(ListenerLost(kind)))
    }

    fn note(&self, event: Event) {
        if let Some(log) = &self.log {
            log.note(event);
        }
    }
}

impl Handler for EchoServer {
    fn on_request(&mut self, _request: &Request) -> Verdict {
        if self.stopping { Verdict::Refuse(Refusal::ShuttingDown) } else { Verdict::Accept }
    }

    fn on_refused(&mut self, request: &Request, refusal: &Refusal) {
        self.note(Event::Refused { peer: request.peer, refusal: *refusal });
    }

    fn on_open(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        let peer = cx.peer(conn);
        self.answered[conn.slot()] = 0;
        self.open += 1;
        self.note(Event::Opened { peer, open: self.open });
        if self.stopping {
            cx.close(conn);
        }
    }

    fn on_message(&mut self, _cx: &mut Cx<'_, '_>, conn: ConnId, message: &mut [u8]) -> Answer {
        self.answered[conn.slot()] += 1;
        // A message fits its buffer, and buffers are at most 8 MiB long.
        Answer::InPlace(message.len() as u32)
    }

    fn on_close(&mut self, _cx: &mut Cx<'_, '_>, conn: ConnId, report: &CloseReport) {
        self.open -= u32::from(report.was_open);
        self.note(Event::Closed { report: *report, messages: self.answered[conn.slot()] });
    }

    fn on_listener_lost(&mut self, _cx: &mut Cx<'_, '_>, _listener: ListenerId, kind: CmEventKind) {
        self.lost = Some(kind);
        self.stopping = true;
    }

    fn on_turn(&mut self, cx: &mut Cx<'_, '_>) {
        if self.stopping {
            return;
        }
        if cx.now() >= self.next_look {
            self.next_look = cx.now() + LOOK;
            self.is_look_due = true;
        }
        if let Some(signal) = self.stop.signal() {
            self.stopping = true;
            self.note(Event::Stopping { signal, live: cx.live() });
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Opened { peer, open } => write!(f, "{} connected ({open} now)", Who(peer)),
            Event::Closed { report, messages } => {
                let CloseReport { reason, peer, was_open, unsent, unconfirmed_after, .. } = report;
                if !was_open {
                    return write!(f, "{} did not get connected: {}", Who(peer), Words(reason, Over::from(*peer)));
                }
                let (why, answered) = (Words(reason, Over::from(*peer)), counted(*messages, "message"));
                write!(f, "{} left: {why}; {answered} answered", Who(peer))?;
                if *unsent > 0 {
                    write!(f, ", of which {unsent} were not sent")?;
                }
                match unconfirmed_after {
                    Some(limit) => write!(f, ", the last replies were not confirmed within {limit}"),
                    None => Ok(()),
                }
            }
            Event::Refused { peer, refusal } => {
                write!(f, "{} refused: {}", Who(peer), RefusalWords(refusal, Over::from(*peer)))
            }
            Event::Troubled(troubles) => troubles.fmt(f),
            Event::Stopping { signal, live } => {
                let signal = signals::name(*signal);
                write!(f, "{signal}: stopping; no new clients, closing {}", counted((*live).into(), "connection"))
            }
        }
    }
}

/// Between two looks for troubles, so that they print one line in that time at most.
const LOOK: Nanos = Nanos::from_secs(1);

/// A client, as far as it is known.
struct Who<'a>(&'a Option<Peer>);

impl fmt::Display for Who<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(peer) => peer.fmt(f),
            None => f.write_str("a client"),
        }
    }
}
