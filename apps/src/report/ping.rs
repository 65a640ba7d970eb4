//! The report of `echo ping`.

use std::fmt;

use serde::Serialize;
use spinwire_core::time::Nanos;
use spinwire_linux::runtime::SetupReport;

use super::facts::SetupFacts;
use super::table::Table;
use crate::histogram::Summary;
use crate::load::{CATCH_UP, Pace};
use crate::measure::{Counts, Left, Measure};
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::units::{Grouped, counted};
use spinwire_linux::signals;

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
    queued: u64,
    warmup_messages: u64,
    ended_in_warmup: bool,
    message_bytes: u32,
    depth: u32,
    server_window: Option<u32>,
    connections: u32,
    connect_attempts_failed: u64,
    target_rate_per_s: Option<u64>,
    sent_late: Option<u64>,
    planned_not_sent: Option<u64>,
    elapsed_ns: u64,
    rate_per_s: f64,
    latency_from: &'static str,
    latency_ns: Option<Summary>,
    service_ns: Option<Summary>,
    turn_longest_ns: u64,
    #[serde(flatten)]
    counts: Counts,
    #[serde(flatten)]
    setup: SetupFacts,
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
            Outcome::Interrupted(signal) => ("interrupted", Some(signals::name(*signal).to_owned())),
            Outcome::Failed(trouble) => ("failed", Some(trouble.to_string())),
        };
        Self {
            schema: "spinwire.echo.ping.v1",
            version: env!("CARGO_PKG_VERSION"),
            target,
            result,
            error,
            messages: measure.replies,
            verified: plan.verify && measure.replies > 0,
            outstanding: measure.left.outstanding,
            queued: measure.left.queued,
            warmup_messages: plan.warmup,
            ended_in_warmup: measure.ended_in_warmup.is_some(),
            message_bytes: plan.message_bytes,
            depth: plan.depth,
            server_window: measure.server_window,
            connections: plan.connections,
            connect_attempts_failed: measure.attempts_failed(),
            target_rate_per_s: rate,
            sent_late: rate.map(|_| measure.sent_late),
            planned_not_sent: rate.map(|_| measure.unsent),
            elapsed_ns: measure.elapsed().get(),
            rate_per_s: measure.rate_per_s(),
            latency_from: if rate.is_some() { "planned send" } else { "send" },
            latency_ns: measure.response.summary_if_any(),
            service_ns: rate.and_then(|_| measure.service.summary_if_any()),
            turn_longest_ns: measure.turn_longest.get(),
            counts: measure.counts(),
            setup: SetupFacts::new(setup),
        }
    }

    /// What its latencies are the latencies of.
    pub fn latency_name(&self) -> &'static str {
        match self.target_rate_per_s {
            Some(_) => "response time, from the planned time of sending",
            None => "round trip",
        }
    }

    /// What a picture of it is headed with.
    pub fn title(&self) -> String {
        let pace = match self.target_rate_per_s {
            Some(rate) => format!("planned {}/s", Grouped(rate)),
            None => format!("{} in flight", Grouped(self.depth.into())),
        };
        let connections = match self.connections {
            1 => String::new(),
            more => format!(" on each of {} connections", Grouped(more.into())),
        };
        format!(
            "spinwire echo ping {}: {}, {pace}{connections}",
            self.target,
            counted(self.message_bytes.into(), "byte")
        )
    }
}

impl fmt::Display for PingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::default();
        let verified = if self.verified { ", every byte verified" } else { "" };
        table.row(
            "messages",
            format!("{} of {}{verified}", Grouped(self.messages), counted(self.message_bytes.into(), "byte")),
        );
        let left = Left { outstanding: self.outstanding, queued: self.queued };
        if left != Left::default() {
            table.row("besides", left);
        }
        let warmup = match self.warmup_messages {
            0 => "none".to_owned(),
            some => format!("{} before them, not counted", Grouped(some)),
        };
        table.row("warm-up", warmup);
        let waiting = match self.server_window {
            Some(window) if window < self.depth => {
                format!(
                    "; the server has receives for {} (its depth and spare ones), the rest waits at this side",
                    Grouped(window.into())
                )
            }
            _ => String::new(),
        };
        let (depth, connections) = (Grouped(self.depth.into()), counted(self.connections.into(), "connection"));
        table.row("in flight", format!("{depth} on each of {connections}{waiting}"));
        let rate = format!("{}/s over {}", Grouped(self.rate_per_s.round() as u64), Nanos::new(self.elapsed_ns));
        table.row("rate", rate);
        if let (Some(planned), Some(late), Some(unsent)) =
            (self.target_rate_per_s, self.sent_late, self.planned_not_sent)
        {
            table.row("planned rate", format!("{}/s, {} sent late", Grouped(planned), Grouped(late)));
            if unsent > 0 {
                let why = why_unsent(Nanos::new(self.turn_longest_ns));
                table.row("not sent", format!("{} planned messages: {why}", Grouped(unsent)));
            }
        }
        match (self.latency_ns, self.service_ns) {
            (None, _) => table.row("latency", "no message was measured"),
            (Some(latency), None) => table.latency("latency", &latency),
            (Some(response), Some(service)) => {
                table.latency("response time, from the planned time of sending", &response);
                table.latency("service time, from the real time of sending", &service);
            }
        }
        let Counts { turns, turns_empty, doorbells, receives_posted, .. } = self.counts;
        let share = turns_empty as f64 * 100.0 / turns.max(1) as f64;
        table.row("empty turns", format!("{} of {} ({share:.1} %)", Grouped(turns_empty), Grouped(turns)));
        table.row("longest turn", Nanos::new(self.turn_longest_ns));
        table.row("doorbells", Grouped(doorbells));
        table.row("receives posted", Grouped(receives_posted));
        self.setup.rows(&mut table);
        writeln!(f, "spinwire echo ping {}", self.target)?;
        table.fmt(f)
    }
}

/// Why planned messages were not sent, of which no latency can be told.
fn why_unsent(turn_longest: Nanos) -> String {
    if turn_longest > CATCH_UP {
        // Even late ones: the time to catch up was over when it went on.
        format!("this side stood still for {turn_longest}, and their latency, longer than that, is in no figure")
    } else {
        "the rate is out of reach, and so is their latency".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_stood_still_is_not_said_to_be_a_rate_out_of_reach() {
        assert!(why_unsent(Nanos::from_millis(3)).starts_with("the rate is out of reach"));
        assert!(why_unsent(Nanos::from_secs(4)).starts_with("this side stood still for 4 s"));
    }
}
