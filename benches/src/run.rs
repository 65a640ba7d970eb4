//! A bench's arguments, and what is done with its contests.

use std::fmt::Write as _;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use criterion::Criterion;
use serde_json::{Value, json};

use crate::arguments::{Compare, Mode};
use crate::contest::{self, Contestant, Effort, Tally};
use crate::cores::Cores;
use crate::limits::Limit;
use crate::report::{self, Outcome, Placement};
use crate::summary;
use crate::sys;
use crate::window::{self, Pinned};

/// Runs a bench as its arguments say. `contests` calls [`Run::single`] and [`Run::contest`] for what it has.
///
/// | arguments | what happens |
/// |---|---|
/// | `--bench`, as `cargo bench` gives | criterion measures each contestant by itself; its own arguments are taken |
/// | `--compare` | contestants in rotating order; the table; status 1 if a limit does not hold |
/// | none, as `cargo test` gives, or `--test` | everything once, with little work; no figure is taken |
///
/// With `--compare` go `--quick`, `--passes N`, `--rounds N`, `--apart` or `--near` (contests of two CPUs wait up to a
/// minute until these are that), `--json`, and a part of a contest's name.
/// `SPINWIRE_CORES=0,1` names the CPUs.
pub fn main(bench: &'static str, contests: impl FnOnce(&mut Run)) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mode = Mode::parse(&arguments).unwrap_or_else(|wrong| refuse(&wrong));
    let cores = Cores::named().unwrap_or_else(|wrong| refuse(&wrong));
    cores.pin(0);
    let mut run = Run {
        title: String::new(),
        cores,
        pinned: None,
        mode,
        outcomes: Vec::new(),
        skipped: Vec::new(),
        tally: Tally::default(),
        started: Instant::now(),
    };
    // For contests of one thread. A test has no figures to protect.
    let priority = match &run.mode {
        Mode::Test => "",
        _ if sys::undisturbed() => ", real-time priority",
        _ => ", no real-time priority (as root there is)",
    };
    run.title = format!("{bench}: {}{priority}", run.cores.machine());
    run.say(&run.title);
    contests(&mut run);
    run.finish(bench)
}

fn refuse(wrong: &str) -> ! {
    eprintln!("bench: {wrong}");
    process::exit(2)
}

/// A bench at work.
pub struct Run {
    /// The bench, the machine, and with which priority.
    title: String,
    cores: Cores,
    /// For the next contest, if it is one of several threads.
    pinned: Option<Arc<Pinned>>,
    mode: Mode,
    outcomes: Vec<Outcome>,
    skipped: Vec<(String, String)>,
    tally: Tally,
    started: Instant,
}

