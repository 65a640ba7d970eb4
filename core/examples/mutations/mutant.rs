//! Looks for a world in which a mutated core does not hold: small and full ones in turns, so many seeds in all.

use std::process::ExitCode;

use spinwire_core::sim::{Scenario, run};

fn main() -> ExitCode {
    let seeds = std::env::args().nth(1).and_then(|text| text.parse().ok()).expect("a number of seeds");
    for number in 0..seeds {
        let scenario = [Scenario::Small, Scenario::Full][number as usize % 2];
        if let Err(failure) = run(scenario, number / 2) {
            println!("after {} seeds: {}", number + 1, failure.message.lines().next().unwrap_or_default());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
