//! What an engine owns besides its two seams: connections, queues, buffers, counters.

use super::cx::{ConnectError, SendError};
use super::dirty::Dirty;
use super::memory::{Memory, SetupError};
use super::observe;
use super::one_sided::OneSidedMemory;
use crate::cm::event::Peer;
use crate::config::{BATCH_MAX, Config, Mode, Sizing};
use crate::conn::{Conn, Credits, Imm, MessageKind, Origin, Others, QpNum, SendQueue, Table};
use crate::fabric::{Completion, RecvWr, SendWr};
use crate::id::{ConnId, WorkId};
use crate::pool::{Buf, Direction, Lease, Pool};
use crate::stats::Stats;
use crate::time::Instant;
use crate::timer::Wheel;

#[derive(Debug)]
pub(super) struct Core<'m> {
    pub(super) config: Config,
    pub(super) sizing: Sizing,
    pub(super) conns: Table<'m, Conn>,
    /// Send rings of all slots, one behind the other.
    pub(super) sends: &'m mut [SendWr],
    pub(super) send_pool: Pool<'m>,
    pub(super) dirty: Dirty<'m>,
    pub(super) stats: Stats,
    /// The stamp of this turn.
    pub(super) now: Instant,
    /// How many the control side knows.
    pub(super) endpoints: u32,
    pub(super) timers: Wheel<'m>,
    pub(super) one_sided: OneSidedMemory<'m>,
    /// Receives that are just being posted.
    pub(super) chain: [RecvWr; BATCH_MAX],
}

impl<'m> Core<'m> {
    /// With the pool of receive buffers, which stands beside it: a callback is shown what is in there while it has the core.
    pub(super) fn new(config: Config, memory: Memory<'m>) -> Result<(Self, Pool<'m>), SetupError> {
        config.check()?;
        let sizing = config.sizing();
        memory.check(&config)?;
        let len = config.message_bytes_max;
        let Memory { conns, places, dirty, timers, sends, recv, send } = memory;
        let recv_pool = Pool::new(Direction::Recv, recv.bytes, recv.region_offset, (len, recv.stride), recv.slots)?;
        let core = Self {
            config,
            sizing,
            conns: Table::new(conns, places)?,
            sends,
            send_pool: Pool::new(Direction::Send, send.bytes, send.region_offset, (len, send.stride), send.slots)?,
            dirty: Dirty::new(dirty),
            stats: Stats::default(),
            now: Instant::ZERO,
            endpoints: 0,
            timers: Wheel::new(timers, Instant::ZERO),
            one_sided: OneSidedMemory::default(),
            chain: [const { RecvWr::EMPTY }; BATCH_MAX],
        };
        Ok((core, recv_pool))
    }

