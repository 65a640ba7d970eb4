//! Where the threads of a window meet, before what is measured and after it.

use std::hint;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::ping_pong::{CHECK, PingPong};
use crate::sys;

/// Where the threads of a window meet.
pub(crate) struct Meeting {
    pub arrived: AtomicU32,
    pub threads: u32,
    /// Some share a CPU, so that whoever waits has to leave it to others.
    pub crowded: bool,
    /// For the checks before and after.
    pub lines: [PingPong; 2],
}

/// What a thread does in a check.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    Pings,
    Serves,
    Waits,
}

/// A thread's view of the meeting: where it waits for the others before what is measured.
pub struct Gate<'a> {
    meeting: &'a Meeting,
    part: Part,
    started: OnceLock<Started>,
}

#[derive(Debug)]
struct Started {
    at: Instant,
    switches: i64,
    bare_ns: f64,
}

/// What a thread has seen of a window.
pub(crate) struct Seen {
    pub start: Instant,
    pub stop: Instant,
    pub switched: bool,
    /// Before and after. Only of the thread that pings.
    pub bare_ns: [f64; 2],
}

impl<'a> Gate<'a> {
    pub(crate) fn new(meeting: &'a Meeting, part: Part) -> Self {
        Gate { meeting, part, started: OnceLock::new() }
    }

    /// Waits for all, checks the placement, waits again, and starts the clock. To be called once by each.
    pub fn start(&self) {
        self.wait();
        let switches = sys::involuntary_switches();
        let bare_ns = self.check(0);
        self.started.set(Started { at: Instant::now(), switches, bare_ns }).expect("a role starts once");
    }

    pub(crate) fn play(self, work: Box<dyn FnOnce(&Gate<'_>) + Send + '_>) -> Seen {
        work(&self);
        let stop = Instant::now();
        self.wait();
        let after_ns = self.check(1);
        let switches = sys::involuntary_switches();
        let started = self.started.into_inner().expect("a role calls `start`");
        let switched = switches != started.switches;
        Seen { start: started.at, stop, switched, bare_ns: [started.bare_ns, after_ns] }
    }

    /// Nanoseconds of a bare round trip now. Only the thread that pings knows.
    fn check(&self, which: usize) -> f64 {
        let lines = &self.meeting.lines[which];
        let ns = match self.part {
            Part::Pings if self.meeting.crowded => {
                // The others on this CPU sleep meanwhile, but the rest of the machine does not.
                sys::undisturbed();
                let ns = lines.time_pings(0, CHECK);
                sys::in_turns();
                ns
            }
            Part::Pings => lines.time_pings(0, CHECK),
            Part::Serves => {
                lines.serve(0, CHECK);
                f64::NAN
            }
            Part::Waits => f64::NAN,
        };
        self.wait();
        ns
    }

    fn wait(&self) {
        let Meeting { arrived, threads, crowded, .. } = self.meeting;
        let before = arrived.fetch_add(1, Ordering::AcqRel);
        let all = (before / threads + 1) * threads;
        while arrived.load(Ordering::Acquire) < all {
            if *crowded { thread::sleep(Duration::from_micros(20)) } else { hint::spin_loop() }
        }
    }
}
