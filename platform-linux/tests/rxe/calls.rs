//! The promise of the loop, watched from outside: on Soft-RoCE one `write` per doorbell, and no other system call.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::parent_id;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::common::{EchoClient, EchoServer, Setup, alone, at, drive, lab};
use spinwire_linux::clock::{ClockSource, now};
use spinwire_linux::cm::{ControlOptions, Endpoint, device_for_listening};
use spinwire_linux::readiness::Wish;

/// Traces the calls of this thread into a file.
struct Strace {
    child: Child,
    file: std::path::PathBuf,
}

impl Strace {
    fn attach() -> Strace {
        let file = std::env::temp_dir().join(format!("spinwire-calls-{}", std::process::id()));
        let thread = fs::read_link("/proc/thread-self").unwrap();
        let thread = thread.file_name().unwrap().to_str().unwrap().to_owned();
        let child =
            Command::new("strace").args(["-q", "-p", &thread, "-o"]).arg(&file).spawn().expect("strace is there");
        let started = Instant::now();
        while fs::read_to_string("/proc/thread-self/status").unwrap().contains("TracerPid:\t0\n") {
            assert!(started.elapsed() < Duration::from_secs(20), "strace does not attach");
            std::thread::sleep(Duration::from_millis(10));
        }
        Strace { child, file }
    }

    /// How often each call was made between the two `getppid`.
    fn counts(mut self) -> BTreeMap<String, u64> {
        Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        self.child.wait().unwrap();
        let text = fs::read_to_string(&self.file).unwrap();
        fs::remove_file(&self.file).unwrap();
        let names = text.lines().filter_map(|line| line.split_once('(')).map(|(name, _)| name.to_owned());
        let mut counts = BTreeMap::new();
        let window = names.skip_while(|name| name != "getppid").skip(1).take_while(|name| name != "getppid");
        window.for_each(|name| *counts.entry(name).or_insert(0) += 1);
        counts
    }
}

/// Calls made while `replies` round trips went on, and the doorbells and the time of it.
fn calls_of(readiness: Wish, depth: u32, replies: u64) -> (BTreeMap<String, u64>, u64, Duration) {
    let control = ControlOptions { readiness, ..ControlOptions::default() };
    let setup = Setup { depth, control, ..Setup::default() };
    let server_device = device_for_listening(at(lab("LAB_ADDR1"), 0)).unwrap();
    let client_device = device_for_listening(at(lab("LAB_ADDR0"), 0)).unwrap();
    setup.run(&server_device, |server| {
        setup.run(&client_device, |client| {
            let listener = server.control().listen(at(lab("LAB_ADDR1"), 0)).unwrap();
            let target = server.control().listener_address(listener).unwrap();
            let endpoint = client.control().add_endpoint(Endpoint { target, source: Some(at(lab("LAB_ADDR0"), 0)) });
            let (mut echo, mut caller) = (EchoServer::default(), EchoClient::new(u64::MAX, 64, u64::from(depth)));
            let limit = Duration::from_secs(120);
            client.with(|cx| cx.connect(endpoint)).unwrap();
            drive((server, &mut echo), (client, &mut caller), limit, |_, caller| caller.replies > 100);

            let strace = Strace::attach();
            let doorbells = server.stats().doorbells + client.stats().doorbells;
            let started = Instant::now();
            let _marks_the_begin = parent_id();
            let until = caller.replies + replies;
            drive((server, &mut echo), (client, &mut caller), limit, |_, caller| caller.replies >= until);
            let _marks_the_end = parent_id();
            let took = started.elapsed();
            let rung = server.stats().doorbells + client.stats().doorbells - doorbells;
            let counts = strace.counts();

            client.with(|cx| cx.close_all());
            while client.live() > 0 {
                client.turn(now(), &mut caller);
                server.turn(now(), &mut echo);
            }
            (counts, rung, took)
        })
    })
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn steady_state_makes_one_write_per_doorbell_and_no_other_call() {
    let _alone = alone();
    assert!(ClockSource::current().is_cheap(), "{}", ClockSource::current());
    for depth in [1, 8] {
        let (counts, doorbells, _) = calls_of(Wish::Best, depth, 500);
        println!("depth {depth}: {doorbells} doorbells, calls {counts:?}");
        assert_eq!(counts, BTreeMap::from([("write".to_owned(), doorbells)]));
    }
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn without_io_uring_there_is_one_poll_per_budget_of_time() {
    let _alone = alone();
    let every = Duration::from_millis(5);
    let (mut counts, doorbells, took) = calls_of(Wish::Timed(every), 1, 200);
    println!("{doorbells} doorbells in {took:?}, calls {counts:?}");
    let polls = counts.remove("poll").unwrap_or(0);
    assert_eq!(counts, BTreeMap::from([("write".to_owned(), doorbells)]));
    // Two engines share the thread.
    let most = 2 * (took.as_nanos() / every.as_nanos() + 1) as u64;
    assert!(polls > 0 && polls <= most, "{polls} polls in {took:?}, at most {most} expected");
}
