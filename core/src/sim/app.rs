//! An application that keeps a book of everything it sends, and checks everything it gets against the far side's book.

mod look;

use std::collections::BTreeMap;
use std::format;
use std::vec::Vec;

use super::coverage::Fault;
use super::net::Net;
use super::plan::{Book, Plan, Style, View};
use super::random::Random;
use super::record;
use crate::cm::hello::Refusal;
use crate::cm::reason::CloseReport;
use crate::id::{ConnId, EndpointId};
use crate::turn::{Answer, Cx, Done, Handler, OneSidedFailure, Request, SendError, Verdict};

/// The application of one machine.
#[derive(Debug)]
pub struct App {
    /// Its machine.
    pub node: usize,
    /// What it does.
    pub plan: Plan,
    /// Its connections, by [`ConnId::to_bits`].
    pub conns: BTreeMap<u64, View>,
    /// Requests it saw refused.
    pub refused: u32,
    /// Everything was closed, also what was not open yet.
    pub closes_all: bool,
    /// Every end it is told of is judged by what its engine was shown. Then it closes by [`App::close`] only.
    pub strict: bool,
    /// Connections it may still begin when one ends.
    pub reconnects: u32,
    /// The last connection that ended: its handle has to be good for nothing.
    dead: Option<ConnId>,
    pub(super) random: Random,
    pub(super) net: Net,
    pub(super) book: Book,
}

/// First byte of a message: what it is. A message of no bytes is one-way.
const ONE_WAY: u8 = 0;
const REQUEST: u8 = 1;
const ANSWER: u8 = 2;

impl App {
    /// An application on `node` that shares `book` with the others on the net.
    pub fn new(node: usize, net: &Net, book: &Book, plan: Plan) -> Self {
        Self {
            node,
            plan,
            conns: BTreeMap::new(),
            refused: 0,
            closes_all: false,
            strict: false,
            reconnects: 0,
            dead: None,
            random: Random(node as u64 + 77),
            net: net.clone(),
            book: book.clone(),
        }
    }

    /// Begins a connection; `None` when the table is full.
    pub fn connect(&mut self, cx: &mut Cx<'_, '_>, endpoint: EndpointId) -> Option<ConnId> {
        let conn = cx.connect(endpoint).ok()?;
        record::note(|| format!("{conn}: the application of node {} connects to node {}", self.node, endpoint.0));
        self.net.wire().began(self.node, conn);
        self.view_mut(conn).endpoint = Some(endpoint);
        Some(conn)
    }

    /// Closes a connection, if it has not done so yet.
    pub fn close(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        let view = self.view_mut(conn);
        if view.closed.is_some() || std::mem::replace(&mut view.close_asked, true) {
            return;
        }
        record::note(|| format!("{conn}: the application of node {} closes", self.node));
        self.net.wire().saw_close(self.node, conn);
        cx.close(conn);
    }

    /// Closes everything.
    pub fn close_all(&mut self, cx: &mut Cx<'_, '_>) {
        self.closes_all = true;
        for conn in self.conns.keys().filter_map(|&bits| ConnId::from_bits(bits)).collect::<Vec<_>>() {
            self.close(cx, conn);
        }
        // Also what it was not told of yet.
        self.net.wire().saw_close_all(self.node);
        cx.close_all();
    }

    /// Sends what is due until the queue or the plan is full.
    pub fn go_on(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        let plan = self.plan;
        self.operate(cx, conn);
        loop {
            let view = self.conns.entry(conn.to_bits()).or_default();
            if view.blocked || view.close_asked || view.closed.is_some() {
                return;
            }
            if let Some(answer) = view.owed.front().cloned() {
                if !self.send(cx, conn, &answer) {
                    return;
                }
                self.view_mut(conn).owed.pop_front();
                continue;
            }
            let waiting = view.asked - view.answered;
            if view.sent >= plan.count {
                if plan.close_at_once || (plan.close_when_done && waiting == 0) {
                    self.close(cx, conn);
                }
                return;
            }
            let is_request = self.random.chance(plan.requests);
            if is_request && waiting >= plan.window {
                return;
            }
            let most = plan.bytes_max.min(cx.message_bytes_max(conn).unwrap_or(0));
            let len = u64::from(is_request) + self.random.below(most.into());
            let mut bytes: Vec<u8> = (0..len).map(|_| self.random.next() as u8).collect();
            if let Some(first) = bytes.first_mut() {
                *first = if is_request { REQUEST } else { ONE_WAY };
            }
            if !self.send(cx, conn, &bytes) {
                return;
            }
            let view = self.view_mut(conn);
            view.sent += 1;
            view.asked += u32::from(is_request);
        }
    }

    pub(super) fn view_mut(&mut self, conn: ConnId) -> &mut View {
        self.conns.entry(conn.to_bits()).or_default()
    }

