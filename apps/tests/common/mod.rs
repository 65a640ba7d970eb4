//! What the tests of the command share: running it, waiting for it with a deadline, reading its report.
//!
//! Nothing here waits for ever, and every child is ended when its handle goes.
#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

pub mod fabric;

/// The command under test.
pub const SPINWIRE: &str = env!("CARGO_BIN_EXE_spinwire");

/// Long enough for a busy emulated machine, short enough to notice a hang.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The two addresses of the lab, each on an RDMA device of its own.
///
/// # Panics
/// Outside of the lab: these tests are run by `ci/vm`.
pub fn lab_addresses() -> (IpAddr, IpAddr) {
    (lab_address("LAB_ADDR0"), lab_address("LAB_ADDR1"))
}

/// An address of the lab by the name of its variable, see `ci/vm --help`.
///
/// # Panics
/// Outside of the lab.
pub fn lab_address(name: &str) -> IpAddr {
    let text = std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run this test by ci/vm"));
    text.parse().unwrap_or_else(|_| panic!("{name}={text} is not an address"))
}

/// `rdma://ADDR:PORT`, with the brackets that IPv6 needs.
pub fn url(address: IpAddr, port: u16) -> String {
    format!("rdma://{}", std::net::SocketAddr::new(address, port))
}

/// A port no other test of this process uses. RDMA ports are not TCP ports, so there is nobody else to ask.
pub fn port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let base = 20_000 + std::process::id() % 20_000;
    (base + NEXT.fetch_add(1, Ordering::Relaxed)) as u16
}

/// How much of a long test is run: `small`, or what the environment says (see `ci/soak`).
pub fn size(name: &str, small: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => small,
    }
}

/// A path for a file of this test, in the directory cargo keeps for that.
pub fn scratch(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // In the lab the target directory lies on a file system that is slow and gone at the end; /tmp is always there.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("spinwire-{}-{number}-{name}", std::process::id()))
}

/// A running child with its output, line by line.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    /// Everything printed so far, both streams, in the order it was read here.
    pub seen: Vec<String>,
    label: String,
}

/// A child that has ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit status.
    pub status: ExitStatus,
    /// Everything it printed, both streams.
    pub output: String,
}

impl Ended {
    /// The exit code; -1 when a signal ended it.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// Asserts the exit code, with the output on failure.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code(), code, "{:?}, output:\n{}", self.status, self.output);
        self
    }

    /// Asserts that the output contains `part`.
    #[track_caller]
    pub fn expect(self, part: &str) -> Self {
        assert!(self.output.contains(part), "{part:?} is missing in:\n{}", self.output);
        self
    }
}

impl Running {
    /// Starts `spinwire` with the words of `arguments`.
    pub fn spinwire(arguments: &str) -> Self {
        let mut command = Command::new(SPINWIRE);
        command.args(arguments.split_whitespace());
        Self::command(command)
    }

    /// Starts any command.
    pub fn command(mut command: Command) -> Self {
        let label = format!("{command:?}");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {label}: {error}"));
        let (sender, lines) = channel();
        let out: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().expect("piped above")), Box::new(child.stderr.take().expect("piped above"))];
        for stream in out {
            let sender = sender.clone();
            thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        Self { child, lines, seen: Vec::new(), label }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until a line contains `part`, and returns it.
    ///
    /// # Panics
    /// When it does not come within `limit`, or the child ends before.
    #[track_caller]
    pub fn wait_for(&mut self, part: &str, limit: Duration) -> String {
        let deadline = Instant::now() + limit;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(part) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    panic!("no {part:?} from {} within {limit:?}:\n{}", self.label, self.seen.join("\n"))
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("{} ended without {part:?}:\n{}", self.label, self.seen.join("\n"))
                }
            }
        }
    }

    /// Sends a signal, like `INT`, `TERM` or `KILL`.
    #[track_caller]
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -s {name} {} failed", self.label);
    }

    /// Waits for the end.
    ///
    /// # Panics
    /// When it has not ended within `limit`; the child is killed then.
    #[track_caller]
    pub fn finish(mut self, limit: Duration) -> Ended {
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("our own child can be waited for") {
                break status;
            }
            if Instant::now() > deadline {
                self.seen.extend(self.lines.try_iter());
                panic!("{} did not end within {limit:?}:\n{}", self.label, self.seen.join("\n"));
            }
            thread::sleep(Duration::from_millis(5));
        };
        // The readers end with the pipes, which end with the child.
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(5)) {
            self.seen.push(line);
        }
        Ended { status, output: self.seen.join("\n") }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nothing to do for a child that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `spinwire` to its end.
#[track_caller]
pub fn spinwire(arguments: &str) -> Ended {
    Running::spinwire(arguments).finish(PATIENCE)
}

/// A server that is ready. Core 0, unless `extra` says otherwise.
pub struct Server {
    /// The process.
    pub process: Running,
    /// Where to connect to.
    pub url: String,
    /// Held while the server needs a core for itself.
    _alone: Option<MutexGuard<'static, ()>>,
}

impl Server {
    /// Starts `spinwire echo serve` on the first lab address and waits until it listens.
    #[track_caller]
    pub fn start(extra: &str) -> Self {
        Self::start_at(lab_addresses().0, extra)
    }

    /// The same on another address.
    #[track_caller]
    pub fn start_at(address: IpAddr, extra: &str) -> Self {
        let url = url(address, port());
        let mut process = Running::spinwire(&format!("echo serve --listen {url} --core 0 {extra}"));
        process.wait_for("listening on", PATIENCE);
        Self { process, url, _alone: None }
    }

    /// Stops it by SIGINT and asserts that it ends cleanly within 10 s.
    #[track_caller]
    pub fn stop(self) -> Ended {
        self.process.signal("INT");
        self.process.finish(Duration::from_secs(10)).expect_code(0)
    }
}

/// Starts a client of `server` from the second lab address on core 1.
pub fn start_ping(server: &str, extra: &str) -> Running {
    let bind = lab_addresses().1;
    Running::spinwire(&format!("echo ping {server} --bind {bind} --core 1 {extra}"))
}

/// Runs a client to its end and reads its JSON report.
#[track_caller]
pub fn ping(server: &str, extra: &str) -> (Ended, Value) {
    let file = scratch("ping.json");
    let ended = start_ping(server, &format!("{extra} --json {}", file.display())).finish(PATIENCE);
    let report = read_json(&file);
    (ended, report)
}

/// Reads a report and removes the file; `Null` when there is none.
#[track_caller]
pub fn read_json(file: &Path) -> Value {
    let Ok(text) = std::fs::read_to_string(file) else { return Value::Null };
    // Left behind if it cannot be removed: it lies in the directory for such files.
    let _ = std::fs::remove_file(file);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}:\n{text}", file.display()))
}

/// A number of a report.
#[track_caller]
pub fn number(report: &Value, key: &str) -> u64 {
    report[key].as_u64().unwrap_or_else(|| panic!("no number {key:?} in the report:\n{report:#}"))
}
