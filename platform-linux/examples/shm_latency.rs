//! What a whole echo over shared memory costs beside a bare cache line passed back and forth, between the same two cores.
//!
//! ```sh
//! cargo run --release -p spinwire-linux --example shm_latency            # CPUs 0 and 1
//! cargo run --release -p spinwire-linux --example shm_latency -- 2 3 64  # these CPUs, messages of 64 bytes
//! ```
//!
//! Both sides have an engine, a segment and a socket of their own, as two processes have; they are threads here, so that they
//! can change between the two contestants at once. Windows of either alternate: on a virtual machine two cores can be two
//! threads of one core in the next moment, and then everything looks six times faster. Only pairs of windows whose bare lines
//! before and after agree within a fifth are counted.

use std::error::Error;
use std::hint;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use spinwire_core::id::{ConnId, EndpointId};
use spinwire_core::turn::{Answer, Cx, Handler};
use spinwire_linux::clock;
use spinwire_linux::runtime::{Options, ShmRole, ShmSetup, Size};
use spinwire_linux::shm::{Name, Users};

/// Round trips in a window: about 2 ms of bare ones.
const TRIPS: u64 = 5_000;
/// Pairs of windows.
const ROUNDS: usize = 200;

/// What the answering core does.
const BARE: u32 = 0;
const ECHO: u32 = 1;
const STOP: u32 = 2;

#[repr(align(128))]
struct Line<T>(T);

struct Shared {
    phase: Line<AtomicU32>,
    there: Line<AtomicU64>,
    back: Line<AtomicU64>,
    ready: AtomicU32,
}

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<u32> = std::env::args().skip(1).map(|arg| arg.parse()).collect::<Result<_, _>>()?;
    let number = |n: usize, default| numbers.get(n).copied().unwrap_or(default);
    let (first, second, bytes) = (number(0, 0), number(1, 1), number(2, 64));
    let name: Name = format!("shm://latency-{}", std::process::id()).parse()?;
    let shared = Shared {
        phase: Line(AtomicU32::new(BARE)),
        there: Line(AtomicU64::new(0)),
        back: Line(AtomicU64::new(0)),
        ready: AtomicU32::new(0),
    };
    let options =
        |cpu| Options { depth: Size::Asked(1), connections: 1, message_bytes_max: bytes, ..Options::on_core(cpu) };
    thread::scope(|threads| {
        threads.spawn(|| answer(&options(first), &name, &shared));
        let asked = threads.spawn(|| ask(&options(second), &name, &shared, bytes));
        match asked.join() {
            Ok(windows) => report(windows, first, second, bytes),
            Err(_) => std::process::exit(1),
        }
    });
    Ok(())
}

/// Nanoseconds per round trip of one echo window, and of the bare windows before and after it.
type Window = (f64, f64, f64);

fn report(windows: Vec<Window>, first: u32, second: u32, bytes: u32) {
    let all = windows.len();
    let kept: Vec<_> =
        windows.into_iter().filter(|(_, before, after)| before.max(*after) < before.min(*after) * 1.2).collect();
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let echo = median(kept.iter().map(|(echo, _, _)| *echo).collect());
    let bare = median(kept.iter().map(|(_, before, after)| (before + after) / 2.0).collect());
    let ratio = median(kept.iter().map(|(echo, before, after)| echo * 2.0 / (before + after)).collect());
    println!(
        "CPUs {first} and {second}, {bytes} bytes, {TRIPS} round trips in a window, {} of {all} windows kept",
        kept.len()
    );
    println!("  bare cache line  {bare:7.0} ns");
    println!("  echo over shm    {echo:7.0} ns");
    println!("  ratio            {ratio:7.2} (median over windows)");
}

struct Echo;

impl Handler for Echo {
    fn on_message(&mut self, _: &mut Cx<'_, '_>, _: ConnId, message: &mut [u8]) -> Answer {
        Answer::InPlace(message.len() as u32)
    }
}

fn answer(options: &Options, name: &Name, shared: &Shared) {
    let run = || -> Result<(), Box<dyn Error>> {
        let mut setup = ShmSetup::new(options, ShmRole::Listen(name.clone(), Users::default()))?;
        let mut reactor = setup.start()?;
        shared.ready.store(1, Ordering::Release);
        loop {
            match shared.phase.0.load(Ordering::Acquire) {
                BARE => {
                    // What was answered last, not what is there: the first of a window may have come already.
                    let mut seen = shared.back.0.load(Ordering::Relaxed);
                    while shared.phase.0.load(Ordering::Relaxed) == BARE {
                        let now = shared.there.0.load(Ordering::Acquire);
                        if now != seen {
                            seen = now;
                            shared.back.0.store(now, Ordering::Release);
                        }
                    }
                }
                ECHO => reactor.run(&mut Echo, |_| shared.phase.0.load(Ordering::Relaxed) != ECHO)?,
                _ => return Ok(()),
            }
        }
    };
    if let Err(error) = run() {
        eprintln!("shm_latency: {error}");
        std::process::exit(1);
    }
}

struct Asker {
    conn: Option<ConnId>,
    message: Vec<u8>,
    left: u64,
}

impl Handler for Asker {
    fn on_open(&mut self, _: &mut Cx<'_, '_>, conn: ConnId) {
        self.conn = Some(conn);
    }

    fn on_message(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, _: &mut [u8]) -> Answer {
        self.left -= 1;
        if self.left > 0 {
            cx.send(conn, &self.message).expect("one message is in flight");
        }
        Answer::None
    }
}

fn ask(options: &Options, name: &Name, shared: &Shared, bytes: u32) -> Vec<Window> {
    while shared.ready.load(Ordering::Acquire) == 0 {
        hint::spin_loop();
    }
    let mut setup = ShmSetup::new(options, ShmRole::Connect(name.clone(), Users::default())).expect("set up");
    let mut reactor = setup.start().expect("start");
    let mut asker = Asker { conn: None, message: vec![7; bytes as usize], left: 0 };
    reactor.engine().with(|cx| cx.connect(EndpointId(0))).expect("a free place");
    shared.phase.0.store(ECHO, Ordering::Release);
    reactor.run(&mut asker, |asker| asker.conn.is_some()).expect("connect");

    let bare = || {
        shared.phase.0.store(BARE, Ordering::Release);
        let begun = clock::now();
        let from = shared.there.0.load(Ordering::Relaxed);
        for trip in from + 1..=from + TRIPS {
            shared.there.0.store(trip, Ordering::Release);
            while shared.back.0.load(Ordering::Acquire) != trip {}
        }
        clock::now().since(begun).get() as f64 / TRIPS as f64
    };
    let mut windows = Vec::with_capacity(ROUNDS);
    let mut before = bare();
    for _ in 0..ROUNDS {
        shared.phase.0.store(ECHO, Ordering::Release);
        asker.left = TRIPS;
        let (conn, message) = (asker.conn.expect("connected"), asker.message.clone());
        let begun = clock::now();
        reactor.engine().with(|cx| cx.send(conn, &message)).expect("one message is in flight");
        reactor.run(&mut asker, |asker| asker.left == 0).expect("echo");
        let echo = clock::now().since(begun).get() as f64 / TRIPS as f64;
        let after = bare();
        windows.push((echo, before, after));
        before = after;
    }
    shared.phase.0.store(STOP, Ordering::Release);
    windows
}
