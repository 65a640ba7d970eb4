//! Shared memory when one side is killed or stopped: noticed, named, freed, and the next client just works.

mod common;

use std::time::{Duration, Instant};

use common::fabric::{Fabric, alone, serve_at, shm_name};
use common::{PATIENCE, Running, number, read_json, scratch, size};

/// A peer's end is reported within this: the kernel tells it, so it takes no time of its own.
const REPORT_LIMIT: Duration = Duration::from_millis(100);
/// Kills in one test, of either side: each meets a burst at another place.
fn kills() -> usize {
    size("SPINWIRE_SOAK_KILLS", 10) as usize
}

/// The middle one: a machine that is busy with something else may be late once or twice.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn open_files(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

#[test]
fn a_client_killed_in_a_burst_is_named_and_freed_and_the_next_one_connects_at_once() {
    // One place only: the next client finds it free or is refused.
    let mut server = Fabric::Shm.server("--connections-max 1 --message-max 64k");
    let files = open_files(server.process.pid());
    let mut times = Vec::new();
    for round in 0..kills() {
        let size = ["64", "4k", "64k"][round % 3];
        let mut client =
            Fabric::Shm.start_ping(&server.url, &format!("--depth 32 --size {size} --seconds 60 --warmup 1"));
        let pid = client.pid();
        server.process.wait_for(&format!("process {pid} (user"), PATIENCE);
        client.wait_for("connected", PATIENCE);
        std::thread::sleep(Duration::from_millis(20 + 7 * round as u64));
        client.signal("KILL");
        let begun = Instant::now();
        let line = server.process.wait_for(&format!("process {pid} (user"), PATIENCE);
        times.push(begun.elapsed());
        assert!(line.contains("left: the peer disconnected without a goodbye (its process ended, or its program did not close the connection)"), "{line}");
        drop(client);
    }
    println!(
        "soak: {} kills of clients of the command: reported after {:?}, {:?} at worst",
        times.len(),
        median(times.clone()),
        times.iter().max()
    );
    // A thread closes what the last of them left.
    let begun = Instant::now();
    while open_files(server.process.pid()) != files && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(open_files(server.process.pid()), files, "what belonged to the dead is released");
    let (ended, report) = Fabric::Shm.ping(&server.url, "--count 1000 --verify");
    ended.expect_code(0);
    assert_eq!(number(&report, "messages"), 1_000);
    server.stop();
    assert!(median(times.clone()) < REPORT_LIMIT, "{times:?}");
}

#[test]
fn a_client_names_the_server_that_was_killed_and_ends_with_1() {
    let mut times = Vec::new();
    for round in 0..kills().div_ceil(2) {
        let server = Fabric::Shm.server("--message-max 64k");
        let pid = server.process.pid();
        let size = ["64", "64k"][round % 2];
        let mut client =
            Fabric::Shm.start_ping(&server.url, &format!("--depth 32 --size {size} --seconds 60 --verify"));
        client.wait_for("connected", PATIENCE);
        std::thread::sleep(Duration::from_millis(20 + 7 * round as u64));
        server.process.signal("KILL");
        let begun = Instant::now();
        let line = client.wait_for("was lost", PATIENCE);
        times.push(begun.elapsed());
        assert!(line.contains(&format!("connection 1 of 1 to process {pid} (user")), "{line}");
        assert!(line.contains("disconnected without a goodbye"), "{line}");
        client.finish(PATIENCE).expect_code(1);
        // The name is free at once, and nothing of the dead is in the way.
        let next = serve_at(&server.url, "");
        drop(server);
        next.process.signal("INT");
        next.process.finish(PATIENCE).expect_code(0);
    }
    println!(
        "soak: {} kills of servers of the command: reported after {:?}, {:?} at worst",
        times.len(),
        median(times.clone()),
        times.iter().max()
    );
    assert!(median(times.clone()) < REPORT_LIMIT, "{times:?}");
}

fn stop_seconds(small: u64) -> u64 {
    size("SPINWIRE_SOAK_STOP_SECONDS", small)
}

/// Stops a process, lets it go on after a while, and gives the while.
fn pause(process: &Running, seconds: u64) -> Duration {
    let pause = Duration::from_secs(seconds);
    process.signal("STOP");
    std::thread::sleep(pause);
    process.signal("CONT");
    pause
}

#[test]
fn a_server_that_is_stopped_for_a_while_goes_on_as_if_nothing_had_been() {
    let server = Fabric::Shm.server("");
    let mut client = Fabric::Shm.start_ping(
        &server.url,
        &format!("--depth 8 --seconds {} --warmup 1 --verify --timeout 60s --quiet --json -", stop_seconds(3) + 2),
    );
    std::thread::sleep(Duration::from_millis(500));
    let paused = pause(&server.process, stop_seconds(3));
    client.wait_for("\"result\": \"ok\"", PATIENCE);
    client.finish(PATIENCE).expect_code(0).expect("\"outstanding\": 0");
    println!("soak: a server stood still for {paused:?}, and its connection lived on");
    let ended = server.stop().expect("1 served, 0 refused").expect("closed by the peer");
    assert!(ended.output.lines().count() < 30, "one line for what happened, no flood:\n{}", ended.output);
}

