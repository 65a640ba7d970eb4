//! The reader of a peer's ring: a segment that the input writes, in steps, while it is read.

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use spinwire_core::fabric::{Batch, BufferMap, Fabric, Outcome, RecvWr, SendWr};
use spinwire_core::id::{ConnId, WorkId, WorkKind};
use spinwire_core::pool::{Direction, Lease, Pool, PoolSlot};

use super::super::conn::Offer;
use super::super::fabric::ShmFabric;
use super::super::layout::Geometry;
use super::super::memory::{OwnMemory, PeerMemory};
use super::super::word::{Body, Word};
use super::input::Input;

/// A fabric with posted receives, each with a guard behind it.
pub struct Ring {
    fabric: ShmFabric<'static>,
    geometry: Geometry,
    receives: Vec<RecvWr>,
    sends: Vec<SendWr>,
    buffers: *const u8,
    generation: u64,
}

const ROOM: usize = 600;
/// What the peer lends.
const ARENA_BYTES: usize = 4_096;
const GUARD: usize = 128 + 40;
const BUFFERS: usize = 8;
const FILL: u8 = 0xee;

impl Default for Ring {
    fn default() -> Self {
        Self::new()
    }
}

impl Ring {
    /// Sets the fabric up.
    ///
    /// # Panics
    /// When there is no memory for that.
    pub fn new() -> Self {
        let (local, bytes) = super::arena((ROOM + GUARD) * BUFFERS);
        bytes.fill(FILL);
        let buffers = bytes.as_ptr();
        let config = super::config(ROOM as u32);
        let slots = super::keep([PoolSlot::default(); BUFFERS]);
        let layout = (ROOM as u32, (ROOM + GUARD) as u32);
        let mut pool = Pool::new(Direction::Recv, bytes, 0, layout, slots).expect("the arena has room for them");
        let owner = work(WorkKind::Send, 0);
        let mut leases: Vec<Lease> = std::iter::from_fn(|| pool.take().map(|buf| pool.lend(buf, owner))).collect();
        leases.sort_by_key(Lease::index);
        let mut leases = leases.into_iter();
        let receives = leases.by_ref().take(BUFFERS - 2);
        let receives = receives.map(|buf| RecvWr::new(work(WorkKind::Recv, 0), buf)).collect();
        let send = |(n, buf)| {
            let wr_id = work(WorkKind::Send, n);
            SendWr { wr_id, buf: Some(buf), len: [5, ROOM as u32][n], imm: None, signaled: true }
        };
        let sends = leases.enumerate().map(send).collect();
        let mut fabric = ShmFabric::new(local, &config, 1, false);
        fabric.prepare(&BufferMap { recv: pool.layout(), send: pool.layout(), inline_bytes_max: 0 });
        Ring { fabric, geometry: Geometry::of(&config), receives, sends, buffers, generation: 0 }
    }

    /// Plays one input on a connection of its own. The first byte says where the ring begins, and whether the peer lends.
    ///
    /// # Panics
    /// When something was written that is not a posted buffer, or when a receive comes back twice or too long.
    pub fn run(&mut self, bytes: &[u8]) {
        self.generation += 1;
        let (mut input, mut next, mut back) = (Input::new(bytes), 0, 0);
        let first = input.byte();
        let (id, geometry) = (id(self.generation), self.geometry.beginning_at(first.into()));
        let lent = || {
            let mut arena = OwnMemory::new(ARENA_BYTES, false).expect("a few pages");
            PeerMemory::map(arena.take_fd().expect("it is fresh"), ARENA_BYTES).expect("a sound arena")
        };
        let arena = (first >= 128).then(|| Rc::new(lent()));
        let mut segment = OwnMemory::new(geometry.bytes(), false).expect("a few pages");
        let peer = PeerMemory::map(segment.take_fd().expect("it is fresh"), geometry.bytes()).expect("a sound segment");
        self.fabric.open(id).expect("a few pages");
        let offer = Offer { memory: peer, geometry, arena };
        self.fabric.attach(id, offer, first % 128 >= 64).expect("it was just opened");
        self.fabric.post_recv(id, &self.receives).expect("the queue takes them all");
        let store = |at: usize, value: u64| {
            let at = at / 8 * 8 % (geometry.bytes() / 8 * 8);
            // SAFETY: inside our own segment and aligned, an atomic for its readers.
            unsafe { AtomicU64::from_ptr(segment.base().as_ptr().add(at).cast()) }.store(value, Ordering::Release);
        };
        while !input.is_over() {
            match input.byte() % 9 {
                // A word where one is awaited, with the right phase and any other bits.
                0..=2 => {
                    let (word, behind) = (input.u64(), input.u64());
                    store(geometry.slot(next) + 8, behind);
                    store(geometry.slot(next), word & !(1 << 32) | u64::from(geometry.phase(next)) << 32);
                    next = next.wrapping_add(1);
                }
                // A part of a long message, with small numbers.
                3 => {
                    let (part, total) = (u64::from(input.u16() % 700), u64::from(input.u16() % 700));
                    store(geometry.slot(next) + 8, total << 32 | part);
                    store(geometry.slot(next), Word::new(geometry.phase(next), Body::Chunk, None, 0).0);
                    next = next.wrapping_add(1);
                }
                4 => store(usize::from(input.u16()), input.u64()),
                5 => store(geometry.consumed(), u64::from(input.byte())),
                // A message in a buffer of the peer's.
                7 => {
                    store(geometry.slot(next) + 8, u64::from(input.u16()) % (ARENA_BYTES as u64 + 64));
                    store(geometry.slot(next) + 16, u64::from(input.u16() % 700));
                    store(geometry.slot(next), Word::new(geometry.phase(next), Body::Lent, None, 0).0);
                    store(geometry.revoked(), u64::from(input.byte() / 255));
                    next = next.wrapping_add(1);
                }
                // The queue may be full, and the connection over.
                6 => drop(self.fabric.post_send(id, (&self.sends, &[]))),
                _ => back += self.poll(),
            }
        }
        for _ in 0..4 {
            back += self.poll();
        }
        self.fabric.disconnect(id);
        for _ in 0..4 {
            back += self.poll();
        }
        assert!(back <= self.receives.len(), "{back} receives came back, of {}", self.receives.len());
        self.fabric.close(id);
        self.check_guards();
    }

    /// Receives that came back.
    fn poll(&mut self) -> usize {
        let (mut received, mut sent) = (Batch::new(), Batch::new());
        self.fabric.poll_recv(&mut received);
        self.fabric.poll_send(&mut sent);
        for completion in &received {
            if let Outcome::Done { bytes, .. } = completion.outcome {
                // One that is too long is reported with its length, and was not copied: the guard shows it.
                assert!(bytes as usize <= ROOM || completion.wr_id.index() < BUFFERS as u32);
            }
        }
        received.len()
    }

    fn check_guards(&self) {
        for n in 0..BUFFERS {
            // SAFETY: inside the arena, which lives for ever; the fabric writes during its calls only.
            let guard = unsafe { std::slice::from_raw_parts(self.buffers.add(n * (ROOM + GUARD) + ROOM), GUARD) };
            assert!(guard.iter().all(|&byte| byte == FILL), "something was written behind buffer {n}");
        }
    }
}

fn id(generation: u64) -> ConnId {
    ConnId::from_bits(generation << 16).expect("a generation that is not 0")
}

fn work(kind: WorkKind, n: usize) -> WorkId {
    WorkId::new(id(1), kind, n as u32)
}
