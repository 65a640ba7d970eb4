//! What the processes do: answer, or ask in bursts. All they learn is a line of output.

use std::time::Duration;

use spinwire_core::cm::event::Peer;
use spinwire_core::cm::reason::CloseReport;
use spinwire_core::id::{ConnId, EndpointId};
use spinwire_core::time::{Instant, Nanos};
use spinwire_core::turn::{Answer, Cx, Handler};

use super::super::hook::Point;
use super::super::users::Users;
use super::deaths::arm;
use super::visitor::Visitor;
use super::{cpu, pattern};
use crate::clock;
use crate::mem::{PageKind, PagePolicy};
use crate::runtime::Size;
use crate::runtime::{Options, ShmRole, ShmSetup};

/// The scene, for the child: `ROLE URL SILENCE-MS [POINT NTH SIGNAL]`.
pub(super) const SCENE: &str = "SPINWIRE_SHM_SCENE";

/// The window, and as many requests without an answer.
const DEPTH: u32 = 16;
/// No scene goes on for longer, whatever becomes of the test.
const SCENE_LIMIT: Duration = Duration::from_secs(900);

/// What the children do.
#[test]
#[ignore = "not a test of its own: played by others in a child process"]
fn scene() {
    let Ok(scene) = std::env::var(SCENE) else {
        // Nothing was shown, so it must not count as passed where all ignored tests are run.
        println!("skipped: not a test of its own, other tests of shared memory play it in a child process");
        return;
    };
    let words: Vec<&str> = scene.split(' ').collect();
    let (role, name) = (words[0], words[1].parse().unwrap());
    // Who is to die at a chunk copies into chunks: its buffers are not lent.
    let mut lends = true;
    if let [point, nth, signal] = words[3..] {
        let point = [Point::Word, Point::Chunk, Point::Part].into_iter().find(|p| format!("{p:?}") == point).unwrap();
        arm(point, nth.parse().unwrap(), signal.parse().unwrap());
        lends = point == Point::Word;
    }
    let with = (Duration::from_millis(words[2].parse().unwrap()), lends);
    match role {
        // Answers, looks at every byte, and tells who comes and goes.
        "serve" => play(with, ShmRole::Listen(name, Users::default()), &mut Echo::default()),
        // Asks until the connection ends; connects again then, or not.
        "burst" => play(with, ShmRole::Connect(name, Users::default()), &mut Burst::new(DEPTH, false)),
        "return" => play(with, ShmRole::Connect(name, Users::default()), &mut Burst::new(DEPTH, true)),
        // Says nothing.
        "idle" => play(with, ShmRole::Connect(name, Users::default()), &mut Burst::new(0, false)),
        // Answers anybody anything, and tells once a second how many came and went.
        "host" => play(with, ShmRole::Listen(name, Users::default()), &mut Host::default()),
        // Asks whoever is there, again and again.
        "visit" => play(with, ShmRole::Connect(name, Users::default()), &mut Visitor::default()),
        other => panic!("no scene {other}"),
    }
}

fn play<H: Handler + Role>((silence, lend_buffers): (Duration, bool), role: ShmRole, handler: &mut H) {
    let mut options = Options {
        connections: H::PLACES,
        depth: Size::Asked(DEPTH),
        message_bytes_max: pattern::LONGEST as u32,
        pages: PagePolicy::new([PageKind::Small]).unwrap(),
        silence,
        lend_buffers,
        ..Options::on_core(cpu(H::CPU))
    };
    H::adjust(&mut options);
    let mut setup = ShmSetup::new(&options, role).unwrap();
    let mut reactor = setup.start().unwrap();
    println!("ready");
    let end = clock::now() + Nanos::from(SCENE_LIMIT);
    reactor.run(handler, |handler| handler.is_over() || clock::now() > end).unwrap();
}

pub(super) trait Role {
    const CPU: usize;
    /// One: who comes next finds it free, or is refused.
    const PLACES: u32 = 1;
    /// What is otherwise in its set-up.
    fn adjust(_: &mut Options) {}
    fn is_over(&self) -> bool;
}

/// Answers each message in place, after it has looked at every byte.
#[derive(Default)]
struct Echo {
    peer: Option<Peer>,
    next: u64,
}

impl Role for Echo {
    const CPU: usize = 0;

    fn is_over(&self) -> bool {
        false
    }
}

impl Handler for Echo {
    fn on_open(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        (self.peer, self.next) = (cx.peer(conn), 0);
        println!("opened {}", pid(self.peer));
    }

