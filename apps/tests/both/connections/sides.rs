//! A server and its client on two cores of one process, over either fabric, and all that happens to each, in order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use spinwire_core::cm::hello::Refusal;
use spinwire_core::cm::reason::{CloseReason, CloseReport};
use spinwire_core::id::{ConnId, EndpointId};
use spinwire_core::turn::{Answer, Cx, Handler, Request, Verdict};
use spinwire_linux::address::Address;
use spinwire_linux::runtime::{AnySetup, Options};

use crate::common::fabric::{Fabric, alone, cpu};

const LIMIT: Duration = Duration::from_secs(20);

/// What a side is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request, with a hello if it is a Spinwire's.
    Request(bool),
    Refused(Refusal),
    Open,
    /// The first byte of a message.
    Message(u8),
    Closed {
        reason: CloseReason,
        was_open: bool,
        unsent: u32,
    },
}

/// What a side does about it; by default it accepts and is silent.
#[derive(Clone, Copy)]
pub struct Rules {
    pub request: fn() -> Verdict,
    pub open: fn(&mut Cx<'_, '_>, ConnId),
    pub message: fn(&mut Cx<'_, '_>, ConnId, u8),
    pub answer: Answer,
}

impl Default for Rules {
    fn default() -> Self {
        Self { request: || Verdict::Accept, open: |_, _| {}, message: |_, _, _| {}, answer: Answer::None }
    }
}

/// All that happened to a side. The end of one connection and the request of the next come in any order.
#[derive(Debug, Default)]
pub struct Seen {
    pub requests: Vec<Event>,
    /// Of each connection, in the order in which they began.
    pub visits: Vec<(ConnId, Vec<Event>)>,
    /// Of all messages.
    pub lengths: Vec<usize>,
}

impl Seen {
    fn note(&mut self, conn: ConnId, event: Event) {
        match self.visits.iter_mut().find(|(of, _)| *of == conn) {
            Some((_, events)) => events.push(event),
            None => self.visits.push((conn, vec![event])),
        }
    }

    /// Each of `count` visits went so.
    #[track_caller]
    pub fn expect_each(&self, count: usize, events: &[Event]) {
        assert_eq!(self.visits.len(), count, "{self:#?}");
        self.visits.iter().for_each(|(conn, seen)| assert_eq!(seen, events, "{conn:?}"));
    }

    fn ended(&self) -> usize {
        self.visits.iter().filter(|(_, seen)| matches!(seen.last(), Some(Event::Closed { .. }))).count()
    }
}

struct Side {
    rules: Rules,
    seen: Seen,
    live: u32,
    /// Connections still to be begun, one after the other.
    visits: u32,
}

impl Side {
    fn new(rules: Rules, visits: u32) -> Self {
        Self { rules, seen: Seen::default(), live: 0, visits }
    }
}

impl Handler for Side {
    fn on_request(&mut self, request: &Request) -> Verdict {
        assert!(request.peer.is_some(), "either fabric knows who asks");
        self.seen.requests.push(Event::Request(request.hello.is_some()));
        (self.rules.request)()
    }

    fn on_refused(&mut self, _: &Request, refusal: &Refusal) {
        self.seen.requests.push(Event::Refused(*refusal));
    }

    fn on_open(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        assert!(cx.peer(conn).is_some(), "either fabric knows who is there");
        self.seen.note(conn, Event::Open);
        self.live += 1;
        (self.rules.open)(cx, conn);
    }

    fn on_message(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, message: &mut [u8]) -> Answer {
        self.seen.note(conn, Event::Message(message[0]));
        self.seen.lengths.push(message.len());
        (self.rules.message)(cx, conn, message[0]);
        self.rules.answer
    }

    fn on_close(&mut self, _: &mut Cx<'_, '_>, conn: ConnId, report: &CloseReport) {
        let CloseReport { reason, was_open, unsent, attempts, .. } = *report;
        let should_know = was_open || attempts == 0;
        assert!(report.peer.is_some() || !should_know, "either fabric knows who was there: {report:?}");
        self.seen.note(conn, Event::Closed { reason, was_open, unsent });
        self.live -= u32::from(was_open);
    }

    fn on_turn(&mut self, cx: &mut Cx<'_, '_>) {
        if self.visits > 0 && cx.live() == 0 {
            self.visits -= 1;
            cx.connect(EndpointId(0)).unwrap();
        }
    }
}

/// A server with these rules, and a client that connects `visits` times, one after the other. What both have seen, when
/// everything is over and nothing is left of it.
pub fn meet(on: Fabric, server: Rules, client: Rules, visits: u32) -> (Seen, Seen) {
    let _alone = alone();
    let address = on.address();
    let (ready, started) = channel();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| serve(&address, server, &stop, &ready));
        let is_ready = started.recv_timeout(LIMIT).is_ok();
        // On a thread of its own, which setting up pins.
        let address = &address;
        let asked = scope.spawn(move || is_ready.then(|| ask(on, address, client, visits))).join();
        // The server ends also if the client did not.
        stop.store(true, Ordering::Relaxed);
        let served = serving.join().unwrap();
        (served, asked.unwrap().expect("the server listens"))
    })
}

/// The client alone: nobody is there.
pub fn ask_nobody(on: Fabric) -> Seen {
    let _alone = alone();
    // On a thread of its own, which setting up pins.
    thread::scope(|scope| scope.spawn(|| ask(on, &on.address(), Rules::default(), 1)).join().unwrap())
}

fn serve(address: &Address, rules: Rules, stop: &AtomicBool, ready: &Sender<()>) -> Seen {
    let options = Options { connections: 4, ..Options::on_core(cpu(0)) };
    let mut setup = AnySetup::new(&options, address.listen().unwrap()).unwrap();
    let mut reactor = setup.start().unwrap();
    let mut side = Side::new(rules, 0);
    ready.send(()).unwrap();
    let mut stopped = None;
    let is_over = |side: &Side| {
        // The client may have seen the end before.
        let since: &mut Instant = match stop.load(Ordering::Relaxed) {
            true => stopped.get_or_insert_with(Instant::now),
            false => return false,
        };
        side.live == 0 || since.elapsed() > LIMIT
    };
    reactor.run(&mut side, is_over).unwrap();
    assert_eq!(side.live, 0, "a connection was not over within {LIMIT:?}: {:?}", side.seen);
    reactor.close(&mut side).unwrap();
    reactor.audit().unwrap();
    side.seen
}

fn ask(on: Fabric, address: &Address, rules: Rules, visits: u32) -> Seen {
    let options = Options { connections: 1, ..Options::on_core(cpu(1)) };
    let mut setup = AnySetup::new(&options, address.connect(on.source().as_ref()).unwrap()).unwrap();
    let mut reactor = setup.start().unwrap();
    let mut side = Side::new(rules, visits);
    let begun = Instant::now();
    reactor.run(&mut side, |side| side.seen.ended() == visits as usize || begun.elapsed() > LIMIT).unwrap();
    assert_eq!(side.seen.ended(), visits as usize, "not over within {LIMIT:?}: {:?}", side.seen);
    reactor.close(&mut side).unwrap();
    reactor.audit().unwrap();
    side.seen
}
