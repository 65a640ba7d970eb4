//! The report of `echo serve`.

use std::fmt;

use serde::Serialize;
use spinwire_core::stats::Stats;
use spinwire_core::time::Nanos;
use spinwire_linux::runtime::{SetupReport, Troubles};

use super::facts::SetupFacts;
use super::table::Table;
use crate::units::Grouped;

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
    clients_turned_away: u64,
    last_turned_away: Option<String>,
    calls_failed: u64,
    last_call_failed: Option<String>,
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
    #[serde(skip)]
    troubles: Troubles,
}

impl ServeReport {
    /// The report of a server that ran for `elapsed`.
    pub fn new(listening: String, error: Option<String>, elapsed: Nanos, stats: &Stats, setup: &SetupReport) -> Self {
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
            clients_turned_away: 0,
            last_turned_away: None,
            calls_failed: 0,
            last_call_failed: None,
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
            troubles: Troubles::default(),
        }
    }

    /// The same with what went wrong beside the connections.
    pub fn with_troubles(self, troubles: Troubles) -> Self {
        Self {
            clients_turned_away: troubles.dropped,
            last_turned_away: troubles.last_dropped.map(|last| last.to_string()),
            calls_failed: troubles.failures,
            last_call_failed: troubles.last_failure.map(|last| last.to_string()),
            troubles,
            ..self
        }
    }
}

impl fmt::Display for ServeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::default();
        let connections = (Grouped(self.connections_opened), Grouped(self.connections_refused));
        table.row("connections", format!("{} served, {} refused", connections.0, connections.1));
        let clients = Troubles { failures: 0, last_failure: None, ..self.troubles };
        let calls = Troubles { dropped: 0, last_dropped: None, ..self.troubles };
        for troubles in [clients, calls].iter().filter(|troubles| !troubles.is_none()) {
            table.row("troubles", troubles);
        }
        table.row("messages", format!("{} in, {} out", Grouped(self.messages_received), Grouped(self.messages_sent)));
        let share = self.turns_empty as f64 * 100.0 / self.turns.max(1) as f64;
        table.row("empty turns", format!("{} of {} ({share:.1} %)", Grouped(self.turns_empty), Grouped(self.turns)));
        table.row("longest turn", Nanos::new(self.turn_longest_ns));
        table.row("doorbells", Grouped(self.doorbells));
        table.row("receives posted", Grouped(self.receives_posted));
        self.setup.rows(&mut table);
        writeln!(f, "spinwire echo serve {}, {}", self.listening, Nanos::new(self.elapsed_ns))?;
        table.fmt(f)
    }
}
