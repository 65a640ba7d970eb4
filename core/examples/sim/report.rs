//! The summary, for people and for programs.

use std::io::Write;

use serde_json::{Value, json};
use spinwire_core::sim::{Coverage, Failure, replay};

use super::work::{Done, Order};

/// Lines of the story shown of a failure; `--replay` shows all.
const TAIL: usize = 40;

/// Prints lines. A reader that goes away ends it quietly.
pub fn print_lines(lines: &[String]) {
    let mut out = std::io::stdout().lock();
    let _ = lines.iter().try_for_each(|line| writeln!(out, "{line}"));
}

/// Rows and faults that were never met.
pub fn uncovered(coverage: &Coverage) -> impl Iterator<Item = String> + '_ {
    coverage.rows().chain(coverage.faults()).filter(|(_, count)| *count == 0).map(|(name, _)| name)
}

fn rate(done: &Done) -> f64 {
    done.seeds as f64 / done.took.as_secs_f64().max(1e-9)
}

pub fn text(order: &Order, done: &Done) {
    let Coverage { messages, opened, turns, .. } = &done.coverage;
    let (last, seconds) = (order.from + done.seeds.max(1) - 1, done.took.as_secs_f64());
    let mut lines = vec![
        format!(
            "{}: {} seeds, {} to {last}, in {seconds:.1} s on {} threads: {:.0} seeds/s",
            order.scenario.name(),
            done.seeds,
            order.from,
            order.jobs,
            rate(done)
        ),
        format!("{opened} connections came up, {messages} messages were delivered, in {turns} turns\n"),
    ];
    let rows: Vec<_> = done.coverage.rows().collect();
    let taken = rows.iter().filter(|(_, count)| *count > 0).count();
    lines.push(format!("rows of the transition table: {taken} of {} taken", rows.len()));
    lines.extend(columns(&rows));
    lines.push("\nfaults met".into());
    lines.extend(columns(&done.coverage.faults().collect::<Vec<_>>()));
    let never: Vec<_> = uncovered(&done.coverage).collect();
    if !never.is_empty() {
        lines.push(format!("\nnever met: {}", never.join(", ")));
    }
    lines.push(String::new());
    match &done.failure {
        None => lines.push("nothing was found".into()),
        Some(failure) => lines.extend(story(failure)),
    }
    print_lines(&lines);
}

/// In three columns, to be read downwards.
fn columns(entries: &[(String, u64)]) -> impl Iterator<Item = String> {
    let height = entries.len().div_ceil(3);
    (0..height).map(move |line| {
        let cells = entries.iter().skip(line).step_by(height);
        let text: String = cells.map(|(name, count)| format!("{count:>10}  {name:<34}")).collect();
        text.trim_end().into()
    })
}

/// The end of the story of a failure.
fn story(failure: &Failure) -> Vec<String> {
    let (_, trace) = replay(failure.scenario, failure.seed);
    let skipped = trace.lines.len().saturating_sub(TAIL);
    let mut lines =
        vec![format!("the last {} of {} lines of what happened:", trace.lines.len() - skipped, trace.lines.len())];
    lines.extend_from_slice(&trace.lines[skipped..]);
    lines.push(format!("FAILED {failure}"));
    lines.push(format!("all of it: ci/sim --scenario {} --replay {}", failure.scenario.name(), failure.seed));
    lines
}

pub fn failure_json(failure: &Failure) -> Value {
    json!({ "seed": failure.seed, "message": failure.message, "place": failure.place })
}

pub fn json(order: &Order, done: &Done) {
    let map = |entries: &mut dyn Iterator<Item = (String, u64)>| {
        entries.map(|(name, count)| (name, Value::from(count))).collect::<serde_json::Map<_, _>>()
    };
    let summary = json!({
        "scenario": order.scenario.name(),
        "from": order.from,
        "seeds": done.seeds,
        "jobs": order.jobs,
        "seconds": done.took.as_secs_f64(),
        "seeds_per_second": rate(done),
        "connections": done.coverage.opened,
        "messages": done.coverage.messages,
        "turns": done.coverage.turns,
        "rows": map(&mut done.coverage.rows()),
        "faults": map(&mut done.coverage.faults()),
        "never": uncovered(&done.coverage).collect::<Vec<_>>(),
        "failure": done.failure.as_ref().map(failure_json),
    });
    println!("{summary:#}");
}
