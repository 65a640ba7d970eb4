//! The record of the run on this thread: what was met and, when it is wanted, a readable trace.

use std::cell::{Cell, RefCell};
use std::format;
use std::mem::take;
use std::string::String;
use std::vec::Vec;

use super::coverage::{Coverage, Fault};
use crate::cm::table::{Input, Row, State};
use crate::id::ConnId;

#[derive(Default)]
struct Record {
    coverage: Coverage,
    trace: Option<Trace>,
    now: u64,
    node: Option<usize>,
}

/// What happened in a run, line by line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// One thing that happened each: virtual time, machine, what.
    pub lines: Vec<String>,
}

impl Trace {
    /// A number that tells traces apart (FNV-1a over every byte).
    pub fn hash(&self) -> u64 {
        let bytes = self.lines.iter().flat_map(|line| line.bytes().chain([b'\n']));
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    }
}

std::thread_local! {
    /// A run is under way on this thread. Without one nothing is noted, and nothing allocated.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
    static RECORD: RefCell<Record> = RefCell::default();
}

/// A run begins.
pub(super) fn start(traced: bool) {
    RUNNING.set(true);
    RECORD.set(Record { trace: traced.then(Trace::default), ..Record::default() });
}

/// It is over: what was met, and the trace if it was wanted.
pub(super) fn finish() -> (Coverage, Trace) {
    RUNNING.set(false);
    let Record { coverage, trace, .. } = RECORD.with_borrow_mut(take);
    (coverage, trace.unwrap_or_default())
}

/// Whether a run is under way on this thread.
pub(super) fn is_running() -> bool {
    RUNNING.get()
}

/// Changes the record, while a run is under way.
fn with(act: impl FnOnce(&mut Record)) {
    if RUNNING.get() {
        RECORD.with_borrow_mut(act);
    }
}

/// What follows happens at `now`; to the engine of `node`, if one is given.
pub(super) fn at(now: u64, node: Option<usize>) {
    with(|record| (record.now, record.node) = (now, node));
}

/// A line of the trace. `line` is only called when there is one.
pub(super) fn note(line: impl FnOnce() -> String) {
    with(|record| {
        let Some(trace) = &mut record.trace else { return };
        let who = record.node.map_or(String::from("net   "), |node| format!("node {node}"));
        trace.lines.push(format!("{:>14} ns  {who}  {}", record.now, line()));
    });
}

/// A fault was met.
pub(super) fn fault(fault: Fault) {
    with(|record| record.coverage.count_fault(fault));
    note(|| format!("! {fault:?}"));
}

/// An action failed.
pub(super) fn failed(conn: ConnId, call: &'static str) {
    with(|record| record.coverage.count_call(call));
    note(|| format!("! {conn}: {call} fails"));
}

/// Numbers of one engine, at its end.
pub(super) fn engine(messages: u64, opened: u64, turns: u64) {
    with(|Record { coverage, .. }| {
        coverage.messages += messages;
        coverage.opened += opened;
        coverage.turns += turns;
    });
}

/// A connection's state machine was asked. Called by the engine.
pub(crate) fn transition(conn: ConnId, from: State, input: Input, row: Option<&'static Row>) {
    match row {
        Some(row) => {
            with(|record| record.coverage.count_row(row));
            note(|| format!("{conn}: {row} -> {:?}", row.to));
        }
        None => note(|| format!("{conn}: {from:?} + {input:?} is of no consequence")),
    }
}
