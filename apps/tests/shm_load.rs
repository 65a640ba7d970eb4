//! Shared memory with many clients, with short ones, with long use: nothing is lost, nothing is left, nothing is asked of the
//! kernel.

mod common;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::fabric::{Fabric, alone, cpu, echoes, serve_at, shm_name};
use common::{PATIENCE, Running, SPINWIRE, scratch, size};
use spinwire_core::cm::hello::Refusal;
use spinwire_core::cm::reason::{CloseReason, CloseReport};
use spinwire_core::id::{ConnId, EndpointId};
use spinwire_core::turn::{Answer, Cx, Handler, SendError};
use spinwire_linux::mem::{PageKind, PagePolicy};
use spinwire_linux::runtime::{Idle, Options, ShmRole, ShmSetup, Size};
use spinwire_linux::shm::Users;

/// A core that is shared with other threads of the test.
fn options(cpu: u32, depth: u32) -> Options {
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
struct Visitor {
    rounds: u32,
    messages: u32,
    wait: bool,
    sent: u32,
    replies: u32,
    live: bool,
    done: u32,
    /// How rounds ended, each way once.
    ends: Vec<CloseReason>,
}

impl Visitor {
    fn new(rounds: u32, messages: u32, wait: bool) -> Self {
        Visitor { rounds, messages, wait, sent: 0, replies: 0, live: false, done: 0, ends: Vec::new() }
    }

    fn run(self, url: &str, cpu: u32, depth: u32, idle: Idle) -> Self {
        let rounds = self.rounds;
        self.run_in_parts(url, &Options { idle, ..options(cpu, depth) }, &[rounds], |_| {})
    }

    /// Stays on one core and calls `between` whenever so many rounds as `parts` says are done, in all.
    fn run_in_parts(mut self, url: &str, options: &Options, parts: &[u32], mut between: impl FnMut(u32)) -> Self {
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

#[test]
fn of_128_clients_at_once_each_is_served_or_refused_with_the_size_of_the_table() {
    const CLIENTS: usize = 128;
    for places in [128, 127, 16] {
        let server = Fabric::Shm.server(&format!("--connections-max {places} --depth 1 --message-max 64 --pages 4k"));
        let barrier = Barrier::new(CLIENTS);
        let (served, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|threads| {
            for _ in 0..CLIENTS {
                threads.spawn(|| {
                    barrier.wait();
                    let visitor = Visitor::new(1, 1, true).run(&server.url, cpu(1), 1, options(0, 1).idle);
                    match visitor.ends[0] {
                        CloseReason::Local if visitor.replies == 1 => served.fetch_add(1, Ordering::Relaxed),
                        CloseReason::Refused(Refusal::TableFull { live, capacity }) => {
                            assert_eq!((live, capacity), (places, places));
                            refused.fetch_add(1, Ordering::Relaxed)
                        }
                        other => panic!("{other}, {} replies", visitor.replies),
                    };
                });
            }
        });
        let (served, refused) = (served.into_inner(), refused.into_inner());
        assert_eq!(served + refused, CLIENTS as u64);
        assert!(served >= u64::from(places.min(CLIENTS as u32)) || refused > 0, "{served} of {places} places");
        server.stop().expect(&format!("{served} served, {refused} refused"));
    }
}

/// Counts the messages of each connection, which must come in order.
#[derive(Default)]
struct Counter {
    /// By slot of the connection table.
    next: [u32; 4],
    visits: Vec<(u32, CloseReason)>,
}

impl Handler for Counter {
    fn on_message(&mut self, _: &mut Cx<'_, '_>, conn: ConnId, message: &mut [u8]) -> Answer {
        assert_eq!(message, self.next[conn.slot()].to_le_bytes(), "each once, in order");
        self.next[conn.slot()] += 1;
        Answer::None
    }

    fn on_close(&mut self, _: &mut Cx<'_, '_>, conn: ConnId, report: &CloseReport) {
        self.visits.push((std::mem::take(&mut self.next[conn.slot()]), report.reason));
    }
}

#[test]
fn a_peer_that_sends_a_thousand_messages_and_closes_at_once_loses_none() {
    let rounds = size("SPINWIRE_SOAK_BURSTS", 100) as u32;
    let _turn = alone();
    let url = shm_name();
    let listening = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let counting = threads.spawn(|| {
            let role = ShmRole::Listen(url.parse().unwrap(), Users::default());
            // The next visit may begin before the last one is quite over here.
            let options = Options { idle: Idle::Spin, connections: 4, ..options(cpu(0), 16) };
            let mut setup = ShmSetup::new(&options, role).unwrap();
            let mut reactor = setup.start().unwrap();
            listening.store(true, Ordering::Release);
            let (mut counter, begun) = (Counter::default(), Instant::now());
            let limit = PATIENCE * (1 + rounds / 100);
            let done = |counter: &Counter| counter.visits.len() == rounds as usize || begun.elapsed() > limit;
            reactor.run(&mut counter, done).unwrap();
            counter.visits
        });
        while !listening.load(Ordering::Acquire) && !counting.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let visitor = Visitor::new(rounds, 1_000, false);
        let visitor = threads.spawn(|| visitor.run(&url, cpu(1), 16, Idle::Spin)).join().unwrap();
        assert_eq!(visitor.ends, [CloseReason::Local]);
        let visits = counting.join().unwrap();
        assert_eq!(visits.len(), rounds as usize);
        assert!(visits.iter().all(|visit| *visit == (1_000, CloseReason::Peer)), "{visits:?}");
        println!("soak: {rounds} times a thousand messages and a close at once: all arrived");
    });
}

/// What a process holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    files: usize,
    /// Mappings of memory files.
    mappings: usize,
    address_space_kib: u64,
    resident_kib: u64,
}

