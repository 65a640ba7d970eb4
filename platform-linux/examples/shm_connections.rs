//! What an echo costs with few connections to a core, and with many, of which a few or all talk.
//!
//! ```sh
//! ulimit -n 8192; cargo run --release -p spinwire-linux --example shm_connections           # CPUs 0 and 1, depth 1
//! ulimit -n 8192; cargo run --release -p spinwire-linux --example shm_connections -- 2 3 4  # these CPUs, depth 4
//! ```
//!
//! One core answers, another asks, both through engine and handler, with messages of 64 bytes; each talking connection has
//! as many messages in flight as the depth says. Both cores have two engines, one with 16 connections and one with 1,024, and
//! take turns with them in windows of some milliseconds, so that all contestants meet the same machine. A figure is the length
//! of a window by the messages that came back in it: what one message costs the slower of the two cores. Windows in which the
//! kernel took a core away are thrown away and done again. Medians over all windows. Under a real-time policy it refuses to
//! run.

#[path = "common/real_time.rs"]
mod real_time;

use std::error::Error;
use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use spinwire_core::id::{ConnId, EndpointId};
use spinwire_core::time::Nanos;
use spinwire_core::turn::{Answer, Cx, Handler};
use spinwire_linux::clock;
use spinwire_linux::runtime::{Options, Reactor, ShmRole, ShmSetup, Size};
use spinwire_linux::shm::{Name, ShmControl, Users};

const FEW: u32 = 16;
const MANY: u32 = 1_024;
const BYTES: usize = 64;
/// Windows of each contestant.
const WINDOWS: usize = 51;
const WINDOW: Nanos = Nanos::from_millis(2);
/// Time before each: a link that has fallen silent is looked at as often as those that talk for some milliseconds more.
const SETTLED: Nanos = Nanos::from_millis(20);
/// A window is tried so often before it counts whatever happened.
const TRIES: usize = 100;
/// Whatever is waited for has to be there by then: all connections, all that is in flight.
const PATIENCE: Nanos = Nanos::from_secs(20);

/// Which engine runs: of the few connections or of the many. Anything else ends the answering core.
type Phase = AtomicUsize;
const STOP: usize = 2;

type Fault = Box<dyn Error + Send + Sync>;

