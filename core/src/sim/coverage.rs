//! What runs met: rows of the transition table, and faults.

use std::collections::BTreeMap;
use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use crate::cm::table::{ROWS, Row};

/// What can go wrong, or be met, besides the actions that fail (those are counted by the name of their call).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A connection event came late.
    EventLate,
    /// A connection event never came.
    EventLost,
    /// A connection event came twice.
    EventDoubled,
    /// A connection event came after its id was destroyed.
    EventStale,
    /// A connection event came out of nowhere.
    EventForged,
    /// A listener's device went, or its address changed.
    ListenerEvent,
    /// UNREACHABLE came on a connection that was up.
    UnreachableWhileUp,
    /// Only a part of a chain was posted.
    PostCut,
    /// A broken queue pair flushed nothing.
    FlushLost,
    /// A completion came after its queue pair was destroyed.
    CompletionStale,
    /// A completion with the number of another queue pair came.
    CompletionForged,
    /// A send's completion came with garbage where nothing is defined.
    CompletionGarbage,
    /// A completion came late.
    CompletionLate,
    /// Completions of two connections changed places.
    CompletionReordered,
    /// A message was lost on the wire and sent again.
    MessageLost,
    /// A sender gave up because nobody acknowledged.
    RetriesExceeded,
    /// A message found no receive and was sent again.
    ReceiverNotReady,
    /// A sender gave up because no receive was posted.
    RnrExceeded,
    /// A message made no sense.
    MessageForged,
    /// A message was longer than its receive.
    MessageTooLong,
    /// Private data was changed on the way.
    PrivateDataForged,
    /// An application refused a request.
    RequestRefused,
    /// A program ended, and its kernel told the others.
    PeerKilled,
    /// A machine fell silent.
    PeerFrozen,
    /// Every wire was cut and no event came any more.
    WorldFrozen,
    /// A device went away.
    DeviceRemoved,
    /// A device failed.
    DeviceFatal,
    /// A queue pair broke by itself.
    QpBroken,
    /// A loop was away for a while.
    LoopAway,
    /// An application met a full queue.
    QueueFull,
    /// An application met a full queue of one-sided operations.
    OperationsFull,
    /// A device refused a one-sided operation.
    AccessRefused,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 32] = [
        Fault::EventLate,
        Fault::EventLost,
        Fault::EventDoubled,
        Fault::EventStale,
        Fault::EventForged,
        Fault::ListenerEvent,
        Fault::UnreachableWhileUp,
        Fault::PostCut,
        Fault::FlushLost,
        Fault::CompletionStale,
        Fault::CompletionForged,
        Fault::CompletionGarbage,
        Fault::CompletionLate,
        Fault::CompletionReordered,
        Fault::MessageLost,
        Fault::RetriesExceeded,
        Fault::ReceiverNotReady,
        Fault::RnrExceeded,
        Fault::MessageForged,
        Fault::MessageTooLong,
        Fault::PrivateDataForged,
        Fault::RequestRefused,
        Fault::PeerKilled,
        Fault::PeerFrozen,
        Fault::WorldFrozen,
        Fault::DeviceRemoved,
        Fault::DeviceFatal,
        Fault::QpBroken,
        Fault::LoopAway,
        Fault::QueueFull,
        Fault::OperationsFull,
        Fault::AccessRefused,
    ];
}

/// How often what was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    rows: Vec<u64>,
    faults: [u64; Fault::ALL.len()],
    calls: BTreeMap<&'static str, u64>,
    /// Messages delivered.
    pub messages: u64,
    /// Connections that came up.
    pub opened: u64,
    /// Turns of all engines.
    pub turns: u64,
}

impl Default for Coverage {
    fn default() -> Self {
        Self {
            rows: vec![0; ROWS.len()],
            faults: [0; Fault::ALL.len()],
            calls: BTreeMap::new(),
            messages: 0,
            opened: 0,
            turns: 0,
        }
    }
}

impl Coverage {
    pub(super) fn count_row(&mut self, row: &Row) {
        self.rows[usize::from(row.number)] += 1;
    }

    pub(super) fn count_fault(&mut self, fault: Fault) {
        self.faults[fault as usize] += 1;
    }

    pub(super) fn count_call(&mut self, call: &'static str) {
        *self.calls.entry(call).or_default() += 1;
    }

    /// Adds what other runs met.
    pub fn add(&mut self, other: &Coverage) {
        let faults = self.faults.iter_mut().zip(&other.faults);
        self.rows.iter_mut().zip(&other.rows).chain(faults).for_each(|(sum, count)| *sum += count);
        for (call, count) in &other.calls {
            *self.calls.entry(call).or_default() += count;
        }
        self.messages += other.messages;
        self.opened += other.opened;
        self.turns += other.turns;
    }

    /// Every row of the transition table, and how often it was taken.
    pub fn rows(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        ROWS.iter().map(ToString::to_string).zip(self.rows.iter().copied())
    }

    /// Every fault, and how often it was met; then the actions that failed, by the name of the call.
    pub fn faults(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        let faults = Fault::ALL.into_iter().map(|fault| (format!("{fault:?}"), self.faults[fault as usize]));
        faults.chain(self.calls.iter().map(|(call, count)| (format!("{call} failed"), *count)))
    }

    /// How often `fault` was met.
    pub fn met(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }
}
