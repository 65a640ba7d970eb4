//! Clients on the library, for what one process of the command cannot do: connecting again and again, leaving at once.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use spinwire_core::cm::reason::{CloseReason, CloseReport};
use spinwire_core::id::{ConnId, EndpointId};
use spinwire_core::turn::{Answer, Cx, Handler, SendError};
use spinwire_linux::cm::{Endpoint, VerbsControl};
use spinwire_linux::runtime::{Options, Reactor, Role, Setup};

use crate::common::lab_addresses;

/// A client that ends by itself.
pub trait Finite: Handler {
    /// Whether it has nothing left to do.
    fn is_done(&self) -> bool;
}

/// Sets up one connection's worth of client towards `url` on core 1 and lets `work` use it. In a thread of its own,
/// because a pin stays and children inherit it.
pub fn on_client_core<R: Send>(url: &str, work: impl FnOnce(&mut Reactor<'_, VerbsControl<'_>>) -> R + Send) -> R {
    let source = SocketAddr::new(lab_addresses().1, 0);
    let role = Role::Connect(Endpoint { target: super::address_of(url), source: Some(source) });
    let options = Options { connections: 1, ..Options::on_core(1) };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let mut setup = Setup::new(&options, role).unwrap_or_else(|error| panic!("{error}"));
            let mut reactor = setup.start().unwrap_or_else(|error| panic!("{error}"));
            work(&mut reactor)
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs a client to its end.
pub fn drive<H: Finite>(reactor: &mut Reactor<'_, VerbsControl<'_>>, client: &mut H, limit: Duration) {
    let deadline = Instant::now() + limit;
    reactor
        .run(client, |client| client.is_done() || Instant::now() > deadline)
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(client.is_done(), "the client was not done within {limit:?}: {:?}", reactor.stats());
    reactor.close(client).unwrap_or_else(|error| panic!("{error}"));
}

/// The one endpoint of these clients.
const SERVER: EndpointId = EndpointId(0);

/// Connect, some echoes, disconnect; again and again.
#[derive(Debug)]
pub struct Rounds {
    left: u32,
    echoes: u32,
    replies: u32,
    live: bool,
}

impl Rounds {
    /// So many rounds of so many echoes.
    pub fn new(rounds: u32, echoes: u32) -> Self {
        Self { left: rounds, echoes, replies: 0, live: false }
    }

    fn send(&self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        cx.send(conn, &self.replies.to_le_bytes()).expect("nothing else is in flight");
    }
}

impl Handler for Rounds {
    fn on_open(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        self.replies = 0;
        self.send(cx, conn);
    }

    fn on_message(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, message: &mut [u8]) -> Answer {
        assert_eq!(message, self.replies.to_le_bytes());
        self.replies += 1;
        if self.replies == self.echoes {
            cx.close(conn);
        } else {
            self.send(cx, conn);
        }
        Answer::None
    }

    fn on_close(&mut self, _cx: &mut Cx<'_, '_>, _conn: ConnId, report: &CloseReport) {
        assert_eq!((report.reason, self.replies), (CloseReason::Local, self.echoes), "{report:?}");
        self.live = false;
        self.left -= 1;
    }

    fn on_turn(&mut self, cx: &mut Cx<'_, '_>) {
        connect_when_idle(cx, &mut self.live, self.left);
    }
}

impl Finite for Rounds {
    fn is_done(&self) -> bool {
        self.left == 0
    }
}

/// Connects to where nobody listens, again and again.
#[derive(Debug)]
pub struct Refused {
    left: u32,
    live: bool,
}

impl Refused {
    /// So many times.
    pub fn new(times: u32) -> Self {
        Self { left: times, live: false }
    }
}

impl Handler for Refused {
    fn on_message(&mut self, _cx: &mut Cx<'_, '_>, _conn: ConnId, _message: &mut [u8]) -> Answer {
        panic!("nobody is there to send anything");
    }

    fn on_close(&mut self, _cx: &mut Cx<'_, '_>, _conn: ConnId, report: &CloseReport) {
        assert_eq!((report.reason, report.was_open), (CloseReason::NobodyListens, false), "{report:?}");
        self.live = false;
        self.left -= 1;
    }

    fn on_turn(&mut self, cx: &mut Cx<'_, '_>) {
        connect_when_idle(cx, &mut self.live, self.left);
    }
}

impl Finite for Refused {
    fn is_done(&self) -> bool {
        self.left == 0
    }
}

/// Sends messages as fast as they are taken and closes the moment the last one is queued; again and again.
#[derive(Debug)]
pub struct Bursts {
    left: u32,
    messages: u32,
    sent: u32,
    live: bool,
}

impl Bursts {
    /// So many connections with so many messages each.
    pub fn new(rounds: u32, messages: u32) -> Self {
        Self { left: rounds, messages, sent: 0, live: false }
    }

    fn fill(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        while self.sent < self.messages {
            match cx.send(conn, &self.sent.to_le_bytes()) {
                Ok(()) => self.sent += 1,
                Err(SendError::WouldBlock) => return,
                Err(error) => panic!("message {}: {error}", self.sent),
            }
        }
        cx.close(conn);
    }
}

impl Handler for Bursts {
    fn on_open(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        self.sent = 0;
        self.fill(cx, conn);
    }

    fn on_message(&mut self, _cx: &mut Cx<'_, '_>, _conn: ConnId, _message: &mut [u8]) -> Answer {
        Answer::None
    }

    fn on_writable(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        self.fill(cx, conn);
    }

    fn on_close(&mut self, _cx: &mut Cx<'_, '_>, _conn: ConnId, report: &CloseReport) {
        let expected = CloseReport {
            reason: CloseReason::Local,
            peer: report.peer,
            was_open: true,
            unsent: 0,
            unconfirmed_after: None,
            attempts: 1,
            failed_before: None,
        };
        assert_eq!((*report, self.sent), (expected, self.messages));
        self.live = false;
        self.left -= 1;
    }

    fn on_turn(&mut self, cx: &mut Cx<'_, '_>) {
        connect_when_idle(cx, &mut self.live, self.left);
    }
}

impl Finite for Bursts {
    fn is_done(&self) -> bool {
        self.left == 0
    }
}

fn connect_when_idle(cx: &mut Cx<'_, '_>, live: &mut bool, left: u32) {
    if !*live && left > 0 && cx.live() == 0 {
        cx.connect(SERVER).expect("the only slot is free");
        *live = true;
    }
}
