//! A peer that made the handshake as it should, owns a sound segment, and then writes what it likes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use spinwire_core::cm::event::PrivateData;
use spinwire_core::cm::hello::Hello;

use super::super::exposed::OwnRegion;
use super::super::layout::Geometry;
use super::super::memory::{OwnMemory, PeerMemory};
use super::super::name::Name;
use super::super::pulse::Pulse;
use super::super::slot::{self, INLINE_MAX};
use super::super::socket::{Received, Socket};
use super::super::wire::{PACKET_MAX, Packet, Terms};
use super::super::word::{Body, Word};
use super::Random;
use crate::clock;
use crate::mem::ExposedRegion;

/// One connection of a liar's. All it does follows from its seed, but for the moments at which it does it.
pub(super) struct Liar {
    pub(super) random: Random,
    pub(super) socket: Socket,
    pub(super) own: OwnMemory,
    pub(super) geometry: Geometry,
    pub(super) pulse: Pulse,
    /// What it lends, if it does.
    pub(super) arena: Option<OwnMemory>,
    /// What it exposes, if it does.
    pub(super) exposed: Vec<(Rc<OwnRegion>, ExposedRegion)>,
    peer: PeerMemory,
    peer_geometry: Geometry,
    pub(super) sent: u32,
    pub(super) taken: u64,
}

/// What a liar has before it is connected: all of it sound.
pub(super) struct Draft {
    pub(super) random: Random,
    geometry: Geometry,
    own: OwnMemory,
    segment: OwnedFd,
    pulse: Pulse,
    arena: Option<OwnMemory>,
    lent: Option<OwnedFd>,
    pub(super) hello: Hello,
}

impl Draft {
    pub(super) fn new(mut random: Random) -> Option<Self> {
        let slots = 4 << random.below(7);
        let chunk = [0, 64, 4_096, 16_384][random.below(4) as usize];
        let geometry = Geometry::checked(slots, chunk, random.below(u64::from(slots).max(32)) as u32)?;
        let mut own = OwnMemory::new(geometry.bytes(), random.once_in(8)).unwrap();
        let pulse = Pulse::new().unwrap();
        pulse.beat(clock::now());
        let hello = Hello {
            credits: 3 + random.below(200) as u32,
            message_bytes_max: 1 + random.below(100_000) as u32,
            answers_asks: random.once_in(2),
        };
        let segment = own.take_fd()?;
        let mut arena = random.once_in(2).then(|| OwnMemory::new(ARENA_BYTES, false).unwrap());
        let lent = arena.as_mut().and_then(OwnMemory::take_fd);
        Some(Self { random, geometry, own, segment, pulse, arena, lent, hello })
    }

    pub(super) fn terms(&self) -> Terms {
        Terms { geometry: self.geometry, arena_bytes: self.arena.as_ref().map_or(0, |arena| arena.len() as u64) }
    }

    pub(super) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let own = [self.segment.as_fd(), self.pulse.fd().as_fd()];
        own.into_iter().chain(self.lent.as_ref().map(AsFd::as_fd)).collect()
    }

    /// The liar, once the other side's segment is known.
    pub(super) fn onto(
        self,
        socket: Socket,
        peer: PeerMemory,
        peer_geometry: Geometry,
        exposed: Vec<(Rc<OwnRegion>, ExposedRegion)>,
    ) -> Liar {
        let Draft { random, geometry, own, pulse, arena, .. } = self;
        Liar { random, socket, own, geometry, pulse, arena, exposed, peer, peer_geometry, sent: 0, taken: 0 }
    }
}

/// How a session went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// There was no place, or no answer.
    Nobody,
    /// The peer ended it.
    Caught,
    /// It had done all it wanted to.
    Bored,
}

/// What one session does, at most.
const STEPS_MAX: u64 = 600;
/// What a liar lends.
pub(super) const ARENA_BYTES: usize = 128 << 10;
/// The handshake takes two turns of the peer's loop.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

impl Liar {
    /// Plays the session of one seed against the server at `name`.
    pub(super) fn session(name: &Name, seed: u64) -> Met {
        Self::connect(name, Random::new(seed)).map_or(Met::Nobody, Self::play)
    }

    /// What it does once it is connected.
    pub(super) fn play(mut self) -> Met {
        let honesty = 1 + self.random.below(30);
        for step in 0..1 + self.random.below(STEPS_MAX) {
            if self.random.once_in(honesty) {
                self.lie()
            } else {
                self.behave()
            }
            if step % 8 == 0 {
                let mut packet = [0; PACKET_MAX];
                if !matches!(self.socket.recv(&mut packet), Ok(Received::Nothing)) {
                    return Met::Caught;
                }
            }
        }
        Met::Bored
    }

    /// Sends the head of one message of `total` bytes, and waits until the peer has ended the connection.
    pub(super) fn claims(name: &Name, total: u32) -> Met {
        let Some(mut liar) = (0..50).find_map(|seed| Self::connect(name, Random::new(seed)).filter(Self::has_chunks))
        else {
            return Met::Nobody;
        };
        // Until the other side knows that the connection is up.
        thread::sleep(Duration::from_millis(50));
        liar.publish(Body::Chunk, Some(0), 0, [u64::from(total) << 32 | 64, 0]);
        let deadline = Instant::now() + ANSWER_LIMIT;
        while Instant::now() < deadline {
            if !matches!(liar.socket.recv(&mut [0; PACKET_MAX]), Ok(Received::Nothing)) {
                return Met::Caught;
            }
            thread::sleep(Duration::from_millis(1));
        }
        Met::Bored
    }

