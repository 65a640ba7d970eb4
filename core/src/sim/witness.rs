//! What an engine was shown of each connection, and whether the end it reports follows from it: the reason has to be
//! among the causes it saw and, once the connection was up, it has to be the first.

mod verdict;

use std::format;
use std::string::String;
use std::vec::Vec;

use super::cq::Side;
use super::net::Wire;
use crate::cm::event::CmEventKind;
use crate::cm::reason::{CloseReason, CloseReport};
use crate::conn::{Imm, MessageKind};
use crate::fabric::{Completion, Outcome, WcStatus};
use crate::id::{ConnId, WorkId};

/// When an engine sees something: the turn, and the step in it. Steps come in their order in every turn.
type Stamp = (u64, u8);

/// The steps of a turn in which causes are seen.
pub(super) const RECEIVES: u8 = 0;
pub(super) const SENDS: u8 = 1;
pub(super) const EVENTS: u8 = 2;
pub(super) const FLUSH: u8 = 3;

/// What can end a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A connection event, with its status.
    Event(CmEventKind, i32),
    /// A work request failed.
    Completion(&'static str, WcStatus),
    /// A message that no peer that keeps to the protocol sends.
    Lie,
    /// A work request could not be posted.
    Post(&'static str),
    /// An action failed.
    Call(&'static str),
    /// The application closed it.
    Local,
}

/// What was seen of one connection, by the application's handle for it.
#[derive(Debug, Default)]
pub(super) struct Witness {
    /// What the engine calls its present attempt in events and actions.
    link: Option<ConnId>,
    /// Of the present attempt.
    causes: Vec<(Stamp, Cause)>,
    goodbye: Option<Stamp>,
    opened: Option<Stamp>,
    /// When it was first heard of, in nanoseconds.
    began: u64,
    /// Its end was reported.
    ended: bool,
}

impl Wire {
    /// The engine of `node` sees a cause, in `step` of its turn.
    pub(super) fn saw(&mut self, node: usize, link: ConnId, step: u8, cause: Cause) {
        let stamp = (self.hosts[node].turn, step);
        let witness = self.witness(node, link);
        // What still comes of an attempt before is of no consequence.
        if witness.link.is_none_or(|present| present == link) {
            witness.causes.push((stamp, cause));
        }
    }

    /// The engine of `node` sees an event that concerns all its connections.
    pub(super) fn saw_device_event(&mut self, node: usize, kind: CmEventKind) {
        self.saw_of_all(node, (self.hosts[node].turn, EVENTS), Cause::Event(kind, 0));
    }

    /// The application closes everything there is.
    pub(super) fn saw_close_all(&mut self, node: usize) {
        self.saw_of_all(node, self.next_flush(node), Cause::Local);
    }

    fn saw_of_all(&mut self, node: usize, stamp: Stamp, cause: Cause) {
        for witness in self.hosts[node].witnesses.values_mut().filter(|witness| !witness.ended) {
            if cause != Cause::Local || !witness.saw(cause) {
                witness.causes.push((stamp, cause));
            }
        }
    }

    /// The application closes a connection: the flush of this turn, or of the next, takes it up.
    pub(super) fn saw_close(&mut self, node: usize, conn: ConnId) {
        let stamp = self.next_flush(node);
        self.witness(node, conn).causes.push((stamp, Cause::Local));
    }

    fn next_flush(&self, node: usize) -> Stamp {
        (self.hosts[node].turn + u64::from(!self.hosts[node].in_turn), FLUSH)
    }

    /// The connection comes up, in the step the engine is in.
    pub(super) fn saw_open(&mut self, node: usize, conn: ConnId) {
        let stamp = (self.hosts[node].turn, self.hosts[node].step);
        self.witness(node, conn).opened = Some(stamp);
    }

    pub(super) fn see_completion(&mut self, end: usize, side: Side, completion: &Completion) {
        let (node, Some(link)) = (self.ends[end].node, self.ends[end].conn) else { return };
        let (step, what) = match side {
            Side::Recv => (RECEIVES, "receive"),
            Side::Send if completion.wr_id.is_one_sided() => (SENDS, OPERATION),
            Side::Send => (SENDS, "send"),
        };
        self.hosts[node].step = step;
        let (raw, stamp) = (self.raw, (self.hosts[node].turn, step));
        match completion.outcome {
            Outcome::Failed { status, .. } => self.saw(node, link, step, Cause::Completion(what, status)),
            Outcome::Done { .. } if side == Side::Send => {}
            Outcome::Done { .. } if self.is_lie(end, completion.wr_id) => self.saw(node, link, step, Cause::Lie),
            Outcome::Done { imm, .. } => {
                if !raw && imm.and_then(Imm::from_bits).is_some_and(|imm| imm.kind == MessageKind::Goodbye) {
                    self.witness(node, link).goodbye.get_or_insert(stamp);
                }
            }
        }
    }

    /// Whether that message is one that must not be believed. To be asked once.
    fn is_lie(&mut self, end: usize, wr_id: WorkId) -> bool {
        let lies = &mut self.ends[end].lies;
        lies.iter().position(|lie| *lie == wr_id).map(|at| lies.swap_remove(at)).is_some()
    }

    /// The application of `node` has that connection.
    pub(super) fn began(&mut self, node: usize, conn: ConnId) {
        let now = self.now;
        let handle = (conn.slot(), conn.generation());
        self.hosts[node].witnesses.entry(handle).or_insert_with(|| Witness { began: now, ..Witness::default() });
    }

    /// The engine of `node` calls an attempt of one of its connections `link` from now on.
    pub(super) fn attempts(&mut self, node: usize, link: ConnId) {
        let witness = self.witness(node, link);
        witness.link = Some(link);
        witness.causes.retain(|(_, cause)| *cause == Cause::Local);
    }

    /// What the engine of `node` calls the present attempt of a connection.
    pub(super) fn link_of(&mut self, node: usize, conn: ConnId) -> ConnId {
        self.witness(node, conn).link.unwrap_or(conn)
    }

    /// The connection with that handle, or the one whose attempt is called so: attempts count up in the generation.
    fn witness(&mut self, node: usize, conn: ConnId) -> &mut Witness {
        let lives = (conn.slot(), 0)..=(conn.slot(), conn.generation());
        if self.hosts[node].witnesses.range(lives.clone()).next_back().is_none_or(|(_, witness)| witness.ended) {
            self.began(node, conn);
        }
        self.hosts[node].witnesses.range_mut(lives).next_back().expect("just made, if there was none").1
    }

    /// Whether the end reported of a connection follows from what the engine was shown.
    ///
    /// # Errors
    /// It does not; says what was shown.
    pub(super) fn judge(&mut self, node: usize, conn: ConnId, report: &CloseReport) -> Result<(), String> {
        let link = self.link_of(node, conn);
        let end = self.end_of(node, link).map(|end| &self.ends[end]);
        let peer = end.and_then(|end| end.peer).map(|peer| &self.ends[peer]);
        let hostile = [end, peer].into_iter().flatten().any(|end| end.hostile);
        // What follows from a lie on its own side can be judged; not what follows from one on the far side.
        let astray = end.is_some_and(|end| end.misled) || peer.is_some_and(|peer| peer.hostile);
        let now = self.now;
        let witness = self.witness(node, conn);
        witness.ended = true;
        witness.causes.sort_by_key(|(stamp, _)| *stamp);
        if !witness.explains(report.reason, hostile, now) {
            return Err(format!("{conn} ended with `{}`, for which there was no cause: {witness:?}", report.reason));
        }
        if matches!(report.reason, CloseReason::Protocol(fault) if !astray && !witness.saw_fault(fault, hostile)) {
            return Err(format!("{conn} ended with `{}`, but no such message came: {witness:?}", report.reason));
        }
        if !astray && !witness.is_first(report.reason) {
            return Err(format!("{conn} ended with `{}`, which was not the first cause: {witness:?}", report.reason));
        }
        Ok(())
    }
}

/// What a completion of a one-sided operation is of, for whoever sees no more than its work id.
const OPERATION: &str = "operation";
