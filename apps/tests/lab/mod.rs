//! What the tests on real devices share beyond running the command: counting what is held, counting system calls, plain C
//! peers, clients on the library.
#![allow(dead_code, reason = "each test binary uses a part of this")]

pub mod clients;
pub mod objects;
pub mod peers;
pub mod syscalls;

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use crate::common::{Ended, Running};

/// The exit status of a run that failed.
pub const FAILED: i32 = 1;
/// The exit status of a set-up that failed.
pub const SETUP: i32 = 3;

/// The bound on errors that are known at once or after a resolve; the emulated processor can be twenty times slower than
/// a quiet one.
pub const SOON: Duration = Duration::from_secs(15);

/// A variable of the lab, see `ci/vm --help`.
#[track_caller]
pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run this test by ci/vm"))
}

/// The socket address of `rdma://ADDR:PORT`.
pub fn address_of(url: &str) -> SocketAddr {
    url.trim_start_matches("rdma://").parse().expect("the lab's addresses are numeric")
}

/// Runs the command with these words; it has to end within [`SOON`].
#[track_caller]
pub fn spinwire(words: &str) -> Ended {
    Running::spinwire(words).finish(SOON)
}

/// Runs another program; it has to end within twice [`SOON`].
#[track_caller]
pub fn run<S: AsRef<str>>(program: impl AsRef<std::ffi::OsStr>, arguments: &[S]) -> Ended {
    start(program, arguments).finish(SOON * 2)
}

/// Starts another program.
pub fn start<S: AsRef<str>>(program: impl AsRef<std::ffi::OsStr>, arguments: &[S]) -> Running {
    let mut command = Command::new(program);
    command.args(arguments.iter().map(AsRef::as_ref));
    Running::command(command)
}
