//! Spinwire over `shm://`, as an application uses it: an engine, its loop and a handler in each process.

use spinwire_core::cm::reason::CloseReport;
use spinwire_core::id::{ConnId, EndpointId};
use spinwire_core::turn::{Answer as Reply, Cx, Handler};
use spinwire_linux::runtime::{Options, Reactor, ShmRole, ShmSetup, Size};
use spinwire_linux::shm::{Name, ShmControl, Users};

use crate::peer::{Answer, Ask, Expected, Failure, Job, Numbered, Peer, Trips, patiently};
use crate::sys::Board;

/// The whole way: application, engine, shared memory, engine, handler.
pub const PEER: Peer = Peer { name: "spinwire", answer, ask };

type Shm = Reactor<'static, ShmControl<'static>>;

/// The defaults, for one connection with messages of one size.
fn options(job: &Job) -> Options {
    Options {
        connections: 1,
        depth: Size::Asked(job.depth),
        message_bytes_max: job.bytes as u32,
        ..Options::on_core(job.cpu)
    }
}

/// The memory of a contest's side stays until the process ends, because what works in it borrows it.
fn start(job: &Job, role: impl FnOnce(Name, Users) -> ShmRole) -> Result<Shm, Failure> {
    let name: Name = format!("shm://ipc-{}", job.tag).parse()?;
    let setup = Box::leak(Box::new(ShmSetup::new(&options(job), role(name, Users::default()))?));
    Ok(setup.start()?)
}

fn answer(job: &Job) -> Result<Box<dyn Answer>, Failure> {
    let reactor = start(job, ShmRole::Listen)?;
    Ok(Box::new(Answering { reactor, board: job.board, expected: Expected::default() }))
}

fn ask(job: &Job) -> Result<Box<dyn Ask>, Failure> {
    let mut reactor = start(job, ShmRole::Connect)?;
    reactor.engine().with(|cx| cx.connect(EndpointId(0)))?;
    let conn = opened(&mut reactor)?;
    Ok(Box::new(Asking { reactor, conn, board: job.board, message: Numbered::new(job.bytes) }))
}

fn opened(reactor: &mut Shm) -> Result<ConnId, Failure> {
    let mut opening = Opening::default();
    patiently("the connection", || {
        turn(reactor, &mut opening)?;
        match opening.closed.take() {
            Some(report) => Err(format!("the connection did not come up: {report:?}").into()),
            None => Ok(opening.open),
        }
    })
}

fn turn(reactor: &mut Shm, handler: &mut impl Handler) -> Result<(), Failure> {
    Ok(reactor.run(handler, |_| true)?)
}

struct Asking {
    reactor: Shm,
    conn: ConnId,
    board: &'static Board,
    message: Numbered,
}

impl Ask for Asking {
    fn trips(&mut self, trips: &mut Trips) {
        let Asking { reactor, conn, message, .. } = self;
        reactor.engine().with(|cx| cx.send(*conn, message.next())).expect("nothing is in flight");
        let mut pinging = Pinging { message, trips };
        reactor.run(&mut pinging, |pinging| pinging.trips.done()).expect("shared memory does not fail as a whole");
    }

    fn stream(&mut self, times: u64, target: u64) {
        let Asking { reactor, conn, board, message } = self;
        let mut sending = Sending { conn: *conn, message, left: times };
        let done = |_: &Sending<'_>| board.taken.get() == target;
        reactor.run(&mut sending, done).expect("shared memory does not fail as a whole");
    }

    fn tick(&mut self) {
        turn(&mut self.reactor, &mut Opening::default()).expect("shared memory does not fail as a whole");
    }
}

struct Answering {
    reactor: Shm,
    board: &'static Board,
    expected: Expected,
}

impl Answer for Answering {
    fn accept(&mut self) -> Result<(), Failure> {
        opened(&mut self.reactor).map(drop)
    }

    fn echo(&mut self, window: u64) {
        let board = self.board;
        self.reactor.run(&mut Echo, |_| board.over.get() == window).expect("shared memory does not fail as a whole");
    }

    fn drain(&mut self, times: u64) {
        let mut taking = Taking { expected: &mut self.expected, left: times };
        self.reactor.run(&mut taking, |taking| taking.left == 0).expect("shared memory does not fail as a whole");
    }

    fn tick(&mut self) {
        turn(&mut self.reactor, &mut Opening::default()).expect("shared memory does not fail as a whole");
    }
}

/// Until the connection is up, and between windows.
#[derive(Default)]
struct Opening {
    open: Option<ConnId>,
    closed: Option<CloseReport>,
}

impl Handler for Opening {
    fn on_open(&mut self, _: &mut Cx<'_, '_>, conn: ConnId) {
        self.open = Some(conn);
    }

    fn on_message(&mut self, _: &mut Cx<'_, '_>, _: ConnId, _: &mut [u8]) -> Reply {
        unreachable!("between windows nothing is sent")
    }

    fn on_close(&mut self, _: &mut Cx<'_, '_>, _: ConnId, report: &CloseReport) {
        self.closed = Some(*report);
    }
}

struct Echo;

impl Handler for Echo {
    fn on_message(&mut self, _: &mut Cx<'_, '_>, _: ConnId, message: &mut [u8]) -> Reply {
        Reply::InPlace(message.len() as u32)
    }
}

struct Pinging<'a> {
    message: &'a mut Numbered,
    trips: &'a mut Trips,
}

impl Handler for Pinging<'_> {
    fn on_message(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, message: &mut [u8]) -> Reply {
        self.message.check(message);
        if self.trips.came() {
            cx.send(conn, self.message.next()).expect("nothing is in flight");
        }
        Reply::None
    }

    fn on_close(&mut self, _: &mut Cx<'_, '_>, _: ConnId, report: &CloseReport) {
        panic!("the connection closed: {report:?}");
    }
}

struct Sending<'a> {
    conn: ConnId,
    message: &'a mut Numbered,
    left: u64,
}

impl Handler for Sending<'_> {
    fn on_message(&mut self, _: &mut Cx<'_, '_>, _: ConnId, _: &mut [u8]) -> Reply {
        unreachable!("the other side only takes")
    }

    /// As many as there is room for.
    fn on_turn(&mut self, cx: &mut Cx<'_, '_>) {
        let len = self.message.bytes.len() as u32;
        while self.left > 0 && cx.send_with(self.conn, len, |buf| buf.copy_from_slice(self.message.next())).is_ok() {
            self.left -= 1;
        }
    }

    fn on_close(&mut self, _: &mut Cx<'_, '_>, _: ConnId, report: &CloseReport) {
        panic!("the connection closed: {report:?}");
    }
}

struct Taking<'a> {
    expected: &'a mut Expected,
    left: u64,
}

impl Handler for Taking<'_> {
    fn on_message(&mut self, _: &mut Cx<'_, '_>, _: ConnId, message: &mut [u8]) -> Reply {
        self.expected.look(message);
        self.left -= 1;
        Reply::None
    }

    fn on_close(&mut self, _: &mut Cx<'_, '_>, _: ConnId, report: &CloseReport) {
        panic!("the connection closed: {report:?}");
    }
}
