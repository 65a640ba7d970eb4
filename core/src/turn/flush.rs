//! Step 6: what was gathered in this turn goes out, one chain and one doorbell per connection.

use super::keepalive::due_goes;
use super::{Core, Engine, Handler, RELEASES_PER_TURN};
use crate::cm::reason::CloseReason;
use crate::cm::table::{Input, State};
use crate::config::{BATCH_MAX, Sizing};
use crate::conn::{Conn, Due, MessageKind, QpNum};
use crate::fabric::{ActionError, Control, Fabric, PostError, SendWr};
use crate::id::ConnId;
use crate::pool::Pool;
use crate::stats::Stats;

impl<C: Control> Engine<'_, C> {
    /// Visits each connection that something happened to. One that is marked again meanwhile waits for the next turn.
    #[inline(never)]
    pub(super) fn flush<H: Handler>(&mut self, handler: &mut H) {
        let walk = self.core.dirty.walk();
        for place in walk.places() {
            let slot = self.core.dirty.take(walk, place);
            self.visit(handler, slot);
        }
    }

    /// The connection in a slot, if there is one.
    #[inline(never)]
    pub(super) fn visit<H: Handler>(&mut self, handler: &mut H, slot: usize) {
        let Core { conns, sends, sizing, stats, .. } = &mut self.core;
        let Some((id, conn)) = conns.at_mut(slot) else { return };
        if !conn.is_steady() {
            return self.flush_other(handler, id);
        }
        let sent = post_sends(&mut self.fabric, stats, conn, sends);
        let short = conn.lacks_receives(sizing);
        self.posted(handler, id, sent, short);
    }

    /// A connection that comes up, or ends, or has something to say for itself.
    #[inline(never)]
    fn flush_other<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        self.wishes(handler, id);
        self.post_operations(handler, id);
        self.core.gather(id);
        let Core { conns, sends, sizing, stats, .. } = &mut self.core;
        if let Some(conn) = conns.get_mut(id) {
            let sent = if sends_out(conn.state) { post_sends(&mut self.fabric, stats, conn, sends) } else { Ok(()) };
            conn.settle();
            let short = conn.lacks_receives(sizing);
            self.posted(handler, id, sent, short);
        }
        self.check_sends_done(handler, id);
        self.check_drained(handler, id);
    }

    /// The sends are posted: posts receives where they are short. Sends come first, for they are what somebody waits for,
    /// and the spare receives cover the moment.
    #[inline]
    fn posted<H: Handler>(&mut self, handler: &mut H, id: ConnId, sent: Result<(), PostError>, short: bool) {
        if let Err(error) = sent {
            self.post_failed(handler, id, "send", error);
        } else if short {
            self.replenish(handler, id.slot());
        }
    }

    /// Posts receives on the connection in a slot, which lacks as many as are worth a post.
    #[inline(never)]
    pub(super) fn replenish<H: Handler>(&mut self, handler: &mut H, slot: usize) {
        let Some(id) = self.core.conns.id_at(slot) else { return };
        if let Err(error) = self.core.top_up(&mut self.recv_pool, &mut self.fabric, id) {
            self.post_failed(handler, id, "receive", error);
        }
    }

    /// The answer to a message on the connection in a slot could not be posted.
    #[cold]
    pub(super) fn answer_failed<H: Handler>(&mut self, handler: &mut H, slot: usize, error: PostError) {
        let Some(id) = self.core.conns.id_at(slot) else { return };
        self.post_failed(handler, id, "send", error);
    }

    #[cold]
    pub(super) fn post_failed<H: Handler>(
        &mut self,
        handler: &mut H,
        id: ConnId,
        what: &'static str,
        error: PostError,
    ) {
        self.feed(handler, id, Input::WorkFailed, Some(CloseReason::Post { what, errno: error.errno }));
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

    /// The receives a peer finds when it connects: they are in the hello, not owed.
    #[inline(never)]
    pub(super) fn post_first_receives(&mut self, id: ConnId) -> Result<(), ActionError> {
        self.core
            .top_up(&mut self.recv_pool, &mut self.fabric, id)
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

impl<'m> Core<'m> {
    /// Adds a control message where one is due and can go, and clears what was waiting.
    #[inline(never)]
    fn gather(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get(id) else { return };
        let gathered = conn.due.has(Due::MESSAGES) && self.gather_due(id);
        // Data that goes out anyway carries the credits.
        let updates = |conn: &Conn| !conn.data_goes() && update_goes(conn, &self.sizing);
        if !gathered && let Some(conn) = self.conns.get_mut(id).filter(|conn| updates(conn)) {
            conn.credits.note_update(conn.recv_posted);
            self.queue_control(id, MessageKind::Credit);
            self.stats.credit_messages += 1;
        }
        if self.conns.get(id).is_some_and(|conn| sends_out(conn.state)) {
            self.clear_waiting(id);
        }
    }

    /// Posts receives until there are as many as promised, or no buffer is left.
    #[inline(always)]
    fn top_up(&mut self, recv_pool: &mut Pool<'m>, fabric: &mut impl Fabric, id: ConnId) -> Result<(), PostError> {
        let Self { conns, sizing, stats, dirty, chain, .. } = self;
        let Some(conn) = conns.get_mut(id) else { return Ok(()) };
        if !conn.is_steady() && !takes_receives(conn) {
            return Ok(());
        }
        let missing = sizing.recv_posted - conn.recv_posted;
        let spare = (sizing.recv_buffers - conn.sends.answers()).saturating_sub(conn.recv_posted);
        let mut wanted = missing.min(spare);
        while wanted > 0 {
            let room = (wanted as usize).min(BATCH_MAX);
            let lent = recv_pool.lend_receives(conn.recv_work, &mut chain[..room]);
            let chain = &chain[..lent];
            let lent = lent as u32;
            if lent == 0 {
                stats.buffer_stalls += 1;
                dirty.mark(id.slot());
                break;
            }
            let result = fabric.post_recv(conn.link, chain);
            let taken = result.as_ref().map_or_else(|error| error.taken.min(lent), |()| lent);
            conn.recv_posted += taken;
            conn.credits.owe(taken);
            stats.receives_posted += u64::from(taken);
            for wr in &chain[taken as usize..] {
                recv_pool.free_lent(wr.wr_id().index(), wr.wr_id());
            }
            result?;
            wanted -= taken;
        }
        if conn.credits.many_owed() {
            conn.unsettle();
        }
        if conn.is_steady() {
            return Ok(());
        }
        if update_goes(conn, sizing) || due_goes(conn, sizing) {
            dirty.mark(id.slot());
        }
        Ok(())
    }
}

/// Posts what is ready, in one chain. Credits go with the first of it.
#[inline]
pub(super) fn post_sends(
    fabric: &mut impl Fabric,
    stats: &mut Stats,
    conn: &mut Conn,
    rings: &mut [SendWr],
) -> Result<(), PostError> {
    let ready = conn.sends.ready();
    if ready == 0 {
        return Ok(());
    }
    if conn.credits.owes()
        && let Some(imm) = conn.sends.next_ready(rings).imm.as_mut()
    {
        *imm |= u32::from(conn.credits.give());
    }
    // Most chains do not wrap: the compiler is shown that one slice is all there is to walk then.
    let result = if let Some(whole) = conn.sends.whole_chain(rings) {
        fabric.post_send(conn.link, (whole, &[]))
    } else {
        let (first, second) = conn.sends.chain(rings);
        fabric.post_send(conn.link, (first, second))
    };
    conn.sends.advance(result.as_ref().map_or_else(|error| error.taken.min(ready), |()| ready));
    stats.doorbells += 1;
    result
}

/// Whether there is a queue pair for receives that will come back by themselves.
fn takes_receives(conn: &Conn) -> bool {
    conn.qp_num != QpNum::NONE
        && matches!(conn.state, State::Established | State::Lingering | State::Connecting | State::Accepting)
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
    wanted && room && conn.update_is_due() && conn.credits.for_control()
}
