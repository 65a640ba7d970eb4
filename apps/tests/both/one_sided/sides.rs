//! An owner and its visitors: loops on two cores of one process, over either fabric.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use spinwire_core::cm::reason::CloseReport;
use spinwire_core::id::{ConnId, EndpointId};
use spinwire_core::remote::{RemoteRegion, Rights};
use spinwire_core::turn::{Answer, Cx, Done, Handler, OneSidedError, OneSidedFailure};
use spinwire_linux::address::Address;
use spinwire_linux::mem::ExposedRegion;
use spinwire_linux::runtime::{AnySetup, Options};

use crate::common::fabric::{Fabric, alone, cpu};

const LIMIT: Duration = Duration::from_secs(20);

/// A region for everything, and one that can only be read.
pub const SHARED: usize = 64 << 10;

struct Owner {
    shared: ExposedRegion,
    read_only: ExposedRegion,
    /// Messages and writes with immediate: what they say is in the region when they come.
    told: u64,
    reports: Vec<CloseReport>,
}

/// What an owner looks like when it is asked to stop.
pub struct Seen {
    pub told: u64,
    pub counted: u64,
    pub last: Vec<u8>,
    pub reports: Vec<CloseReport>,
}

impl Handler for Owner {
    fn on_open(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        let tokens = [&self.shared, &self.read_only].map(|region| region.remote().to_bytes());
        cx.send(conn, tokens.as_flattened()).unwrap();
    }

    fn on_message(&mut self, _: &mut Cx<'_, '_>, _: ConnId, message: &mut [u8]) -> Answer {
        let number = u64::from_le_bytes((&*message).try_into().unwrap());
        assert_eq!(self.shared.load_u64(4_096), number, "the message came before what was written before it");
        self.told += 1;
        Answer::InPlace(message.len() as u32)
    }

    fn on_write_imm(&mut self, _: &mut Cx<'_, '_>, _: ConnId, imm: u32) {
        assert_eq!(self.shared.load_u64(8_192) as u32, imm, "told of a write before it was there");
        self.told += 1;
    }

    fn on_close(&mut self, _: &mut Cx<'_, '_>, _: ConnId, report: &CloseReport) {
        self.reports.push(*report);
    }
}

/// Runs `act` with the address of an owner on another core, and then looks at that.
pub fn with_owner(on: Fabric, act: impl FnOnce(&Address)) -> Seen {
    let _alone = alone();
    let address = on.address();
    let (ready, started) = channel();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let owner = scope.spawn(|| own(&address, &stop, &ready));
        if started.recv_timeout(LIMIT).is_ok() {
            // The owner ends also if this panics.
            let outcome = catch_unwind(AssertUnwindSafe(|| act(&address)));
            stop.store(true, Ordering::Relaxed);
            if let Err(panic) = outcome {
                resume_unwind(panic);
            }
        }
        owner.join().unwrap()
    })
}

fn own(address: &Address, stop: &AtomicBool, ready: &Sender<()>) -> Seen {
    let options = Options { connections: 4, ..Options::on_core(cpu(0)) };
    let mut setup = AnySetup::new(&options, address.listen().unwrap()).unwrap();
    let shared = setup.expose(SHARED, Rights::ALL).unwrap();
    let read_only = setup.expose(SHARED, Rights::READ).unwrap();
    let mut reactor = setup.start().unwrap();
    let mut owner = Owner { shared, read_only, told: 0, reports: Vec::new() };
    owner.read_only.write_at(0, b"only to be read");
    ready.send(()).unwrap();
    reactor.run(&mut owner, |_| stop.load(Ordering::Relaxed)).unwrap();
    reactor.close(&mut owner).unwrap();
    reactor.audit().unwrap();
    let mut last = vec![0; 16];
    owner.shared.read_at(SHARED - 16, &mut last);
    Seen { told: owner.told, counted: owner.shared.load_u64(0), last, reports: owner.reports }
}

/// What a visit does next, when the operations that it asked for are done.
pub type Step = fn(&mut Visitor, &mut Cx<'_, '_>, ConnId) -> bool;

pub struct Visitor {
    pub step: Step,
    pub shared: Option<RemoteRegion>,
    pub read_only: Option<RemoteRegion>,
    /// How often `step` was called: it begins with 0.
    pub round: u64,
    pub asked: u64,
    pub done: Vec<Result<Vec<u8>, OneSidedFailure>>,
    pub answers: u64,
    pub over: bool,
    pub report: Option<CloseReport>,
}

impl Visitor {
    fn new(step: Step) -> Self {
        Visitor {
            step,
            shared: None,
            read_only: None,
            round: 0,
            asked: 0,
            done: Vec::new(),
            answers: 0,
            over: false,
            report: None,
        }
    }

    fn go_on(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        while !self.over && self.done.len() as u64 == self.asked {
            let before = (self.asked, self.answers);
            self.over = !(self.step)(self, cx, conn);
            self.round += 1;
            if before == (self.asked, self.answers) {
                return;
            }
        }
    }

    /// Everything may be done with it.
    pub fn shared(&self) -> RemoteRegion {
        self.shared.expect("the tokens came first")
    }

    /// One more was asked for, and has to be taken.
    pub fn ask(&mut self, asked: Result<(), OneSidedError>) {
        asked.unwrap();
        self.asked += 1;
    }
}

impl Handler for Visitor {
    fn on_message(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, message: &mut [u8]) -> Answer {
        if self.shared.is_none() {
            let (tokens, _) = message.as_chunks::<{ RemoteRegion::BYTES }>();
            self.shared = RemoteRegion::from_bytes(&tokens[0]);
            self.read_only = RemoteRegion::from_bytes(&tokens[1]);
        } else {
            self.answers += 1;
        }
        self.go_on(cx, conn);
        Answer::None
    }

    fn on_done(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, user: u64, outcome: Result<Done<'_>, OneSidedFailure>) {
        assert_eq!(user, self.done.len() as u64, "in the order they were asked, each once");
        self.done.push(outcome.map(|done| match done {
            Done::Written => Vec::new(),
            Done::Read(bytes) => bytes.to_vec(),
            Done::Was(was) => was.to_ne_bytes().to_vec(),
        }));
        self.go_on(cx, conn);
    }

    fn on_close(&mut self, _: &mut Cx<'_, '_>, _: ConnId, report: &CloseReport) {
        (self.over, self.report) = (true, Some(*report));
    }
}

/// Visits an owner until `step` says that it is enough (`false`), or the connection ends.
pub fn visit(address: &Address, step: Step) -> Visitor {
    // On a thread of its own, which setting up pins.
    thread::scope(|scope| scope.spawn(|| visit_here(address, step)).join().unwrap())
}

fn visit_here(address: &Address, step: Step) -> Visitor {
    let options = Options { connections: 1, one_sided: 16, ..Options::on_core(cpu(1)) };
    let on = if matches!(address, Address::Rdma(_)) { Fabric::Rdma } else { Fabric::Shm };
    let mut setup = AnySetup::new(&options, address.connect(on.source().as_ref()).unwrap()).unwrap();
    let mut reactor = setup.start().unwrap();
    let mut visitor = Visitor::new(step);
    reactor.with(|cx| cx.connect(EndpointId(0))).unwrap();
    let begun = Instant::now();
    reactor.run(&mut visitor, |visitor| visitor.over || begun.elapsed() > LIMIT).unwrap();
    assert!(visitor.over, "not over within {LIMIT:?}: {} of {} done", visitor.done.len(), visitor.asked);
    reactor.close(&mut visitor).unwrap();
    reactor.audit().unwrap();
    visitor
}