    fn on_message(&mut self, _: &mut Cx<'_, '_>, _: ConnId, message: &mut [u8]) -> Answer {
        judge(&mut self.next, message);
        Answer::InPlace(message.len() as u32)
    }

    fn on_close(&mut self, cx: &mut Cx<'_, '_>, _: ConnId, report: &CloseReport) {
        if report.was_open {
            told(cx, self.peer, self.next, report);
        }
    }
}

/// Answers in place, whatever comes.
#[derive(Default)]
struct Host {
    opened: u64,
    closed: u64,
    messages: u64,
    next_report: Instant,
}

impl Role for Host {
    const CPU: usize = 0;
    const PLACES: u32 = 8;

    fn is_over(&self) -> bool {
        false
    }
}

impl Handler for Host {
    fn on_open(&mut self, _: &mut Cx<'_, '_>, _: ConnId) {
        self.opened += 1;
    }

    fn on_message(&mut self, _: &mut Cx<'_, '_>, _: ConnId, message: &mut [u8]) -> Answer {
        self.messages += 1;
        Answer::InPlace(message.len() as u32)
    }

    fn on_close(&mut self, _: &mut Cx<'_, '_>, _: ConnId, report: &CloseReport) {
        self.closed += u64::from(report.was_open);
    }

    fn on_turn(&mut self, cx: &mut Cx<'_, '_>) {
        if cx.now() >= self.next_report {
            self.next_report = cx.now() + Nanos::from_secs(1);
            let Host { opened, closed, messages, .. } = self;
            println!("hosting {} of {opened} that opened, {closed} closed, {messages} messages", cx.live());
        }
    }
}

/// Asks as much as it may without an answer.
struct Burst {
    /// Requests without an answer.
    depth: u32,
    /// Whether it connects again after the end of a connection, for ever.
    returns: bool,
    live: bool,
    again_at: Instant,
    peer: Option<Peer>,
    sent: u64,
    answered: u64,
    over: bool,
    next_report: Instant,
}

impl Burst {
    fn new(depth: u32, returns: bool) -> Self {
        let (again_at, next_report) = (Instant::ZERO, Instant::ZERO);
        Burst { depth, returns, live: false, again_at, peer: None, sent: 0, answered: 0, over: false, next_report }
    }

    fn ask(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        while self.sent - self.answered < u64::from(self.depth) {
            let number = self.sent;
            if cx.send_with(conn, pattern::length(number) as u32, |to| pattern::fill(number, to)).is_err() {
                return;
            }
            self.sent += 1;
        }
    }
}

impl Role for Burst {
    const CPU: usize = 1;

    fn is_over(&self) -> bool {
        self.over
    }
}

/// Between two attempts of one that returns.
const PAUSE: Nanos = Nanos::from_millis(1);

impl Handler for Burst {
    fn on_turn(&mut self, cx: &mut Cx<'_, '_>) {
        if !self.live && cx.now() >= self.again_at {
            cx.connect(EndpointId(0)).unwrap();
            self.live = true;
        }
    }

    fn on_open(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        (self.peer, self.sent, self.answered) = (cx.peer(conn), 0, 0);
        println!("opened {}", pid(self.peer));
        self.ask(cx, conn);
    }

    fn on_writable(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        self.ask(cx, conn);
    }

    fn on_message(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, message: &mut [u8]) -> Answer {
        judge(&mut self.answered, message);
        if self.answered == 1_000 {
            println!("a thousand answers");
        }
        if cx.now() >= self.next_report {
            self.next_report = cx.now() + Nanos::from_secs(1);
            println!("answers {}", self.answered);
        }
        self.ask(cx, conn);
        Answer::None
    }

    fn on_close(&mut self, cx: &mut Cx<'_, '_>, _: ConnId, report: &CloseReport) {
        (self.live, self.again_at, self.over) = (false, cx.now() + PAUSE, !self.returns);
        if report.was_open || !self.returns {
            told(cx, self.peer, self.answered, report);
        }
    }
}

fn judge(next: &mut u64, message: &[u8]) {
    if let Err(fault) = pattern::check(*next, message) {
        println!("spoilt: {fault}");
    }
    *next += 1;
}

fn told(cx: &Cx<'_, '_>, peer: Option<Peer>, messages: u64, report: &CloseReport) {
    println!("closed {} by {} after {messages}: {}", cx.now().as_nanos(), pid(peer), report.reason);
}

fn pid(peer: Option<Peer>) -> u32 {
    match peer {
        Some(Peer::Process { pid, .. }) => pid,
        other => panic!("no process: {other:?}"),
    }
}
