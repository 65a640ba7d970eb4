//! Peers that are not there yet, and peers that are not there any more although nothing says so.

mod common;

use std::time::{Duration, Instant};

use common::fabric::serve_at;
use common::{PATIENCE, Server, lab_addresses, number, port, read_json, scratch, start_ping, url};

/// Status of a run that failed.
const FAILED: i32 = 1;

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_server_that_starts_late_is_found_by_a_client_that_is_told_to_wait() {
    let (url, file) = (url(lab_addresses().0, port()), scratch("late.json"));
    let client = start_ping(&url, &format!("--count 100 --retry-for 60s --json {}", file.display()));
    std::thread::sleep(Duration::from_secs(3));
    let server = serve_at(&url, "");
    client.finish(PATIENCE).expect_code(0);
    assert!(number(&read_json(&file), "connect_attempts_failed") >= 1);
    server.stop();
}

/// The server's device goes on acknowledging while its program is stopped, so nothing fails: only the keepalive tells.
#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_stopped_server_is_noticed_although_its_device_lives() {
    let mut server = Server::start("");
    // Messages that get no answer are no sign of life: the peer's device acknowledges them too.
    let client = start_ping(&server.url, "--rate 1 --seconds 90 --warmup 0 --idle block --timeout 80s");
    server.process.wait_for("(1 now)", PATIENCE);
    std::thread::sleep(Duration::from_secs(2));
    server.process.signal("STOP");
    let stopped = Instant::now();
    let client = client.finish(Duration::from_secs(60)).expect_code(FAILED);
    client.expect("nothing was heard of the peer for 15").expect("its program does not answer");
    let after = stopped.elapsed();
    assert!((Duration::from_secs(13)..Duration::from_secs(25)).contains(&after), "{after:?}");
    server.process.signal("KILL");
}