    fn has_chunks(&self) -> bool {
        self.geometry.chunk_bytes() > 0
    }

    fn connect(name: &Name, random: Random) -> Option<Self> {
        let draft = Draft::new(random)?;
        let socket = Socket::new().ok()?;
        socket.connect(name).ok()?;
        let data: PrivateData = draft.hello.encode().iter().copied().collect();
        socket.send(&Packet::Request(draft.terms(), data).encode(), &draft.fds()).ok()?;
        let (fds, peer_geometry) = accepted(&socket)?;
        let peer = PeerMemory::map(fds.into_iter().next()?, peer_geometry.bytes()).ok()?;
        socket.send(&Packet::Ready.encode(), &[]).ok()?;
        Some(draft.onto(socket, peer, peer_geometry, Vec::new()))
    }

    /// What a sound peer could do too.
    fn behave(&mut self) {
        match self.random.below(8) {
            0..=3 => self.send(),
            4 => self.take_all(),
            5 => self.word_at(self.geometry.consumed(), self.taken),
            6 => self.pulse.beat(clock::now()),
            _ => thread::sleep(Duration::from_micros(self.random.below(60))),
        }
    }

    /// A message as it should be, if the one before last round's is taken or not.
    fn send(&mut self) {
        let imm = Some(self.imm());
        if self.arena.is_some() && self.random.once_in(3) {
            let len = 121 + self.random.below(60_000);
            let at = self.random.below(ARENA_BYTES as u64 - len);
            self.publish(Body::Lent, imm, self.taken as u32, [at, len]);
        } else if self.geometry.chunk_bytes() > 0 && self.random.once_in(3) {
            let total = 1 + self.random.below(u64::from(self.geometry.chunk_bytes()) * 2) as u32;
            let mut left = total;
            while left > 0 {
                let part = left.min(self.geometry.chunk_bytes());
                self.publish(Body::Chunk, imm, self.taken as u32, [u64::from(total) << 32 | u64::from(part), 0]);
                left -= part;
            }
        } else {
            let len = self.random.below(INLINE_MAX as u64 + 1) as u32;
            let payload = self.random.next();
            self.publish(Body::Inline(len), imm, self.taken as u32, [payload; 2]);
        }
    }

    /// Mostly data with few credits, else any kind of message.
    pub(super) fn imm(&mut self) -> u32 {
        let credits = [0, 0, 1, 2, 40, u32::from(u16::MAX)][self.random.below(6) as usize];
        if self.random.once_in(12) { (self.random.below(16) as u32) << 16 | credits } else { credits & 3 }
    }

    pub(super) fn publish(&mut self, body: Body, imm: Option<u32>, consumed: u32, behind: [u64; 2]) {
        let at = self.geometry.slot(self.sent);
        let word = Word::new(self.geometry.phase(self.sent), body, imm, consumed);
        self.word_at(at + 8, behind[0]);
        self.word_at(at + 16, behind[1]);
        // SAFETY: a slot of our own segment.
        unsafe { slot::store(self.own.base().as_ptr().add(at), word) };
        self.sent = self.sent.wrapping_add(1);
    }

    pub(super) fn word_at(&self, at: usize, value: u64) {
        store(&self.own, at, value);
    }

    /// Takes what the peer has sent, without a look at it.
    fn take_all(&mut self) {
        for _ in 0..self.peer_geometry.slots() {
            let index = self.taken as u32;
            // SAFETY: a slot of the peer's mapped segment, which is laid out as the peer said.
            let word = unsafe { slot::load(self.peer.base().as_ptr().add(self.peer_geometry.slot(index))) };
            if word.phase() != self.peer_geometry.phase(index) {
                return;
            }
            self.taken += 1;
        }
    }
}

pub(super) fn store(memory: &OwnMemory, at: usize, value: u64) {
    assert!(at + 8 <= memory.len() && at.is_multiple_of(8));
    // SAFETY: inside memory of our own, aligned; its readers read atomics, or instructions that the compiler knows nothing of.
    unsafe { AtomicU64::from_ptr(memory.base().as_ptr().add(at).cast()) }.store(value, Ordering::Release);
}

/// Waits for the peer's accept.
fn accepted(socket: &Socket) -> Option<(Vec<OwnedFd>, Geometry)> {
    let deadline = Instant::now() + ANSWER_LIMIT;
    let mut packet = [0; PACKET_MAX];
    while Instant::now() < deadline {
        match socket.recv(&mut packet).ok()? {
            Received::Packet(len, fds) => match Packet::decode(packet.get(..len)?) {
                Ok(Packet::Accept(terms, _)) => return Some((fds, terms.geometry)),
                _ => return None,
            },
            Received::End | Received::Cut(_) => return None,
            Received::Nothing => thread::sleep(Duration::from_micros(50)),
        }
    }
    None
}
