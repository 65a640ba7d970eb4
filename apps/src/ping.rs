//! The asking side: opens connections, sends messages as planned, matches and times every reply.

mod sending;

use spinwire_core::cm::event::Peer as Who;
use spinwire_core::cm::reason::{CloseReason, CloseReport};
use spinwire_core::id::{ConnId, EndpointId};
use spinwire_core::time::Instant;
use spinwire_core::turn::{Answer, Cx, Handler};

use crate::load::{Load, Pace};
use crate::log::Log;
use crate::measure::{Left, Measure};
use crate::outcome::{Outcome, Trouble};
use crate::pattern;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::window::Window;
use spinwire_linux::signals::Stop;

/// The application of `echo ping`. All its memory is allocated by [`Pinger::new`].
#[derive(Debug)]
pub struct Pinger {
    plan: Plan,
    stop: Stop,
    phase: Phase,
    /// By slot of the connection table.
    conns: Vec<Peer>,
    begun: u32,
    opening: u32,
    open: u32,
    load: Load,
    /// Messages without a reply, sent or still queued.
    outstanding: u64,
    /// Messages that were still queued on connections that are over.
    lost_queued: u64,
    /// Where the search for a connection with room begins next.
    turn_of: usize,
    last_progress: Instant,
    measure: Measure,
    outcome: Outcome,
    log: Option<Log<Progress>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Connecting,
    Running,
    Closing,
    Done,
}

#[derive(Debug)]
struct Peer {
    conn: Option<ConnId>,
    who: Option<Who>,
    window: Window,
}

/// Connections that may be on their way at once. Each costs the server a queue pair, which takes milliseconds on some
/// devices; with more, the last ones would run into their connect deadline.
const OPENING_MAX: u32 = 16;

/// The one endpoint of a run.
const TARGET: EndpointId = EndpointId(0);

impl Pinger {
    /// A run of `plan`, which ends early when `stop` says so and tells `log` when it is connected.
    pub fn new(plan: Plan, stop: Stop, log: Option<Log<Progress>>) -> Self {
        let peer = || Peer { conn: None, who: None, window: Window::new(plan.depth) };
        Self {
            plan,
            stop,
            phase: Phase::Connecting,
            conns: std::iter::repeat_with(peer).take(plan.connections as usize).collect(),
            begun: 0,
            opening: 0,
            open: 0,
            load: Load::new(plan.pace, plan.extent, plan.warmup, Instant::ZERO),
            outstanding: 0,
            lost_queued: 0,
            turn_of: 0,
            last_progress: Instant::ZERO,
            measure: Measure::new(),
            outcome: Outcome::Complete,
            log,
        }
    }

    /// Whether everything is over, closing included.
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Measured replies so far.
    pub fn replies(&self) -> u64 {
        self.measure.replies
    }

    /// How it ended, and what was measured.
    pub fn into_results(self) -> (Outcome, Measure) {
        (self.outcome, self.measure)
    }

    fn connect_more(&mut self, cx: &mut Cx<'_, '_>) {
        while self.begun < self.plan.connections && self.opening < OPENING_MAX {
            match cx.connect(TARGET) {
                Ok(_) => {
                    self.begun += 1;
                    self.opening += 1;
                }
                // The table has a slot for each connection of the plan.
                Err(full) => return self.end(cx, Outcome::Failed(Trouble::OwnTable(full))),
            }
        }
    }

    fn start(&mut self, cx: &mut Cx<'_, '_>) {
        self.phase = Phase::Running;
        if let Some(log) = &self.log {
            let server = self.conns.last().and_then(|peer| peer.who);
            let Plan { connections, warmup, core, .. } = self.plan;
            log.note(Progress::Connected { connections, warmup, server, core });
        }
        self.measure.server_window = self.conns.last().and_then(|peer| cx.window(peer.conn?));
        self.last_progress = cx.now();
        self.load = Load::new(self.plan.pace, self.plan.extent, self.plan.warmup, cx.now());
        if self.plan.pace == Pace::Closed {
            self.fill_all(cx);
        }
    }

    fn end(&mut self, cx: &mut Cx<'_, '_>, outcome: Outcome) {
        if self.phase == Phase::Closing || self.phase == Phase::Done {
            return;
        }
        if self.phase == Phase::Running && self.measure.is_waiting() && self.plan.warmup > 0 {
            let sent: u64 = self.conns.iter().map(|peer| peer.window.next_sequence()).sum();
            self.measure.ended_in_warmup = Some(sent - self.outstanding);
        }
        let left = self.left(cx);
        self.measure.end(cx.stats(), left, self.load.unsent());
        self.outcome = outcome;
        self.phase = Phase::Closing;
        cx.close_all();
    }

