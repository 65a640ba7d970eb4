//! Seeds, spread over threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use spinwire_core::sim::{Coverage, Failure, Scenario, run};

/// What is to be done.
pub struct Order {
    pub scenario: Scenario,
    pub from: u64,
    pub seeds: u64,
    pub jobs: usize,
    /// Wall time one seed may take.
    pub limit: Duration,
}

/// What was done.
pub struct Done {
    /// Seeds that were run.
    pub seeds: u64,
    pub took: Duration,
    pub coverage: Coverage,
    /// The first failure; nothing was begun after it.
    pub failure: Option<Failure>,
}

/// The seed a thread is at, and since when; told in milliseconds since the start, so that one word holds it.
#[derive(Default)]
struct Place {
    seed: AtomicU64,
    since: AtomicU64,
}

/// How often a person who waits is told.
const PROGRESS: Duration = Duration::from_secs(5);

/// Runs the seeds of `order` until the last, the first failure, or `stop`.
pub fn run_all(order: &Order, stop: &AtomicBool) -> Done {
    let start = Instant::now();
    let (next, done, busy) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(order.jobs as u64));
    let failed = AtomicBool::new(false);
    let sum = Mutex::new((Coverage::default(), None::<Failure>));
    let places: Vec<_> = (0..order.jobs).map(|_| Place::default()).collect();
    thread::scope(|scope| {
        for place in &places {
            let (next, done, busy, failed, sum) = (&next, &done, &busy, &failed, &sum);
            scope.spawn(move || {
                let mut coverage = Coverage::default();
                while !stop.load(Ordering::Relaxed) && !failed.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= order.seeds {
                        break;
                    }
                    let seed = order.from + index;
                    place.since.store(start.elapsed().as_millis() as u64, Ordering::Relaxed);
                    place.seed.store(seed, Ordering::Relaxed);
                    match run(order.scenario, seed) {
                        Ok(met) => coverage.add(&met),
                        Err(failure) => {
                            failed.store(true, Ordering::Relaxed);
                            let mut sum = sum.lock().expect("no thread panics while it holds the sum");
                            // Of two at the same time the earlier one.
                            if sum.1.as_ref().is_none_or(|other| other.seed > seed) {
                                sum.1 = Some(failure);
                            }
                        }
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
                // A thread that is through is not late.
                place.since.store(u64::MAX, Ordering::Relaxed);
                sum.lock().expect("as above").0.add(&coverage);
                busy.fetch_sub(1, Ordering::Release);
            });
        }
        watch(order, start, &places, &done, &busy);
    });
    let (coverage, failure) = sum.into_inner().expect("every thread is through");
    Done { seeds: done.into_inner(), took: start.elapsed(), coverage, failure }
}

/// Tells how far it is, and ends the process when a seed takes too long: its thread cannot be stopped.
fn watch(order: &Order, start: Instant, places: &[Place], done: &AtomicU64, busy: &AtomicU64) {
    let mut told = Instant::now();
    while busy.load(Ordering::Acquire) > 0 {
        thread::sleep(Duration::from_millis(20));
        let now = start.elapsed().as_millis() as u64;
        let late = places
            .iter()
            .find(|place| now.saturating_sub(place.since.load(Ordering::Relaxed)) > order.limit.as_millis() as u64);
        if let Some(place) = late {
            let (seed, limit) = (place.seed.load(Ordering::Relaxed), order.limit.as_secs());
            println!("FAILED {} seed {seed}: it did not end within {limit} s", order.scenario.name());
            std::process::exit(1);
        }
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            let count = done.load(Ordering::Relaxed);
            let rate = count as f64 / start.elapsed().as_secs_f64();
            eprintln!("ci/sim: {count} of {} seeds, {rate:.0} seeds/s", order.seeds);
        }
    }
}
