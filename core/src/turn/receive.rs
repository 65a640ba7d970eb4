//! Step 1: receive completions become messages.

use super::{Answer, Cx, Engine, Handler, RELEASES_PER_TURN};
use crate::cm::reason::{CloseReason, ProtocolError};
use crate::cm::table::{Input, State};
use crate::config::Mode;
use crate::conn::{Credits, Due, Imm, MessageKind};
use crate::fabric::{Batch, Completion, Control, Fabric, Outcome, WcStatus};
use crate::id::{ConnId, WorkKind};
use crate::pool::Buf;
use crate::timer::TimerKind;

impl<'m, C: Control> Engine<'m, C> {
    /// One batch of receive completions. Stale ones do not count: connections that are refused leave theirs behind, a
    /// queue pair's worth each, and could come faster than one batch a turn takes them out of the queue.
    pub(super) fn receive<H: Handler>(&mut self, handler: &mut H) -> bool {
        let mut any = false;
        for _ in 0..BATCHES_MAX {
            let mut batch = Batch::new();
            self.fabric.poll_recv(&mut batch);
            let stats = &mut self.core.stats;
            stats.batch_largest = stats.batch_largest.max(batch.len() as u64);
            let stale = stats.completions_stale;
            any |= !batch.is_empty();
            for completion in &batch {
                self.received(handler, completion);
            }
            self.behind |= batch.is_full();
            if !batch.is_full() || self.core.stats.completions_stale == stale {
                break;
            }
        }
        any
    }

    fn received<H: Handler>(&mut self, handler: &mut H, completion: &Completion) {
        let Some(id) = self.core.owner(completion, WorkKind::Recv) else { return };
        // The buffer counts only if this connection has lent it: a completion is never believed twice.
        let Some(buf) = self.core.recv_pool.reclaim(completion.wr_id.index(), id) else {
            self.core.stats.completions_stale += 1;
            return;
        };
        if let Some(conn) = self.core.conns.get_mut(id) {
            conn.recv_posted -= 1;
        }
        self.core.dirty.mark(id.slot());
        match completion.outcome {
            Outcome::Done { bytes, imm } => self.arrived(handler, id, buf, bytes, imm),
            Outcome::Failed { status: WcStatus::LOC_LEN_ERR, .. } => {
                let fault = ProtocolError::Overrun { max: buf.len() as u32 };
                self.core.recv_pool.release(buf);
                self.core.stats.completions_failed += 1;
                self.feed(handler, id, Input::PeerFault, Some(CloseReason::Protocol(fault)));
            }
            Outcome::Failed { status, vendor } => {
                self.core.recv_pool.release(buf);
                self.work_failed(handler, id, "receive", status, vendor);
            }
        }
    }

    pub(super) fn arrived<H: Handler>(
        &mut self,
        handler: &mut H,
        id: ConnId,
        buf: Buf<'m>,
        bytes: u32,
        imm: Option<u32>,
    ) {
        let fault = match self.read_message(id, &buf, bytes, imm) {
            Ok(MessageKind::Data) => return self.deliver(handler, id, buf, bytes),
            Ok(kind) => {
                self.core.recv_pool.release(buf);
                // Any message proves that the peer is up.
                self.peer_is_up(handler, id);
                match kind {
                    MessageKind::Goodbye => self.goodbye(id),
                    MessageKind::Ask => self.asked(id),
                    MessageKind::Credit | MessageKind::Data => {}
                }
                return;
            }
            Err(None) => return self.core.hold(id, buf, bytes, imm),
            Err(Some(fault)) => fault,
        };
        self.core.recv_pool.release(buf);
        self.feed(handler, id, Input::PeerFault, Some(CloseReason::Protocol(fault)));
    }

