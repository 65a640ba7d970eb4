//! Carries out what the transition table says.

use super::{Core, Cx, Engine, Handler};
use crate::cm::event::CmEventKind;
use crate::cm::hello::{Encoded, Hello};
use crate::cm::reason::{CloseReason, CloseReport};
use crate::cm::table::{self, Input, State, Step};
use crate::config::Mode;
use crate::conn::{Conn, Origin};
use crate::fabric::{Action, ActionError, Control, Fabric, WcStatus};
use crate::id::ConnId;
use crate::time::Instant;

impl<C: Control> Engine<'_, C> {
    /// Something happened to a connection: looks up what it means and does it. `reason` is why the connection ends, if
    /// this ends it; the first one stays.
    pub(super) fn feed<H: Handler>(&mut self, handler: &mut H, id: ConnId, input: Input, reason: Option<CloseReason>) {
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        let from = conn.state;
        let row = table::next(from, input);
        // What is of no consequence ends nothing, but while draining it may name the cause.
        if row.is_some() || from == State::Draining {
            note_reason(conn, reason);
        }
        let Some(row) = row else {
            self.core.stats.events_ignored += 1;
            return;
        };
        if from == State::Lingering && input != Input::SendsDone && conn.sends.occupied() > 0 {
            conn.unconfirmed_after = Some(self.core.now.since(conn.lingers_since));
        }
        conn.state = row.to;
        conn.extended &= row.to == from;
        if row.to != from {
            let deadline = self.limit_of(row.to).map_or(Instant::NEVER, |limit| self.core.now + limit);
            self.core.set_deadline(id, deadline);
        }
        for &step in row.steps {
            if let Err(ActionError { call, errno }) = self.take_step(handler, id, step) {
                let reason = CloseReason::Call { step: row.to, call, errno };
                return self.feed(handler, id, Input::StepFailed, Some(reason));
            }
        }
    }

    fn take_step<H: Handler>(&mut self, handler: &mut H, id: ConnId, step: Step) -> Result<(), ActionError> {
        let Some(conn) = self.core.conns.get_mut(id) else { return Ok(()) };
        let action = match (step, conn.origin) {
            (Step::ResolveAddr, Origin::Endpoint(endpoint)) => Action::ResolveAddr(endpoint),
            (Step::Adopt, Origin::Request(request)) => Action::Adopt(request),
            (Step::ResolveAddr | Step::Adopt, _) => unreachable!("the table keeps active and passive side apart"),
            (Step::ResolveRoute, _) => Action::ResolveRoute,
            (Step::CreateQp, _) => {
                self.control.perform(&mut self.fabric, id, Action::CreateQp)?;
                conn.qp_num = self.fabric.qp_num(id);
                assert!(conn.qp_num.is_some(), "a queue pair was made that has no number");
                return Ok(());
            }
            (Step::PostRecvs, _) => return self.post_first_receives(id),
            (Step::Connect, _) => return self.perform(id, Action::Connect(&self.hello())),
            (Step::Accept, _) => return self.perform(id, Action::Accept(&self.hello())),
            (Step::Tune, _) => Action::Tune,
            (Step::Open, _) => {
                self.report_open(handler, id);
                return Ok(());
            }
            (Step::Goodbye, _) => {
                conn.lingers_since = self.core.now;
                conn.goodbye_due = self.core.config.mode == Mode::Spinwire;
                self.core.dirty.mark(id.slot());
                return Ok(());
            }
            (Step::Disconnect, _) => {
                self.perform(id, Action::Disconnect)?;
                // Without a posted receive nothing will come back to end the drain.
                self.core.dirty.mark(id.slot());
                return Ok(());
            }
            (Step::Release, _) => {
                self.release(handler, id);
                return Ok(());
            }
        };
        self.perform(id, action)
    }

    fn perform(&mut self, id: ConnId, action: Action<'_>) -> Result<(), ActionError> {
        self.control.perform(&mut self.fabric, id, action)
    }

    /// Our own private data; empty in raw mode.
    fn hello(&self) -> Encoded {
        let Core { config, sizing, .. } = &self.core;
        match config.mode {
            Mode::Spinwire => {
                Hello { credits: sizing.recv_posted, message_bytes_max: config.message_bytes_max }.encode()
            }
            Mode::Raw => Encoded::new(),
        }
    }

    pub(super) fn report_open<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        if !core::mem::replace(&mut conn.opened, true) {
            self.core.stats.opened += 1;
            handler.on_open(&mut Cx { core: &mut self.core }, id);
        }
    }

    /// The end: queue pair, then id; then the device touches nothing any more and every buffer comes home.
    fn release<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        self.releases += 1;
        // Both cope with what was never made, and there is nothing left to do about a failure: it is counted below.
        for action in [Action::DestroyQp, Action::DestroyId] {
            let failed = self.perform(id, action).is_err();
            self.core.stats.releases_failed += u64::from(failed);
        }
        let Some(conn) = self.core.conns.get(id) else { return };
        let reason = match conn.reason.unwrap_or(CloseReason::Local) {
            // The event, or a send that came too late, was seen before the goodbye that explains it.
            CloseReason::PeerGone | CloseReason::Completion { .. } if conn.goodbye => CloseReason::Peer,
            reason => reason,
        };
        let report = CloseReport {
            reason,
            was_open: conn.opened,
            unsent: conn.sends.gathered(),
            unconfirmed_after: conn.unconfirmed_after,
        };
        let (occupied, recv_posted) = (conn.sends.occupied(), conn.recv_posted);
        for _ in 0..occupied {
            self.core.retire(id);
        }
        if recv_posted > 0 {
            self.core.recv_pool.reclaim_all(id);
        }
        self.core.conns.remove(id);
        self.core.stats.closed += 1;
        handler.on_close(&mut Cx { core: &mut self.core }, id, &report);
    }
}

/// Keeps the first reason. A flushed completion is the exception: it only says that something broke the queue pair, and
/// what did may be seen a moment later on the other queue or as an event. (A flush that a close or a lost peer causes
/// itself comes while draining and never gets here.)
fn note_reason(conn: &mut Conn, reason: Option<CloseReason>) {
    let Some(new) = reason else { return };
    if conn.reason.is_none_or(|old| is_flush(&old) && names_the_cause(&new)) {
        conn.reason = Some(new);
    }
}

fn is_flush(reason: &CloseReason) -> bool {
    matches!(reason, CloseReason::Completion { status: WcStatus::WR_FLUSH_ERR, .. })
}

fn names_the_cause(reason: &CloseReason) -> bool {
    match reason {
        CloseReason::Completion { .. } => !is_flush(reason),
        CloseReason::Event { event, .. } => *event == CmEventKind::Unreachable,
        CloseReason::Peer | CloseReason::PeerGone | CloseReason::DeviceRemoved | CloseReason::DeviceFatal => true,
        _ => false,
    }
}
