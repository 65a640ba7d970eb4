//! What a hostile peer writes into its memory does no harm: it is refused with a number that says why.

use std::rc::Rc;

use spinwire_core::fabric::{Completion, Fabric, Outcome};

use super::conn::Offer;
use super::fabric::ShmFabric;
use super::layout::Geometry;
use super::memory::{OwnMemory, PeerMemory};
use super::receiver::Lie;
use super::slot;
use super::tests::{GUARD, Side, config, conn, poll, recv_chain};
use super::word::{Body, Word};

/// A peer that writes what it likes into its own segment.
pub(super) struct Hostile {
    memory: OwnMemory,
    geometry: Geometry,
    sent: u32,
}

impl Hostile {
    fn attached_to(fabric: &mut ShmFabric<'_>) -> Self {
        Self::lending_to(fabric, None)
    }

    pub(super) fn lending_to(fabric: &mut ShmFabric<'_>, arena: Option<Rc<PeerMemory>>) -> Self {
        let geometry = fabric.geometry(conn()).unwrap();
        let mut own = OwnMemory::new(geometry.bytes(), false).unwrap();
        let memory = PeerMemory::map(own.take_fd().unwrap(), geometry.bytes()).unwrap();
        fabric.attach(conn(), Offer { memory, geometry, arena }, false).unwrap();
        Hostile { memory: own, geometry, sent: 0 }
    }

    fn put(&mut self, word: Word, lengths: u64) {
        self.put_two(word, [lengths, 0]);
    }

    pub(super) fn put_two(&mut self, word: Word, behind: [u64; 2]) {
        // SAFETY: a slot of our own memory, and the words behind its first.
        unsafe {
            let at = self.memory.base().as_ptr().add(self.geometry.slot(self.sent));
            at.add(8).cast::<[u64; 2]>().write(behind);
            slot::store(at, word);
        }
        self.sent += 1;
    }
}

const ROOM: usize = 5_000;

/// What a fabric with posted receives of 5,000 bytes makes of one hostile descriptor, and what is left of its buffers.
fn meets(word: impl Fn(bool) -> Word, lengths: u64) -> Vec<Completion> {
    let mut side = Side::new(ROOM, 6);
    let (mut fabric, leases, base) = side.fabric(6);
    let mut peer = Hostile::attached_to(&mut fabric);
    fabric.post_recv(conn(), &recv_chain(leases)).unwrap();
    peer.put(word(true), lengths);
    let got = poll(&mut fabric);
    // SAFETY: our own arena.
    let bytes = unsafe { std::slice::from_raw_parts(base, (ROOM + GUARD) * 6) };
    for (n, buffer) in bytes.chunks(ROOM + GUARD).enumerate() {
        assert!(n == 0 || buffer.iter().all(|&byte| byte == 0xee), "only the first buffer may be written");
        assert!(buffer[ROOM..].iter().all(|&byte| byte == 0xee), "nothing past a buffer may be written");
    }
    got
}

pub(super) fn lie(got: &[Completion]) -> u32 {
    assert_eq!(got.len(), 6, "the first receive says why, the others are flushed");
    match got[0].outcome {
        Outcome::Failed { status, vendor } if status == Lie::STATUS => vendor,
        other => panic!("{other:?}"),
    }
}

#[test]
fn lengths_and_bits_from_the_peer_are_checked_before_they_are_used() {
    let chunk = |phase| Word::new(phase, Body::Chunk, Some(1), 0);
    let pair = |part: u32, total: u32| u64::from(total) << 32 | u64::from(part);
    let chunk_bytes = Geometry::of(&config(ROOM as u32)).chunk_bytes();
    for (part, total) in [(0, 0), (0, 64), (chunk_bytes + 1, 70_000), (u32::MAX, u32::MAX), (65, 64), (1, 0)] {
        assert_eq!(lie(&meets(chunk, pair(part, total))), Lie::Length as u32, "{part} of {total}");
    }
    for len in [121, 127] {
        // 120 is the most that `Word::new` makes of good numbers; the bits of others are added here.
        let got = meets(|phase| Word::new(phase, Body::Inline(len), None, 0), 0);
        assert_eq!(lie(&got), Lie::Descriptor as u32);
    }
    for consumed in [1, 7, 1_000, super::word::ACK_MASK / 2] {
        let got = meets(|phase| Word::new(phase, Body::Inline(0), None, consumed), 0);
        assert_eq!(lie(&got), Lie::Acknowledgement as u32, "nothing was sent that could be acknowledged");
    }
}

#[test]
fn a_message_longer_than_the_buffer_is_reported_with_its_length_and_not_copied() {
    for (part, total) in [(64_u32, ROOM as u32 + 1), (4_096, u32::MAX)] {
        let got = meets(|phase| Word::new(phase, Body::Chunk, Some(3), 0), u64::from(total) << 32 | u64::from(part));
        assert_eq!(got[0].outcome, Outcome::Done { bytes: total, imm: Some(3) }, "the engine names both numbers");
        assert!(got[1..].iter().all(|c| matches!(c.outcome, Outcome::Failed { .. })), "and nothing follows");
    }
}

#[test]
fn parts_of_two_messages_cannot_be_mixed() {
    let mut side = Side::new(ROOM, 6);
    let (mut fabric, leases, _) = side.fabric(6);
    let mut peer = Hostile::attached_to(&mut fabric);
    fabric.post_recv(conn(), &recv_chain(leases)).unwrap();
    let half = 4_000_u64 << 32 | 2_000;
    peer.put(Word::new(true, Body::Chunk, None, 0), half);
    assert_eq!(poll(&mut fabric), []);
    peer.put(Word::new(true, Body::Inline(5), None, 0), 0);
    assert_eq!(lie(&poll(&mut fabric)), Lie::Order as u32);
}

#[test]
fn whatever_a_peer_writes_nothing_is_touched_but_posted_buffers() {
    let seed = 0x5eed_u64;
    let mut state = seed;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut completed = 0;
    let lent = Side::new(8_000, 1).lent();
    for round in 0..2_000 {
        let mut side = Side::new(600, 6);
        let (mut fabric, leases, base) = side.fabric(6);
        let mut peer = Hostile::lending_to(&mut fabric, Some(Rc::clone(&lent)));
        fabric.post_recv(conn(), &recv_chain(leases)).unwrap();
        for _ in 0..peer.geometry.slots() {
            let phase = random() % 8 != 0;
            let body = match random() % 3 {
                0 => Body::Chunk,
                1 => Body::Lent,
                _ => Body::Inline((random() % 128) as u32),
            };
            let ack = if random() % 16 == 0 { random() as u32 } else { 0 };
            let small = match body {
                Body::Lent => [random() % 9_000, random() % 700],
                _ => [((random() % 700) << 32) | (random() % 700), 0],
            };
            let wild = random() % 4 == 0;
            peer.put_two(Word::new(phase, body, Some(1), ack), if wild { [random(), random()] } else { small });
        }
        for _ in 0..20 {
            completed += poll(&mut fabric).len();
        }
        // SAFETY: our own arena.
        let bytes = unsafe { std::slice::from_raw_parts(base, (600 + GUARD) * 6) };
        for buffer in bytes.chunks(600 + GUARD) {
            assert!(buffer[600..].iter().all(|&byte| byte == 0xee), "round {round} of seed {seed:#x}");
        }
    }
    assert!(completed > 4_000, "most rounds end in a fault, which completes every receive: {completed}");
}
