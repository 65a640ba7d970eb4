//! Step 6: what was gathered in this turn goes out, one chain and one doorbell per connection.

use super::keepalive::due_goes;
use super::{Core, Engine, Handler, RELEASES_PER_TURN};
use crate::cm::reason::CloseReason;
use crate::cm::table::{Input, State};
use crate::config::{BATCH_MAX, Sizing};
use crate::conn::{Conn, Credits, Due, Imm, MessageKind};
use crate::fabric::{ActionError, Control, Fabric, PostError, RecvWr, SendWr};
use crate::id::{ConnId, WorkId, WorkKind};

impl<C: Control> Engine<'_, C> {
    /// Visits each connection that something happened to. One that is marked again meanwhile waits for the next turn.
    pub(super) fn flush<H: Handler>(&mut self, handler: &mut H) -> bool {
        let count = self.core.dirty.len();
        for _ in 0..count {
            let Some(slot) = self.core.dirty.pop() else { break };
            let Some(id) = self.core.conns.id_at(slot) else { continue };
            self.wishes(handler, id);
            self.flush_conn(handler, id);
            self.check_sends_done(handler, id);
            self.check_drained(handler, id);
        }
        count > 0
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

    fn flush_conn<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let posted = self.post_sends(id).map_err(|error| ("send", error));
        // Sends first: they are what somebody waits for, and the spare receives cover the moment.
        if let Err((what, error)) = posted.and_then(|()| self.top_up(id).map_err(|error| ("receive", error))) {
            let reason = CloseReason::Post { what, errno: error.errno };
            self.feed(handler, id, Input::WorkFailed, Some(reason));
        }
    }

    fn post_sends(&mut self, id: ConnId) -> Result<(), PostError> {
        self.gather_control(id);
        let Core { conns, sends, sizing, config, stats, .. } = &mut self.core;
        let Some(conn) = conns.get_mut(id) else { return Ok(()) };
        let gathered = conn.sends.gathered();
        if gathered == 0 || !matches!(conn.state, State::Established | State::Lingering) {
            return Ok(());
        }
        let ring = Core::ring(sends, sizing, id.slot());
        let (mut ready, mut bytes, mut messages) = (0, 0u64, 0u64);
        // In raw mode nothing later on the connection would retire an unsignalled tail.
        let signal_every = if conn.credits == Credits::RAW { 1 } else { sizing.signal_every };
        for offset in 0..gathered {
            let seq = conn.sends.post_seq().wrapping_add(offset);
            let wr = &mut ring[seq as usize & (ring.len() - 1)];
            if !spend(&mut conn.credits, wr) {
                stats.credit_stalls += 1;
                break;
            }
            wr.wr_id = WorkId::new(conn.link, WorkKind::Send, seq);
            wr.inline = wr.len > 0 && wr.len <= config.inline_bytes_max;
            wr.signaled = conn.sends.signal(wr.signaled, signal_every);
            stats.sends_signaled += u64::from(wr.signaled);
            if wr.buf.is_some() {
                bytes += u64::from(wr.len);
                messages += 1;
            }
            ready += 1;
        }
        if ready == 0 {
            return Ok(());
        }
        let (first, second) = conn.sends.chain(ring, ready);
        let result = self.fabric.post_send(conn.link, (first, second));
        let taken = result.as_ref().map_or_else(|error| error.taken.min(ready), |()| ready);
        conn.sends.advance(taken);
        stats.doorbells += 1;
        stats.messages_sent += messages;
        stats.bytes_sent += bytes;
        result
    }

    /// Adds a control message where one is due and can go.
    fn gather_control(&mut self, id: ConnId) {
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        if conn.due != Due::NOTHING {
            return self.core.gather_due(id);
        }
        // Data that goes out anyway carries the credits.
        let data_goes = conn.sends.gathered() > 0 && conn.credits.for_data() > 0;
        if !data_goes && update_goes(conn, &self.core.sizing) {
            self.core.queue_control(id, MessageKind::Credit);
            self.core.stats.credit_messages += 1;
        }
    }

    /// Posts receives until there are as many as promised, or no buffer is left.
    fn top_up(&mut self, id: ConnId) -> Result<(), PostError> {
        let Core { conns, recv_pool, sizing, stats, dirty, .. } = &mut self.core;
        let Some(conn) = conns.get_mut(id) else { return Ok(()) };
        if conn.qp_num.is_none()
            || !matches!(conn.state, State::Established | State::Lingering | State::Connecting | State::Accepting)
        {
            return Ok(());
        }
        let missing = sizing.recv_posted - conn.recv_posted;
        let spare = (sizing.recv_buffers - conn.answers).saturating_sub(conn.recv_posted);
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
            let result = self.fabric.post_recv(conn.link, &chain);
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

    /// The receives a peer finds when it connects: they are in the hello, not owed.
    pub(super) fn post_first_receives(&mut self, id: ConnId) -> Result<(), ActionError> {
        self.top_up(id).map_err(|error| ActionError { call: "ibv_post_recv", errno: error.errno })?;
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

/// Takes a credit for `wr` and writes the credits given into its immediate data; `false` when there is none to take.
fn spend(credits: &mut Credits, wr: &mut SendWr) -> bool {
    let Some(message) = wr.imm.and_then(Imm::from_bits) else { return true };
    let allowed = match message.kind {
        MessageKind::Data => credits.for_data() > 0,
        MessageKind::Credit | MessageKind::Ask => credits.for_control(),
        MessageKind::Goodbye => credits.for_goodbye(),
    };
    if allowed {
        credits.spend();
        wr.imm = Some(Imm { credits: credits.give(), kind: message.kind }.to_bits());
    }
    allowed
}
