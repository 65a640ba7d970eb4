//! The outcome of contests: as a table, and as JSON.

use std::fmt::{self, Write as _};

use serde_json::{Value, json};

use crate::contest::{Results, Tally, median};
use crate::limits::{BARE, BEST_PEER, Limit, Ratio};
use crate::window::Place;

/// The outcome of one contest.
#[derive(Debug)]
pub struct Outcome {
    name: String,
    metrics: Vec<&'static str>,
    contestants: Vec<&'static str>,
    results: Results,
    verdicts: Vec<Verdict>,
    tally: Tally,
    /// If it matters.
    pub(crate) placement: Option<Placement>,
}

/// Where the CPUs of a contest were.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    pub words: String,
    pub place: Place,
    /// A bare round trip of a cache line between them.
    pub bare_ns: f64,
}

/// Whether a limit holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    metric: &'static str,
    limit: Ratio,
    /// The contestant compared with, or the one asked for if it did not take part.
    of: String,
    /// The median over the passes; `None` if there was nothing to compare with.
    ratio: Option<f64>,
}

impl Verdict {
    /// `None`: not judged.
    pub fn holds(&self) -> Option<bool> {
        self.ratio.map(|ratio| self.limit.allows(ratio))
    }

    /// `ok`, `OVER` or `not judged`.
    pub(crate) fn word(&self) -> &'static str {
        match self.holds() {
            Some(true) => "ok",
            Some(false) => "OVER",
            None => "not judged",
        }
    }
}

/// `p50: time 1.31 x bare, at most 1.30`.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, word, limit) = match self.limit {
            Ratio::TimeAtMost(limit) => ("time", "at most", limit),
            Ratio::RateAtLeast(limit) => ("rate", "at least", limit),
        };
        let ratio = self.ratio.map_or("none".into(), |ratio| format!("{ratio:.2}"));
        let Verdict { metric, of, .. } = self;
        write!(f, "{metric}: {kind} {ratio} x {of}, {word} {limit:.2}")
    }
}