impl Run {
    /// A contest of one thread, on the first CPU. Ours comes first. The figure is the time for one thing done.
    pub fn single(&mut self, name: &str, limits: &[Limit], contestants: &mut [Contestant<'_>]) {
        self.contest(name, &["each"], limits, contestants);
    }

    /// A contest whose windows give one figure for each of `metrics`. Ours comes first.
    pub fn contest(
        &mut self,
        name: &str,
        metrics: &[&'static str],
        limits: &[Limit],
        contestants: &mut [Contestant<'_>],
    ) {
        let (pinned, mut tally) = (self.pinned.take(), Tally::default());
        match &mut self.mode {
            Mode::Criterion(criterion) => estimate(criterion, name, contestants, &mut tally),
            Mode::Test => {
                for contestant in contestants {
                    println!("Testing {name}/{}", contestant.name);
                    contestant.once(TEST_TIMES);
                    println!("Success");
                }
            }
            Mode::Compare(compare) if !name.contains(&compare.only) => {}
            Mode::Compare(compare) => {
                eprintln!("{name} ...");
                let Compare { passes, rounds, window, json, .. } = *compare;
                let results = contest::run(contestants, metrics.len(), Effort { passes, rounds, window }, &mut tally);
                let names: Vec<_> = contestants.iter().map(|contestant| contestant.name).collect();
                let mut outcome = Outcome::new(name, metrics, &names, limits, (results, tally));
                outcome.placement = pinned.map(|pinned| Placement {
                    words: pinned.class(),
                    place: pinned.place(),
                    bare_ns: pinned.usual_ns(),
                });
                if !json {
                    println!("{}", outcome.table());
                }
                self.outcomes.push(outcome);
            }
        }
        self.tally.add(tally);
    }

    /// Whether a contest of that name is wanted, for those that are costly to prepare.
    pub fn wants(&self, name: &str) -> bool {
        !matches!(&self.mode, Mode::Compare(compare) if !name.contains(&compare.only))
    }

    /// Whether figures are taken. If not, everything is only done once, to see that it works.
    pub fn measures(&self) -> bool {
        !matches!(self.mode, Mode::Test)
    }

    /// Notes that somebody does not take part, so that nobody takes a contest for one against all.
    pub fn skip(&mut self, contestant: &str, reason: &str) {
        self.say(&format!("skipped: {contestant}: {reason}"));
        self.skipped.push((contestant.to_owned(), reason.to_owned()));
    }

    /// For the next contest, which is one of several threads: looks afresh how far the CPUs are apart, because a
    /// hypervisor moves them, and the windows of one contest have to agree. Ends the process with status 2 where there
    /// are not two CPUs, or where they do not come to be where they are wanted.
    pub fn pinned(&mut self) -> Arc<Pinned> {
        let look = || Arc::new(Pinned::survey(&self.cores).unwrap_or_else(|wrong| refuse(&wrong)));
        let mut pinned = look();
        if let Mode::Compare(Compare { place: Some(place), .. }) = self.mode {
            let start = Instant::now();
            while pinned.place() != place {
                if start.elapsed() > PLACED_WITHIN {
                    refuse(&format!("--{place}: {}, and that did not change in {PLACED_WITHIN:?}", pinned.class()));
                }
                thread::sleep(Duration::from_millis(100));
                pinned = look();
            }
        }
        self.pinned.insert(pinned).clone()
    }

    /// What is no figure goes to standard error when standard output is for a program.
    fn say(&self, line: &str) {
        match &self.mode {
            Mode::Compare(Compare { json: true, .. }) => eprintln!("{line}"),
            _ => println!("{line}"),
        }
    }

    /// What takes several contests to say, on one screen: the machine, the figures, who is missing, which limits do not hold.
    /// Empty after one contest.
    fn look(&self) -> String {
        let mut text = summary::tables(&self.outcomes);
        if text.is_empty() {
            return text;
        }
        text = format!("{}\n{text}\n", self.title);
        for (who, reason) in &self.skipped {
            let _ = writeln!(text, "skipped: {who}: {reason}");
        }
        for outcome in &self.outcomes {
            for verdict in outcome.verdicts().iter().filter(|verdict| verdict.holds() != Some(true)) {
                let _ = writeln!(text, "{}: {} {verdict}", verdict.word(), outcome.name());
            }
        }
        text
    }

    fn finish(self, bench: &str) -> ExitCode {
        let look = self.look();
        let compare = match self.mode {
            Mode::Compare(compare) => compare,
            Mode::Criterion(criterion) => {
                criterion.final_summary();
                println!("{}", report::windows(self.tally));
                return ExitCode::SUCCESS;
            }
            Mode::Test => return ExitCode::SUCCESS,
        };
        let verdicts = || self.outcomes.iter().flat_map(Outcome::verdicts);
        let count = |holds| verdicts().filter(|verdict| verdict.holds() == holds).count();
        let [ok, over, not_judged] = [Some(true), Some(false), None].map(count);
        if self.outcomes.is_empty() {
            refuse(&format!("no contest has `{}` in its name", compare.only));
        }
        if compare.json {
            let skipped = self.skipped.iter().map(|(who, reason)| json!({ "contestant": who, "reason": reason }));
            let all = json!({
                "bench": bench,
                "machine": self.cores.machine(),
                "passes": compare.passes,
                "rounds": compare.rounds,
                "window_us": compare.window.as_micros() as u64,
                "contests": self.outcomes.iter().map(Outcome::json).collect::<Vec<Value>>(),
                "skipped": skipped.collect::<Vec<_>>(),
                "windows": report::tally_json(self.tally),
                "limits": { "ok": ok, "over": over, "not_judged": not_judged },
            });
            println!("{all}");
        } else {
            print!("{look}");
            println!(
                "{bench}: {ok} limits ok, {over} over, {not_judged} not judged; {} contestants skipped; {} passes of {} \
                 rounds, {} s\n{}",
                self.skipped.len(),
                compare.passes,
                compare.rounds,
                self.started.elapsed().as_secs(),
                report::windows(self.tally)
            );
        }
        if over == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Each contestant by itself, in windows that are as short and as strict as in a comparison.
fn estimate(criterion: &mut Criterion, name: &str, contestants: &mut [Contestant<'_>], tally: &mut Tally) {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(20).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    for contestant in contestants {
        let (mut fitting, mut trial) = (None, Tally::default());
        group.bench_function(contestant.name, |bencher| {
            bencher.iter_custom(|times| {
                let fitting = *fitting.get_or_insert_with(|| contestant.times_in(window::LENGTH, &mut trial));
                let (mut left, mut elapsed) = (times, Duration::ZERO);
                while left > 0 {
                    let part = left.min(fitting);
                    let sample = contestant.sample(part, tally);
                    let ns = sample.expect("a window was dropped each time; is this machine busy?").ns[0];
                    elapsed += Duration::from_nanos((ns * part as f64) as u64);
                    left -= part;
                }
                elapsed
            });
        });
    }
    group.finish();
}

/// How long `--apart` and `--near` wait.
const PLACED_WITHIN: Duration = Duration::from_secs(60);
/// Things a contestant does in a test.
const TEST_TIMES: u64 = 1000;
