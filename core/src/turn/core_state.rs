//! What an engine owns besides its two seams: connections, queues, buffers, counters.

use super::cx::{ConnectError, SendError};
use super::dirty::Dirty;
use super::memory::{Memory, SetupError};
use crate::cm::event::Peer;
use crate::cm::table::State;
use crate::config::{Config, Mode, Sizing};
use crate::conn::{Conn, Credits, Imm, MessageKind, Origin, Table};
use crate::fabric::{Completion, SendWr};
use crate::id::{ConnId, WorkKind};
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
    pub(super) recv_pool: Pool<'m>,
    pub(super) send_pool: Pool<'m>,
    pub(super) dirty: Dirty<'m>,
    pub(super) stats: Stats,
    /// The stamp of this turn.
    pub(super) now: Instant,
    pub(super) timers: Wheel<'m>,
}

impl<'m> Core<'m> {
    pub(super) fn new(config: Config, memory: Memory<'m>) -> Result<Self, SetupError> {
        config.check()?;
        let sizing = config.sizing();
        memory.check(&config)?;
        let len = config.message_bytes_max;
        let Memory { conns, places, dirty, timers, sends, recv, send } = memory;
        Ok(Self {
            config,
            sizing,
            conns: Table::new(conns, places)?,
            sends,
            recv_pool: Pool::new(Direction::Recv, recv.bytes, recv.region_offset, (len, recv.stride), recv.slots)?,
            send_pool: Pool::new(Direction::Send, send.bytes, send.region_offset, (len, send.stride), send.slots)?,
            dirty: Dirty::new(dirty),
            stats: Stats::default(),
            now: Instant::ZERO,
            timers: Wheel::new(timers, Instant::ZERO),
        })
    }

    /// Whose work a completion is: the connection its work id names, if it lives and the completion came from its queue
    /// pair. What has no owner is counted and may touch nobody's books.
    #[inline]
    pub(super) fn owner(&mut self, completion: &Completion, kind: WorkKind) -> Option<ConnId> {
        let Completion { wr_id, qp_num, .. } = *completion;
        let named =
            self.conns.at_mut(wr_id.slot()).filter(|(_, conn)| wr_id.is_of(conn.link) && wr_id.kind() == Some(kind));
        match named {
            Some((id, conn)) if conn.qp_num == Some(qp_num) => Some(id),
            other => {
                self.stats.qp_num_mismatches += u64::from(other.is_some());
                self.stats.completions_stale += 1;
                None
            }
        }
    }

    /// The ring of the connection in `slot`.
    pub(super) fn ring<'s>(sends: &'s mut [SendWr], sizing: &Sizing, slot: usize) -> &'s mut [SendWr] {
        let len = sizing.send_slots as usize;
        &mut sends[slot * len..][..len]
    }

    /// Gives a new connection a slot; the flush of this turn starts it.
    pub(super) fn begin(&mut self, origin: Origin, peer: Option<Peer>) -> Result<ConnId, ConnectError> {
        let id = self
            .conns
            .insert(Conn::new(origin, peer))
            .map_err(|_| ConnectError { live: self.conns.live(), capacity: self.conns.capacity() })?;
        if let Some(conn) = self.conns.get_mut(id) {
            conn.link = id;
            if let Origin::Endpoint(_) = origin {
                conn.give_up_at = self.now + self.config.retry.within;
            }
        }
        self.dirty.mark(id.slot());
        Ok(id)
    }

    /// The peer's limits are known.
    pub(super) fn set_peer(config: &Config, sizing: &Sizing, conn: &mut Conn, hello: Option<crate::cm::hello::Hello>) {
        match hello {
            Some(hello) => {
                conn.credits = Credits::new(hello.credits, sizing.recv_posted);
                conn.send_bytes_max = hello.message_bytes_max.min(config.message_bytes_max);
                conn.answers_asks = hello.answers_asks;
            }
            None => {
                conn.credits = Credits::RAW;
                conn.send_bytes_max = config.message_bytes_max;
            }
        }
    }

    /// Immediate data of a message of `kind`; its credits are filled in when it goes out.
    fn imm(&self, kind: MessageKind) -> Option<u32> {
        match self.config.mode {
            Mode::Spinwire => Some(Imm { credits: 0, kind }.to_bits()),
            Mode::Raw => None,
        }
    }

    pub(super) fn queue_app(&mut self, id: ConnId, len: u32, fill: impl FnOnce(&mut [u8])) -> Result<(), SendError> {
        let imm = self.imm(MessageKind::Data);
        let conn = self.conns.get_mut(id).ok_or(SendError::NotOpen)?;
        if conn.state != State::Established || conn.close_asked {
            return Err(SendError::NotOpen);
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
        let buf = Some(self.send_pool.lend(buf, id));
        let ring = Self::ring(self.sends, &self.sizing, id.slot());
        conn.sends.push(ring, SendWr { buf, len, imm, ..SendWr::EMPTY });
        self.dirty.mark(id.slot());
        Ok(())
    }

    /// Queues a received message as its own answer, or gives the buffer back when the connection is no longer up.
    pub(super) fn queue_answer(&mut self, id: ConnId, buf: Buf<'m>, len: u32) {
        let imm = self.imm(MessageKind::Data);
        let len = len.min(self.recv_pool.buffer_bytes());
        match self.conns.get_mut(id) {
            Some(conn) if conn.state == State::Established && !conn.close_asked => {
                let len = len.min(conn.send_bytes_max);
                let buf = Some(self.recv_pool.lend(buf, id));
                conn.answers += 1;
                conn.sends
                    .push(Self::ring(self.sends, &self.sizing, id.slot()), SendWr { buf, len, imm, ..SendWr::EMPTY });
            }
            _ => self.recv_pool.release(buf),
        }
    }

    /// Queues a message without payload.
    pub(super) fn queue_control(&mut self, id: ConnId, kind: MessageKind) {
        let imm = self.imm(kind);
        let Some(conn) = self.conns.get_mut(id) else { return };
        let ring = Self::ring(self.sends, &self.sizing, id.slot());
        match kind {
            // Its completion retires everything before it: that is how the linger ends.
            MessageKind::Goodbye => conn.sends.push(ring, SendWr { imm, signaled: true, ..SendWr::EMPTY }),
            // Its completion tells that the peer's device lives.
            MessageKind::Ask => conn.sends.push_front(ring, SendWr { imm, signaled: true, ..SendWr::EMPTY }),
            _ => conn.sends.push_front(ring, SendWr { imm, ..SendWr::EMPTY }),
        }
    }

    /// Takes the oldest send of a connection out of its ring and gives its buffer back.
    pub(super) fn retire(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else { return };
        let wr = conn.sends.pop(Self::ring(self.sends, &self.sizing, id.slot()));
        if let Some(lease) = wr.buf {
            if lease.from() == Direction::Recv {
                conn.answers -= 1;
            }
            self.take_back(id, &lease);
        }
    }

    fn take_back(&mut self, id: ConnId, lease: &Lease) {
        let pool = match lease.from() {
            Direction::Recv => &mut self.recv_pool,
            Direction::Send => &mut self.send_pool,
        };
        if let Some(buf) = pool.reclaim(lease.index(), id) {
            pool.release(buf);
        }
    }

    pub(super) fn request_close(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(id) {
            conn.close_asked = true;
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
