//! Work to count instructions of: `instructions CASE ITERATIONS` does it, `instructions --list` names the cases.
//!
//! `ci/instructions` runs each case for N and for 2N iterations under callgrind; half the way between is set-up, the
//! difference is the work. The case `loop` is what the counting itself costs and is subtracted from the others.
#![deny(unsafe_code)]

mod histogram;
mod pool;
mod ring;
mod table;
mod timer;
mod turn;

use std::hint::black_box;
use std::process::ExitCode;

/// Something to count. To add one, write a function and a line of [`CASES`].
struct Case {
    name: &'static str,
    /// Instructions per operation that are not to be exceeded, net of the loop; `None` for a figure that is only shown.
    limit: Option<u32>,
    /// Operations in one iteration.
    operations: u64,
    /// Does so many iterations. What it asserts about the result belongs behind the loop.
    run: fn(u64),
}

/// All cases, with every limit.
const CASES: &[Case] = &[
    Case { name: "loop", limit: None, operations: 1, run: nothing },
    Case { name: "turn-empty", limit: Some(40), operations: 1, run: turn::empty },
    Case { name: "turn-echo", limit: Some(200), operations: 1, run: turn::echo },
    Case { name: "turn-echo-batch-32", limit: Some(200), operations: 32, run: turn::echo_batch },
    Case { name: "ring-pair", limit: Some(25), operations: 1, run: ring::pair },
    Case { name: "ring-batch-32", limit: Some(5), operations: 32, run: ring::batch },
    Case { name: "table-hit", limit: None, operations: 1, run: table::hit },
    Case { name: "pool-take-release", limit: None, operations: 1, run: pool::take_release },
    Case { name: "pool-bulk-32", limit: None, operations: 32, run: pool::bulk },
    Case { name: "histogram-record", limit: Some(24), operations: 1, run: histogram::record },
    Case { name: "hdrhistogram-record", limit: None, operations: 1, run: histogram::record_hdr },
    Case { name: "timer-idle", limit: Some(3), operations: 1, run: timer::idle },
    Case { name: "timer-arm-cancel", limit: Some(280), operations: 1, run: timer::arm_cancel },
    Case { name: "timer-arm-expire", limit: Some(320), operations: 1, run: timer::arm_expire },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--list"] => {
            for Case { name, limit, operations, .. } in CASES {
                println!("{name} {operations} {}", limit.map_or("-".into(), |limit| limit.to_string()));
            }
            ExitCode::SUCCESS
        }
        [case, iterations] => match (CASES.iter().find(|known| known.name == case), iterations.parse()) {
            (Some(case), Ok(iterations)) => {
                (case.run)(iterations);
                ExitCode::SUCCESS
            }
            _ => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: instructions CASE ITERATIONS | instructions --list");
    ExitCode::from(2)
}

/// What every case's loop costs.
#[inline(never)]
fn nothing(iterations: u64) {
    for n in 0..iterations {
        black_box(n);
    }
}
