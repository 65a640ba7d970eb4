//! Servers and clients of one test over either fabric.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use spinwire_linux::address::{Address, SourceAddr};

use super::{Ended, PATIENCE, Running, Server, read_json, scratch};

/// Over what a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// The lab's two devices.
    Rdma,
    /// Shared memory, on any Linux.
    Shm,
}

impl Fabric {
    /// An address that no other test uses, for a server in this process.
    pub fn address(self) -> Address {
        let text = match self {
            Fabric::Rdma => super::url(super::lab_addresses().0, super::port()),
            Fabric::Shm => shm_name(),
        };
        text.parse().unwrap()
    }

    /// Where a client in this process connects from: over RDMA the lab's other device.
    pub fn source(self) -> Option<SourceAddr> {
        match self {
            Fabric::Rdma => Some(super::lab_addresses().1.to_string().parse().unwrap()),
            Fabric::Shm => None,
        }
    }

    /// A server that is ready.
    #[track_caller]
    pub fn server(self, extra: &str) -> Server {
        match self {
            Fabric::Rdma => Server::start(extra),
            Fabric::Shm => {
                let alone = alone();
                Server { _alone: Some(alone), ..serve_at(&shm_name(), extra) }
            }
        }
    }

    /// Starts a client.
    pub fn start_ping(self, server: &str, extra: &str) -> Running {
        match self {
            Fabric::Rdma => super::start_ping(server, extra),
            Fabric::Shm => Running::spinwire(&format!("echo ping {server} --core {} {extra}", cpu(1))),
        }
    }

    /// Runs a client to its end and reads its JSON report.
    #[track_caller]
    pub fn ping(self, server: &str, extra: &str) -> (Ended, Value) {
        let file = scratch("ping.json");
        let ended = self.start_ping(server, &format!("{extra} --json {}", file.display())).finish(PATIENCE);
        (ended, read_json(&file))
    }
}

/// Starts a server at `url` on the first core and waits until it listens.
#[track_caller]
pub fn serve_at(url: &str, extra: &str) -> Server {
    let mut process = Running::spinwire(&format!("echo serve --listen {url} --core {} {extra}", cpu(0)));
    process.wait_for("listening on", PATIENCE);
    Server { process, url: url.to_owned(), _alone: None }
}

/// How long a run is that proves something of every message: `SPINWIRE_SHM_ECHOES`, or `few`.
pub fn echoes(few: u64) -> u64 {
    match std::env::var("SPINWIRE_SHM_ECHOES") {
        Ok(text) => text.parse().expect("SPINWIRE_SHM_ECHOES is a number"),
        Err(_) => few,
    }
}

/// A name no other test uses.
pub fn shm_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("shm://test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The `n`th CPU this process may use, or the last: the tests must also pass in a container with other CPUs, or one.
pub fn cpu(n: usize) -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse::<u32>().unwrap()..=last.parse::<u32>().unwrap()
    };
    let all: Vec<u32> = list.split(',').flat_map(range).collect();
    all[n.min(all.len() - 1)]
}

/// Servers and clients keep two cores busy: tests that need both take turns.
pub fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // A test that failed has ended what it started all the same.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
