//! What an application does to the memory that the far side exposes, and how it notices that something went wrong there.
//!
//! Each connection has an area of its own in the far side's region, of which its application keeps a copy: operations are
//! carried out in order, so what each has to bring is known when it is asked for. All connections to a machine count up one
//! word, its first, and no two of them may be told the same number.

use std::collections::VecDeque;
use std::format;
use std::vec::Vec;

use super::app::App;
use super::coverage::Fault;
use super::record;
use crate::id::ConnId;
use crate::remote::RemoteRegion;
use crate::turn::{Cx, Done, OneSidedError, OneSidedFailure};

/// Words of one area: three that are written, one that is swapped, and the number of the last write with immediate.
const AREA_BYTES: usize = 40;
const WRITTEN: usize = 24;
const SWAPPED_AT: usize = 24;
const TOLD_AT: usize = 32;
/// Areas of a region, behind its first word. They are given out in turn; no world has as many connections at once.
const AREAS: usize = 1_024;
/// What a machine exposes.
pub(super) const EXPOSED_BYTES: usize = 8 + AREAS * AREA_BYTES;

/// The operations of one connection.
#[derive(Debug, Default)]
pub struct Operations {
    /// How many were taken.
    pub(super) asked: u32,
    area: usize,
    copy: Vec<u8>,
    expected: VecDeque<(u64, Expected)>,
    told: u32,
    /// The last one failed or was flushed: no later one may succeed.
    failed: bool,
}

#[derive(Debug)]
enum Expected {
    Written,
    Read(Vec<u8>),
    Was(u64),
    /// A number that nobody was told of this machine.
    New(usize),
    /// An operation that the far side refuses.
    Refused,
}

impl Operations {
    /// Whether each that was taken is over.
    pub(super) fn is_idle(&self) -> bool {
        self.expected.is_empty()
    }
}