fn main() {
    if let Err(error) = run() {
        eprintln!("shm_connections: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Fault> {
    real_time::refuse()?;
    let numbers: Vec<u32> = std::env::args().skip(1).map(|arg| arg.parse()).collect::<Result<_, _>>()?;
    let number = |n: usize, default| numbers.get(n).copied().unwrap_or(default);
    let (first, second, depth) = (number(0, 0), number(1, 1), number(2, 1));
    let name = |which: &str| format!("shm://connections-{}-{which}", std::process::id()).parse::<Name>();
    let names = [name("few")?, name("many")?];
    let options = |cpu, connections| Options {
        depth: Size::Asked(depth),
        connections,
        message_bytes_max: BYTES as u32,
        ..Options::on_core(cpu)
    };
    let (phase, listening) = (Phase::new(0), OnceLock::new());
    let sides = |cpu| [options(cpu, FEW), options(cpu, MANY)];
    let costs = thread::scope(|threads| -> Result<Vec<f64>, Fault> {
        let answering = threads.spawn(|| answer(&sides(first), &names, &phase, &listening));
        let begun = clock::now();
        while listening.get().is_none() && !answering.is_finished() && clock::now().since(begun) < PATIENCE {
            thread::yield_now();
        }
        let asked = match listening.get() {
            Some(answerer) => ask(&sides(second), &names, depth, (&phase, answerer)),
            None if answering.is_finished() => Ok(Vec::new()),
            None => Err(format!("the answering core does not listen within {PATIENCE}").into()),
        };
        phase.store(STOP, Ordering::Release);
        answering.join().unwrap_or_else(|_| Err("the answering thread panicked".into()))?;
        asked
    })?;
    println!("CPUs {first} and {second}, {BYTES} bytes, depth {depth}, {WINDOWS} windows of {WINDOW} each");
    for (contestant, cost) in CONTESTANTS.iter().zip(&costs) {
        println!("  {:<32} {cost:6.0} ns per echo, {:5.2} x", contestant.words, cost / costs[0]);
    }
    Ok(())
}

struct Contestant {
    words: &'static str,
    engine: usize,
    talking: usize,
}

const CONTESTANTS: [Contestant; 3] = [
    Contestant { words: "16 connections, all talking", engine: 0, talking: FEW as usize },
    Contestant { words: "1,024 connections, 16 talking", engine: 1, talking: FEW as usize },
    Contestant { words: "1,024 connections, all talking", engine: 1, talking: MANY as usize },
];

struct Echo;

impl Handler for Echo {
    fn on_message(&mut self, _: &mut Cx<'_, '_>, _: ConnId, message: &mut [u8]) -> Answer {
        Answer::InPlace(message.len() as u32)
    }
}

/// Says who it is once it listens.
fn answer(options: &[Options; 2], names: &[Name; 2], phase: &Phase, listening: &OnceLock<Thread>) -> Result<(), Fault> {
    let setup = |n: usize| ShmSetup::new(&options[n], ShmRole::Listen(names[n].clone(), Users::default()));
    let (mut few, mut many) = (setup(0)?, setup(1)?);
    let mut reactors = [few.start()?, many.start()?];
    let _ = listening.set(Thread::current()?);
    loop {
        let now = phase.load(Ordering::Acquire);
        let Some(reactor) = reactors.get_mut(now) else { return Ok(()) };
        reactor.run(&mut Echo, |_| phase.load(Ordering::Relaxed) != now)?;
    }
}

#[derive(Default)]
struct Client {
    conns: Vec<ConnId>,
    /// So many of `conns` are to talk.
    talking: usize,
    /// What has come back is sent again.
    again: bool,
    in_flight: usize,
    echoes: u64,
}

impl Handler for Client {
    fn on_open(&mut self, _: &mut Cx<'_, '_>, conn: ConnId) {
        self.conns.push(conn);
    }

    fn on_message(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, _: &mut [u8]) -> Answer {
        self.echoes += 1;
        if self.again {
            cx.send(conn, &[7; BYTES]).expect("one came back");
        } else {
            self.in_flight -= 1;
        }
        Answer::None
    }
}

/// Nanoseconds per echo of each contestant.
fn ask(
    options: &[Options; 2],
    names: &[Name; 2],
    depth: u32,
    (phase, answerer): (&Phase, &Thread),
) -> Result<Vec<f64>, Fault> {
    let setup = |n: usize| ShmSetup::new(&options[n], ShmRole::Connect(names[n].clone(), Users::default()));
    let (mut few, mut many) = (setup(0)?, setup(1)?);
    let mut reactors = [few.start()?, many.start()?];
    let mut clients = [Client::default(), Client::default()];
    for (n, (reactor, client)) in reactors.iter_mut().zip(&mut clients).enumerate() {
        phase.store(n, Ordering::Release);
        let wanted = options[n].connections as usize;
        for _ in 0..wanted {
            reactor.engine().with(|cx| cx.connect(EndpointId(0)))?;
        }
        if !run_until(reactor, client, |client| client.conns.len() == wanted)? {
            return Err(format!("{} of {wanted} connections came up (ulimit -n?)", client.conns.len()).into());
        }
    }
    let both = [Thread::current()?, answerer.clone()];
    let (mut redone, mut disturbed) = (0, 0);
    let mut costs = [const { Vec::new() }; CONTESTANTS.len()];
    for _ in 0..WINDOWS {
        for (contestant, costs) in CONTESTANTS.iter().zip(&mut costs) {
            phase.store(contestant.engine, Ordering::Release);
            let (reactor, client) = (&mut reactors[contestant.engine], &mut clients[contestant.engine]);
            client.talking = contestant.talking;
            let mut tries = 1;
            let cost = loop {
                let (cost, is_sound) = window(reactor, client, depth, &both)?;
                if is_sound || tries == TRIES {
                    break cost;
                }
                tries += 1;
            };
            redone += tries - 1;
            disturbed += usize::from(tries == TRIES);
            costs.push(cost);
        }
    }
    println!("{redone} windows done again, {disturbed} kept although a core was taken away");
    let median = |mut costs: Vec<f64>| {
        costs.sort_by(f64::total_cmp);
        costs[costs.len() / 2]
    };
    Ok(costs.into_iter().map(median).collect())
}

/// Turns until `done` says so; `false` when it does not in time.
fn run_until(
    reactor: &mut Reactor<'_, ShmControl<'_>>,
    client: &mut Client,
    done: impl Fn(&Client) -> bool,
) -> Result<bool, Fault> {
    let begun = clock::now();
    reactor.run(client, |client| done(client) || clock::now().since(begun) > PATIENCE)?;
    Ok(done(client))
}

/// A thread of this process, as the kernel shows it.
#[derive(Clone)]
struct Thread(String);

impl Thread {
    fn current() -> Result<Self, Fault> {
        Ok(Self(format!("/proc/{}", fs::read_link("/proc/thread-self")?.display())))
    }
}

/// How often the kernel has taken the core away from one of them, and how long they have waited to get it back, in ns.
fn taken_away(threads: &[Thread]) -> Result<(u64, u64), Fault> {
    let (mut switches, mut waited) = (0, 0);
    for Thread(path) in threads {
        let status = fs::read_to_string(format!("{path}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
        switches += line.ok_or("the kernel counts no context switches")?.trim().parse::<u64>()?;
        let times = fs::read_to_string(format!("{path}/schedstat"))?;
        waited += times.split(' ').nth(1).ok_or("the kernel tells no waiting times")?.parse::<u64>()?;
    }
    Ok((switches, waited))
}

/// Nanoseconds per echo, and whether both threads had their cores all the while.
fn window(
    reactor: &mut Reactor<'_, ShmControl<'_>>,
    client: &mut Client,
    depth: u32,
    threads: &[Thread],
) -> Result<(f64, bool), Fault> {
    client.again = true;
    for &conn in client.conns.iter().take(client.talking) {
        for _ in 0..depth {
            reactor.engine().with(|cx| cx.send(conn, &[7; BYTES]))?;
            client.in_flight += 1;
        }
    }
    // Each has been round before it counts, and those that talked in the window before are known to be silent.
    let (warm, begun) = (4 * client.in_flight as u64, clock::now());
    client.echoes = 0;
    if !run_until(reactor, client, |client| client.echoes >= warm && clock::now().since(begun) > SETTLED)? {
        return Err(format!("{} of {warm} messages came back within {PATIENCE}", client.echoes).into());
    }
    let before = taken_away(threads)?;
    client.echoes = 0;
    let begun = clock::now();
    let mut turns = 0_u32;
    reactor.run(client, |_| {
        turns += 1;
        turns.is_multiple_of(16) && clock::now().since(begun) > WINDOW
    })?;
    let (elapsed, echoes) = (clock::now().since(begun), client.echoes);
    client.again = false;
    if !run_until(reactor, client, |client| client.in_flight == 0)? {
        return Err(format!("{} messages did not come back within {PATIENCE}", client.in_flight).into());
    }
    // Now, for a thread that has lost its core shows how long it waited only when it has it again.
    let is_sound = taken_away(threads)? == before;
    Ok((elapsed.get() as f64 / echoes as f64, is_sound))
}
