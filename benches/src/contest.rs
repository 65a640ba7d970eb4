//! One contest: contestants in rotating order, rounds within passes, and the medians.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use crate::window::{self, Dropped};

/// What one window gave.
#[derive(Clone, Debug)]
pub struct Sample {
    /// How long it was.
    pub elapsed: Duration,
    /// Nanoseconds, one for each metric of the contest; NaN for what this contestant cannot tell.
    pub ns: Vec<f64>,
}

impl Sample {
    /// `count` things in `elapsed`, for a contest of one metric.
    pub fn per_item(elapsed: Duration, count: u64) -> Self {
        Sample { elapsed, ns: vec![elapsed.as_nanos() as f64 / count as f64] }
    }

    /// Median and 99th percentile of single times in ticks, for a contest with the metrics `p50` and `p99`.
    ///
    /// Some processors count ticks in steps of 10 ns, which is much beside a round trip. So the median is taken as the
    /// mean of the middle half, and the 99th percentile as the mean of what lies half a percent around it.
    ///
    /// # Panics
    /// If there are none.
    pub fn percentiles(elapsed: Duration, ticks: Vec<u32>) -> Self {
        Sample::bands(elapsed, ticks, &[(2_500, 7_500), (9_850, 9_950)])
    }

    /// The same for a contest with the metrics `p50`, `p99` and `p99.9`; the last is the mean of what lies a twentieth of a
    /// percent around it.
    ///
    /// # Panics
    /// If there are none.
    pub fn percentiles_and_tail(elapsed: Duration, ticks: Vec<u32>) -> Self {
        Sample::bands(elapsed, ticks, &[(2_500, 7_500), (9_850, 9_950), (9_985, 9_995)])
    }

    /// The means between ranks, which are in ten-thousandths.
    fn bands(elapsed: Duration, mut ticks: Vec<u32>, ranks: &[(usize, usize)]) -> Self {
        ticks.sort_unstable();
        let mean = |&(from, to): &(usize, usize)| {
            let at = |rank| ticks.len() * rank / 10_000;
            let some = &ticks[at(from)..at(to).max(at(from) + 1)];
            some.iter().map(|&ticks| f64::from(ticks)).sum::<f64>() / some.len() as f64
        };
        Sample { elapsed, ns: ranks.iter().map(|band| mean(band) * window::ns_per_tick()).collect() }
    }
}

type Window<'a> = Box<dyn FnMut(u64) -> Result<Sample, Dropped> + 'a>;

/// One that takes part.
pub struct Contestant<'a> {
    pub(crate) name: &'static str,
    window: Window<'a>,
}

impl<'a> Contestant<'a> {
    /// Work for one thread. `work` is called with how many times it has to do the thing that is measured.
    pub fn new(name: &'static str, mut work: impl FnMut(u64) + 'a) -> Self {
        Contestant::windows(name, move |times| Ok(Sample::per_item(window::single(|| work(times))?, times)))
    }

    /// The same for work on what a near cache may have lost to the other contestants since: each window begins with `round`
    /// times that are not measured.
    pub fn warmed(name: &'static str, round: u64, mut work: impl FnMut(u64) + 'a) -> Self {
        Contestant::windows(name, move |times| {
            work(round);
            Ok(Sample::per_item(window::single(|| work(times))?, times))
        })
    }

    /// Work that measures itself, in windows of its own: given how many times it has to do the thing.
    pub fn windows(name: &'static str, window: impl FnMut(u64) -> Result<Sample, Dropped> + 'a) -> Self {
        Contestant { name, window: Box::new(window) }
    }

    /// One window whose figures nobody wants: only that it works.
    pub(crate) fn once(&mut self, times: u64) {
        if let Ok(sample) = (self.window)(times) {
            // What a contestant cannot tell is not a number.
            let is_figure = |ns: &f64| ns.is_finite() && *ns >= 0.0;
            assert!(sample.ns.iter().all(|ns| ns.is_nan() || is_figure(ns)), "figures are figures: {sample:?}");
            assert!(sample.ns.iter().any(is_figure), "there is a figure: {sample:?}");
        }
    }

    /// One window that counts. Dropped ones are done again, but not for ever: after [`RETRIES`] the window is given up,
    /// and after [`PATIENCE`] given up in a contest each is tried once. CPUs that were moved stay there for a while, so
    /// each further try waits longer.
    pub(crate) fn sample(&mut self, times: u64, tally: &mut Tally) -> Option<Sample> {
        for retry in 0..if tally.given_up < PATIENCE { RETRIES } else { 1 } {
            match (self.window)(times) {
                Ok(sample) => {
                    tally.kept += 1;
                    return Some(sample);
                }
                Err(Dropped::Failed) => {
                    tally.failed += 1;
                    return None;
                }
                Err(Dropped::Switched) => tally.switched += 1,
                Err(Dropped::Moved) => {
                    tally.moved += 1;
                    thread::sleep(PAUSE * retry);
                }
            }
        }
        tally.given_up += 1;
        None
    }

    /// How many times fill a window of `length`.
    pub(crate) fn times_in(&mut self, length: Duration, tally: &mut Tally) -> u64 {
        let mut times = FEWEST;
        while let Some(Sample { elapsed, .. }) = self.sample(times, tally) {
            if elapsed * 4 >= length {
                let fitting = times as f64 * length.as_secs_f64() / elapsed.as_secs_f64();
                return (fitting as u64).max(FEWEST);
            }
            times *= 2;
        }
        times
    }
}

/// Windows counted, and those that were not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Counted.
    pub kept: u64,
    /// Dropped: [`Dropped::Switched`].
    pub switched: u64,
    /// Dropped: [`Dropped::Moved`].
    pub moved: u64,
    /// Not measured: [`Dropped::Failed`].
    pub failed: u64,
    /// Not measured at all: every repetition was dropped.
    pub given_up: u64,
}

