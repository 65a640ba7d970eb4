//! A whole run in one look: a table for each family of contests, with a column for each of their figures.

use std::fmt::Write as _;

use crate::report::{Outcome, Placement};

/// The tables, in the order of the contests: `ipc/stream/8B` and `ipc/stream/64B` are columns of `ipc/stream`. Empty if no
/// family has more than one contest: its own table says it all then.
pub fn tables(outcomes: &[Outcome]) -> String {
    let mut families: Vec<(&str, Vec<&Outcome>)> = Vec::new();
    for outcome in outcomes {
        let (family, _) = split(outcome);
        match families.iter_mut().find(|(name, _)| *name == family) {
            Some((_, contests)) => contests.push(outcome),
            None => families.push((family, vec![outcome])),
        }
    }
    families.retain(|(_, contests)| contests.len() > 1);
    let mut text = String::new();
    if families.is_empty() {
        return text;
    }
    text.push_str(
        "Medians of the passes, in ns. Behind the figure of another is our time divided by theirs: below 1.00 we are \
         faster.\n",
    );
    for (family, contests) in families {
        let widest = contests.iter().map(|contest| contest.metrics().len()).max().unwrap_or(1);
        for beside in contests.chunks((COLUMNS / widest).max(1)) {
            let _ = writeln!(text, "\n{family}");
            table(beside, &mut text);
        }
    }
    text
}

fn table(contests: &[&Outcome], text: &mut String) {
    line(text, "", contests.iter().map(|contest| over(contest, split(contest).1)));
    if contests.iter().any(|contest| contest.placement.is_some()) {
        line(text, "CPUs, bare round trip", contests.iter().map(|contest| over(contest, &place(contest))));
    }
    line(text, "", contests.iter().flat_map(|contest| contest.metrics()).map(|metric| column(metric)));
    let mut names: Vec<&str> = Vec::new();
    for name in contests.iter().flat_map(|contest| contest.contestants()) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    for name in names {
        let cells = contests.iter().flat_map(|contest| {
            let who = contest.contestants().iter().position(|contestant| *contestant == name);
            (0..contest.metrics().len()).map(move |metric| match who {
                Some(who) => cell(contest, who, metric),
                None => column(""),
            })
        });
        line(text, name, cells);
    }
}

fn line(text: &mut String, head: &str, cells: impl Iterator<Item = String>) {
    let line = format!("  {head:NAME$}{}", cells.collect::<String>());
    let _ = writeln!(text, "{}", line.trim_end());
}

/// A word over all columns of a contest.
fn over(contest: &Outcome, word: &str) -> String {
    let width = COLUMN * contest.metrics().len();
    format!("{:width$}", format!("{word:>FIGURE$}"))
}

/// A word over a column, or in one.
fn column(word: &str) -> String {
    format!("{:COLUMN$}", format!("{word:>FIGURE$}"))
}

/// Where its CPUs were.
fn place(contest: &Outcome) -> String {
    match contest.placement {
        Some(Placement { place, bare_ns, .. }) => format!("{place}, {bare_ns:.0} ns"),
        None => String::new(),
    }
}

/// A figure, and how much of it ours is; a dash for what a contestant cannot tell.
fn cell(contest: &Outcome, who: usize, metric: usize) -> String {
    let (ns, ratio) = (contest.ns(who, metric), contest.times(metric, who));
    let digits = if ns < 10.0 { 2 } else { usize::from(ns < 100.0) };
    match who {
        _ if !ns.is_finite() => column("-"),
        _ if who == 0 || !ratio.is_finite() => column(&format!("{ns:.digits$}")),
        _ => format!("{:COLUMN$}", format!("{ns:>FIGURE$.digits$} {ratio:.2}x")),
    }
}

/// A contest's family, and what it is in there.
fn split(outcome: &Outcome) -> (&str, &str) {
    outcome.name().rsplit_once('/').unwrap_or(("", outcome.name()))
}

/// Columns that have room beside each other, on a screen of 110 letters.
const COLUMNS: usize = 5;
/// Letters of a name, digits of a figure, and a whole column.
const NAME: usize = 24;
const FIGURE: usize = 8;
const COLUMN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::Tally;
    use crate::window::Place;

    fn outcome(name: &str, contestants: &[&'static str], ns: &[f64]) -> Outcome {
        let results = ns.iter().map(|&ns| vec![vec![ns]]).collect();
        let mut outcome = Outcome::new(name, &["p50"], contestants, &[], (results, Tally::default()));
        outcome.placement = Some(Placement { words: String::new(), place: Place::Apart, bare_ns: 330.4 });
        outcome
    }

    #[test]
    fn contests_of_a_family_are_columns_and_who_is_not_in_one_is_blank_there() {
        let small = outcome("ipc/stream/8B", &["spinwire", "ucx"], &[5.0, 10.0]);
        let large = outcome("ipc/stream/1MiB", &["spinwire", "tcp", "fi"], &[90_000.0, 45_000.0, f64::NAN]);
        let alone = outcome("ipc/other/8B", &["spinwire"], &[1.0]);
        let text = tables(&[small, alone, large]);
        let lines: Vec<Vec<&str>> = text.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
        let wanted: [&[&str]; 8] = [
            &["ipc/stream"],
            &["8B", "1MiB"],
            &["CPUs,", "bare", "round", "trip", "apart,", "330", "ns", "apart,", "330", "ns"],
            &["p50", "p50"],
            &["spinwire", "5.00", "90000"],
            &["ucx", "10.0", "0.50x"],
            &["tcp", "45000", "2.00x"],
            &["fi", "-"],
        ];
        assert_eq!(lines, wanted, "{text}");
    }

    #[test]
    fn a_family_of_one_contest_has_no_table() {
        assert_eq!(tables(&[outcome("ipc/stream/8B", &["spinwire"], &[5.0])]), "");
    }
}
