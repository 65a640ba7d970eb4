//! What a run prints: a table for people, JSON with the same facts and units in the key names for programs.

use std::fmt;
use std::io::Write;
use std::path::Path;

use serde::Serialize;
use spinwire_core::config::Mode;
use spinwire_core::time::Nanos;
use spinwire_linux::runtime::SetupReport;

use crate::exit::Failure;
use crate::histogram::Summary;
use crate::load::Pace;
use crate::measure::{Counts, Measure};
use crate::outcome::Outcome;
use crate::ping::Plan;
use crate::units::grouped;

/// The report of `echo ping`.
#[derive(Debug, Serialize)]
pub struct PingReport {
    schema: &'static str,
    version: &'static str,
    target: String,
    result: &'static str,
    error: Option<String>,
    messages: u64,
    verified: bool,
    outstanding: u64,
    warmup_messages: u64,
    message_bytes: u32,
    depth: u32,
    connections: u32,
    target_rate_per_s: Option<u64>,
    sent_late: Option<u64>,
    planned_not_sent: Option<u64>,
    elapsed_ns: u64,
    rate_per_s: f64,
    latency_from: &'static str,
    latency_ns: Summary,
    service_ns: Option<Summary>,
    turn_longest_ns: u64,
    #[serde(flatten)]
    counts: Counts,
    #[serde(flatten)]
    setup: SetupFacts,
}

/// What was set up, for both reports.
#[derive(Debug, Serialize)]
pub struct SetupFacts {
    fabric: String,
    mode: &'static str,
    device: String,
    device_vendor_id: u32,
    lab: bool,
    device_node: Option<u32>,
    core: u32,
    core_node: Option<u32>,
    core_isolated: bool,
    memory_page_kind: &'static str,
    memory_page_bytes: usize,
    memory_bytes: usize,
    memory_node: Option<u32>,
    inline_bytes_max: u32,
    message_bytes_max: u32,
    readiness: String,
    clock_source: String,
    #[serde(skip)]
    words: Words,
}

/// The longer wording of the table.
#[derive(Debug)]
struct Words {
    thread: String,
    device: String,
    memory: String,
    clock: Option<String>,
}

impl SetupFacts {
    /// The facts of a set-up.
    pub fn new(report: &SetupReport) -> Self {
        let cpu = &report.cpu;
        Self {
            fabric: report.fabric.to_string(),
            mode: match report.config.mode {
                Mode::Spinwire => "spinwire",
                Mode::Raw => "raw",
            },
            device: report.device.clone(),
            device_vendor_id: report.vendor_id,
            lab: report.is_software,
            device_node: report.device_node,
            core: cpu.cpu,
            core_node: cpu.node,
            core_isolated: cpu.isolated,
            memory_page_kind: report.memory.kind.name(),
            memory_page_bytes: report.memory.page_bytes,
            memory_bytes: report.memory.page_bytes * report.memory.pages,
            memory_node: report.memory.node,
            inline_bytes_max: report.config.inline_bytes_max,
            message_bytes_max: report.config.message_bytes_max,
            readiness: report.readiness.to_string(),
            clock_source: report.clock.name.clone(),
            words: Words {
                thread: cpu.to_string(),
                device: report.device_words(),
                memory: report.memory.to_string(),
                clock: (!report.clock.is_cheap()).then(|| report.clock.to_string()),
            },
        }
    }

    /// The lines of a table.
    fn rows(&self, table: &mut Table) {
        table.row("fabric", format!("{} ({} mode)", self.fabric, self.mode));
        table.row("device", &self.words.device);
        table.row("thread", &self.words.thread);
        table.row("memory", &self.words.memory);
        table.row("events seen by", &self.readiness);
        if let Some(warning) = &self.words.clock {
            table.row("clock", warning);
        }
    }
}

