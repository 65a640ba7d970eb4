//! Step 4: timers.

use super::{Core, Engine, Handler, RELEASES_PER_TURN, TIMERS_PER_TURN};
use crate::cm::reason::CloseReason;
use crate::cm::table::{Input, Limit, State};
use crate::conn::Conn;
use crate::fabric::Control;
use crate::id::ConnId;
use crate::time::{Instant, Nanos};
use crate::timer::{Expired, TimerKind};

impl<C: Control> Engine<'_, C> {
    /// One comparison while no timer is due.
    ///
    /// A turn that left something in its queues gives the limit once more: after the loop was away for long, what a
    /// connection waits for may be in there.
    #[inline]
    pub(super) fn timers<H: Handler>(&mut self, handler: &mut H) {
        if self.core.timers.is_due(self.core.now) {
            self.worked = true;
            self.expire(handler);
        }
    }

    #[inline(never)]
    fn expire<H: Handler>(&mut self, handler: &mut H) {
        let now = self.core.now;
        let mut budget = TIMERS_PER_TURN;
        while let Some(Expired { conn, kind, at }) = self.core.timers.expire(now, &mut budget) {
            match kind {
                TimerKind::Deadline => self.deadline_passed(handler, conn, at),
                TimerKind::Keepalive => self.check_quiet(handler, conn),
                TimerKind::Retry => self.feed(handler, conn, Input::Deadline, None),
            }
        }
    }

    fn deadline_passed<H: Handler>(&mut self, handler: &mut H, id: ConnId, at: Instant) {
        let Some(conn) = self.core.conns.get(id) else { return };
        if self.releases >= RELEASES_PER_TURN {
            return self.core.arm(id, TimerKind::Deadline, self.core.now);
        }
        let (step, limit, give_up_at) = (conn.state, self.core.limit_of(conn), conn.give_up_at);
        let reason = if conn.goodbye {
            CloseReason::Peer
        } else if step == State::Established {
            if self.is_answered(id) || (self.was_away(at, limit) && self.core.extend_once(id, limit)) {
                return;
            }
            self.silence(id)
        } else if step.is_attempt() && self.core.now >= give_up_at {
            CloseReason::GaveUp { step, limit: self.core.config.retry.within }
        } else {
            CloseReason::TimedOut { step, limit }
        };
        if self.behind && self.core.extend_once(id, limit) {
            return;
        }
        self.feed(handler, id, Input::Deadline, Some(reason));
    }

    /// A timer that is seen long after its time: this process or its machine stood still, and what the peer was asked may
    /// not even have been sent.
    fn was_away(&self, at: Instant, limit: Nanos) -> bool {
        self.core.now.since(at).get() > limit.get() / 4
    }
}

impl Core<'_> {
    /// How long the connection may stay in its state, where a deadline says so.
    pub(super) fn limit_of(&self, conn: &Conn) -> Nanos {
        let timeouts = &self.config.timeouts;
        match conn.state.limit() {
            Limit::Resolve => timeouts.resolve,
            Limit::Connect => timeouts.connect,
            Limit::Drain => timeouts.drain,
            Limit::Backoff => self.pause(conn),
            Limit::Keepalive if !conn.goodbye => self.time_to_answer(),
            // The peer's linger time, taken to be ours.
            Limit::Keepalive | Limit::Linger => timeouts.linger,
            Limit::Turn => Nanos::ZERO,
        }
    }

    /// Replaces the timers of a connection by the one its state begins with.
    pub(super) fn restart_timers(&mut self, id: ConnId) {
        self.timers.cancel_all(id);
        let Some(conn) = self.conns.get(id) else { return };
        let (kind, at) = match conn.state.limit() {
            Limit::Turn => return,
            Limit::Keepalive => (TimerKind::Keepalive, self.quiet_at(conn)),
            Limit::Backoff => (TimerKind::Retry, self.now + self.limit_of(conn)),
            Limit::Resolve | Limit::Connect => {
                (TimerKind::Deadline, (self.now + self.limit_of(conn)).min(conn.give_up_at))
            }
            Limit::Linger | Limit::Drain => (TimerKind::Deadline, self.now + self.limit_of(conn)),
        };
        self.arm(id, kind, at);
    }

    pub(super) fn arm(&mut self, id: ConnId, kind: TimerKind, at: Instant) {
        self.timers.arm(self.now, id, kind, at);
    }

    /// Gives a connection another `limit` from now, if it had none in this state yet.
    pub(super) fn extend_once(&mut self, id: ConnId, limit: Nanos) -> bool {
        let Some(conn) = self.conns.get_mut(id).filter(|conn| !conn.extended) else { return false };
        conn.extended = true;
        self.arm(id, TimerKind::Deadline, self.now + limit);
        true
    }
}
