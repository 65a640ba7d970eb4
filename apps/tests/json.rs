//! JSON.md explains the reports as they are: no field is missing, and none is there that is no more.

mod common;

use std::collections::BTreeSet;

use common::fabric::{Fabric, alone, cpu, shm_name};
use common::{PATIENCE, Running, read_json, scratch};
use serde_json::Value;

const PAGE: &str = include_str!("../JSON.md");

/// The fields in the first column of the tables under a heading.
fn explained(heading: &str) -> BTreeSet<&'static str> {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    let section = section.split("\n## ").next().unwrap();
    let first = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    first.flat_map(|column| column.trim_end_matches('`').split("`, `")).collect()
}

/// The fields of a report, and of the objects in it.
fn written(report: &Value) -> BTreeSet<&str> {
    let fields = report.as_object().expect("a report is an object");
    fields.iter().flat_map(|(name, value)| std::iter::once(name.as_str()).chain(inner(value))).collect()
}

fn inner(value: &Value) -> impl Iterator<Item = &str> {
    value.as_object().into_iter().flat_map(|fields| fields.keys()).map(String::as_str)
}

#[test]
fn every_field_of_the_reports_is_explained() {
    let _turn = alone();
    let (url, serve_file) = (shm_name(), scratch("serve.json"));
    let mut server = Running::spinwire(&format!(
        "echo serve --listen {url} --core {} --connections-max 1 --json {}",
        cpu(0),
        serve_file.display()
    ));
    server.wait_for("listening on", PATIENCE);
    // At a rate, so that there are both kinds of latency.
    let (ended, ping) = Fabric::Shm.ping(&url, "--rate 1k --seconds 0.1 --timeout 60s");
    ended.expect_code(0);
    server.signal("INT");
    server.finish(PATIENCE).expect_code(0);

    for (heading, report) in [("echo ping", ping), ("echo serve", read_json(&serve_file))] {
        let explained: BTreeSet<_> = explained(heading).union(&explained("Both")).copied().collect();
        assert_eq!(written(&report), explained, "{heading}");
    }
}