#[test]
fn a_client_that_is_stopped_for_a_while_goes_on_as_if_nothing_had_been() {
    let server = Fabric::Shm.server("");
    let mut client = Fabric::Shm.start_ping(
        &server.url,
        &format!("--depth 8 --seconds {} --warmup 1 --verify --timeout 60s --quiet --json -", stop_seconds(2) + 2),
    );
    std::thread::sleep(Duration::from_millis(500));
    let paused = pause(&client, stop_seconds(2));
    client.wait_for("\"result\": \"ok\"", PATIENCE);
    client.finish(PATIENCE).expect_code(0).expect("\"outstanding\": 0");
    println!("soak: a client stood still for {paused:?}, and its connection lived on");
    let ended = server.stop().expect("1 served, 0 refused").expect("closed by the peer");
    assert!(ended.output.lines().count() < 30, "one line for what happened, no flood:\n{}", ended.output);
}

#[test]
fn a_client_that_is_stopped_while_it_connects_does_not_keep_others_out() {
    let server = Fabric::Shm.server("--connections-max 2");
    let stopped = Fabric::Shm.start_ping(&server.url, "--seconds 60 --timeout 30s");
    std::thread::sleep(Duration::from_millis(300));
    stopped.signal("STOP");
    let (ended, _) = Fabric::Shm.ping(&server.url, "--count 1000 --verify");
    ended.expect_code(0);
    stopped.signal("CONT");
    stopped.signal("INT");
    stopped.finish(PATIENCE).expect_code(130);
    server.stop();
}

#[test]
fn killed_processes_leave_nothing_with_a_name() {
    let named = || -> Vec<String> {
        let list = |directory: &str| {
            let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
            entries.map(|entry| entry.path().display().to_string()).filter(|path| path.contains("spinwire-shm"))
        };
        // The names of memfds would show here if they were files; abstract sockets are listed by the kernel.
        list("/dev/shm").chain(list("/tmp")).collect()
    };
    let before = named();
    let name = shm_name();
    let socket = format!("@spinwire/{}", name.strip_prefix("shm://").unwrap());
    let listed = || std::fs::read_to_string("/proc/net/unix").unwrap().contains(&socket);
    let server = {
        let _turn = common::fabric::alone();
        let server = serve_at(&name, "");
        let mut client = Fabric::Shm.start_ping(&name, "--depth 32 --seconds 60");
        client.wait_for("connected", PATIENCE);
        assert!(listed());
        client.signal("KILL");
        server
    };
    server.process.signal("KILL");
    server.process.finish(PATIENCE);
    assert!(!listed());
    assert_eq!(named(), before);
}

#[test]
fn a_peer_that_dies_between_connecting_and_asking_holds_nobody_up() {
    let server = Fabric::Shm.server("--connections-max 1");
    let socket = format!("\0spinwire/{}", server.url.strip_prefix("shm://").unwrap());
    // A plain stream socket, and one of the right kind that says nothing.
    let address = {
        use std::os::linux::net::SocketAddrExt;
        std::os::unix::net::SocketAddr::from_abstract_name(&socket[1..]).unwrap()
    };
    assert!(std::os::unix::net::UnixStream::connect_addr(&address).is_err(), "another kind of socket");
    let (ended, _) = Fabric::Shm.ping(&server.url, "--count 100 --verify");
    ended.expect_code(0);
    server.stop();
}

#[test]
fn nobody_there_is_said_at_once() {
    let (begun, file) = (Instant::now(), scratch("nobody.json"));
    let (name, core, json) = (shm_name(), common::fabric::cpu(1), file.display());
    Running::spinwire(&format!("echo ping {name} --core {core} --json {json}"))
        .finish(PATIENCE)
        .expect_code(1)
        .expect("nobody listens")
        .expect("is the server running");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(number(&read_json(&file), "connect_attempts_failed"), 1);
}

#[test]
fn a_server_that_starts_late_is_found_by_a_client_that_is_told_to_wait() {
    let (name, _alone) = (shm_name(), alone());
    let file = scratch("late.json");
    let client = Fabric::Shm.start_ping(&name, &format!("--count 10 --retry-for 60s --json {}", file.display()));
    std::thread::sleep(Duration::from_millis(700));
    let server = serve_at(&name, "");
    client.finish(PATIENCE).expect_code(0);
    assert!(number(&read_json(&file), "connect_attempts_failed") >= 1);
    server.stop();
}
