//! Runs a seed and says what became of it.

use std::any::Any;
use std::cell::RefCell;
use std::format;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::string::{String, ToString};
use std::sync::Once;

use super::coverage::Coverage;
use super::record::{self, Trace};
use super::scenario::Scenario;

/// A run in which something did not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} seed {seed}: {message} ({place})", .scenario.name())]
pub struct Failure {
    /// The scenario.
    pub scenario: Scenario,
    /// The seed, which replays it.
    pub seed: u64,
    /// What did not hold.
    pub message: String,
    /// The line that saw it.
    pub place: String,
}

std::thread_local! {
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs the world of `seed`, and says what it met.
///
/// # Errors
/// Something did not hold.
pub fn run(scenario: Scenario, seed: u64) -> Result<Coverage, Failure> {
    play(scenario, seed, false).0
}

/// Runs the world of `seed` with a trace of all that happens. The same seed gives the same trace, bit for bit.
pub fn replay(scenario: Scenario, seed: u64) -> (Result<Coverage, Failure>, Trace) {
    play(scenario, seed, true)
}

fn play(scenario: Scenario, seed: u64, traced: bool) -> (Result<Coverage, Failure>, Trace) {
    watch_panics();
    record::start(traced);
    let outcome = catch_unwind(AssertUnwindSafe(|| scenario.play(seed)));
    let (coverage, trace) = record::finish();
    let result = outcome.map(|()| coverage).map_err(|payload| Failure {
        scenario,
        seed,
        message: message_of(&*payload),
        place: PLACE.take(),
    });
    (result, trace)
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".into())
}

/// The panics of a run are noted, not printed; all others are as before.
fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(std::boxed::Box::new(move |info| {
            if !record::is_running() {
                return others(info);
            }
            let place = info.location().map_or(String::new(), |place| format!("{}:{}", place.file(), place.line()));
            PLACE.set(place);
        }));
    });
}