impl Held {
    fn by(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let kib = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.trim().trim_end_matches(" kB").parse().unwrap()
        };
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        Self {
            files: fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
            mappings: maps.lines().filter(|line| line.contains("memfd:")).count(),
            address_space_kib: kib("VmSize:"),
            resident_kib: kib("VmRSS:"),
        }
    }
}

/// Names in a directory that could be ours.
fn names_in(directory: &Path) -> BTreeSet<OsString> {
    let names = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    // Other tests make files of their own meanwhile.
    names.filter(|name| name.to_string_lossy().contains("shm") || name.to_string_lossy().contains("memfd")).collect()
}

/// The first rounds touch what is there to be touched: buffers, tables, the heap. Then nothing more is.
#[test]
fn connections_one_after_the_other_leave_nothing_behind() {
    const FIRST: u32 = 100;
    let rounds = size("SPINWIRE_SOAK_ROUNDS", 1_000) as u32;
    let _turn = alone();
    let directory = scratch("rounds");
    fs::create_dir(&directory).unwrap();
    let url = format!("shm://{}/echo", directory.display());
    let server = serve_at(&url, "--connections-max 4 --quiet");
    let pids = [("client", std::process::id()), ("server", server.process.pid())];
    let files = || [Path::new("/dev/shm"), Path::new("/tmp"), &directory].map(names_in);
    let parts: Vec<u32> = (0..=rounds).step_by(1_000).map(|done| FIRST + done).collect();
    let (mut before, mut begun) = (None, Instant::now());
    let look = |done| {
        // The last disconnect may still be on its way, and what it leaves about to be closed by a thread.
        std::thread::sleep(Duration::from_millis(100));
        let look = || (pids.map(|(_, pid)| Held::by(pid)), files());
        let mut now = look();
        if let Some((before, _)) = &before {
            let begun = Instant::now();
            let count = |held: &[Held; 2]| held.each_ref().map(|held| held.files);
            while count(&now.0) != count(before) && begun.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(5));
                now = look();
            }
        }
        let Some((held, named)) = &before else {
            (before, begun) = (Some(now), Instant::now());
            return;
        };
        println!("soak: {} rounds in {:.1?}", done - FIRST, begun.elapsed());
        for (((name, _), before), after) in pids.iter().zip(held).zip(now.0) {
            println!("soak:   {name} {before:?} became {after:?}");
            assert_eq!((after.files, after.mappings), (before.files, before.mappings), "{name}");
            assert!(after.address_space_kib <= before.address_space_kib + HEAP_STEPS_KIB_MAX, "{name}");
            assert!(after.resident_kib <= before.resident_kib + GROWTH_KIB_MAX, "{name}");
        }
        assert_eq!(&now.1, named, "files");
    };
    let visit = || {
        let options = Options { idle: Idle::Spin, ..options(cpu(1), 4) };
        Visitor::new(0, 10, true).run_in_parts(&url, &options, &parts, look)
    };
    let visitor = std::thread::scope(|threads| threads.spawn(visit).join().unwrap());
    assert_eq!(visitor.ends, [CloseReason::Local]);
    // And the same core, set up and let go again and again.
    let open = || Held::by(pids[0].1).files;
    let before = open();
    for _ in 0..10 {
        let visit = || Visitor::new(1, 1, true).run(&url, cpu(1), 4, Idle::Spin);
        std::thread::scope(|threads| threads.spawn(visit).join().unwrap());
    }
    // The last of them may still be about to be closed, which a thread does.
    let begun = Instant::now();
    while open() != before && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(open(), before, "open files");
    server.stop();
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "the socket is gone with its server");
    fs::remove_dir(&directory).unwrap();
}