    fn check_reply(&self, slot: usize, sequence: u64, reply: &[u8]) -> Result<(), pattern::Mismatch> {
        let expected = self.plan.message_bytes as usize;
        match (self.plan.verify, self.plan.raw) {
            (true, _) => pattern::check(slot as u32, sequence, expected, reply),
            (false, false) => pattern::check_header(sequence, expected, reply),
            (false, true) => Ok(()),
        }
    }

    /// What has no reply now.
    fn left(&self, cx: &Cx<'_, '_>) -> Left {
        let queued = |peer: &Peer| cx.queued(peer.conn?).map(u64::from);
        let queued = self.conns.iter().filter_map(queued).sum::<u64>() + self.lost_queued;
        Left { outstanding: self.outstanding.saturating_sub(queued), queued: queued.min(self.outstanding) }
    }

    /// What has not happened for too long, if anything.
    fn stalled(&self, cx: &Cx<'_, '_>) -> Option<Trouble> {
        let now = cx.now();
        let waiting = now.since(self.last_progress);
        if waiting < self.plan.timeout {
            return None;
        }
        match self.phase {
            Phase::Running if self.outstanding > 0 || self.load.due(now).is_some() => {
                let silent = self.conns.iter().filter(|peer| peer.window.in_flight() > 0).count() as u32;
                let connections = self.plan.connections;
                Some(Trouble::Stalled { waiting, left: self.left(cx), silent, connections })
            }
            // Each step of connecting and closing has a deadline in the engine.
            _ => None,
        }
    }
}

impl Handler for Pinger {
    fn on_open(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        (self.conns[conn.slot()].conn, self.conns[conn.slot()].who) = (Some(conn), cx.peer(conn));
        self.opening -= 1;
        self.open += 1;
        let asked = self.plan.message_bytes;
        if let Some(max) = cx.message_bytes_max(conn).filter(|max| asked > *max) {
            return self.end(cx, Outcome::Failed(Trouble::TooLong { asked, max }));
        }
        if self.phase == Phase::Connecting {
            self.connect_more(cx);
            if self.open == self.plan.connections {
                self.start(cx);
            }
        }
    }

    fn on_message(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, message: &mut [u8]) -> Answer {
        let slot = conn.slot();
        if self.phase != Phase::Running {
            return Answer::None;
        }
        let Some((sequence, sent)) = self.conns[slot].window.pop() else {
            self.end(cx, Outcome::Failed(Trouble::Unasked { connection: slot as u32, bytes: message.len() }));
            return Answer::None;
        };
        if let Err(mismatch) = self.check_reply(slot, sequence, message) {
            self.end(cx, Outcome::Failed(Trouble::Mismatch { connection: slot as u32, sequence, mismatch }));
            return Answer::None;
        }
        self.outstanding -= 1;
        self.last_progress = cx.now();
        if sent.measured {
            self.measure.reply(&sent, cx.now());
        }
        if !self.load.is_before_first() {
            self.fill(cx, slot);
        }
        Answer::None
    }

    fn on_writable(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        self.fill(cx, conn.slot());
    }

    fn on_close(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, report: &CloseReport) {
        let connection = conn.slot() as u32;
        let (of, over) = (self.plan.connections, self.plan.over);
        self.conns[conn.slot()].conn = None;
        self.lost_queued += u64::from(report.unsent);
        match report.was_open {
            true => self.open -= 1,
            false => {
                self.opening -= 1;
                self.measure.connects_failed += u64::from(report.reason != CloseReason::Local);
            }
        }
        let trouble = match report.was_open {
            true => {
                let peer = self.conns[conn.slot()].who;
                Trouble::Lost { connection, of, peer, over, report: *report, left: self.left(cx) }
            }
            false => Trouble::Connect { connection, of, over, report: *report },
        };
        self.end(cx, Outcome::Failed(trouble));
    }

    fn on_turn(&mut self, cx: &mut Cx<'_, '_>) {
        let now = cx.now();
        match self.phase {
            Phase::Connecting if self.begun == 0 => self.connect_more(cx),
            Phase::Connecting => {}
            Phase::Running => {
                self.measure.turn(now);
                if self.load.is_before_first() && self.outstanding == 0 {
                    self.load.put_off(now);
                    self.fill_all(cx);
                } else if self.plan.pace != Pace::Closed {
                    self.send_planned(cx);
                }
                if self.outstanding == 0 && self.load.exhausted(now) {
                    if let Some(end) = self.load.span_end() {
                        self.measure.complete(end);
                    }
                    self.end(cx, Outcome::Complete);
                }
            }
            Phase::Closing if cx.live() == 0 => self.phase = Phase::Done,
            Phase::Closing | Phase::Done => return,
        }
        if let Some(signal) = self.stop.signal() {
            self.end(cx, Outcome::Interrupted(signal));
        } else if let Some(trouble) = self.stalled(cx) {
            self.end(cx, Outcome::Failed(trouble));
        }
    }
}
