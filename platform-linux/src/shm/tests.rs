//! Two links in one process: what one sends the other gets.

use std::rc::Rc;

use spinwire_core::config::{Config, Sizing};
use spinwire_core::fabric::{Batch, BufferMap, Completion, Fabric, Outcome, RecvWr, SendWr, WcStatus};
use spinwire_core::id::{ConnId, WorkId, WorkKind};
use spinwire_core::pool::{Direction, Pool, PoolSlot};

use super::conn::Offer;
use super::fabric::ShmFabric;
pub(super) use super::fuzzing::config;
use super::layout::Geometry;
use super::local::LocalMemory;
use super::memory::PeerMemory;
use crate::mem::{Arena, ArenaConfig, PageKind, PagePolicy};

pub(super) fn conn() -> ConnId {
    ConnId::from_bits(1 << 16).unwrap()
}

/// One process's arena: `count` buffers of `room` bytes, and a guard behind each.
pub(super) struct Side {
    arena: Arena,
    room: usize,
}

pub(super) const GUARD: usize = 128;
/// Of the small configuration.
pub(super) const DEPTH: u32 = 4;

impl Side {
    pub(super) fn new(room: usize, count: usize) -> Self {
        let pages = PagePolicy::new([PageKind::Small]).unwrap();
        let bytes = (room + GUARD) * count;
        let config = ArenaConfig { bytes, pages, shared: true, ..ArenaConfig::default() };
        Side { arena: Arena::allocate(&config).unwrap(), room }
    }

    /// The arena as a peer sees it.
    pub(super) fn lent(&self) -> Rc<PeerMemory> {
        let fd = self.arena.memfd().unwrap().try_clone().unwrap();
        Rc::new(PeerMemory::map(fd, self.arena.len()).unwrap())
    }

    /// A fabric with one link, and leases for all buffers.
    pub(super) fn fabric(&mut self, count: usize) -> (ShmFabric<'_>, Vec<spinwire_core::pool::Lease>, *mut u8) {
        self.fabric_of((1, DEPTH), count)
    }

    /// The same with room for more links, and of another depth.
    pub(super) fn fabric_of(
        &mut self,
        (links, depth): (usize, u32),
        count: usize,
    ) -> (ShmFabric<'_>, Vec<spinwire_core::pool::Lease>, *mut u8) {
        let (room, stride) = (self.room as u32, (self.room + GUARD) as u32);
        let (local, bytes) = LocalMemory::split(&mut self.arena);
        bytes.fill(0xee);
        let base = bytes.as_mut_ptr();
        let mut slots = vec![PoolSlot::default(); count];
        let mut pool = Pool::new(Direction::Recv, bytes, 0, (room, stride), &mut slots).unwrap();
        let mut leases = Vec::new();
        while let Some(buf) = pool.take() {
            leases.push(pool.lend(buf, WorkId::new(conn(), WorkKind::Send, 0)));
        }
        let buffers = BufferMap { recv: pool.layout(), send: pool.layout(), inline_bytes_max: 0 };
        leases.sort_by_key(spinwire_core::pool::Lease::index);
        let mut fabric = ShmFabric::new(local, &Config { depth, ..config(room) }, links, false);
        fabric.prepare(&buffers);
        fabric.open(conn()).unwrap();
        (fabric, leases, base)
    }
}

pub(super) fn recv_chain(leases: Vec<spinwire_core::pool::Lease>) -> Vec<RecvWr> {
    leases.into_iter().map(|buf| RecvWr::new(WorkId::new(conn(), WorkKind::Recv, 0), buf)).collect()
}

/// Joins two fabrics: each maps the other's segment.
pub(super) fn join(a: &mut ShmFabric<'_>, b: &mut ShmFabric<'_>) {
    let (from_a, from_b) = (offer(a, None), offer(b, None));
    a.attach(conn(), from_b, false).unwrap();
    b.attach(conn(), from_a, false).unwrap();
}

/// The same, and `a` lends its arena to `b`.
pub(super) fn join_lending(a: &mut ShmFabric<'_>, arena: Rc<PeerMemory>, b: &mut ShmFabric<'_>) {
    let (from_a, from_b) = (offer(a, Some(arena)), offer(b, None));
    a.attach(conn(), from_b, true).unwrap();
    b.attach(conn(), from_a, false).unwrap();
}

fn offer(from: &mut ShmFabric<'_>, arena: Option<Rc<PeerMemory>>) -> Offer {
    Offer { arena, ..offer_of(from, conn()) }
}