    /// Whose work a completion is: the connection its work id names, if it lives and the completion came from its queue
    /// pair. `posted` says which of the connection's work it claims to be. What has no owner is counted and may touch nobody's books.
    #[inline]
    pub(super) fn owner<'c>(
        conns: &'c mut Table<'m, Conn>,
        stats: &mut Stats,
        completion: &Completion,
        posted: impl Fn(&Conn) -> WorkId,
    ) -> Option<(ConnId, &'c mut Conn)> {
        let Completion { wr_id, qp_num, .. } = *completion;
        let named = conns.at_mut(wr_id.slot()).filter(|(_, conn)| wr_id.is_like(posted(conn)));
        let is_named = named.is_some();
        let owner = named.filter(|(_, conn)| conn.qp_num == QpNum::of(qp_num));
        if owner.is_none() {
            stats.qp_num_mismatches += u64::from(is_named);
            stats.completions_stale += 1;
        }
        owner
    }

    /// Gives a new connection a slot; the flush of this turn starts it.
    pub(super) fn begin(&mut self, origin: Origin, peer: Option<Peer>) -> Result<ConnId, ConnectError> {
        let id = self
            .conns
            .insert(Conn::new(origin, peer))
            .map_err(|_| ConnectError::TableFull { live: self.conns.live(), capacity: self.conns.capacity() })?;
        if let Some(conn) = self.conns.get_mut(id) {
            conn.begin_attempt(id);
            let slots = self.sizing.send_slots;
            conn.sends = SendQueue::new(id.slot() as u32 * slots, slots, observe::FIRST_SEND);
        }
        self.dirty.mark(id.slot());
        Ok(id)
    }

    /// The peer's limits are known.
    pub(super) fn set_peer(config: &Config, sizing: &Sizing, conn: &mut Conn, hello: Option<crate::cm::hello::Hello>) {
        match hello {
            Some(hello) => {
                conn.credits = Credits::new(hello.credits, sizing.recv_posted_min);
                conn.sends.signal_every(sizing.signal_every);
                conn.send_bytes_max = hello.message_bytes_max.min(config.message_bytes_max);
                conn.answers_asks = hello.answers_asks;
            }
            None => {
                conn.credits = Credits::RAW;
                // Nothing later on the connection would retire an unsignalled tail.
                conn.sends.signal_every(1);
                conn.send_bytes_max = config.message_bytes_max;
            }
        }
    }

    /// Queues a message of the application's. `brought` are the credits of the message in whose callback that is, if it came
    /// on the same slot: then the slot is flushed or marked after the callback.
    pub(super) fn queue_app(
        &mut self,
        id: ConnId,
        brought: Option<&mut u32>,
        len: u32,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), SendError> {
        let conn = self.conns.get_mut(id).filter(|conn| conn.flows()).ok_or(SendError::NotOpen)?;
        let is_at_hand = brought.is_some();
        if let Some(credits) = brought {
            conn.credits.gain_checked(core::mem::take(credits));
        }
        if len > conn.send_bytes_max {
            return Err(SendError::TooLong { asked: len, max: conn.send_bytes_max });
        }
        if conn.sends.app() >= self.sizing.app_slots {
            conn.starved = true;
            return Err(SendError::WouldBlock);
        }
        // The pool has a buffer for each of every connection's application slots.
        let Some(mut buf) = self.send_pool.take() else {
            conn.starved = true;
            return Err(SendError::WouldBlock);
        };
        fill(&mut buf[..len as usize]);
        let buf = self.send_pool.lend(buf, conn.send_work);
        queue_data(&self.config, &mut self.stats, conn, self.sends, buf, len);
        if !is_at_hand {
            self.dirty.mark(id.slot());
        }
        Ok(())
    }

    /// Queues a message of the application's that is not plain data, behind those that wait. Its credit is a later
    /// flush's business, as theirs.
    pub(super) fn queue_message(&mut self, id: ConnId, kind: MessageKind, bytes: &[u8]) -> Result<(), SendError> {
        let conn = self.conns.get_mut(id).filter(|conn| conn.flows()).ok_or(SendError::NotOpen)?;
        let mut buf = self.send_pool.take().ok_or(SendError::WouldBlock)?;
        buf[..bytes.len()].copy_from_slice(bytes);
        let (len, buf) = (bytes.len() as u32, Some(self.send_pool.lend(buf, conn.send_work)));
        let wr = SendWr { buf, len, imm: imm(self.config.mode, kind), ..SendWr::EMPTY };
        conn.sends.push(self.sends, wr);
        conn.unsettle();
        self.dirty.mark(id.slot());
        Ok(())
    }

    /// Queues a received message as its own answer, or gives the buffer back when the connection is no longer up.
    #[inline(never)]
    pub(super) fn queue_answer(&mut self, recv_pool: &mut Pool<'m>, id: ConnId, buf: Buf<'m>, len: u32) {
        let Some(conn) = self.conns.get_mut(id).filter(|conn| conn.flows()) else {
            return recv_pool.release(buf);
        };
        let len = len.min(buf.len() as u32).min(conn.send_bytes_max);
        let buf = recv_pool.lend(buf, conn.send_work);
        queue_data(&self.config, &mut self.stats, conn, self.sends, buf, len);
        self.dirty.mark(id.slot());
    }

    /// Queues a message without payload, before all that wait for credits.
    pub(super) fn queue_control(&mut self, id: ConnId, kind: MessageKind) {
        let imm = imm(self.config.mode, kind);
        let Some(conn) = self.conns.get_mut(id) else { return };
        let ring = &mut *self.sends;
        match kind {
            // Its completion retires everything before it: that is how the linger ends.
            MessageKind::Goodbye => conn.sends.push(ring, SendWr { imm, signaled: true, ..SendWr::EMPTY }),
            // Its completion tells that the peer's device lives.
            MessageKind::Ask => conn.sends.push_front(ring, SendWr { imm, signaled: true, ..SendWr::EMPTY }),
            _ => conn.sends.push_front(ring, SendWr { imm, ..SendWr::EMPTY }),
        }
    }

    /// Clears what waits, in order, as far as there are credits.
    pub(super) fn clear_waiting(&mut self, id: ConnId) {
        let Self { conns, sends, stats, .. } = self;
        let Some(conn) = conns.get_mut(id) else { return };
        while let Some(wr) = conn.sends.next_waiting(sends) {
            let kind = wr.imm.and_then(Imm::from_bits).map_or(MessageKind::Data, |imm| imm.kind);
            if !conn.credits.spend(kind) {
                stats.credit_stalls += 1;
                return;
            }
            clear(stats, conn.send_work, &mut conn.sends, wr);
        }
    }

    /// Gives back the buffers of the oldest `count` sends of a connection, which the device has carried out.
    pub(super) fn retire(&mut self, recv_pool: &mut Pool<'m>, id: ConnId, count: u32) {
        let Self { conns, sends, send_pool, .. } = self;
        let Some(conn) = conns.get_mut(id) else { return };
        let work = conn.send_work;
        conn.sends.retire(sends, count, |done| give_back(recv_pool, send_pool, work, done));
    }

    pub(super) fn request_close(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(id) {
            conn.close_asked = true;
            conn.unsettle();
            self.dirty.mark(id.slot());
        }
    }

    pub(super) fn request_close_all(&mut self) {
        for place in 0..self.conns.live() {
            if let Some(id) = self.conns.live_at(place) {
                self.request_close(id);
            }
        }
    }
}

