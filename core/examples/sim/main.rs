//! `ci/sim`: worlds of the simulator by the thousand, or one again with its whole story.

mod report;
mod work;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use spinwire_core::sim::{Scenario, replay};

/// Runs engines on a seeded network on virtual time, with faults, and checks that nothing is lost, doubled, leaked or stuck.
///
/// Its help is a file of its own, so that `ci/sim --help` prints it without building first.
#[derive(Debug, Parser)]
#[command(name = "ci/sim", override_help = include_str!("help.txt"))]
struct Args {
    /// How many seeds to run
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// Threads [default: one for each core]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: Option<u64>,
    /// small: two machines; full: three to five, every fault; many: dozens of machines and connections
    #[arg(long, value_enum, default_value_t = Name::Full)]
    scenario: Name,
    /// Run one seed again and print all that happens
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "from", "jobs", "require_coverage"])]
    replay: Option<u64>,
    /// Fail if a row of the transition table, or a fault, was never met
    #[arg(long)]
    require_coverage: bool,
    /// Seconds of wall time one seed may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    Small,
    Full,
    Many,
}

impl From<Name> for Scenario {
    fn from(name: Name) -> Self {
        match name {
            Name::Small => Scenario::Small,
            Name::Full => Scenario::Full,
            Name::Many => Scenario::Many,
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let scenario = Scenario::from(args.scenario);
    if let Some(seed) = args.replay {
        return replay_one(scenario, seed, args.json);
    }
    if args.from.checked_add(args.seeds).is_none() {
        eprintln!("ci/sim: {} seeds from {} on do not fit into 64 bits", args.seeds, args.from);
        return ExitCode::from(2);
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // Twice is for those in a hurry.
        let twice = signal_hook::flag::register_conditional_shutdown(signal, 130, interrupted.clone());
        if let Err(error) = twice.and_then(|_| signal_hook::flag::register(signal, interrupted.clone())) {
            eprintln!("ci/sim: cannot watch for signal {signal}: {error}");
            return ExitCode::from(2);
        }
    }
    let jobs =
        args.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()), |jobs| jobs as usize);
    let order =
        work::Order { scenario, from: args.from, seeds: args.seeds, jobs, limit: Duration::from_secs(args.limit) };
    let done = work::run_all(&order, &interrupted);
    if args.json {
        report::json(&order, &done)
    } else {
        report::text(&order, &done)
    }
    if done.failure.is_some() {
        return ExitCode::FAILURE;
    }
    if interrupted.load(Ordering::Relaxed) {
        eprintln!("ci/sim: interrupted");
        return ExitCode::from(130);
    }
    if args.require_coverage && report::uncovered(&done.coverage).next().is_some() {
        eprintln!("ci/sim: not everything was met, and --require-coverage was given");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn replay_one(scenario: Scenario, seed: u64, json: bool) -> ExitCode {
    let (result, trace) = replay(scenario, seed);
    if json {
        let failure = result.as_ref().err().map(report::failure_json);
        println!(
            "{}",
            serde_json::json!({ "seed": seed, "hash": format!("{:016x}", trace.hash()), "failure": failure, "trace": trace.lines })
        );
    } else {
        report::print_lines(&trace.lines);
        let end = match &result {
            Ok(_) => format!("seed {seed}: everything held"),
            Err(failure) => format!("FAILED {failure}"),
        };
        report::print_lines(&[format!("{} lines, hash {:016x}", trace.lines.len(), trace.hash()), end]);
    }
    if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_help_names_every_option_with_its_default() {
        let help = include_str!("help.txt");
        for argument in Args::command().get_arguments() {
            let option = format!("--{}", argument.get_long().expect("only long options"));
            let line = help.lines().find(|line| line.trim_start().starts_with(&option));
            let line = line.unwrap_or_else(|| panic!("{option} is missing"));
            for default in argument.get_default_values().iter().filter(|_| argument.get_action().takes_values()) {
                assert!(line.contains(&format!("({})", default.to_string_lossy())), "{option}: {default:?}");
            }
        }
    }
}