/// A page here and there that an allocation came to lie on. One that is lost in every round would be 40 times as much after
/// a thousand, 400 times after ten.
const GROWTH_KIB_MAX: u64 = 100;
/// Of address space: the allocator takes it from the kernel in steps of 132 KiB, and may need another one.
const HEAP_STEPS_KIB_MAX: u64 = 400;

/// Calls that a server or client makes from its first message to its last, by strace; `None` where there is none.
fn traced(arguments: &str, file: &std::path::Path) -> Option<Running> {
    let works = Command::new("strace").args(["-o", "/dev/null", "true"]).output().is_ok_and(|out| out.status.success());
    if !works {
        println!("skipped: strace does not work here");
        return None;
    }
    let mut command = Command::new("strace");
    command.args(["-f", "-o"]).arg(file).arg(SPINWIRE).args(arguments.split_whitespace());
    Some(Running::command(command))
}

/// The lines of a trace that are calls of the thread that runs the loop: the first.
fn calls_of_the_loop(file: &std::path::Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let thread = text.split_whitespace().next().unwrap().to_owned();
    text.lines().filter(|line| line.starts_with(&thread) && line.contains('(')).map(ToOwned::to_owned).collect()
}

/// `SPINWIRE_SHM_ECHOES=10000000` makes the longer run that long.
#[test]
fn a_hundred_thousand_messages_cost_no_system_call_on_either_side() {
    let _turn = alone();
    let mut counts = Vec::new();
    let echoes = echoes(100_000);
    for messages in [2_000, echoes] {
        let (server_file, client_file, url) = (scratch("server.strace"), scratch("client.strace"), shm_name());
        let serve = format!("echo serve --listen {url} --core {} --quiet --readiness io-uring", cpu(0));
        let Some(mut server) = traced(&serve, &server_file) else { return };
        server.wait_for("listening on", PATIENCE);
        let ping =
            format!("echo ping {url} --core {} --depth 8 --count {messages} --warmup 1 --verify --quiet", cpu(1));
        traced(&ping, &client_file).unwrap().finish(PATIENCE).expect_code(0);
        // strace passes signals on to what it traces only if they are sent to that.
        let traced = fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.pid())).unwrap();
        let stopped = Command::new("kill").args(["-s", "INT", traced.trim()]).status().unwrap();
        assert!(stopped.success());
        server.finish(PATIENCE).expect_code(0);
        counts.push([&server_file, &client_file].map(|file| calls_of_the_loop(file).len()));
        for file in [server_file, client_file] {
            // Left behind if it cannot be removed: it lies in the directory for such files.
            let _ = fs::remove_file(file);
        }
    }
    let [few, many] = counts[..] else { unreachable!("two runs") };
    for (few, many) in few.into_iter().zip(many) {
        // Which pages the allocator gives back at the start and the end differs by a few calls from run to run.
        println!("system calls from start to end: {few} with 2000 messages, {many} with {echoes}");
        assert!(few > 20 && many < few + 20, "{few} calls became {many} with {echoes} messages");
    }
}
