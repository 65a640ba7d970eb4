//! Noticing a peer that vanished while nothing is sent.
//!
//! The time of the last message is noted as it arrives, and that is all a message costs: the timer looks at it when it
//! fires, and is put off then. Only a connection that was quiet for the whole interval sends a question.

use super::{Core, Engine, Handler};
use crate::cm::reason::CloseReason;
use crate::cm::table::{Input, State};
use crate::config::{Keepalive, Mode, Sizing};
use crate::conn::{Asked, Conn, Due, MessageKind};
use crate::fabric::Control;
use crate::id::ConnId;
use crate::time::{Instant, Nanos};
use crate::timer::TimerKind;

impl<C: Control> Engine<'_, C> {
    /// The interval has passed since something was heard, or since that was last looked at.
    pub(super) fn check_quiet<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.core.conns.get(id).filter(|conn| conn.state == State::Established) else { return };
        let quiet_at = self.core.quiet_at(conn);
        // A question that is out has its own timer.
        let waits = conn.asked.is_some() && !self.is_answered(id);
        if quiet_at > self.core.now {
            self.core.arm(id, TimerKind::Keepalive, quiet_at);
        } else if !waits {
            self.feed(handler, id, Input::Quiet, None);
        }
    }

    /// Whether something was heard since the peer was asked, or it was not asked. Then the question is over, and the
    /// next is due when it has been quiet for the interval again.
    pub(super) fn is_answered(&mut self, id: ConnId) -> bool {
        let Some(conn) = self.core.conns.get_mut(id) else { return true };
        if conn.asked.is_some_and(|asked| conn.heard < asked.at) {
            return false;
        }
        (conn.asked, conn.extended) = (None, false);
        conn.due.remove(Due::ASK);
        let quiet_at = conn.heard;
        self.core.timers.cancel(id, TimerKind::Deadline);
        if let Some(Keepalive { interval, .. }) = self.core.config.keepalive {
            self.core.arm(id, TimerKind::Keepalive, quiet_at + interval);
        }
        true
    }

    /// The reason when a peer did not answer.
    pub(super) fn silence(&self, id: ConnId) -> CloseReason {
        let conn = self.core.conns.get(id);
        let seq = conn.and_then(|conn| conn.asked).and_then(|asked| asked.seq);
        CloseReason::KeepaliveLost {
            silent: conn.map_or(Nanos::ZERO, |conn| self.core.now.since(conn.heard)),
            asked: seq.is_some(),
            acknowledged: conn.zip(seq).is_some_and(|(conn, seq)| conn.sends.is_retired(seq)),
        }
    }
}

impl Core<'_> {
    /// The peer is to be asked; the flush of this turn does it as soon as there is a credit.
    pub(super) fn ask(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        conn.asked = Some(Asked { at: self.now, seq: None });
        conn.want(Due::ASK);
        self.dirty.mark(id.slot());
        let (now, wait) = (self.now, self.time_to_answer());
        self.arm(id, TimerKind::Deadline, now + wait);
        // Looks whether the answer has come, so that the next question is not late.
        if let Some(Keepalive { interval, .. }) = self.config.keepalive {
            self.arm(id, TimerKind::Keepalive, now + interval);
        }
    }

    /// When a connection will have been quiet for the interval; [`Instant::NEVER`] where nobody is asked.
    pub(super) fn quiet_at(&self, conn: &Conn) -> Instant {
        match self.config.keepalive {
            Some(Keepalive { interval, .. })
                if self.config.mode == Mode::Spinwire && conn.answers_asks && !conn.goodbye =>
            {
                conn.heard + interval
            }
            _ => Instant::NEVER,
        }
    }

    /// How long a peer that was asked has to answer.
    pub(super) fn time_to_answer(&self) -> Nanos {
        self.config.keepalive.map_or(Nanos::ZERO, |Keepalive { interval, limit }| limit - interval)
    }

    /// Queues what [`Due`] names and can go now; `false`: nothing can. Rare: what is sent anyway carries no such thing.
    #[cold]
    pub(super) fn gather_due(&mut self, id: ConnId) -> bool {
        let Some(conn) = self.conns.get_mut(id) else { return false };
        if conn.due.has(Due::GOODBYE) {
            conn.due.remove(Due::MESSAGES);
            self.queue_control(id, MessageKind::Goodbye);
            return true;
        }
        if conn.data_goes() {
            // Data is an answer too.
            conn.due.remove(Due::ANSWER);
        }
        if !due_goes(conn, &self.sizing) {
            return false;
        }
        if conn.due.has(Due::ASK) {
            // It goes to the front, and out in this flush: the credit for it is there.
            let seq = Some(conn.sends.clear_seq());
            conn.asked = conn.asked.map(|asked| Asked { seq, ..asked });
            conn.due.remove(Due::MESSAGES);
            self.stats.asks += 1;
            self.queue_control(id, MessageKind::Ask);
        } else {
            conn.due.remove(Due::MESSAGES);
            self.stats.credit_messages += 1;
            self.queue_control(id, MessageKind::Credit);
        }
        true
    }
}

/// Whether a question or an answer is due and can go. As long as the own goodbye has not gone, a peer that asks while
/// this side closes is answered too: it may be what the data before the goodbye waits for.
pub(super) fn due_goes(conn: &Conn, sizing: &Sizing) -> bool {
    let speaks = match conn.state {
        State::Established => true,
        State::Lingering => conn.sends.gathered() > 0,
        _ => false,
    };
    conn.due.has(Due::MESSAGES)
        && speaks
        && !conn.goodbye
        // One slot is the goodbye's.
        && conn.sends.control() + 1 < sizing.control_slots
        && conn.credits.for_control()
}
