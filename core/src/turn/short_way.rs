//! The short way of a batch: data on [steady](crate::conn::Conn::is_steady) connections, answered in place.
//!
//! Each message is checked in full before anything is written: what fails a check is left as it was found, and goes the
//! general way ([`receive`](super::receive)), which knows every case. After the callback everything is booked at once.

use core::slice;

use super::{Answer, Core, Cx, Engine, Handler};
use crate::conn::{Conn, TOUCHED};
use crate::fabric::{Completion, Control, Fabric, Outcome, PostError, SendWr};
use crate::id::WorkId;
use crate::pool::Pool;
use crate::stats::Stats;

impl<C: Control> Engine<'_, C> {
    /// Handles the first messages of a batch, or of what is left of one, and returns the place of the first that it leaves;
    /// `None` if all went this way.
    ///
    /// The connection of the last message of the batch is flushed at once, for somebody waits for the answer and nothing
    /// that is polled later in the turn is needed for it. The others are marked, so that each rings one doorbell.
    #[inline(always)]
    pub(super) fn short_way<H: Handler>(&mut self, handler: &mut H, batch: &[Completion]) -> Option<usize> {
        let Self { core, recv_pool, fabric, .. } = self;
        let mut at = 0;
        while let Some(Completion { wr_id, qp_num, outcome }) = batch.get(at) {
            let slot = wr_id.slot();
            let &Outcome::Done { bytes, imm: Some(imm) } = outcome else { break };
            let Some(mut message) = recv_pool.received(*wr_id) else { break };
            let Some((id, conn)) = core.conns.known_mut(slot) else { break };
            if !(conn.is_steady_on(*qp_num) && conn.credits.can_gain(imm)) {
                break;
            }
            let Some(payload) = message.first(bytes) else { break };
            debug_assert!(wr_id.is_like(conn.recv_work));
            at += 1;

            let mut cx = Cx::with_credits(core, slot, imm);
            let answer = match handler.on_message(&mut cx, id, payload) {
                Answer::None => None,
                // What lies behind the message is of an earlier one, and maybe not of this peer.
                Answer::InPlace(len) => Some(len.min(bytes)),
            };
            let credits = cx.credits_left();

            let Core { conns, sends, stats, sizing, dirty, now, .. } = &mut *core;
            let Some((_, conn)) = conns.known_mut(slot) else { break };
            let is_steady = conn.is_steady();
            let goes =
                |conn: &Conn, len| is_steady && conn.credits.has_for_data_with(credits) && len <= conn.send_bytes_max;
            let answered = match answer {
                None => {
                    conn.credits.gain_checked(credits);
                    message.release();
                    None
                }
                Some(len) if goes(conn, len) => {
                    conn.credits.gain_and_spend(credits);
                    let buf = message.lend(conn.send_work);
                    let (seq, wr) = conn.sends.push_answer(sends, conn.send_work, buf, len);
                    stats.messages_sent += 1;
                    stats.bytes_sent += u64::from(len);
                    if conn.sends.signals(false) {
                        wr.signaled = true;
                        stats.sends_signaled += 1;
                    }
                    Some((seq, wr))
                }
                Some(len) => {
                    self.answered_otherwise(*wr_id, (credits, bytes), len);
                    return left_of(batch, at);
                }
            };
            (conn.recv_posted, conn.heard) = (conn.recv_posted - 1, *now);
            stats.messages_received += 1;
            stats.bytes_received += u64::from(bytes);
            let next = batch.get(at);
            if next.is_some_and(|next| next.wr_id.is_of(*wr_id)) {
                continue;
            }
            if next.is_some() || !is_steady {
                dirty.mark(slot);
                continue;
            }
            let only = match answered {
                Some((seq, wr)) => Some(wr).filter(|_| conn.sends.is_all(seq)),
                None if conn.sends.ready() == 1 => Some(conn.sends.next_ready(sends)),
                None => None,
            };
            let Some(wr) = only else {
                self.visit(handler, slot);
                return None;
            };
            match post_only(fabric, stats, conn, wr) {
                Ok(()) if !conn.lacks_receives(sizing) => {}
                Ok(()) => self.replenish(handler, slot),
                Err(error) => self.answer_failed(handler, slot, error),
            }
            return None;
        }
        // What is left may be about the connection of the message before it, which waited for it.
        if let Some(before) = batch[..at].last() {
            core.dirty.mark(before.wr_id.slot());
        }
        left_of(batch, at)
    }

    /// The same for an answer that cannot go at once.
    #[cold]
    #[inline(never)]
    fn answered_otherwise(&mut self, wr_id: WorkId, (credits, bytes): (u32, u32), len: u32) {
        let Self { core, recv_pool, .. } = self;
        let Core { conns, stats, dirty, now, .. } = &mut *core;
        let Some((id, conn)) = conns.known_mut(wr_id.slot()) else { return };
        let Some(message) = recv_pool.received(wr_id) else { return };
        let buf = message.into_buf();
        conn.credits.gain_checked(credits);
        (conn.recv_posted, conn.heard) = (conn.recv_posted - 1, *now);
        stats.messages_received += 1;
        stats.bytes_received += u64::from(bytes);
        dirty.mark(wr_id.slot());
        core.queue_answer(recv_pool, id, buf, len);
    }
}

impl<'m> Core<'m> {
    /// Asks for what the messages of a batch are going to touch, all at once: with many connections it is in none of the near
    /// caches, and would else be waited for one line after the other. (Of few it is there, and asking costs more than it gives.)
    #[inline]
    pub(super) fn prefetch(&self, recv_pool: &Pool<'m>, batch: &[Completion]) {
        if batch.len() > 1 && self.conns.capacity() >= MANY {
            self.prefetch_apart(recv_pool, batch);
        }
    }

    #[inline(never)]
    fn prefetch_apart(&self, recv_pool: &Pool<'m>, batch: &[Completion]) {
        for Completion { wr_id, .. } in batch {
            self.conns.prefetch(wr_id.slot(), TOUCHED);
            recv_pool.prefetch(wr_id.index());
        }
        for Completion { wr_id, .. } in batch {
            if let Some(conn) = self.conns.id_at(wr_id.slot()).and_then(|id| self.conns.get(id)) {
                conn.sends.prefetch(self.sends);
            }
        }
    }
}

/// From so many connections on, what they touch is asked for ahead of time: a kilobyte or two of each, so that they fill the
/// first cache several times.
const MANY: u32 = 128;

/// The place after the first `at` of a batch, if it has one.
fn left_of(batch: &[Completion], at: usize) -> Option<usize> {
    (at < batch.len()).then_some(at)
}

/// Posts a send that is all there is to post: as [`post_sends`](super::flush::post_sends).
#[inline(always)]
fn post_only(fabric: &mut impl Fabric, stats: &mut Stats, conn: &mut Conn, wr: &mut SendWr) -> Result<(), PostError> {
    if conn.credits.owes() {
        wr.imm = wr.imm.map(|imm| imm | u32::from(conn.credits.give()));
    }
    stats.doorbells += 1;
    fabric.post_send(conn.link, (slice::from_ref(wr), &[]))?;
    conn.sends.advance(1);
    Ok(())
}
