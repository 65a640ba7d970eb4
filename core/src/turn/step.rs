//! Carries out what the transition table says.

use super::{Core, Cx, Engine, Handler, observe};
use crate::cm::event::CmEventKind;
use crate::cm::hello::{Encoded, Hello};
use crate::cm::reason::{CloseReason, CloseReport};
use crate::cm::table::{self, Input, Row, State, Step};
use crate::config::Mode;
use crate::conn::{Conn, Due, Origin, QpNum};
use crate::fabric::{Action, ActionError, Control, Fabric, WcStatus};
use crate::id::ConnId;

impl<C: Control> Engine<'_, C> {
    /// Something happened to a connection: looks up what it means and does it. `reason` is why the connection ends, if
    /// this ends it; the first one stays.
    pub(super) fn feed<H: Handler>(&mut self, handler: &mut H, id: ConnId, input: Input, reason: Option<CloseReason>) {
        let again = self.core.tries_again(id, reason.as_ref());
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        let from = conn.state;
        let row = table::next(from, input, again);
        observe::transition(id, from, input, row);
        // What is of no consequence ends nothing, but while draining it may name the cause.
        if row.is_some() || from == State::Draining {
            note_reason(conn, reason);
        }
        let Some(row) = row else {
            self.core.stats.events_ignored += 1;
            return;
        };
        // Its goodbye may not even be queued: a one-sided operation in front of it could not be posted.
        if input != Input::SendsDone && (conn.sends.occupied() > 0 || conn.due.has(Due::GOODBYE)) {
            conn.note_unconfirmed(self.core.now);
        }
        self.enter(id, row);
        for &step in row.steps {
            if let Err(ActionError { call, errno }) = self.take_step(handler, id, step) {
                let reason = CloseReason::Call { step: row.to, call, errno };
                self.feed(handler, id, Input::StepFailed, Some(reason));
                if row.steps.contains(&Step::DeliverHeld) {
                    // What was held back has arrived, and its hello too: it comes before what may arrive while it drains.
                    self.deliver_held(handler, id);
                }
                return;
            }
        }
    }

    /// The one place where a connection changes its state.
    fn enter(&mut self, id: ConnId, row: &'static Row) {
        let Some(conn) = self.core.conns.get_mut(id).filter(|_| row.to != row.from) else { return };
        if row.from == State::Opening {
            // Counted from here: when it was asked for, outside a turn, the last stamp may have been an old one.
            conn.give_up_at = self.core.now + self.core.config.retry.within;
        }
        conn.state = row.to;
        conn.unsettle();
        (conn.extended, conn.asked) = (false, None);
        if row.to == State::Established {
            conn.heard = self.core.now;
        }
        self.core.restart_timers(id);
    }

    fn take_step<H: Handler>(&mut self, handler: &mut H, id: ConnId, step: Step) -> Result<(), ActionError> {
        let Some(conn) = self.core.conns.get_mut(id) else { return Ok(()) };
        let action = match (step, conn.origin) {
            (Step::ResolveAddr, Origin::Endpoint(endpoint)) => {
                conn.attempts += 1;
                Action::ResolveAddr(endpoint)
            }
            (Step::Adopt, Origin::Request(request)) => Action::Adopt(request),
            (Step::ResolveAddr | Step::Adopt, _) => unreachable!("the table keeps active and passive side apart"),
            (Step::ResolveRoute, _) => Action::ResolveRoute,
            (Step::CreateQp, _) => {
                self.control.perform(&mut self.fabric, conn.link, Action::CreateQp)?;
                let qp_num = self.fabric.qp_num(conn.link).expect("a queue pair was made that has no number");
                conn.qp_num = QpNum::of(qp_num);
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
            (Step::DeliverHeld, _) => {
                self.deliver_held(handler, id);
                return Ok(());
            }
            (Step::Ask, _) => {
                self.core.ask(id);
                return Ok(());
            }
            (Step::Goodbye, _) => {
                conn.lingers_since = self.core.now;
                if self.core.config.mode == Mode::Spinwire {
                    conn.want(Due::GOODBYE);
                }
                self.core.dirty.mark(id.slot());
                return Ok(());
            }
            (Step::Disconnect, _) => {
                self.perform(id, Action::Disconnect)?;
                // Without a posted receive nothing will come back to end the drain.
                self.core.dirty.mark(id.slot());
                return Ok(());
            }
            (Step::Abandon, _) => {
                self.abandon(id);
                return Ok(());
            }
            (Step::Release, _) => {
                self.release(handler, id);
                return Ok(());
            }
        };
        self.perform(id, action)
    }

    pub(super) fn perform(&mut self, id: ConnId, action: Action<'_>) -> Result<(), ActionError> {
        let link = self.core.conns.get(id).map_or(id, |conn| conn.link);
        self.control.perform(&mut self.fabric, link, action)
    }

    /// Our own private data; empty in raw mode.
    fn hello(&self) -> Encoded {
        let Core { config, sizing, .. } = &self.core;
        match config.mode {
            Mode::Spinwire => {
                Hello { credits: sizing.recv_posted, message_bytes_max: config.message_bytes_max, answers_asks: true }
                    .encode()
            }
            Mode::Raw => Encoded::new(),
        }
    }

    pub(super) fn report_open<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        if !core::mem::replace(&mut conn.opened, true) {
            self.core.stats.opened += 1;
            self.open_operations(id);
            handler.on_open(&mut Cx::new(&mut self.core), id);
        }
    }

    /// The end.
    fn release<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.core.conns.get(id) else { return };
        let reason = match conn.reason.unwrap_or(CloseReason::Local) {
            // The event, or a send that came too late, was seen before the goodbye that explains it.
            CloseReason::PeerGone | CloseReason::Completion { .. } if conn.goodbye => CloseReason::Peer,
            reason => reason,
        };
        let report = CloseReport {
            reason,
            peer: conn.peer,
            was_open: conn.opened,
            unsent: conn.unsent(),
            unconfirmed_after: conn.unconfirmed_after,
            attempts: conn.attempts,
            failed_before: conn.failed_before,
        };
        let link = conn.link;
        self.destroy(id);
        self.fail_operations(handler, id);
        self.core.timers.cancel_all(id);
        self.core.conns.remove_up_to(id, link);
        self.core.stats.closed += 1;
        handler.on_close(&mut Cx::new(&mut self.core), id, &report);
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