    fn send(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, bytes: &[u8]) -> bool {
        match cx.send(conn, bytes) {
            Ok(()) => {
                self.book.note(self.node, conn, bytes);
                true
            }
            Err(SendError::WouldBlock) => {
                record::fault(Fault::QueueFull);
                self.view_mut(conn).blocked = true;
                false
            }
            Err(SendError::NotOpen) => false,
            Err(error @ SendError::TooLong { .. }) => panic!("{error}"),
        }
    }
}

impl Handler for App {
    fn on_request(&mut self, _: &Request) -> Verdict {
        if self.closes_all {
            // Nobody would close it any more.
            return Verdict::Refuse(Refusal::ShuttingDown);
        }
        if self.random.chance(self.plan.refuses) {
            record::fault(Fault::RequestRefused);
            return Verdict::Refuse(Refusal::Application(self.plan.refuses));
        }
        Verdict::Accept
    }

    fn on_refused(&mut self, _: &Request, _: &Refusal) {
        self.refused += 1;
    }

    fn on_open(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        record::note(|| format!("{conn}: is open"));
        let view = self.view_mut(conn);
        assert!(!view.opened && view.closed.is_none(), "{conn} was opened twice, or after its end");
        view.opened = true;
        self.net.open(self.node, conn, cx.link(conn).expect("it lives"));
        let unreadable = self.net.with_end(self.node, conn, |end| end.unreadable) == Some(true);
        assert!(!unreadable || self.net.wire().raw, "{conn} was opened on a hello that cannot be read");
        self.net.wire().saw_open(self.node, conn);
        if let Some(dead) = self.dead {
            assert_eq!(cx.send(dead, &[]), Err(SendError::NotOpen), "{dead} is over");
            cx.close(dead);
        }
        self.go_on(cx, conn);
    }

    fn on_message(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, message: &mut [u8]) -> Answer {
        let view = self.view_mut(conn);
        assert!(view.opened && view.closed.is_none() && !view.close_asked, "a message outside of {conn}'s life");
        view.received += 1;
        if self.net.with_end(self.node, conn, |end| end.hostile) == Some(true) {
            return Answer::None;
        }
        let from = self.net.peer_of(self.node, conn).expect("a far side");
        let expected = self.book.next(from);
        assert_eq!(expected.as_deref(), Some(&*message), "node {}, {conn}: lost, doubled or changed", self.node);
        let mut answer = Answer::None;
        match message.first() {
            Some(&ANSWER) => self.view_mut(conn).answered += 1,
            Some(&REQUEST) => {
                message[0] = ANSWER;
                let by_copy = match self.plan.style {
                    Style::InPlace => false,
                    Style::Copy => true,
                    Style::Mixed => self.random.below(2) == 0,
                };
                if by_copy {
                    self.view_mut(conn).owed.push_back(message.to_vec());
                } else {
                    answer = Answer::InPlace(message.len() as u32);
                }
            }
            _ => {}
        }
        if let Some(dead) = self.dead {
            // Maybe one that had this slot before: what the message brought is not its.
            assert_eq!(cx.send(dead, &[]), Err(SendError::NotOpen), "{dead} is over");
        }
        // First what is sent here, then the answer in place: in this order they are queued.
        self.go_on(cx, conn);
        if self.random.chance(self.plan.closes) {
            self.close(cx, conn);
        }
        if matches!(answer, Answer::InPlace(_)) && !self.view(conn).close_asked {
            self.book.note(self.node, conn, message);
        }
        answer
    }

    fn on_done(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, user: u64, outcome: Result<Done<'_>, OneSidedFailure>) {
        self.check_done(cx, conn, user, outcome);
    }

    fn on_write_imm(&mut self, _: &mut Cx<'_, '_>, conn: ConnId, imm: u32) {
        self.check_told(conn, imm);
    }

    fn on_writable(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        let view = self.view_mut(conn);
        assert!(view.blocked || view.operations.asked > 0, "on_writable came unasked");
        view.blocked = false;
        self.go_on(cx, conn);
    }

    fn on_close(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, report: &CloseReport) {
        record::note(|| format!("{conn}: is over: {}", report.reason));
        let view = self.view_mut(conn);
        assert!(view.closed.is_none(), "{conn} was closed twice");
        assert_eq!(view.opened, report.was_open);
        assert!(view.operations.is_idle(), "{conn} ended before its operations came back");
        view.closed = Some(*report);
        let endpoint = view.endpoint;
        self.check_end(conn, report);
        self.dead = Some(conn);
        assert_eq!(cx.send(conn, &[]), Err(SendError::NotOpen), "{conn} is over");
        if let Some(endpoint) = endpoint.filter(|_| self.reconnects > 0 && !self.closes_all) {
            self.reconnects -= 1;
            self.connect(cx, endpoint);
        }
    }
}