pub(super) fn offer_of(from: &mut ShmFabric<'_>, conn: ConnId) -> Offer {
    let geometry = from.geometry(conn).unwrap();
    let memory = PeerMemory::map(from.take_fd(conn).unwrap(), geometry.bytes()).unwrap();
    Offer { memory, geometry, arena: None }
}

pub(super) fn poll(fabric: &mut ShmFabric<'_>) -> Vec<Completion> {
    let mut batch = Batch::new();
    fabric.poll_recv(&mut batch);
    batch.into_iter().collect()
}

pub(super) fn done(fabric: &mut ShmFabric<'_>) -> Vec<Completion> {
    let mut batch = Batch::new();
    fabric.poll_send(&mut batch);
    batch.into_iter().collect()
}

pub(super) fn send(n: u32, buf: spinwire_core::pool::Lease, len: u32) -> SendWr {
    let wr_id = WorkId::new(conn(), WorkKind::Send, n);
    SendWr { wr_id, buf: Some(buf), len, imm: Some(n), signaled: true }
}

#[test]
fn messages_of_every_kind_of_length_arrive_whole_and_are_then_confirmed() {
    const ROOM: usize = 70_000;
    for len in [0_u32, 1, 8, 56, 57, 120, 121, 4_096, 16_384, 16_385, 70_000] {
        let (mut left, mut right) = (Side::new(ROOM, 2), Side::new(ROOM, 2));
        let (mut a, mut from, source) = left.fabric(2);
        let (mut b, mut to, target) = right.fabric(2);
        join(&mut a, &mut b);
        b.post_recv(conn(), &recv_chain(vec![to.remove(0)])).unwrap();
        for at in 0..len as usize {
            // SAFETY: inside the first buffer of our own arena.
            unsafe { source.add(at).write(at as u8 ^ 0x5a) };
        }
        a.post_send(conn(), (&[send(7, from.remove(0), len)], &[])).unwrap();
        assert_eq!(done(&mut a), [], "the peer has not taken it");
        let got = (0..10).find_map(|_| poll(&mut b).pop()).expect("it arrives in a few polls");
        assert_eq!(got.outcome, Outcome::Done { bytes: len, imm: Some(7) });
        // SAFETY: inside our own arena.
        let bytes = unsafe { std::slice::from_raw_parts(target, ROOM + GUARD) };
        assert!((0..len as usize).all(|at| bytes[at] == at as u8 ^ 0x5a), "length {len}");
        assert!(bytes[len as usize..].iter().all(|&byte| byte == 0xee), "length {len}");
        assert_eq!(poll(&mut b), [], "it comes once");
        assert_eq!(done(&mut a).len(), 1, "confirmed by the counter, for there was no answer");
    }
}

#[test]
fn an_acknowledgement_may_be_older_than_what_is_known() {
    let (mut left, mut right) = (Side::new(64, 6), Side::new(64, 6));
    let (mut a, from, _) = left.fabric(6);
    let (mut b, to, _) = right.fabric(6);
    join(&mut a, &mut b);
    let (mut from, mut to) = (from.into_iter(), to.into_iter());
    a.post_recv(conn(), &recv_chain(from.by_ref().take(2).collect())).unwrap();
    b.post_recv(conn(), &recv_chain(to.by_ref().take(4).collect())).unwrap();
    let post = |from: &mut ShmFabric<'_>, n, buf| from.post_send(conn(), (&[send(n, buf, 5)], &[])).unwrap();
    // An answer that says "1 taken" lies in the ring while the counter already says "2 taken".
    post(&mut a, 0, from.next().unwrap());
    assert_eq!(poll(&mut b).len(), 1);
    post(&mut b, 0, to.next().unwrap());
    post(&mut a, 1, from.next().unwrap());
    assert_eq!(poll(&mut b).len(), 1);
    assert_eq!(poll(&mut b), [], "this poll tells the counter");
    assert_eq!(done(&mut a).len(), 2);
    let got = poll(&mut a);
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].outcome, Outcome::Done { bytes: 5, imm: Some(0) });
}

