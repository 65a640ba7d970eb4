//! Step 6: what was gathered in this turn goes out, one chain and one doorbell per connection.

use super::keepalive::due_goes;
use super::{Core, Engine, Handler, RELEASES_PER_TURN};
use crate::cm::reason::CloseReason;
use crate::cm::table::{Input, State};
use crate::config::{BATCH_MAX, Sizing};
use crate::conn::{Conn, Due, MessageKind};
use crate::fabric::{ActionError, Control, Fabric, PostError, RecvWr};
use crate::id::{ConnId, WorkId, WorkKind};

impl<C: Control> Engine<'_, C> {
    /// Visits each connection that something happened to. One that is marked again meanwhile waits for the next turn.
    #[inline]
    pub(super) fn flush<H: Handler>(&mut self, handler: &mut H) {
        let count = self.core.dirty.len();
        if count > 0 {
            self.worked = true;
            self.flush_dirty(handler, count);
        }
    }

    #[inline(never)]
    fn flush_dirty<H: Handler>(&mut self, handler: &mut H, count: usize) {
        for _ in 0..count {
            let Some(slot) = self.core.dirty.pop() else { break };
            let Some((id, conn)) = self.core.conns.at_mut(slot) else { continue };
            if conn.flows() {
                self.flush_conn(handler, id);
            } else {
                self.flush_other(handler, id);
            }
        }
    }

    /// A connection that comes up, or ends.
    #[inline(never)]
    fn flush_other<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        self.wishes(handler, id);
        self.flush_conn(handler, id);
        self.check_sends_done(handler, id);
        self.check_drained(handler, id);
    }

    /// What the application asked for since the last turn.
    fn wishes<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(conn) = self.core.conns.get(id) else { return };
        let (state, close_asked) = (conn.state, conn.close_asked);
        if close_asked
            && !matches!(state, State::Established | State::Lingering | State::Draining)
            && self.releases >= RELEASES_PER_TURN
        {
            self.core.dirty.mark(id.slot());
        } else if close_asked && !matches!(state, State::Lingering | State::Draining) {
            self.feed(handler, id, Input::LocalClose, Some(CloseReason::Local));
        } else if state == State::Opening {
            self.feed(handler, id, Input::Start, None);
        }
    }

    /// Sends first: they are what somebody waits for, and the spare receives cover the moment.
    #[inline]
    fn flush_conn<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let result = self.core.post_sends(&mut self.fabric, id).map_err(|error| ("send", error));
        let result = result.and_then(|()| self.core.top_up(&mut self.fabric, id).map_err(|error| ("receive", error)));
        if let Err((what, error)) = result {
            self.feed(handler, id, Input::WorkFailed, Some(CloseReason::Post { what, errno: error.errno }));
        }
    }

    /// The receives a peer finds when it connects: they are in the hello, not owed.
    pub(super) fn post_first_receives(&mut self, id: ConnId) -> Result<(), ActionError> {
        self.core
            .top_up(&mut self.fabric, id)
            .map_err(|error| ActionError { call: "ibv_post_recv", errno: error.errno })?;
        let core = &mut self.core;
        match core.conns.get_mut(id) {
            Some(conn) if conn.recv_posted < core.sizing.recv_posted => {
                Err(ActionError { call: "taking receive buffers", errno: ENOBUFS })
            }
            Some(conn) => {
                conn.credits.forgive();
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Core<'_> {
    /// Posts what has its credits, in one chain.
    #[inline]
    fn post_sends(&mut self, fabric: &mut impl Fabric, id: ConnId) -> Result<(), PostError> {
        let Some(conn) = self.conns.get_mut(id) else { return Ok(()) };
        if conn.due != Due::NOTHING || conn.sends.waiting() > 0 || conn.credits.update_is_due() {
            self.gather(id);
        }
        let Self { conns, sends, sizing, stats, .. } = self;
        let Some(conn) = conns.get_mut(id) else { return Ok(()) };
        let ready = conn.sends.ready();
        if ready == 0 || !sends_out(conn.state) {
            return Ok(());
        }
        let (first, second) = conn.sends.chain(Self::ring(sends, sizing, id.slot()));
        if let Some(imm) = first.first_mut().and_then(|wr| wr.imm.as_mut()) {
            *imm |= u32::from(conn.credits.give());
        }
        let result = fabric.post_send(conn.link, (first, second));
        let taken = result.as_ref().map_or_else(|error| error.taken.min(ready), |()| ready);
        conn.sends.advance(taken);
        stats.doorbells += 1;
        result
    }

    /// Adds a control message where one is due and can go, and clears what was waiting.
    #[inline(never)]
    fn gather(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get(id) else { return };
        let gathered = conn.due != Due::NOTHING && self.gather_due(id);
        // Data that goes out anyway carries the credits.
        let updates = |conn: &Conn| !conn.data_goes() && update_goes(conn, &self.sizing);
        if !gathered && self.conns.get(id).is_some_and(updates) {
            self.queue_control(id, MessageKind::Credit);
            self.stats.credit_messages += 1;
        }
        if self.conns.get(id).is_some_and(|conn| sends_out(conn.state)) {
            self.clear_waiting(id);
        }
    }

    /// Posts receives, if a batch of them is missing.
    #[inline]
    fn top_up(&mut self, fabric: &mut impl Fabric, id: ConnId) -> Result<(), PostError> {
        match self.conns.get(id) {
            Some(conn) if self.sizing.recv_posted - conn.recv_posted >= self.sizing.recv_batch => {
                self.post_receives(fabric, id)
            }
            _ => Ok(()),
        }
    }

    /// Posts receives until there are as many as promised, or no buffer is left.
    #[inline(never)]
    fn post_receives(&mut self, fabric: &mut impl Fabric, id: ConnId) -> Result<(), PostError> {
        let Self { conns, recv_pool, sizing, stats, dirty, .. } = self;
        let Some(conn) = conns.get_mut(id) else { return Ok(()) };
        if conn.qp_num.is_none()
            || !matches!(conn.state, State::Established | State::Lingering | State::Connecting | State::Accepting)
        {
            return Ok(());
        }
        let missing = sizing.recv_posted - conn.recv_posted;
        let spare = (sizing.recv_buffers - conn.sends.answers()).saturating_sub(conn.recv_posted);
        let mut wanted = missing.min(spare);
        while wanted > 0 {
            let mut chain = heapless::Vec::<RecvWr, BATCH_MAX>::new();
            while chain.len() < BATCH_MAX.min(wanted as usize) {
                let Some(buf) = recv_pool.take() else { break };
                let buf = recv_pool.lend(buf, id);
                let wr_id = WorkId::new(conn.link, WorkKind::Recv, buf.index());
                // The loop's bound is the capacity.
                let _ = chain.push(RecvWr { wr_id, buf });
            }
            if chain.is_empty() {
                stats.buffer_stalls += 1;
                dirty.mark(id.slot());
                break;
            }
            let result = fabric.post_recv(conn.link, &chain);
            let taken =
                result.as_ref().map_or_else(|error| error.taken.min(chain.len() as u32), |()| chain.len() as u32);
            conn.recv_posted += taken;
            conn.credits.owe(taken);
            stats.receives_posted += u64::from(taken);
            for wr in &chain[taken as usize..] {
                if let Some(buf) = recv_pool.reclaim(wr.buf.index(), id) {
                    recv_pool.release(buf);
                }
            }
            result?;
            wanted -= taken;
        }
        if update_goes(conn, sizing) || due_goes(conn, sizing) {
            dirty.mark(id.slot());
        }
        Ok(())
    }
}

/// States in which sends go out.
#[inline]
fn sends_out(state: State) -> bool {
    matches!(state, State::Established | State::Lingering)
}

const ENOBUFS: i32 = 105;

/// Whether a credit update is due and can go. Not to a peer that has said goodbye, and not behind the own goodbye: it
/// would serve nobody, and the linger would wait for its completion.
fn update_goes(conn: &Conn, sizing: &Sizing) -> bool {
    let wanted = match conn.state {
        State::Established => !conn.goodbye,
        State::Lingering => !conn.goodbye && conn.sends.gathered() > 0,
        _ => false,
    };
    // One slot is the goodbye's. A completion that frees another brings us here again.
    let room = conn.sends.control() + 1 < sizing.control_slots;
    wanted && room && conn.credits.update_is_due() && conn.credits.for_control()
}
