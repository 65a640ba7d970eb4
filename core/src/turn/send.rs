//! Step 2: send completions give slots and buffers back.

use super::{Cx, Engine, Handler};
use crate::cm::reason::CloseReason;
use crate::cm::table::{Input, State};
use crate::fabric::{Batch, Completion, Control, Fabric, Outcome, WcStatus};
use crate::id::{ConnId, WorkKind};

impl<C: Control> Engine<'_, C> {
    /// One batch of send completions.
    pub(super) fn complete_sends<H: Handler>(&mut self, handler: &mut H) -> bool {
        let mut batch = Batch::new();
        self.fabric.poll_send(&mut batch);
        self.core.stats.batch_largest = self.core.stats.batch_largest.max(batch.len() as u64);
        self.behind |= batch.is_full();
        for completion in &batch {
            self.sent(handler, completion);
        }
        !batch.is_empty()
    }

    fn sent<H: Handler>(&mut self, handler: &mut H, completion: &Completion) {
        let Some(id) = self.core.owner(completion, WorkKind::Send) else { return };
        let count = self.core.conns.get(id).and_then(|conn| conn.sends.retired_by(completion.wr_id.index()));
        let Some(count) = count else {
            self.core.stats.completions_stale += 1;
            return;
        };
        for _ in 0..count {
            self.core.retire(id);
        }
        // Buffers that were answers may be posted again, and gathered sends may go.
        self.core.dirty.mark(id.slot());
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
            handler.on_writable(&mut Cx { core: &mut self.core }, id);
        }
        self.check_sends_done(handler, id);
    }

    /// Ends the linger once every send is confirmed, the goodbye included.
    pub(super) fn check_sends_done<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let done = |conn: &crate::conn::Conn| {
            conn.state == State::Lingering && !conn.due.has(crate::conn::Due::GOODBYE) && conn.sends.occupied() == 0
        };
        if self.core.conns.get(id).is_some_and(done) {
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
