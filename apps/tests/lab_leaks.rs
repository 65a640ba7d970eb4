//! Everything that was taken is given back: RDMA objects, file descriptors, hugepages, memory.

mod common;
mod lab;

use std::time::Duration;

use common::{PATIENCE, Server, lab_addresses, port, start_ping, url};
use lab::clients::{Refused, Rounds, drive, on_client_core};
use lab::objects::{Held, assert_back_to, objects};

/// Memory may move by less than this: a page per connection would be 4 MiB over 1,000 connections.
const RSS_SLACK_KIB: u64 = 1_024;

/// Connect and disconnect take about 16 ms in an emulated processor on a quiet machine, and 300 ms on a very busy one.
const ROUNDS_LIMIT: Duration = Duration::from_secs(600);

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_thousand_connections_leave_nothing() {
    // librdmacm opens a device at its first use, with a protection domain of its own, and keeps both while the process lives.
    on_client_core(&nobody(), |reactor| drive(reactor, &mut Refused::new(1), ROUNDS_LIMIT));
    let before = objects();
    let server = Server::start("");
    // The first rounds make what is made once.
    rounds(&server.url, 10);
    let held = Held::by([server.process.pid(), std::process::id()]);
    rounds(&server.url, 1_000);
    held.assert_unchanged(RSS_SLACK_KIB);

    let server = server.stop();
    assert_eq!(server.output.matches("10 messages answered").count(), 1_010, "{}", server.output);
    assert_back_to(&before);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn refused_connects_leave_nothing() {
    on_client_core(&nobody(), |reactor| {
        drive(reactor, &mut Refused::new(10), ROUNDS_LIMIT);
        let held = Held::by([std::process::id()]);
        drive(reactor, &mut Refused::new(500), ROUNDS_LIMIT);
        held.assert_unchanged(RSS_SLACK_KIB);
    });
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn killed_processes_leave_nothing() {
    let before = objects();
    for client_first in [true, false] {
        let mut server = Server::start("");
        let client = start_ping(&server.url, "--seconds 60 --depth 32 --connections 4");
        server.process.wait_for("(4 now)", PATIENCE);
        std::thread::sleep(Duration::from_millis(300));
        let (first, second) = if client_first { (client, server.process) } else { (server.process, client) };
        for process in [first, second] {
            process.signal("KILL");
            process.finish(PATIENCE);
        }
        assert_back_to(&before);
    }
}

fn rounds(url: &str, count: u32) {
    on_client_core(url, |reactor| drive(reactor, &mut Rounds::new(count, 10), ROUNDS_LIMIT));
}

/// An address of the lab with a port nobody listens on.
fn nobody() -> String {
    url(lab_addresses().0, port())
}