impl PingReport {
    /// The report of a run.
    pub fn new(target: String, plan: &Plan, outcome: &Outcome, measure: &Measure, setup: &SetupReport) -> Self {
        let rate = match plan.pace {
            Pace::Closed => None,
            Pace::Rate(per_second) => Some(per_second),
        };
        let (result, error) = match outcome {
            Outcome::Complete => ("ok", None),
            Outcome::Interrupted(signal) => ("interrupted", Some(crate::signals::name(*signal).to_owned())),
            Outcome::Failed(trouble) => ("failed", Some(trouble.to_string())),
        };
        Self {
            schema: "spinwire.echo.ping.v1",
            version: env!("CARGO_PKG_VERSION"),
            target,
            result,
            error,
            messages: measure.response.count(),
            verified: plan.verify,
            outstanding: measure.outstanding,
            warmup_messages: plan.warmup,
            message_bytes: plan.message_bytes,
            depth: plan.depth,
            connections: plan.connections,
            target_rate_per_s: rate,
            sent_late: rate.map(|_| measure.sent_late),
            planned_not_sent: rate.map(|_| measure.unsent),
            elapsed_ns: measure.elapsed().get(),
            rate_per_s: measure.rate_per_s(),
            latency_from: if rate.is_some() { "planned send" } else { "send" },
            latency_ns: measure.response.summary(),
            service_ns: rate.map(|_| measure.service.summary()),
            turn_longest_ns: measure.turn_longest.get(),
            counts: measure.counts(),
            setup: SetupFacts::new(setup),
        }
    }
}

impl fmt::Display for PingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::default();
        let verified = if self.verified { ", every byte verified" } else { "" };
        let left = if self.outstanding > 0 {
            format!(", {} without a reply", grouped(self.outstanding))
        } else {
            String::new()
        };
        table.row(
            "messages",
            format!("{} of {} bytes{verified}{left}", grouped(self.messages), grouped(self.message_bytes.into())),
        );
        table.row("warm-up", format!("{} before them, not counted", grouped(self.warmup_messages)));
        table.row("in flight", format!("{} on each of {} connections", self.depth, grouped(self.connections.into())));
        let rate = format!("{}/s over {}", grouped(self.rate_per_s.round() as u64), Nanos::new(self.elapsed_ns));
        table.row("rate", rate);
        if let (Some(planned), Some(late), Some(unsent)) =
            (self.target_rate_per_s, self.sent_late, self.planned_not_sent)
        {
            table.row("planned rate", format!("{}/s, {} sent late", grouped(planned), grouped(late)));
            if unsent > 0 {
                let unsent = grouped(unsent);
                table.row(
                    "not sent",
                    format!("{unsent} planned messages: the rate is out of reach, and so is their latency"),
                );
            }
        }
        match self.service_ns {
            None => table.latency("latency", &self.latency_ns),
            Some(service) => {
                table.latency("response time, from the planned time of sending", &self.latency_ns);
                table.latency("service time, from the real time of sending", &service);
            }
        }
        let Counts { turns, turns_empty, doorbells, receives_posted, .. } = self.counts;
        let share = turns_empty as f64 * 100.0 / turns.max(1) as f64;
        table.row("empty turns", format!("{} of {} ({share:.1} %)", grouped(turns_empty), grouped(turns)));
        table.row("longest turn", Nanos::new(self.turn_longest_ns));
        table.row("doorbells", grouped(doorbells));
        table.row("receives posted", grouped(receives_posted));
        self.setup.rows(&mut table);
        writeln!(f, "spinwire echo ping {}", self.target)?;
        f.write_str(&table.0)
    }
}

/// The report of `echo serve`.
#[derive(Debug, Serialize)]
pub struct ServeReport {
    schema: &'static str,
    version: &'static str,
    listening: String,
    result: &'static str,
    error: Option<String>,
    elapsed_ns: u64,
    connections_opened: u64,
    connections_closed: u64,
    connections_refused: u64,
    messages_received: u64,
    messages_sent: u64,
    bytes_received: u64,
    bytes_sent: u64,
    turns: u64,
    turns_empty: u64,
    turn_longest_ns: u64,
    doorbells: u64,
    receives_posted: u64,
    credit_messages: u64,
    completions_stale: u64,
    completions_flushed: u64,
    completions_failed: u64,
    connections_max: u32,
    depth: u32,
    #[serde(flatten)]
    setup: SetupFacts,
}