impl App {
    /// Asks for operations until the queue or the plan is full.
    pub(super) fn operate(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        let plan = self.plan;
        if plan.operations == 0 {
            return;
        }
        let Some((far, _)) = self.net.peer_of(self.node, conn) else { return };
        let region = self.net.wire().exposed_by(far);
        loop {
            let view = self.view_mut(conn);
            if view.close_asked || view.closed.is_some() || view.operations.asked >= plan.operations {
                return;
            }
            match self.operate_once(cx, conn, far, &region) {
                Ok(()) => {}
                Err(OneSidedError::WouldBlock) => return record::fault(Fault::OperationsFull),
                Err(OneSidedError::NotOpen) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn operate_once(
        &mut self,
        cx: &mut Cx<'_, '_>,
        conn: ConnId,
        far: usize,
        region: &RemoteRegion,
    ) -> Result<(), OneSidedError> {
        let (book, raw) = (self.book.clone(), self.net.wire().raw);
        let random = &mut self.random;
        let operations = &mut self.conns.entry(conn.to_bits()).or_default().operations;
        if operations.copy.is_empty() {
            operations.area = 8 + AREA_BYTES * (book.area() % AREAS);
            operations.copy = std::vec![0; AREA_BYTES];
            // Another connection may have left something there.
            cx.write(conn, region.at(operations.area as u64), &operations.copy.clone(), 0)
                .inspect_err(|_| operations.copy.clear())?;
            operations.note(Expected::Written);
            return Ok(());
        }
        let user = u64::from(operations.asked);
        let (area, copy) = (operations.area as u64, &mut operations.copy);
        let start = random.below(WRITTEN as u64) as usize;
        let len = 1 + random.below((WRITTEN - start) as u64) as usize;
        let expected = match random.below(8) {
            0 | 1 => {
                let bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
                cx.write(conn, region.at(area + start as u64), &bytes, user)?;
                copy[start..start + len].copy_from_slice(&bytes);
                Expected::Written
            }
            2 | 3 => {
                cx.read(conn, region.at(area + start as u64), len as u32, user)?;
                Expected::Read(copy[start..start + len].to_vec())
            }
            4 => {
                let was = copy[SWAPPED_AT..SWAPPED_AT + 8].try_into().map_or(0, u64::from_ne_bytes);
                let (guess, new) = (if random.below(2) == 0 { was } else { random.next() }, random.next());
                cx.compare_swap(conn, region.at(area + SWAPPED_AT as u64), (guess, new), user)?;
                if guess == was {
                    copy[SWAPPED_AT..SWAPPED_AT + 8].copy_from_slice(&new.to_ne_bytes());
                }
                Expected::Was(was)
            }
            // A forged hello may say that the far side takes hardly anything.
            5 if !raw && cx.message_bytes_max(conn).is_some_and(|most| most >= 4) => {
                let told = operations.told + 1;
                let bytes = u64::from(told).to_ne_bytes();
                cx.write_imm(conn, region.at(area + TOLD_AT as u64), &bytes, told, user)?;
                operations.told = told;
                book.note(self.node, conn, &told_as(told, operations.area));
                Expected::Written
            }
            _ if random.chance(self.plan.trespasses) => {
                // A token that claims more than there is.
                let forged = RemoteRegion::new(region.addr(), 1 << 40, region.key(), region.rights()).expect("a token");
                cx.write(conn, forged.at(1 << 30), &[1], user)?;
                Expected::Refused
            }
            _ => {
                cx.fetch_add(conn, region.at(0), 1, user)?;
                book.counts(far);
                Expected::New(far)
            }
        };
        operations.note(expected);
        Ok(())
    }

    pub(super) fn check_done(
        &mut self,
        cx: &mut Cx<'_, '_>,
        conn: ConnId,
        user: u64,
        outcome: Result<Done<'_>, OneSidedFailure>,
    ) {
        record::note(|| format!("{conn}: operation {user}: {outcome:?}"));
        let book = self.book.clone();
        let view = self.view_mut(conn);
        assert!(view.opened && view.closed.is_none(), "an operation came back outside of {conn}'s life");
        let operations = &mut view.operations;
        let (asked, expected) = operations.expected.pop_front().expect("an operation came back that was not asked for");
        assert_eq!(asked, user, "{conn}: operations came back out of order");
        match (outcome, expected) {
            // Also with the status of a refusal: a queue pair that breaks by itself has any.
            (Err(_), _) => {
                operations.failed = true;
                return;
            }
            _ if operations.failed => panic!("{conn}: an operation succeeded after one that did not"),
            (Ok(Done::Written), Expected::Written) => {}
            (Ok(Done::Read(bytes)), Expected::Read(expected)) => {
                assert_eq!(bytes, expected, "{conn}: read something else than was written");
            }
            (Ok(Done::Was(was)), Expected::Was(expected)) => {
                assert_eq!(was, expected, "{conn}: swapped something else")
            }
            (Ok(Done::Was(number)), Expected::New(far)) => book.counted(far, number),
            (Ok(done), expected) => panic!("{conn}: {done:?} came of {expected:?}"),
        }
        self.operate(cx, conn);
    }

    pub(super) fn check_told(&mut self, conn: ConnId, imm: u32) {
        let view = self.view_mut(conn);
        assert!(view.opened && view.closed.is_none() && !view.close_asked, "told of a write outside of {conn}'s life");
        view.received += 1;
        if self.net.with_end(self.node, conn, |end| end.hostile) == Some(true) {
            return;
        }
        let from = self.net.peer_of(self.node, conn).expect("a far side");
        let expected = self.book.next(from).expect("told of a write that was not asked for");
        let area = expected.get(5..).and_then(|area| area.try_into().ok()).map_or(0, usize::from_ne_bytes);
        assert_eq!(expected, told_as(imm, area), "node {}, {conn}: told of another write, or too early", self.node);
        let wire = self.net.wire();
        let bytes = &wire.hosts[self.node].exposed[area + TOLD_AT..area + TOLD_AT + 8];
        let written = bytes.try_into().map_or(0, u64::from_ne_bytes);
        assert!(written >= imm.into(), "node {}, {conn}: told of write {imm} before it was there", self.node);
    }
}

impl Operations {
    fn note(&mut self, expected: Expected) {
        self.expected.push_back((self.asked.into(), expected));
        self.asked += 1;
    }
}

/// How a write with immediate stands in the book of messages. No message begins so.
fn told_as(imm: u32, area: usize) -> Vec<u8> {
    let mut entry = std::vec![0xff];
    entry.extend(imm.to_le_bytes());
    entry.extend(area.to_ne_bytes());
    entry
}
