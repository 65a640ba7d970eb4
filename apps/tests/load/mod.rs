//! A client that comes and goes.

use std::time::{Duration, Instant};

use crate::common::PATIENCE;
use spinwire_core::cm::reason::{CloseReason, CloseReport};
use spinwire_core::id::{ConnId, EndpointId};
use spinwire_core::turn::{Answer, Cx, Handler, SendError};
use spinwire_linux::mem::{PageKind, PagePolicy};
use spinwire_linux::runtime::{Idle, Options, ShmRole, ShmSetup, Size};
use spinwire_linux::shm::Users;

/// A core that is shared with other threads of the test.
pub fn options(cpu: u32, depth: u32) -> Options {
    Options {
        connections: 1,
        depth: Size::Asked(depth),
        message_bytes_max: 64,
        pages: PagePolicy::new([PageKind::Small]).unwrap(),
        idle: Idle::Block { after: Duration::ZERO, at_most: Duration::from_millis(1) },
        ..Options::on_core(cpu)
    }
}

/// Connects, sends `messages`, waits for as many replies if it is to, closes; again and again.
pub struct Visitor {
    rounds: u32,
    messages: u32,
    wait: bool,
    sent: u32,
    pub replies: u32,
    live: bool,
    done: u32,
    /// How rounds ended, each way once.
    pub ends: Vec<CloseReason>,
}

impl Visitor {
    pub fn new(rounds: u32, messages: u32, wait: bool) -> Self {
        Visitor { rounds, messages, wait, sent: 0, replies: 0, live: false, done: 0, ends: Vec::new() }
    }

    pub fn run(self, url: &str, cpu: u32, depth: u32, idle: Idle) -> Self {
        let rounds = self.rounds;
        self.run_in_parts(url, &Options { idle, ..options(cpu, depth) }, &[rounds], |_| {})
    }

    /// Stays on one core and calls `between` whenever so many rounds as `parts` says are done, in all.
    pub fn run_in_parts(mut self, url: &str, options: &Options, parts: &[u32], mut between: impl FnMut(u32)) -> Self {
        let role = ShmRole::Connect(url.parse().unwrap(), Users::default());
        let mut setup = ShmSetup::new(options, role).unwrap();
        let mut reactor = setup.start().unwrap();
        for &part in parts {
            self.rounds = part;
            while self.done < part {
                let (before, begun) = (self.done, Instant::now());
                let is_over = |visitor: &Self| visitor.done > before || begun.elapsed() > PATIENCE;
                reactor.run(&mut self, is_over).unwrap();
                assert!(self.done > before, "round {before} of {part} takes longer than {PATIENCE:?}");
            }
            between(part);
        }
        self
    }

    fn send(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        while self.sent < self.messages {
            match cx.send(conn, &self.sent.to_le_bytes()) {
                Ok(()) => self.sent += 1,
                Err(SendError::WouldBlock) => return,
                Err(error) => panic!("{error}"),
            }
        }
        if !self.wait {
            cx.close(conn);
        }
    }
}

impl Handler for Visitor {
    fn on_turn(&mut self, cx: &mut Cx<'_, '_>) {
        if !self.live && self.done < self.rounds {
            (self.live, self.sent, self.replies) = (true, 0, 0);
            cx.connect(EndpointId(0)).unwrap();
        }
    }

    fn on_open(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        self.send(cx, conn);
    }

    fn on_writable(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        self.send(cx, conn);
    }

    fn on_message(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, message: &mut [u8]) -> Answer {
        assert_eq!(message, self.replies.to_le_bytes());
        self.replies += 1;
        if self.replies == self.messages {
            cx.close(conn);
        }
        Answer::None
    }

    fn on_close(&mut self, _: &mut Cx<'_, '_>, _: ConnId, report: &CloseReport) {
        self.live = false;
        self.done += 1;
        if !self.ends.contains(&report.reason) {
            self.ends.push(report.reason);
        }
    }
}