impl ServeReport {
    /// The report of a server that ran for `elapsed`.
    pub fn new(
        listening: String,
        error: Option<String>,
        elapsed: Nanos,
        stats: &spinwire_core::stats::Stats,
        setup: &SetupReport,
    ) -> Self {
        Self {
            schema: "spinwire.echo.serve.v1",
            version: env!("CARGO_PKG_VERSION"),
            listening,
            result: if error.is_none() { "ok" } else { "failed" },
            error,
            elapsed_ns: elapsed.get(),
            connections_opened: stats.opened,
            connections_closed: stats.closed,
            connections_refused: stats.refused,
            messages_received: stats.messages_received,
            messages_sent: stats.messages_sent,
            bytes_received: stats.bytes_received,
            bytes_sent: stats.bytes_sent,
            turns: stats.turns,
            turns_empty: stats.turns_empty,
            turn_longest_ns: stats.turn_longest.get(),
            doorbells: stats.doorbells,
            receives_posted: stats.receives_posted,
            credit_messages: stats.credit_messages,
            completions_stale: stats.completions_stale,
            completions_flushed: stats.completions_flushed,
            completions_failed: stats.completions_failed,
            connections_max: setup.connections,
            depth: setup.config.depth,
            setup: SetupFacts::new(setup),
        }
    }
}

impl fmt::Display for ServeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::default();
        let connections = (grouped(self.connections_opened), grouped(self.connections_refused));
        table.row("connections", format!("{} served, {} refused", connections.0, connections.1));
        table.row("messages", format!("{} in, {} out", grouped(self.messages_received), grouped(self.messages_sent)));
        let share = self.turns_empty as f64 * 100.0 / self.turns.max(1) as f64;
        table.row("empty turns", format!("{} of {} ({share:.1} %)", grouped(self.turns_empty), grouped(self.turns)));
        table.row("longest turn", Nanos::new(self.turn_longest_ns));
        table.row("doorbells", grouped(self.doorbells));
        table.row("receives posted", grouped(self.receives_posted));
        self.setup.rows(&mut table);
        writeln!(f, "spinwire echo serve {}, {}", self.listening, Nanos::new(self.elapsed_ns))?;
        f.write_str(&table.0)
    }
}

/// Looks before a long run whether its report could be written at its end.
///
/// # Errors
/// The directory of the file does not exist.
pub fn check_path(json: Option<&Path>) -> Result<(), Failure> {
    let Some(parent) = json.and_then(Path::parent).filter(|parent| !parent.as_os_str().is_empty()) else {
        return Ok(());
    };
    if parent.is_dir() {
        Ok(())
    } else {
        Err(Failure::usage(format!("--json: there is no directory {}", parent.display())))
    }
}

/// Writes a report where the user wants it: the table to standard output unless `quiet`, JSON to `json`.
///
/// # Errors
/// The file cannot be written.
pub fn print(report: &(impl fmt::Display + Serialize), json: Option<&Path>, quiet: bool) -> Result<(), Failure> {
    let to_stdout = json == Some(Path::new("-"));
    let mut stdout = std::io::stdout().lock();
    if !quiet && !to_stdout {
        // Printing to a closed pipe is no failure of the run.
        let _ = writeln!(stdout, "{report}").and_then(|()| stdout.flush());
    }
    let Some(path) = json else { return Ok(()) };
    let mut text = serde_json::to_string_pretty(report).map_err(Failure::setup)?;
    text.push('\n');
    let written = if to_stdout { stdout.write_all(text.as_bytes()) } else { std::fs::write(path, text) };
    written.map_err(|error| Failure::setup(format!("cannot write the report to {}: {error}", path.display())))
}

/// Lines of a name and a value.
#[derive(Default)]
struct Table(String);

impl Table {
    fn row(&mut self, name: &str, value: impl fmt::Display) {
        let value = value.to_string();
        let mut lines = value.lines();
        self.line(name, lines.next().unwrap_or_default());
        lines.for_each(|more| self.line("", more));
    }

    fn latency(&mut self, title: &str, summary: &Summary) {
        if summary.count == 0 {
            return self.row(title, "no message was measured");
        }
        let values = [
            ("min", summary.min),
            ("p50", summary.p50),
            ("p90", summary.p90),
            ("p99", summary.p99),
            ("p99.9", summary.p99_9),
            ("p99.99", summary.p99_99),
            ("max", summary.max),
        ];
        self.0.push_str(&format!("  {title}\n"));
        for (name, nanos) in values {
            self.line(&format!("  {name}"), &format!("{:>10.2} us", nanos as f64 / 1e3));
        }
        if summary.above_range > 0 {
            self.line("  above 1 h", &grouped(summary.above_range));
        }
    }

    fn line(&mut self, name: &str, value: &str) {
        self.0.push_str(&format!("  {name:<16} {value}\n"));
    }
}
