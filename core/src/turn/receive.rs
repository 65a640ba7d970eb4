//! Step 1: receive completions become messages.

use core::slice;

use super::{Answer, Core, Cx, Engine, Handler, RELEASES_PER_TURN};
use crate::cm::reason::{CloseReason, ProtocolError};
use crate::cm::table::{Input, State};
use crate::config::Mode;
use crate::conn::{Conn, Due, Imm, MessageKind};
use crate::fabric::{Batch, Completion, Control, Fabric, Outcome, WcStatus};
use crate::id::ConnId;
use crate::pool::Buf;
use crate::time::Instant;
use crate::timer::TimerKind;

impl<'m, C: Control> Engine<'m, C> {
    /// One batch of receive completions, which is not empty.
    #[inline(always)]
    pub(super) fn receive<H: Handler>(&mut self, handler: &mut H, batch: &mut Batch) {
        match &batch[..] {
            [completion] => self.receive_one(handler, completion),
            _ => self.receive_several(handler, batch),
        }
    }

    /// Most batches are of one. Part of the turn itself, where the short way needs no more registers than the turn has saved
    /// anyway.
    #[inline(always)]
    fn receive_one<H: Handler>(&mut self, handler: &mut H, completion: &Completion) {
        self.core.stats.polled(1);
        if self.short_way(handler, slice::from_ref(completion)).is_some() {
            self.received(handler, completion);
        }
    }

    /// A full batch is followed by others as long as it has stale completions in it: connections that are refused leave theirs
    /// behind, a queue pair's worth each, and could come faster than one batch a turn takes them out of the queue.
    #[inline(never)]
    fn receive_several<H: Handler>(&mut self, handler: &mut H, batch: &mut Batch) {
        for batches in 1.. {
            let stale = self.core.stats.completions_stale;
            self.core.stats.polled(batch.len());
            self.core.prefetch(&self.recv_pool, batch);
            let mut rest = &batch[..];
            while let Some(left) = self.short_way(handler, rest) {
                let Some((completion, behind)) = rest[left..].split_first() else { break };
                self.received(handler, completion);
                rest = behind;
            }
            if !batch.is_full() {
                break;
            }
            self.behind = true;
            if batches == BATCHES_MAX || self.core.stats.completions_stale == stale {
                break;
            }
            batch.clear();
            self.fabric.poll_recv(batch);
        }
    }

    #[inline(never)]
    fn received<H: Handler>(&mut self, handler: &mut H, completion: &Completion) {
        let Core { conns, dirty, stats, .. } = &mut self.core;
        let Some((id, conn)) = Core::owner(conns, stats, completion, |conn| conn.recv_work) else { return };
        // The buffer counts only if it is posted for this very receive: a completion is never believed twice.
        let Some(buf) = self.recv_pool.reclaim(completion.wr_id.index(), completion.wr_id) else {
            stats.completions_stale += 1;
            return;
        };
        conn.recv_posted -= 1;
        if conn.credits.peer_has_none(conn.recv_posted) {
            conn.unsettle();
        }
        dirty.mark(id.slot());
        match completion.outcome {
            Outcome::Done { bytes, imm } => self.arrived(handler, id, buf, (bytes, imm)),
            Outcome::Failed { status, vendor } => self.receive_failed(handler, id, buf, status, vendor),
        }
    }

    /// A message: just now, or held back until it could be read.
    pub(super) fn arrived<H: Handler>(
        &mut self,
        handler: &mut H,
        id: ConnId,
        buf: Buf<'m>,
        (bytes, imm): (u32, Option<u32>),
    ) {
        let (mode, now) = (self.core.config.mode, self.core.now);
        let Some(conn) = self.core.conns.get_mut(id) else { return self.recv_pool.release(buf) };
        let flows = conn.flows();
        match read_message(conn, flows, mode, now, buf.len(), (bytes, imm)) {
            Ok(MessageKind::Data) => self.deliver(handler, id, flows, buf, bytes),
            other => self.other_message(handler, id, buf, (bytes, imm), other),
        }
    }

    fn deliver<H: Handler>(&mut self, handler: &mut H, id: ConnId, flows: bool, mut buf: Buf<'m>, bytes: u32) {
        if !flows && !self.is_wanted(handler, id) {
            self.core.stats.messages_after_close += 1;
            return self.recv_pool.release(buf);
        }
        self.core.stats.messages_received += 1;
        self.core.stats.bytes_received += u64::from(bytes);
        match handler.on_message(&mut Cx::new(&mut self.core), id, &mut buf[..bytes as usize]) {
            Answer::None => self.recv_pool.release(buf),
            // What lies behind the message is of an earlier one, and maybe not of this peer.
            Answer::InPlace(len) => self.core.queue_answer(&mut self.recv_pool, id, buf, len.min(bytes)),
        }
    }