impl Outcome {
    /// Compares the first contestant with the others.
    pub fn new(
        name: &str,
        metrics: &[&'static str],
        contestants: &[&'static str],
        limits: &[Limit],
        (results, tally): (Results, Tally),
    ) -> Self {
        let mut outcome = Outcome {
            name: name.to_owned(),
            metrics: metrics.to_vec(),
            contestants: contestants.to_vec(),
            results,
            verdicts: Vec::new(),
            tally,
            placement: None,
        };
        outcome.verdicts = limits.iter().map(|limit| outcome.judge(limit)).collect();
        outcome
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn metrics(&self) -> &[&'static str] {
        &self.metrics
    }

    pub(crate) fn contestants(&self) -> &[&'static str] {
        &self.contestants
    }

    /// One for each limit.
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    fn judge(&self, limit: &Limit) -> Verdict {
        let metric = match limit.metric {
            "" => 0,
            name => self.metrics.iter().position(|&metric| metric == name).expect("a limit is on a metric there is"),
        };
        let other = match limit.of {
            BEST_PEER => self.best_peer(metric),
            name => self.contestants.iter().position(|&contestant| contestant == name),
        };
        let ratio = other.map(|other| self.ratio(limit.ratio, metric, other)).filter(|ratio| ratio.is_finite());
        let of = match (limit.of, other) {
            (BEST_PEER, Some(other)) => format!("{} ({BEST_PEER})", self.contestants[other]),
            (name, _) => name.to_owned(),
        };
        Verdict { metric: self.metrics[metric], limit: limit.ratio, of, ratio }
    }

    /// Of each pass by itself, because what disturbs a pass disturbs all contestants in it; then the median.
    fn ratio(&self, counted: Ratio, metric: usize, other: usize) -> f64 {
        let passes = self.results[0][metric].iter().zip(&self.results[other][metric]);
        median(&mut passes.map(|(&ours, &theirs)| counted.of_times(ours, theirs)).collect::<Vec<_>>())
    }

    /// Our time divided by another's.
    pub(crate) fn times(&self, metric: usize, other: usize) -> f64 {
        self.ratio(Ratio::TimeAtMost(0.0), metric, other)
    }

    /// The median of the passes.
    pub(crate) fn ns(&self, who: usize, metric: usize) -> f64 {
        median(&mut self.results[who][metric].clone())
    }

    fn best_peer(&self, metric: usize) -> Option<usize> {
        let is_peer = |&who: &usize| !self.contestants[who].starts_with(OURS) && self.contestants[who] != BARE;
        (0..self.contestants.len())
            .filter(is_peer)
            .filter(|&who| self.ns(who, metric).is_finite())
            .min_by(|&a, &b| self.ns(a, metric).total_cmp(&self.ns(b, metric)))
    }

    /// The table, and a line for each limit.
    pub fn table(&self) -> String {
        let mut text = self.name.clone();
        if let Some(placement) = &self.placement {
            let _ = write!(text, " ({})", placement.words);
        }
        text.push('\n');
        let metrics: Vec<usize> = (0..self.metrics.len()).collect();
        for beside in metrics.chunks(if metrics.len() > BESIDE { 1 } else { BESIDE }) {
            self.block(beside, &mut text);
        }
        for verdict in &self.verdicts {
            let _ = writeln!(text, "  {:10} {verdict}", verdict.word());
        }
        let Tally { switched, moved, failed, given_up, .. } = self.tally;
        if switched + moved + failed + given_up > 0 {
            let _ = writeln!(text, "  {}", windows(self.tally));
        }
        text
    }

    /// The figures of some metrics, beside each other.
    fn block(&self, metrics: &[usize], text: &mut String) {
        let _ = write!(text, "  {:24}", "");
        for &metric in metrics {
            let _ = write!(
                text,
                "{:>10} ns  {:>18}  {:>8}  {:>8}",
                self.metrics[metric], "lowest..highest", "M/s", "ours is"
            );
        }
        text.push('\n');
        for (who, contestant) in self.contestants.iter().enumerate() {
            let _ = write!(text, "  {contestant:24}");
            for &metric in metrics {
                let (lowest, highest) = spread(&self.results[who][metric]);
                let (ns, time) = (self.ns(who, metric), self.times(metric, who));
                if !ns.is_finite() {
                    let _ = write!(text, "{:>13}  {:>18}  {:>8}  {:>6}  ", "none", "", "", "");
                    continue;
                }
                let (range, rate) = (format!("{lowest:.2}..{highest:.2}"), rate(1e3 / ns));
                let _ = write!(text, "{ns:>13.2}  {range:>18}  {rate:>8}  {time:>6.2} x");
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
    }

    /// The same for programs. Times in ns, a list with one for each pass.
    pub fn json(&self) -> Value {
        let contestants = self.contestants.iter().enumerate().map(|(who, contestant)| {
            let metrics = self.metrics.iter().enumerate().map(|(metric, name)| {
                ((*name).to_owned(), json!({ "ns": self.ns(who, metric), "passes": self.results[who][metric] }))
            });
            json!({ "name": contestant, "metrics": metrics.collect::<serde_json::Map<_, _>>() })
        });
        let verdicts = self.verdicts.iter().map(|verdict| {
            let (kind, limit) = match verdict.limit {
                Ratio::TimeAtMost(limit) => ("time_at_most", limit),
                Ratio::RateAtLeast(limit) => ("rate_at_least", limit),
            };
            let Verdict { metric, of, ratio, .. } = verdict;
            json!({ "metric": metric, "of": of, kind: limit, "ratio": ratio, "result": verdict.word() })
        });
        json!({
            "contest": self.name,
            "contestants": contestants.collect::<Vec<_>>(),
            "limits": verdicts.collect::<Vec<_>>(),
            "placement": self.placement.as_ref().map(|placement| placement.place.to_string()),
            "bare_round_trip_ns": self.placement.as_ref().map(|placement| placement.bare_ns),
            "windows": tally_json(self.tally),
        })
    }
}

/// Windows counted and dropped, in words.
pub fn windows(tally: Tally) -> String {
    let Tally { kept, switched, moved, failed, given_up } = tally;
    format!(
        "windows: {kept} counted, {switched} dropped for an involuntary context switch, {moved} because the placement \
         changed, {failed} failed, {given_up} given up"
    )
}

/// The same as JSON.
pub fn tally_json(tally: Tally) -> Value {
    let Tally { kept, switched, moved, failed, given_up } = tally;
    json!({ "counted": kept, "switched": switched, "moved": moved, "failed": failed, "given_up": given_up })
}

/// With a digit after the point, or as many as it takes to show three.
fn rate(millions: f64) -> String {
    let digits = if millions < 1.0 { (2.0 - millions.log10().floor()) as usize } else { 1 };
    format!("{millions:.digits$}")
}

fn spread(ns: &[f64]) -> (f64, f64) {
    (ns.iter().copied().fold(f64::INFINITY, f64::min), ns.iter().copied().fold(0.0, f64::max))
}

/// Metrics that have room beside each other. With more, each has lines of its own.
const BESIDE: usize = 2;
/// Contestants whose name begins so are no peers of ours.
const OURS: &str = "spinwire";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{rate_at_least, time_at_most};

    fn outcome(limits: &[Limit]) -> Outcome {
        let results = [[2.0, 2.0, 9.0], [4.0, 4.0, 9.0], [5.0, 3.0, 5.0], [1.0, 1.0, 1.0]];
        let results = results.map(|passes| vec![passes.to_vec()]).to_vec();
        Outcome::new("sum", &["item"], &["spinwire", "rtrb", "heapless", BARE], limits, (results, Tally::default()))
    }

    #[test]
    fn ratios_are_taken_within_a_pass_and_the_bare_line_is_no_peer() {
        let outcome = outcome(&[
            time_at_most(0.5, BEST_PEER),
            rate_at_least(2.01, BEST_PEER),
            time_at_most(0.5, BARE),
            time_at_most(1.0, "ringbuf"),
        ]);
        let seen: Vec<_> = outcome.verdicts().iter().map(|verdict| (&*verdict.of, verdict.ratio)).collect();
        assert_eq!(
            seen,
            [("rtrb (best peer)", Some(0.5)), ("rtrb (best peer)", Some(2.0)), (BARE, Some(2.0)), ("ringbuf", None)]
        );
        let words: Vec<_> = outcome.verdicts().iter().map(Verdict::word).collect();
        assert_eq!(words, ["ok", "OVER", "OVER", "not judged"]);
    }

    #[test]
    fn the_table_names_every_contestant_and_every_limit() {
        let table = outcome(&[time_at_most(0.4, BEST_PEER)]).table();
        for part in ["spinwire", "heapless", "OVER       item: time 0.50 x rtrb (best peer), at most 0.40"] {
            assert!(table.contains(part), "{part}:\n{table}");
        }
    }
}
