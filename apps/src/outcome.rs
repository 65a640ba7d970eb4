//! How a run of `echo ping` ended, in words that say what to do next.

use std::fmt;

use spinwire_core::cm::event::Peer;
use spinwire_core::cm::reason::CloseReport;
use spinwire_core::time::Nanos;
use spinwire_core::turn::ConnectError;

use crate::advice::Advice;
use crate::measure::Left;
use crate::pattern::Mismatch;
use crate::reason::{Over, Words};
use crate::units::{Grouped, counted};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every message got its reply.
    Complete,
    /// The signal with this number came.
    Interrupted(u8),
    /// Something went wrong.
    Failed(Trouble),
}

/// What went wrong. Connections are numbered from 0, and from 1 in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// A connection did not come up.
    #[error(
        "connection {} of {}: {}{}{}",
        Grouped(u64::from(*connection) + 1),
        Grouped((*of).into()),
        Words(&report.reason, *over),
        Attempts(report, *over),
        Advice(&report.reason, *over)
    )]
    Connect {
        /// Which one.
        connection: u32,
        /// Of how many.
        of: u32,
        /// What it was to go over.
        over: Over,
        /// Why.
        report: CloseReport,
    },
    /// A connection was lost during the run.
    #[error(
        "connection {} of {}{} was lost: {}; {left}",
        Grouped(u64::from(*connection) + 1), Grouped((*of).into()), To(peer), Words(&report.reason, *over)
    )]
    Lost {
        /// Which one.
        connection: u32,
        /// Of how many.
        of: u32,
        /// To whom, where more is known than the address that was asked for.
        peer: Option<Peer>,
        /// What it went over.
        over: Over,
        /// Why.
        report: CloseReport,
        /// Messages without a reply on all connections.
        left: Left,
    },
    /// A reply is not what was sent.
    #[error("wrong reply on connection {} to message {}: {mismatch}", Grouped(u64::from(*connection) + 1), Grouped(*sequence))]
    Mismatch {
        /// Where.
        connection: u32,
        /// To which message of that connection, from 0.
        sequence: u64,
        /// What is wrong.
        mismatch: Mismatch,
    },
    /// A message nobody asked for.
    #[error(
        "connection {} brought a message of {} that answers nothing",
        Grouped(u64::from(*connection) + 1),
        counted(*bytes as u64, "byte")
    )]
    Unasked {
        /// Where.
        connection: u32,
        /// How long it is.
        bytes: usize,
    },
    /// The peer does not take messages of that size.
    #[error(
        "the server takes messages of at most {}, not {}; start it with --message-max {asked}",
        counted((*max).into(), "byte"), Grouped((*asked).into())
    )]
    TooLong {
        /// Bytes asked.
        asked: u32,
        /// Bytes possible.
        max: u32,
    },
    /// Replies stay away.
    #[error(
        "no progress for {waiting}: {left}, on {} of {}; --timeout sets how long to wait",
        Grouped((*silent).into()), counted((*connections).into(), "connection")
    )]
    Stalled {
        /// How long nothing happened.
        waiting: Nanos,
        /// Messages without a reply.
        left: Left,
        /// Connections that owe one.
        silent: u32,
        /// Connections there are.
        connections: u32,
    },
    /// The own table has no slot.
    #[error("cannot open another connection: {0}")]
    OwnTable(ConnectError),
}

/// Behind what it is about: ` to process 4711 (user 1000)`.
struct To<'a>(&'a Option<Peer>);

impl fmt::Display for To<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |peer| write!(f, " to {peer}"))
    }
}

/// How often it was tried, where that was more than once.
struct Attempts<'a>(&'a CloseReport, Over);

impl fmt::Display for Attempts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.attempts, &self.0.failed_before) {
            (2.., Some(before)) if *before != self.0.reason => {
                write!(f, " (attempt {}; before that: {})", self.0.attempts, Words(before, self.1))
            }
            (2.., _) => write!(f, " (attempt {})", self.0.attempts),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinwire_core::cm::hello::Refusal;
    use spinwire_core::cm::reason::CloseReason;

    const CLOSED: CloseReport = CloseReport {
        reason: CloseReason::Local,
        peer: None,
        was_open: true,
        unsent: 0,
        unconfirmed_after: None,
        attempts: 1,
        failed_before: None,
    };

    fn connect(reason: CloseReason) -> String {
        let report = CloseReport { reason, was_open: false, ..CLOSED };
        Trouble::Connect { connection: 3, of: 8, over: Over::Rdma, report }.to_string()
    }

    #[test]
    fn a_refusal_is_said_in_the_words_of_the_server() {
        let refusal = Refusal::TableFull { live: 16, capacity: 16 };
        let text = connect(CloseReason::Refused(refusal));
        assert!(text.contains("refused by the peer: table full, 16 of 16"), "{text}");
        assert!(text.contains("--connections-max"), "{text}");
    }

    #[test]
    fn a_closed_port_asks_for_the_server() {
        let text = connect(CloseReason::NobodyListens);
        assert!(text.contains("nobody listens") && text.contains("is the server running"), "{text}");
    }

    #[test]
    fn one_is_not_many() {
        let stalled = |outstanding, connections| {
            let (waiting, silent) = (Nanos::from_secs(5), 1);
            let left = Left { outstanding, queued: 0 };
            Trouble::Stalled { waiting, left, silent, connections }.to_string()
        };
        assert!(stalled(1, 1).contains("1 message without a reply, on 1 of 1 connection;"), "{}", stalled(1, 1));
        assert!(stalled(2_000, 8).contains("2,000 messages without a reply, on 1 of 8 connections;"));
    }

    #[test]
    fn large_numbers_are_grouped() {
        let report = CloseReport { reason: CloseReason::NobodyListens, was_open: false, ..CLOSED };
        let text = Trouble::Connect { connection: 1_233, of: 65_536, over: Over::Shm, report }.to_string();
        assert!(text.starts_with("connection 1,234 of 65,536: "), "{text}");
        let text = Trouble::TooLong { asked: 8_192, max: 4_096 }.to_string();
        assert_eq!(
            text,
            "the server takes messages of at most 4,096 bytes, not 8,192; start it with --message-max 8192"
        );
    }

    #[test]
    fn attempts_are_counted_and_the_one_before_is_named_if_it_failed_otherwise() {
        let text = |failed_before| {
            let report = CloseReport { reason: CloseReason::NobodyListens, attempts: 7, failed_before, ..CLOSED };
            Trouble::Connect { connection: 0, of: 1, over: Over::Rdma, report }.to_string()
        };
        assert!(text(Some(CloseReason::NobodyListens)).contains("at that address (attempt 7); is the server running"));
        let before = CloseReason::Rejected { code: 10 };
        assert!(text(Some(before)).contains("(attempt 7; before that: rejected"), "{}", text(Some(before)));
    }

    #[test]
    fn a_wrong_byte_is_named_with_both_values() {
        let mismatch = Mismatch::Byte { at: 17, expected: 0x5a, got: 0x5b };
        let text = Trouble::Mismatch { connection: 2, sequence: 9, mismatch }.to_string();
        assert_eq!(text, "wrong reply on connection 3 to message 9: byte 17 is 0x5b, expected 0x5a");
    }
}
