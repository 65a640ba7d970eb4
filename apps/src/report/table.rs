//! Two columns of text.

use std::fmt;

use crate::histogram::Summary;
use crate::units::{Grouped, micros};

/// Lines of a name and a value.
#[derive(Default)]
pub(super) struct Table(String);

impl Table {
    /// One name and its value; further lines of the value follow below it.
    pub(super) fn row(&mut self, name: &str, value: impl fmt::Display) {
        let value = value.to_string();
        let mut lines = value.lines();
        self.line(name, lines.next().unwrap_or_default());
        lines.for_each(|more| self.line("", more));
    }

    /// The percentiles of a histogram below a title.
    pub(super) fn latency(&mut self, title: &str, summary: &Summary) {
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
            self.line(&format!("  {name}"), &format!("{:>13}", micros(nanos)));
        }
        if summary.above_range > 0 {
            self.row("  above 1 h", Grouped(summary.above_range));
        }
    }

    fn line(&mut self, name: &str, value: &str) {
        self.0.push_str(&format!("  {name:<16} {value}\n"));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.trim_end_matches('\n'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_below_each_other_and_keep_their_lines() {
        let mut table = Table::default();
        table.row("device", "rxe0");
        table.row("memory", "2 MiB on 1 page\n  not on 1 GiB pages");
        let want =
            "  device           rxe0\n  memory           2 MiB on 1 page\n                     not on 1 GiB pages";
        assert_eq!(table.to_string(), want);
    }

    #[test]
    fn percentiles_are_shown_in_microseconds() {
        let mut table = Table::default();
        let summary = Summary { count: 1, min: 1_234, p50: 20_000, max: 3_000_000, ..Summary::default() };
        table.latency("latency", &summary);
        let text = table.to_string();
        assert!(text.contains("    min                  1.23 us"), "{text}");
        assert!(text.contains("    max              3,000.00 us"), "{text}");
        assert!(!text.contains("above 1 h"), "{text}");
    }
}
