//! How the command ends.

use std::process::ExitCode;

use crate::patience;

/// The run did what was asked.
pub const OK: u8 = 0;
/// The run failed: a reply was wrong, a connection was refused or lost, nothing moved for too long.
pub const FAILED: u8 = 1;
/// The arguments make no sense. (clap ends with the same number.)
pub const USAGE: u8 = 2;
/// It could not be set up on this machine: no RDMA, no memory, no such core, port in use.
pub const SETUP: u8 = 3;

/// A reason to end with a status other than 0, already in words.
#[derive(Debug)]
pub struct Failure {
    /// The exit status.
    pub status: u8,
    /// What to tell the user; empty when everything was said before.
    pub message: String,
}

impl Failure {
    /// The run failed.
    pub fn run(message: impl ToString) -> Self {
        Self { status: FAILED, message: message.to_string() }
    }

    /// The arguments do not go together.
    pub fn usage(message: impl ToString) -> Self {
        Self { status: USAGE, message: message.to_string() }
    }

    /// The set-up failed.
    pub fn setup(message: impl ToString) -> Self {
        Self { status: SETUP, message: message.to_string() }
    }

    /// A signal ended the run: 128 + its number.
    pub fn signal(signal: u8) -> Self {
        Self { status: 128 + signal, message: format!("stopped by {}", spinwire_linux::signals::name(signal)) }
    }

    fn say(&self) {
        if !self.message.is_empty() {
            patience::say(&self.message);
        }
    }
}

/// How a run ended, if it failed, else the first of what went wrong `after` it. All the others are printed here: nothing
/// that failed is left unsaid.
///
/// # Errors
/// The one whose status counts.
pub fn first(run: Result<(), Failure>, after: impl IntoIterator<Item = Result<(), Failure>>) -> Result<(), Failure> {
    let mut first = run;
    for failure in after.into_iter().filter_map(Result::err) {
        match first {
            Ok(()) => first = Err(failure),
            Err(_) => failure.say(),
        }
    }
    first
}

/// Prints the message of a failure and turns the result into the process's status.
pub fn code(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::from(OK),
        Err(failure) => {
            failure.say();
            ExitCode::from(failure.status)
        }
    }
}
