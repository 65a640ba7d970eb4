//! Step 2: send completions give slots and buffers back.

use super::{Core, Cx, Engine, Handler};
use crate::cm::reason::CloseReason;
use crate::cm::table::{Input, State};
use crate::fabric::{Batch, Completion, Control, Fabric, Outcome, WcStatus};
use crate::id::ConnId;

impl<C: Control> Engine<'_, C> {
    /// One batch of send completions.
    #[inline]
    pub(super) fn complete_sends<H: Handler>(&mut self, handler: &mut H, batch: &mut Batch) {
        self.fabric.poll_send(batch);
        if !batch.is_empty() {
            self.worked = true;
            self.complete_batch(handler, batch);
        }
    }

    #[inline(never)]
    fn complete_batch<H: Handler>(&mut self, handler: &mut H, batch: &Batch) {
        self.core.stats.polled(batch.len());
        self.behind |= batch.is_full();
        for completion in batch {
            self.sent(handler, completion);
        }
    }

    fn sent<H: Handler>(&mut self, handler: &mut H, completion: &Completion) {
        if completion.wr_id.is_one_sided() {
            return self.operation_completed(handler, completion);
        }
        let Core { conns, stats, now, .. } = &mut self.core;
        let Some((id, conn)) = Core::owner(conns, stats, completion, |conn| conn.send_work) else { return };
        let Some(count) = conn.sends.retired_by(completion.wr_id.index()) else {
            stats.completions_stale += 1;
            return;
        };
        let failed = matches!(completion.outcome, Outcome::Failed { .. });
        if failed {
            // Retiring takes it off the books, and it may be the last: that it went nowhere is noted first.
            conn.note_unconfirmed(*now);
        }
        self.core.retire(&mut self.recv_pool, id, count);
        let Core { conns, dirty, sizing, .. } = &mut self.core;
        // Buffers that were answers may be posted again, and what waited may go. What a steady connection sends marks it
        // by itself, and waits for nothing.
        if failed || conns.get(id).is_none_or(|conn| !conn.is_steady() || conn.lacks_receives(sizing)) {
            dirty.mark(id.slot());
        }
        if let Outcome::Failed { status, vendor } = completion.outcome {
            self.work_failed(handler, id, "send", status, vendor);
        }
        self.after_retiring(handler, id);
    }

    fn after_retiring<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let app_slots = self.core.sizing.app_slots;
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        if conn.starved && conn.state == State::Established && conn.sends.app() < app_slots {
            conn.starved = false;
            handler.on_writable(&mut Cx::new(&mut self.core), id);
        }
        self.check_sends_done(handler, id);
    }

    /// Ends the linger once every send is confirmed, the goodbye included.
    pub(super) fn check_sends_done<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let done = |conn: &crate::conn::Conn| {
            conn.state == State::Lingering && !conn.due.has(crate::conn::Due::GOODBYE) && conn.sends.occupied() == 0
        };
        if self.core.conns.get(id).is_some_and(done) && self.core.operations(id.slot()) == 0 {
            self.feed(handler, id, Input::SendsDone, None);
        }
    }

    /// A work request failed. While draining a flush is normal; everywhere else the queue pair is broken.
    pub(super) fn work_failed<H: Handler>(
        &mut self,
        handler: &mut H,
        id: ConnId,
        what: &'static str,
        status: WcStatus,
        vendor: u32,
    ) {
        let flushed = status == WcStatus::WR_FLUSH_ERR;
        let stats = &mut self.core.stats;
        stats.completions_flushed += u64::from(flushed);
        stats.completions_failed += u64::from(!flushed);
        if flushed && self.core.conns.get(id).is_some_and(|conn| conn.state == State::Draining) {
            return;
        }
        self.feed(handler, id, Input::WorkFailed, Some(CloseReason::Completion { what, status, vendor }));
    }
}
