//! Two processes on two CPUs, and how fast messages get from one to the other: Spinwire beside its peers, in one run.
//!
//! `ci/compare ipc` builds and runs it. benches/README.md says how it measures, benches/ipc/README.md what takes part.
//!
//! | module | job |
//! |---|---|
//! | `pair` | the asking process's hold on the answering one, and the windows |
//! | `answer` | the answering process |
//! | `peer` | what a contestant has to bring |
//! | `peers` | the contestants |
//! | `contests` | what is compared, and the limits |
//! | `watch` | ends both when one hangs |
//! | `sys` | the memory they share |
#![deny(unsafe_code)]

mod answer;
mod contests;
mod pair;
mod peer;
mod peers;
#[allow(unsafe_code)]
mod sys;
mod watch;

use std::env;
use std::process::ExitCode;

use pair::Pair;
use spinwire_benches::cores::Cores;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = match &arguments[..] {
        [word, descriptor, priority] if word == "--answer" => {
            answer::run(descriptor, priority == "priority").map(|()| ExitCode::SUCCESS)
        }
        _ => compare(&arguments),
    };
    done.unwrap_or_else(|why| {
        eprintln!("ipc: {why}");
        ExitCode::from(2)
    })
}

fn compare(arguments: &[String]) -> Result<ExitCode, peer::Failure> {
    let cores = Cores::named()?;
    if cores.count() < 2 {
        return Err(format!("two CPUs are needed, there are these: {}", cores.names()).into());
    }
    // A test has no figures to protect.
    let priority = arguments.iter().any(|argument| argument == "--compare");
    let pair = Pair::start(&cores, priority)?;
    Ok(spinwire_benches::main("ipc", |run| contests::all(run, &pair)))
}