    /// Checks what came and books its credits. An error without a fault: the peer's hello is not there yet, and without it
    /// nothing it says can be checked.
    fn read_message(
        &mut self,
        id: ConnId,
        buf: &Buf<'m>,
        bytes: u32,
        imm: Option<u32>,
    ) -> Result<MessageKind, Option<ProtocolError>> {
        if bytes as usize > buf.len() {
            return Err(Some(ProtocolError::TooLong { got: bytes, max: buf.len() as u32 }));
        }
        let Some(conn) = self.core.conns.get_mut(id) else { return Err(None) };
        let raw = self.core.config.mode == Mode::Raw;
        if conn.state == State::Connecting || (!raw && conn.credits == Credits::RAW) {
            return Err(None);
        }
        conn.heard = self.core.now;
        if raw {
            return Ok(MessageKind::Data);
        }
        let message = imm.and_then(Imm::from_bits).ok_or(Some(ProtocolError::Imm { imm }))?;
        if message.kind != MessageKind::Data && bytes > 0 {
            return Err(Some(ProtocolError::TooLong { got: bytes, max: 0 }));
        }
        conn.credits.gain(message.credits).map_err(Some)?;
        if message.kind == MessageKind::Data {
            conn.credits.used_by_data();
        }
        Ok(message.kind)
    }

    fn deliver<H: Handler>(&mut self, handler: &mut H, id: ConnId, mut buf: Buf<'m>, bytes: u32) {
        self.peer_is_up(handler, id);
        let wanted = self.core.conns.get(id).is_some_and(|conn| !conn.close_asked && still_delivers(conn.reason));
        if !wanted {
            self.core.stats.messages_after_close += 1;
            return self.core.recv_pool.release(buf);
        }
        // Connected, sent and gone before its ESTABLISHED was seen: it was open all the same.
        self.report_open(handler, id);
        self.core.stats.messages_received += 1;
        self.core.stats.bytes_received += u64::from(bytes);
        let answer = handler.on_message(&mut Cx { core: &mut self.core }, id, &mut buf[..bytes as usize]);
        match answer {
            Answer::None => self.core.recv_pool.release(buf),
            Answer::InPlace(len) => self.core.queue_answer(id, buf, len),
        }
    }

    /// The peer closes: it disconnects as soon as it knows that this arrived. Should that event get lost, or the peer
    /// with it, a deadline ends the connection.
    fn goodbye(&mut self, id: ConnId) {
        let deadline = self.core.now + self.core.config.timeouts.linger;
        let Some(conn) = self.core.conns.get_mut(id) else { return };
        conn.goodbye = true;
        if conn.state == State::Established {
            self.core.timers.cancel_all(id);
            self.core.arm(id, TimerKind::Deadline, deadline);
        }
    }

    /// The peer wants a sign of life.
    fn asked(&mut self, id: ConnId) {
        if let Some(conn) = self.core.conns.get_mut(id) {
            conn.due.add(Due::ANSWER);
        }
    }

    /// A message came: an accepted connection is up, whether or not its event was seen.
    fn peer_is_up<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        if self.core.conns.get(id).is_some_and(|conn| conn.state == State::Accepting) {
            self.feed(handler, id, Input::Data, None);
        }
    }

    /// Ends the drain once every posted receive is back. Asked at the end of a turn, so that the send completion that
    /// tells why a queue pair broke is seen before the flushed receives end the connection.
    pub(super) fn check_drained<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        if !self.core.conns.get(id).is_some_and(|conn| conn.state == State::Draining && conn.recv_posted == 0) {
            return;
        }
        if self.releases < RELEASES_PER_TURN {
            self.feed(handler, id, Input::Drained, None);
        } else {
            self.core.dirty.mark(id.slot());
        }
    }
}

/// Batches in one turn, at most: more than the receives of the connections one turn can release, at common depths.
const BATCHES_MAX: usize = 16;

/// What had arrived before a peer went is delivered; not so what comes after this side closed, or after a fault.
fn still_delivers(reason: Option<CloseReason>) -> bool {
    !matches!(reason, Some(CloseReason::Local | CloseReason::Protocol(_) | CloseReason::Hello(_)))
}
