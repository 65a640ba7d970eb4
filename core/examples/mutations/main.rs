//! Shows that the tests find faults: each of `simulator.txt` and `rings.txt` is put into a copy of the core, and has to be
//! found, by the simulator within 1,000 seeds, or by the model checker in the test that is named.
//!
//! `cargo run -p spinwire-core --example mutations [WORD]`; with WORD only those with it in their name.

mod subject;
mod table;
mod workshop;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use subject::Subject;
use workshop::{Verdict, Workshop};

fn main() -> ExitCode {
    let word = std::env::args().nth(1).unwrap_or_default();
    let (mut passed, mut failed) = (0, 0);
    for subject in Subject::ALL {
        match examine(subject, &word) {
            Ok((these_passed, these_failed)) => {
                passed += these_passed;
                failed += these_failed;
            }
            Err(error) => {
                eprintln!("mutations: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("\n{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Looks at all faults of a table with `word` in their name, and says how many passed and failed.
fn examine(subject: Subject, word: &str) -> Result<(usize, usize), String> {
    let mut mutations = subject.mutations()?;
    mutations.retain(|mutation| mutation.is_none() || mutation.name.contains(word));
    if mutations.len() == 1 {
        return Ok((0, 0));
    }
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(0));
    let jobs = thread::available_parallelism().map_or(1, |n| n.get()).min(mutations.len());
    thread::scope(|scope| {
        for job in 0..jobs {
            let (mutations, next, failed) = (&mutations, &next, &failed);
            scope.spawn(move || {
                let workshop = Workshop::new(subject, job);
                while let Some(mutation) = mutations.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let start = Instant::now();
                    let verdict = match &workshop {
                        Ok(workshop) => workshop.examine(mutation),
                        Err(error) => Verdict::Broken(format!("no copy of the core could be made: {error}")),
                    };
                    let fine = if mutation.is_none() { verdict == Verdict::NotFound } else { verdict.is_found() };
                    let (word, seconds) = (if fine { "ok" } else { "FAILED" }, start.elapsed().as_secs());
                    println!("{word:<6} {seconds:>3} s  {}\n              {verdict}", mutation.name);
                    *failed.lock().expect("no thread panics while it counts") += usize::from(!fine);
                }
            });
        }
    });
    let failed = failed.into_inner().expect("every thread is through");
    Ok((mutations.len() - failed, failed))
}