impl Tally {
    /// Adds those of a contest.
    pub fn add(&mut self, other: Tally) {
        self.kept += other.kept;
        self.switched += other.switched;
        self.moved += other.moved;
        self.failed += other.failed;
        self.given_up += other.given_up;
    }
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Passes over the contest. Their medians are compared.
    pub passes: usize,
    /// Rounds in a pass. In each round every contestant has one window.
    pub rounds: usize,
    /// Length of a window.
    pub window: Duration,
}

impl Effort {
    /// What a comparison takes.
    pub const FULL: Effort = Effort { passes: 5, rounds: 9, window: window::LENGTH };
    /// To see whether things work. Its ratios mean nothing.
    pub const QUICK: Effort = Effort { passes: 1, rounds: 1, window: Duration::from_micros(50) };
}

/// For each contestant, by its place in the contest, the median of each pass: `ns[metric][pass]`.
pub type Results = Vec<Vec<Vec<f64>>>;

/// Runs the contest; `tally` is its own. A contestant whose windows were all given up in some pass has a NaN there.
pub fn run(contestants: &mut [Contestant<'_>], metrics: usize, effort: Effort, tally: &mut Tally) -> Results {
    let times: Vec<u64> = contestants.iter_mut().map(|each| each.times_in(effort.window, tally)).collect();
    let mut results = vec![vec![Vec::new(); metrics]; contestants.len()];
    for pass in 0..effort.passes {
        let mut seen: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        for round in 0..effort.rounds {
            for turn in 0..contestants.len() {
                let who = (pass + round + turn) % contestants.len();
                let Some(sample) = contestants[who].sample(times[who], tally) else { continue };
                assert_eq!(sample.ns.len(), metrics, "{} gives a figure for each metric", contestants[who].name);
                for (metric, ns) in sample.ns.into_iter().enumerate() {
                    seen.entry((who, metric)).or_default().push(ns);
                }
            }
        }
        for (who, result) in results.iter_mut().enumerate() {
            for (metric, passes) in result.iter_mut().enumerate() {
                passes.push(seen.get_mut(&(who, metric)).map_or(f64::NAN, |ns| median(ns)));
            }
        }
    }
    results
}

/// The middle one; of an even number, the lower of the two.
///
/// # Panics
/// If there are none.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}

/// How often a window is tried. With the pauses that is up to two seconds.
const RETRIES: u32 = 40;
/// Windows given up in a contest before it is hurried.
const PATIENCE: u64 = 10;
const PAUSE: Duration = Duration::from_millis(2);
/// Times in a window at least.
const FEWEST: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    const EFFORT: Effort = Effort { passes: 2, rounds: 3, window: Duration::from_nanos(1) };

    #[test]
    fn the_order_rotates_and_everyone_has_one_window_a_round() {
        let order = RefCell::new(Vec::new());
        let contestant = |name| {
            let order = &order;
            Contestant::windows(name, move |_| {
                order.borrow_mut().push(name);
                Ok(Sample { elapsed: Duration::from_nanos(1), ns: vec![1.0] })
            })
        };
        run(&mut [contestant("a"), contestant("b"), contestant("c")], 1, EFFORT, &mut Tally::default());
        // First the three calibrations.
        assert_eq!(order.borrow()[3..].concat(), "abcbcacabbcacababc");
    }

    #[test]
    fn dropped_windows_are_done_again_and_counted() {
        let mut calls = 0;
        let contestant = Contestant::windows("shaky", move |_| {
            calls += 1;
            match calls % 3 {
                1 => Err(Dropped::Switched),
                2 => Err(Dropped::Moved),
                _ => Ok(Sample { elapsed: Duration::from_nanos(1), ns: vec![7.0] }),
            }
        });
        let mut tally = Tally::default();
        let results = run(&mut [contestant], 1, EFFORT, &mut tally);
        assert_eq!(results, [[[7.0, 7.0]]]);
        assert_eq!(tally, Tally { kept: 7, switched: 7, moved: 7, ..Tally::default() });
    }

    #[test]
    fn percentiles_are_finer_than_the_steps_of_the_stamp() {
        let ticks = (0..1000).map(|n| if n % 3 == 0 { 120 } else { 100 }).chain([5000; 4]).collect();
        let sample = Sample::percentiles(Duration::ZERO, ticks);
        let in_ticks = sample.ns.iter().map(|ns| (ns / window::ns_per_tick()).round()).collect::<Vec<_>>();
        assert_eq!(in_ticks, [103.0, 120.0]);
    }

    #[test]
    fn a_window_that_failed_is_not_tried_again_and_the_others_count() {
        let mut calls = 0;
        let contestant = Contestant::windows("frail", move |_| {
            calls += 1;
            if calls % 3 == 0 { Err(Dropped::Failed) } else { Ok(Sample::per_item(Duration::from_nanos(1), 1)) }
        });
        let mut tally = Tally::default();
        let results = run(&mut [contestant], 1, EFFORT, &mut tally);
        assert_eq!(results, [[[1.0, 1.0]]]);
        assert_eq!(tally, Tally { kept: 5, failed: 2, ..Tally::default() });
    }

    #[test]
    fn a_window_that_is_always_dropped_is_given_up() {
        let mut tally = Tally::default();
        let results = run(&mut [Contestant::windows("never", |_| Err(Dropped::Switched))], 1, EFFORT, &mut tally);
        assert!(results[0][0].iter().all(|ns| ns.is_nan()));
        assert_eq!((tally.kept, tally.given_up), (0, 7));
    }
}