/// Gives the buffers of sends back that are done.
fn give_back(recv_pool: &mut Pool<'_>, send_pool: &mut Pool<'_>, work: WorkId, mut done: &mut [SendWr]) -> Others {
    let mut others = Others { app: 0, control: 0 };
    loop {
        let answers = give_back_answers(recv_pool, work, done);
        let Some((other, behind)) = done[answers..].split_first_mut() else { return others };
        match other.buf.take() {
            Some(lease) if lease.from() == Direction::Send => {
                others.app += 1;
                send_pool.free_lent(lease.index(), work);
            }
            // An answer that is not lent for this work: there is nothing to free.
            Some(_) => {}
            None => others.control += 1,
        }
        done = behind;
    }
}

/// As far as they are answers in place; returns how many. In a function of its own: a loop with nothing around it.
#[inline(never)]
fn give_back_answers(recv_pool: &mut Pool<'_>, work: WorkId, done: &mut [SendWr]) -> usize {
    let mut freeing = recv_pool.freeing(work);
    for wr in done {
        match &wr.buf {
            Some(lease) if lease.from() == Direction::Recv && freeing.free(lease) => wr.buf = None,
            _ => break,
        }
    }
    freeing.count()
}

/// Queues a message of the application's. It can go at once if there is a credit for it and nothing waits before it.
#[inline(always)]
fn queue_data(config: &Config, stats: &mut Stats, conn: &mut Conn, rings: &mut [SendWr], buf: Lease, len: u32) {
    let imm = imm(config.mode, MessageKind::Data);
    let wr = SendWr { wr_id: conn.send_work, imm, buf: Some(buf), len, signaled: false };
    if conn.sends.waiting() > 0 || !conn.credits.spend(MessageKind::Data) {
        conn.sends.push(rings, wr);
        conn.unsettle();
        return;
    }
    let wr = conn.sends.push_app(rings, wr);
    stats.messages_sent += 1;
    stats.bytes_sent += u64::from(len);
    if conn.sends.signals(false) {
        wr.signaled = true;
        stats.sends_signaled += 1;
    }
}

/// Books the oldest send that waits as one that goes out with the next flush: it has its credit.
#[inline]
fn clear(stats: &mut Stats, work: WorkId, sends: &mut SendQueue, wr: &mut SendWr) {
    wr.wr_id = work.at(sends.clear_seq());
    if sends.clear(wr.signaled) {
        wr.signaled = true;
        stats.sends_signaled += 1;
    }
    stats.messages_sent += u64::from(wr.buf.is_some());
    stats.bytes_sent += u64::from(wr.len);
}

/// Immediate data of a message of `kind`; credits are added when it goes out.
#[inline]
fn imm(mode: Mode, kind: MessageKind) -> Option<u32> {
    match mode {
        Mode::Spinwire => Some(Imm { credits: 0, kind }.to_bits()),
        Mode::Raw => None,
    }
}
