//! Shows that the simulator finds faults: each of `table.txt` is put into a copy of the core, and has to be found within
//! 1,000 seeds. `cargo run -p spinwire-core --example mutations [WORD]`; with WORD only those with it in their name.

mod table;
mod workshop;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use table::Mutation;
use workshop::{Verdict, Workshop};

/// Within so many seeds a mutation has to be found.
const SEEDS: u32 = 1_000;

fn main() -> ExitCode {
    let word = std::env::args().nth(1).unwrap_or_default();
    let mut mutations = match table::parse(include_str!("table.txt")) {
        Ok(mutations) => mutations,
        Err(error) => return fail(&format!("table.txt: {error}")),
    };
    mutations.retain(|mutation| mutation.name.contains(&word));
    // The core as it is comes first: if something were found there, it would be found in every mutation too.
    mutations.insert(0, Mutation::none());
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(0));
    let jobs = thread::available_parallelism().map_or(1, |n| n.get()).min(mutations.len());
    thread::scope(|scope| {
        for job in 0..jobs {
            let (mutations, next, failed) = (&mutations, &next, &failed);
            scope.spawn(move || {
                let workshop = Workshop::new(job);
                while let Some(mutation) = mutations.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let start = Instant::now();
                    let verdict = match &workshop {
                        Ok(workshop) => workshop.examine(mutation, SEEDS),
                        Err(error) => Verdict::Broken(format!("no copy of the core could be made: {error}")),
                    };
                    let fine = if mutation.is_none() { verdict == Verdict::NotFound } else { verdict.is_found() };
                    let (word, seconds) = (if fine { "ok" } else { "FAILED" }, start.elapsed().as_secs());
                    println!("{word:<6} {seconds:>3} s  {}\n              {verdict}", mutation.name);
                    *failed.lock().expect("no thread panics while it counts") += u32::from(!fine);
                }
            });
        }
    });
    let failed = failed.into_inner().expect("every thread is through");
    println!("\n{} passed, {failed} failed", mutations.len() as u32 - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn fail(text: &str) -> ExitCode {
    eprintln!("mutations: {text}");
    ExitCode::FAILURE
}
