//! What no sound peer does.

use std::os::fd::{AsFd, AsRawFd};

use spinwire_core::time::Instant;

use super::super::word::Body;
use super::liar::{ARENA_BYTES, Liar, store};

impl Liar {
    /// One lie, or many of a kind.
    pub(super) fn lie(&mut self) {
        let (random, sent) = (&mut self.random, u64::from(self.sent));
        match random.below(16) {
            // Anything anywhere.
            0 | 1 => {
                for _ in 0..1 + self.random.below(64) {
                    let at = self.random.below(self.geometry.bytes() as u64 / 8) as usize * 8;
                    let value = self.random.next();
                    self.word_at(at, value);
                }
            }
            // A word with any bits, where the next message is awaited.
            2 => {
                let phase = u64::from(self.geometry.phase(self.sent)) << 32;
                let word = random.next() & !(1 << 32) | phase;
                self.word_at(self.geometry.slot(self.sent), word);
                self.sent += 1;
            }
            // Lengths that do not fit.
            3 | 4 => {
                let total = [0, 1, 64, 70_000, u32::MAX as u64, random.next() as u32 as u64][random.below(6) as usize];
                let part = [0, 1, 64, 16_385, u32::MAX as u64, random.next() as u32 as u64][random.below(6) as usize];
                let imm = Some(self.imm());
                self.publish(Body::Chunk, imm, self.taken as u32, [total << 32 | part, 0]);
            }
            // Acknowledgements of what was never sent, or of long ago.
            5 => {
                let consumed = [self.taken + 1, self.taken.wrapping_sub(1), self.taken + 5, random.next()];
                let consumed = consumed[random.below(4) as usize];
                self.publish(Body::Inline(0), Some(0), consumed as u32, [0; 2]);
            }
            6 => {
                let counter = [0, self.taken + 1, u64::MAX, sent, random.next()][random.below(5) as usize];
                self.word_at(self.geometry.consumed(), counter);
            }
            // Immediate data and credits that mean nothing.
            7 => {
                let imm = random.once_in(2).then(|| random.next() as u32);
                let len = random.below(128) as u32;
                self.publish(Body::Inline(len), imm, self.taken as u32, [0; 2]);
            }
            // A message changed while it is read.
            8 => {
                let imm = Some(self.imm());
                let (chunk, first) = (u64::from(self.geometry.chunk_bytes()), self.geometry.slot(self.sent));
                self.publish(Body::Chunk, imm, self.taken as u32, [chunk << 32 | chunk, 0]);
                for _ in 0..200 {
                    let lengths = self.random.next();
                    self.word_at(first + 8, lengths);
                    self.word_at(first + 8, chunk << 32 | chunk);
                }
            }
            // Messages without end, whatever the credits.
            9 => {
                for _ in 0..self.geometry.slots() {
                    self.publish(Body::Inline(8), Some(0), self.taken as u32, [0; 2]);
                }
            }
            // A message outside of what is lent, or where nothing is.
            10 | 11 => {
                let end = ARENA_BYTES as u64;
                let at = [0, end - 121, end, u64::MAX - 60, random.next()][random.below(5) as usize];
                let len = [0, 120, 122, 65_536, 65_537, 1 << 32, u64::MAX, random.next()][random.below(8) as usize];
                let imm = Some(self.imm());
                self.publish(Body::Lent, imm, self.taken as u32, [at, len]);
            }
            // A lent message taken back, or changed, while it is copied.
            12 => {
                let imm = Some(self.imm());
                self.publish(Body::Lent, imm, self.taken as u32, [0, 60_000]);
                for _ in 0..50 {
                    let place = self.random.below(60_000 / 8) as usize * 8;
                    let value = self.random.next();
                    if let Some(arena) = &self.arena {
                        store(arena, place, value);
                    }
                }
                let value = self.random.below(2);
                self.word_at(self.geometry.revoked(), value);
            }
            // A pulse that says anything.
            13 => {
                let nonsense = Instant::from_nanos(self.random.next());
                self.pulse.beat(nonsense);
            }
            // Holes and anything else in what it exposes.
            14 => {
                for (region, exposed) in &self.exposed {
                    let place = (self.random.below(exposed.len() as u64) / 8 * 8) as usize;
                    exposed.write_at(place.min(exposed.len() - 1), &[self.random.next() as u8]);
                    let flags = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                    // SAFETY: a call on our own descriptor. It fails where the region is sealed.
                    unsafe { libc::fallocate(region.fd().as_raw_fd(), flags, 0, exposed.len() as i64) };
                }
            }
            // Words on a socket that should say nothing.
            _ => {
                let bytes: Vec<u8> = (0..1 + self.random.below(100)).map(|_| self.random.next() as u8).collect();
                let fds = [self.pulse.fd().as_fd(), self.socket.as_fd()];
                // The peer may be gone.
                let _ = self.socket.send(&bytes, &fds[..self.random.below(3) as usize]);
            }
        }
    }
}
