//! Whether a reason follows from what was seen.

use super::super::MS;
use super::{Cause, OPERATION, Witness};
use crate::cm::event::CmEventKind;
use crate::cm::reason::{CloseReason, ProtocolError};
use crate::fabric::WcStatus;

impl Witness {
    pub(super) fn saw(&self, cause: Cause) -> bool {
        self.causes.iter().any(|(_, other)| *other == cause)
    }

    fn saw_event(&self, kind: CmEventKind) -> bool {
        self.causes.iter().any(|(_, cause)| matches!(cause, Cause::Event(other, _) if *other == kind))
    }

    pub(super) fn explains(&self, reason: CloseReason, hostile: bool, now: u64) -> bool {
        // A goodbye that came before the peer's hello, and was never read for want of it, explains nothing.
        let no_goodbye = hostile || self.goodbye.is_none() || self.opened.is_none();
        match reason {
            CloseReason::Local => self.saw(Cause::Local),
            CloseReason::Peer => self.goodbye.is_some(),
            CloseReason::PeerGone => self.saw_event(CmEventKind::Disconnected) && no_goodbye,
            CloseReason::NobodyListens | CloseReason::Rejected { .. } | CloseReason::Refused(_) => {
                self.saw_event(CmEventKind::Rejected)
            }
            CloseReason::Event { event, status, .. } => self.saw(Cause::Event(event, status)),
            CloseReason::TimedOut { limit, .. } | CloseReason::GaveUp { limit, .. } => {
                // Stamps of timers are rounded to ticks of a few microseconds.
                now - self.began + MS >= limit.get()
            }
            CloseReason::KeepaliveLost { silent, .. } => now - self.began >= silent.get(),
            CloseReason::Call { call: "ibv_post_recv", .. } => self.saw(Cause::Post("receive")),
            CloseReason::Call { call, .. } => self.saw(Cause::Call(call)),
            CloseReason::Completion { what, status, .. } => {
                self.saw(Cause::Completion(as_seen(what), status)) && no_goodbye
            }
            CloseReason::Post { what, .. } => self.saw(Cause::Post(what)),
            CloseReason::Hello(_) => self.saw_event(CmEventKind::Established),
            CloseReason::Protocol(_) => hostile || self.saw(Cause::Completion("receive", WcStatus::LOC_LEN_ERR)),
            CloseReason::DeviceRemoved => self.saw_event(CmEventKind::DeviceRemoval),
            CloseReason::DeviceFatal => self.saw_event(CmEventKind::DeviceFatal),
        }
    }

    /// Whether a message came that `fault` can be said of. Credits that are too many come in a message that only the engine
    /// can tell from a good one.
    pub(super) fn saw_fault(&self, fault: ProtocolError, hostile: bool) -> bool {
        match fault {
            ProtocolError::Overrun { .. } => self.saw(Cause::Completion("receive", WcStatus::LOC_LEN_ERR)),
            ProtocolError::Credits { .. } => hostile,
            _ => self.saw(Cause::Lie),
        }
    }

    /// Of a connection that was up, nothing that would have ended it came before what did.
    pub(super) fn is_first(&self, reason: CloseReason) -> bool {
        let mut ends = self.causes.iter().filter(|(_, cause)| ends_established(*cause));
        let (Some(opened), Some((stamp, first))) = (self.opened, ends.next()) else { return true };
        // What came before it was up may have been of no consequence.
        if *stamp < opened || (*stamp == opened && !matches!(first, Cause::Local)) {
            return true;
        }
        if let CloseReason::Call { call, .. } = reason {
            // A step on the way up, or of a row that opened it: what it met is seen after.
            return self.causes.iter().any(|((turn, _), cause)| *cause == Cause::Call(call) && *turn <= stamp.0);
        }
        if let CloseReason::KeepaliveLost { .. } = reason {
            // Its deadline comes before the flush that takes up a close, and what is seen while it drains comes after it.
            return true;
        }
        let after_goodbye = self.goodbye.is_some_and(|goodbye| goodbye < *stamp);
        match (first, reason) {
            // A flush only says that something broke the queue pair; what, may be seen later.
            (Cause::Completion(_, WcStatus::WR_FLUSH_ERR), _) => true,
            (_, CloseReason::Peer) if after_goodbye => true,
            (Cause::Event(CmEventKind::Disconnected, _) | Cause::Completion(..), CloseReason::Peer) => true,
            (Cause::Event(CmEventKind::Disconnected, _), CloseReason::PeerGone) => true,
            (Cause::Event(CmEventKind::DeviceRemoval, _), CloseReason::DeviceRemoved) => true,
            (Cause::Event(CmEventKind::DeviceFatal, _), CloseReason::DeviceFatal) => true,
            // Its message came before whatever was seen.
            (_, CloseReason::Protocol(ProtocolError::Credits { .. })) => true,
            (Cause::Event(CmEventKind::Rejected, _), reason) => {
                matches!(reason, CloseReason::NobodyListens | CloseReason::Rejected { .. } | CloseReason::Refused(_))
            }
            (Cause::Event(kind, status), CloseReason::Event { event, status: other, .. }) => {
                (*kind, *status) == (event, other)
            }
            (Cause::Completion("receive", WcStatus::LOC_LEN_ERR) | Cause::Lie, CloseReason::Protocol(_)) => true,
            (Cause::Completion(what, status), CloseReason::Completion { what: other, status: reported, .. }) => {
                (*what, *status) == (as_seen(other), reported)
            }
            (Cause::Post(what), CloseReason::Post { what: other, .. }) => *what == other,
            (Cause::Local, CloseReason::Local) => true,
            _ => false,
        }
    }
}

/// What a reported completion was of, as far as its work id tells.
fn as_seen(what: &'static str) -> &'static str {
    if matches!(what, "send" | "receive") { what } else { OPERATION }
}

/// Whether a cause ends a connection that is up.
fn ends_established(cause: Cause) -> bool {
    match cause {
        Cause::Event(kind, _) => matches!(
            kind,
            CmEventKind::Disconnected
                | CmEventKind::DeviceRemoval
                | CmEventKind::DeviceFatal
                | CmEventKind::Unreachable
                | CmEventKind::ConnectError
                | CmEventKind::Rejected
        ),
        Cause::Completion(..) | Cause::Lie | Cause::Post(_) | Cause::Local => true,
        Cause::Call(_) => false,
    }
}
