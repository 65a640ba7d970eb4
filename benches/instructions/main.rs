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
    bound: Bound,
    /// Operations in one iteration.
    operations: u64,
    /// Does so many iterations. What it asserts about the result belongs behind the loop.
    run: fn(u64),
}

/// Instructions per operation, net of the loop.
enum Bound {
    /// The figure is only shown.
    None,
    /// Not to be exceeded.
    Limit(u32),
}
use Bound::Limit;

/// All cases, with every limit.
const CASES: &[Case] = &[
    Case { name: "loop", bound: Bound::None, operations: 1, run: nothing },
    Case { name: "turn-empty", bound: Limit(40), operations: 1, run: turn::empty },
    Case { name: "turn-echo", bound: Limit(200), operations: 1, run: turn::echo },
    Case { name: "turn-echo-fabric", bound: Bound::None, operations: 1, run: turn::echo_fabric },
    Case { name: "turn-echo-batch-32", bound: Limit(144), operations: 32, run: turn::echo_batch },
    Case { name: "ring-pair", bound: Limit(25), operations: 1, run: ring::pair },
    Case { name: "ring-batch-32", bound: Limit(5), operations: 32, run: ring::batch },
    Case { name: "ring-lanes-2", bound: Limit(62), operations: 2, run: ring::lanes },
    Case { name: "table-hit", bound: Limit(10), operations: 1, run: table::hit },
    Case { name: "pool-take-release", bound: Limit(12), operations: 1, run: pool::take_release },
    Case { name: "pool-bulk-32", bound: Limit(4), operations: 32, run: pool::bulk },
    Case { name: "histogram-record", bound: Limit(22), operations: 1, run: histogram::record },
    Case { name: "hdrhistogram-record", bound: Bound::None, operations: 1, run: histogram::record_hdr },
    Case { name: "timer-idle", bound: Limit(3), operations: 1, run: timer::idle },
    Case { name: "timer-arm-cancel", bound: Limit(70), operations: 1, run: timer::arm_cancel },
    Case { name: "timer-arm-expire", bound: Limit(280), operations: 1, run: timer::arm_expire },
];

impl Case {
    /// As `ci/instructions` reads it: name, operations, limit; `-` for none.
    fn line(&self) -> String {
        let limit = match self.bound {
            Bound::None => "-".into(),
            Limit(limit) => limit.to_string(),
        };
        format!("{} {} {limit}", self.name, self.operations)
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--list"] => {
            CASES.iter().for_each(|case| println!("{}", case.line()));
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