    /// Whether a message is delivered that comes while the connection is being opened or closed. If so it is open.
    #[cold]
    pub(super) fn is_wanted<H: Handler>(&mut self, handler: &mut H, id: ConnId) -> bool {
        self.peer_is_up(handler, id);
        let wanted = |conn: &Conn| !conn.close_asked && !conn.faulted && still_delivers(conn.reason);
        if self.core.conns.get(id).is_some_and(wanted) {
            // Connected, sent and gone before its ESTABLISHED was seen: it was open all the same.
            self.report_open(handler, id);
        }
        // Asked again: the handler may just have closed it.
        self.core.conns.get(id).is_some_and(wanted)
    }

    /// A control message, one that came too early, or a fault.
    #[inline(never)]
    fn other_message<H: Handler>(
        &mut self,
        handler: &mut H,
        id: ConnId,
        buf: Buf<'m>,
        (bytes, imm): (u32, Option<u32>),
        read: Result<MessageKind, Option<ProtocolError>>,
    ) {
        match read {
            Err(None) => return self.core.hold(&mut self.recv_pool, id, buf, (bytes, imm)),
            Err(Some(fault)) => return self.peer_fault(handler, id, buf, fault),
            Ok(MessageKind::WriteImm) => return self.told_of_write(handler, id, buf, bytes),
            Ok(_) => self.recv_pool.release(buf),
        }
        // Any message proves that the peer is up.
        self.peer_is_up(handler, id);
        match read {
            Ok(MessageKind::Goodbye) => self.goodbye(id),
            Ok(MessageKind::Ask) => self.asked(id),
            _ => {}
        }
    }

    pub(super) fn peer_fault<H: Handler>(&mut self, handler: &mut H, id: ConnId, buf: Buf<'m>, fault: ProtocolError) {
        self.recv_pool.release(buf);
        // Also where it ends nothing, because something else has: with one message dropped, those behind it are not delivered.
        if let Some(conn) = self.core.conns.get_mut(id) {
            conn.faulted = true;
        }
        self.feed(handler, id, Input::PeerFault, Some(CloseReason::Protocol(fault)));
    }

    #[cold]
    fn receive_failed<H: Handler>(&mut self, handler: &mut H, id: ConnId, buf: Buf<'m>, status: WcStatus, vendor: u32) {
        if status == WcStatus::LOC_LEN_ERR {
            self.core.stats.completions_failed += 1;
            let fault = ProtocolError::Overrun { max: buf.len() as u32 };
            return self.peer_fault(handler, id, buf, fault);
        }
        self.recv_pool.release(buf);
        self.work_failed(handler, id, "receive", status, vendor);
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
            conn.want(Due::ANSWER);
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

/// Checks what came into a buffer of `room` bytes and books its credits. An error without a fault: the peer's hello is not
/// there yet, and without it nothing it says can be checked.
fn read_message(
    conn: &mut Conn,
    flows: bool,
    mode: Mode,
    now: Instant,
    room: usize,
    (bytes, imm): (u32, Option<u32>),
) -> Result<MessageKind, Option<ProtocolError>> {
    if bytes as usize > room {
        return Err(Some(ProtocolError::TooLong { got: bytes, max: room as u32 }));
    }
    let is_early = || conn.state == State::Connecting || (mode == Mode::Spinwire && conn.credits.is_raw());
    if !flows && is_early() {
        return Err(None);
    }
    conn.heard = now;
    if mode == Mode::Raw {
        return Ok(MessageKind::Data);
    }
    let message = imm.and_then(Imm::from_bits).ok_or(Some(ProtocolError::Imm { imm }))?;
    if message.kind != MessageKind::Data && bytes > 0 && message.kind != MessageKind::WriteImm {
        return Err(Some(ProtocolError::TooLong { got: bytes, max: 0 }));
    }
    conn.credits.gain(message.credits).map_err(Some)?;
    if !matches!(message.kind, MessageKind::Data | MessageKind::WriteImm) {
        conn.credits.used_by_control();
    }
    Ok(message.kind)
}

/// What had arrived before a peer went is delivered; not so what comes after this side closed, or after a fault.
fn still_delivers(reason: Option<CloseReason>) -> bool {
    !matches!(reason, Some(CloseReason::Local | CloseReason::Protocol(_) | CloseReason::Hello(_)))
}
