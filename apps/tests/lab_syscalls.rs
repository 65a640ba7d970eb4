//! The loop's system calls, counted by the kernel while echoes flow: one write(2) per doorbell, and nothing else.
//!
//! rxe rings its doorbell by a write to the uverbs file; a card's is a store. The set-up writes to that file too (it
//! registers memory and moves queue pairs), so two things are shown:
//!
//! - in a window of steady state the loop threads of both sides make no call at all but writes to the uverbs file;
//! - between a short run and one with many more echoes, which set up the same things, the number of those writes grows
//!   by exactly as much as the number of doorbells that each side reports.
//!
//! `SPINWIRE_LAB_ECHOES=100000` sets the length of the window.

mod common;
mod lab;

use std::path::Path;
use std::time::{Duration, Instant};

use common::{PATIENCE, Running, Server, number, read_json, scratch, start_ping};
use lab::syscalls::{Calls, Counter, WRITE, file_of, threads};

/// Echoes of the short run, and of the margin on both sides of the window.
const SHORT: u64 = 10_000;
/// Round trips take about 50 us in an emulated processor on a quiet machine, and a hundred times that on a very busy one.
const RUN_LIMIT: Duration = Duration::from_secs(600);

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_loop_makes_one_write_per_doorbell_and_no_other_call() {
    let steady = echoes_asked();
    let counter = Counter::start();
    let short = run(&counter, SHORT, None);
    // The window opens a little after the start and closes a little before the end.
    let long = run(&counter, steady + 2 * SHORT, Some(steady));
    for (name, short, long) in [("client", short.client, long.client), ("server", short.server, long.server)] {
        let doorbells = long.doorbells - short.doorbells;
        let echoes = steady + SHORT;
        assert!(doorbells >= echoes, "{name}: {doorbells} doorbells for {echoes} more echoes");
        assert_eq!(long.writes - short.writes, doorbells, "{name}: writes and doorbells differ");
        println!("{name}: {doorbells} doorbells, as many writes, no other call");
    }
}

/// One side of a run.
struct Side {
    /// As it reports them.
    doorbells: u64,
    /// Writes of its loop to the uverbs file, over its whole life.
    writes: u64,
}

struct Run {
    client: Side,
    server: Side,
}

/// The loop thread of a process, as found in steady state.
#[derive(Clone, Copy, Debug)]
struct Loop {
    thread: u32,
    doorbell_fd: u64,
}

/// One server, one client, `count` echoes; with a window of at least so many during which nothing else may be called.
fn run(counter: &Counter, count: u64, window: Option<u64>) -> Run {
    let (server_report, client_report) = (scratch("server.json"), scratch("client.json"));
    let server = Server::start(&format!("--depth 1 --connections-max 1 --json {}", server_report.display()));
    let words = format!("--count {count} --warmup 0 --size 64 --json {}", client_report.display());
    let client = start_ping(&server.url, &words);

    let begun = settle(counter, &client, 200);
    let loops = [server.process.pid(), client.pid()].map(|pid| find_loop(counter, &begun, pid));
    if let Some(echoes) = window {
        watch(counter, &loops, echoes);
    }

    client.finish(RUN_LIMIT).expect_code(0);
    server.stop();
    let end = counter.calls();
    let [server, client] = loops.map(|of| end.writes_by_fd[&(of.thread, of.doorbell_fd)]);
    let side = |writes, report: &Path| Side { doorbells: number(&read_json(report), "doorbells"), writes };
    Run { server: side(server, &server_report), client: side(client, &client_report) }
}

/// Waits until the client has written `more` times since now, which is long after it connected. Returns the counts then.
fn settle(counter: &Counter, client: &Running, more: u64) -> Calls {
    let deadline = Instant::now() + RUN_LIMIT;
    loop {
        let calls = counter.calls();
        let written: u64 = threads(client.pid()).iter().filter_map(|&thread| calls.by_call.get(&(thread, WRITE))).sum();
        if written > more {
            return calls;
        }
        assert!(Instant::now() < deadline, "the client does not come to a steady state");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The one thread of a process that writes to a uverbs file again and again.
fn find_loop(counter: &Counter, begun: &Calls, pid: u32) -> Loop {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now = counter.calls();
        let mut found = Vec::new();
        for thread in threads(pid) {
            for (fd, writes) in now.writes_of_thread_since(begun, thread) {
                if writes >= 100 && file_of(pid, fd).starts_with("/dev/infiniband") {
                    found.push(Loop { thread, doorbell_fd: fd });
                }
            }
        }
        match found[..] {
            [only] => return only,
            [] => assert!(Instant::now() < deadline, "no thread of {pid} rings a doorbell"),
            _ => panic!("several threads of {pid} ring doorbells: {found:?}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Counts from now on until each loop has written `echoes` times, and checks that they called nothing else.
fn watch(counter: &Counter, loops: &[Loop], echoes: u64) {
    let deadline = Instant::now() + RUN_LIMIT;
    let begun = counter.calls();
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let now = counter.calls();
        let mut done = true;
        for Loop { thread, doorbell_fd } in loops {
            let calls = now.of_thread_since(&begun, *thread);
            let files = now.writes_of_thread_since(&begun, *thread);
            assert!(calls.keys().all(|call| *call == WRITE), "thread {thread} called (number -> times) {calls:?}");
            assert!(files.keys().all(|fd| fd == doorbell_fd), "thread {thread} wrote to (file -> times) {files:?}");
            done &= files.get(doorbell_fd).is_some_and(|writes| *writes >= echoes);
        }
        if done {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "fewer than {echoes} echoes within {RUN_LIMIT:?}: the client ended or is stuck"
        );
    }
}

/// `SPINWIRE_LAB_ECHOES`, or as many as take a second on a quiet machine.
fn echoes_asked() -> u64 {
    match std::env::var("SPINWIRE_LAB_ECHOES") {
        Ok(text) => text.parse().expect("SPINWIRE_LAB_ECHOES is a number"),
        Err(_) => 20_000,
    }
}