#[test]
fn a_counter_that_was_never_written_is_old_for_ever_and_no_lie() {
    // Answers acknowledge, so the counters stay as they are for longer than the 20 bits of an answer reach.
    let (mut left, mut right) = (Side::new(64, 8), Side::new(64, 8));
    let (mut a, from, _) = left.fabric(8);
    let (mut b, to, _) = right.fabric(8);
    join(&mut a, &mut b);
    let (mut from, mut to) = (from.into_iter(), to.into_iter());
    let (ask, answer) = ([send(0, from.next().unwrap(), 8)], [send(0, to.next().unwrap(), 8)]);
    let (recv_a, recv_b) = (recv_chain(from.take(1).collect()), recv_chain(to.take(1).collect()));
    for round in 0..1_200_000 {
        b.post_recv(conn(), &recv_b).unwrap();
        a.post_send(conn(), (&ask, &[])).unwrap();
        assert!(matches!(poll(&mut b)[..], [Completion { outcome: Outcome::Done { .. }, .. }]), "round {round}");
        a.post_recv(conn(), &recv_a).unwrap();
        b.post_send(conn(), (&answer, &[])).unwrap();
        assert!(matches!(poll(&mut a)[..], [Completion { outcome: Outcome::Done { .. }, .. }]), "round {round}");
        assert_eq!(done(&mut a).len(), 1, "round {round}");
        done(&mut b);
    }
}

#[test]
fn what_arrived_before_the_end_comes_out_before_what_is_flushed() {
    let (mut left, mut right) = (Side::new(200, 6), Side::new(200, 6));
    let (mut a, from, _) = left.fabric(6);
    let (mut b, to, _) = right.fabric(6);
    join(&mut a, &mut b);
    b.post_recv(conn(), &recv_chain(to)).unwrap();
    let sends: Vec<_> = from.into_iter().take(4).enumerate().map(|(n, buf)| send(n as u32, buf, 150)).collect();
    a.post_send(conn(), (&sends, &[])).unwrap();
    // The sender goes, with its memory; the receiver learns of it before it has looked.
    drop(a);
    b.disconnect(conn());
    let all = poll(&mut b);
    let flushed = |c: &Completion| c.outcome == Outcome::Failed { status: WcStatus::WR_FLUSH_ERR, vendor: 0 };
    assert_eq!(all.len(), 6);
    for (n, completion) in all[..4].iter().enumerate() {
        assert_eq!(completion.outcome, Outcome::Done { bytes: 150, imm: Some(n as u32) });
    }
    assert!(all[4..].iter().all(flushed));
}

#[test]
fn a_message_that_is_not_whole_is_never_delivered() {
    let (mut left, mut right) = (Side::new(300_000, 1), Side::new(300_000, 1));
    let (mut a, mut from, _) = left.fabric(1);
    let (mut b, to, _) = right.fabric(1);
    join(&mut a, &mut b);
    b.post_recv(conn(), &recv_chain(to)).unwrap();
    // More parts than the ring has slots: the rest would be written when the peer has taken the first.
    a.post_send(conn(), (&[send(1, from.remove(0), 300_000)], &[])).unwrap();
    drop(a);
    b.disconnect(conn());
    let all: Vec<_> = (0..5).flat_map(|_| poll(&mut b)).collect();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].outcome, Outcome::Failed { status: WcStatus::WR_FLUSH_ERR, vendor: 0 });
}

#[test]
fn posted_work_comes_back_flushed_in_both_directions() {
    let (mut left, mut right) = (Side::new(64, 6), Side::new(64, 6));
    let (mut a, mut leases, _) = left.fabric(6);
    let (mut b, _, _) = right.fabric(6);
    join(&mut a, &mut b);
    let sends: Vec<_> = leases.split_off(2).into_iter().enumerate().map(|(n, buf)| send(n as u32, buf, 9)).collect();
    a.post_recv(conn(), &recv_chain(leases)).unwrap();
    a.post_send(conn(), (&sends[..1], &sends[1..])).unwrap();
    a.disconnect(conn());
    assert_eq!((poll(&mut a).len(), done(&mut a).len()), (2, 4));
    assert_eq!((poll(&mut a), done(&mut a)), (vec![], vec![]), "each once");
    a.close(conn());
    assert_eq!(a.post_recv(conn(), &[]).unwrap_err().errno, libc::ENOTCONN);
    assert_eq!(a.qp_num(conn()), None);
}

#[test]
fn the_sizes_of_a_window_fit_the_ring() {
    for depth in [1, 4, 32, 1_000] {
        let config = Config { depth, ..config(64) };
        assert!(Geometry::of(&config).slots() >= Sizing::of(depth).recv_posted, "depth {depth}");
    }
}
