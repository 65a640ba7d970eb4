//! Attempts to connect: when another one is made, and what is left of one that failed.

use super::{Core, Engine};
use crate::cm::reason::CloseReason;
use crate::cm::retry::Failure;
use crate::conn::{Conn, Credits, QpNum};
use crate::fabric::{Action, Control};
use crate::id::ConnId;
use crate::time::Nanos;

impl<C: Control> Engine<'_, C> {
    /// Clears away a failed attempt. Its id and its queue pair are gone when this returns; events and completions it still
    /// has somewhere carry its name, which is not the connection's any more.
    pub(super) fn abandon(&mut self, id: ConnId) {
        self.destroy(id);
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        conn.begin_attempt(conn.link.next_attempt());
        conn.failed_before = conn.reason.take();
        conn.credits = Credits::RAW;
        self.core.stats.attempts_failed += 1;
    }

    /// Queue pair, then id; then the device touches nothing any more and every buffer comes home.
    pub(super) fn destroy(&mut self, id: ConnId) {
        self.releases += 1;
        // Both cope with what was never made, and there is nothing left to do about a failure but to count it.
        for action in [Action::DestroyQp, Action::DestroyId] {
            let failed = self.perform(id, action).is_err();
            self.core.stats.releases_failed += u64::from(failed);
        }
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        conn.qp_num = QpNum::NONE;
        let recv_posted = core::mem::take(&mut conn.recv_posted);
        conn.held = 0;
        let (sends, work) = (conn.sends.abandon(), conn.recv_work);
        self.core.retire(&mut self.recv_pool, id, sends);
        if recv_posted > 0 {
            self.recv_pool.reclaim_all(work);
        }
    }
}

impl Core<'_> {
    /// Whether a connection that is in an attempt, which fails for `reason`, makes another one.
    pub(super) fn tries_again(&self, id: ConnId, reason: Option<&CloseReason>) -> bool {
        let Some((conn, reason)) = self.conns.get(id).zip(reason) else { return false };
        conn.state.is_attempt()
            && !conn.close_asked
            && conn.attempts < self.config.retry.attempts_for(Failure::of(reason))
            && self.now + self.pause(conn) < conn.give_up_at
    }

    /// The pause after the attempt that a connection has just made.
    pub(super) fn pause(&self, conn: &Conn) -> Nanos {
        self.config.retry.pause(conn.attempts, self.config.seed ^ conn.link.to_bits())
    }
}
