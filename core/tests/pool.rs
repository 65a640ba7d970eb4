//! Buffer pools: each buffer in one hand at a time, also over ten million random operations.
#![cfg(not(loom))]

use spinwire_core::config::{BATCH_MAX, POOL_BUFFERS_MAX};
use spinwire_core::fabric::RecvWr;
use spinwire_core::id::{ConnId, WorkId, WorkKind};
use spinwire_core::pool::{Buf, Bulk, Direction, Layout, Pool, PoolError, PoolSlot};
use spinwire_core::sim::Random;

/// The work of a connection, whose number means nothing to a pool unless it is a receive.
fn work(slot: u64, generation: u64, index: u32) -> WorkId {
    WorkId::new(ConnId::from_bits(generation << 16 | slot).unwrap(), WorkKind::Send, index)
}

fn memory(buffers: usize, stride: usize) -> (Vec<u8>, Vec<PoolSlot>) {
    (vec![0; buffers * stride], vec![PoolSlot::default(); buffers])
}

#[test]
fn buffers_do_not_overlap_and_come_back_last_in_first_out() {
    let (mut memory, mut slots) = memory(3, 100);
    let mut pool = Pool::new(Direction::Send, &mut memory, 0, (64, 100), &mut slots).unwrap();
    let mut held: Vec<_> = core::iter::from_fn(|| pool.take()).collect();
    assert_eq!((held.len(), pool.free()), (3, 0));
    for (n, buf) in held.iter_mut().enumerate() {
        assert!(buf.iter().all(|&byte| byte == 0));
        buf.fill(n as u8 + 1);
    }
    for (n, buf) in held.iter().enumerate() {
        assert!(buf.len() == 64 && buf.iter().all(|&byte| byte == n as u8 + 1));
    }
    let (first, last) = (held.remove(0), held.remove(0));
    let starts = [first.as_ptr(), last.as_ptr()];
    pool.release(first);
    pool.release(last);
    assert_eq!([pool.take().unwrap().as_ptr(), pool.take().unwrap().as_ptr()], [starts[1], starts[0]]);
}

#[test]
fn only_the_lender_gets_a_buffer_back_and_only_once() {
    let (mut memory, mut slots) = memory(2, 32);
    let mut pool = Pool::new(Direction::Recv, &mut memory, 4_096, (32, 32), &mut slots).unwrap();
    let _first = pool.take().unwrap();
    let second = pool.take().unwrap();
    let lease = pool.lend(second, work(7, 1, 5));
    let layout = Layout { region_offset: 4_096, stride: 32, len: 32 };
    assert_eq!((pool.layout(), layout.offset(lease.index()), lease.index()), (layout, 4_096 + 32, 1));
    assert!(pool.reclaim(1, work(8, 1, 5)).is_none(), "another connection");
    assert!(pool.reclaim(1, work(7, 2, 5)).is_none(), "another life of the slot");
    assert!(pool.reclaim(1, work(7, 1, 6)).is_none(), "other work of the same connection");
    assert!(pool.reclaim(0, work(7, 1, 5)).is_none(), "in the program's hands");
    assert!(pool.reclaim(99, work(7, 1, 5)).is_none(), "no such buffer");
    assert!(pool.reclaim(1, work(7, 1, 5)).is_some());
    assert!(pool.reclaim(1, work(7, 1, 5)).is_none(), "a second completion for the same work");
}

/// A second completion of a receive whose buffer is on its way as the answer would put it in two hands.
#[test]
fn a_receive_does_not_come_back_while_its_buffer_is_lent_as_an_answer() {
    let (mut memory, mut slots) = memory(2, 32);
    let mut pool = Pool::new(Direction::Recv, &mut memory, 0, (32, 32), &mut slots).unwrap();
    let conn = ConnId::from_bits(1 << 16 | 7).unwrap();
    let (receives, sends) = (WorkId::new(conn, WorkKind::Recv, 0), WorkId::new(conn, WorkKind::Send, 0));
    let mut chain = [RecvWr::EMPTY];
    assert_eq!(pool.lend_receives(receives, &mut chain), 1);
    let posted = chain[0].wr_id();
    let buf = pool.reclaim(posted.index(), posted).unwrap();
    let lease = pool.lend(buf, sends);
    assert!(pool.reclaim(posted.index(), posted).is_none(), "the device reads it for the answer");
    assert!(pool.free_lent(lease.index(), sends));
}

#[test]
fn everything_a_dead_connection_has_lent_is_freed() {
    let (mut memory, mut slots) = memory(10, 64);
    let mut pool = Pool::new(Direction::Recv, &mut memory, 0, (64, 64), &mut slots).unwrap();
    for n in 0..10 {
        let buf = pool.take().unwrap();
        let _ = pool.lend(buf, work(n % 2, 1, n as u32));
    }
    let of = |slot| work(slot, 1, 0);
    assert_eq!(pool.reclaim_all(of(0)), 5);
    assert_eq!((pool.free(), pool.reclaim_all(of(0)), pool.reclaim_all(of(1)), pool.free()), (5, 0, 5, 10));
}

#[test]
fn many_at_once_are_the_same_as_one_by_one() {
    let (mut memory, mut slots) = memory(100, 64);
    let mut pool = Pool::new(Direction::Send, &mut memory, 0, (64, 64), &mut slots).unwrap();
    let (mut held, mut bulk) = (Vec::<Buf<'_>>::new(), Bulk::new());
    for (asked, got) in [(0, 0), (1, 1), (31, 31), (32, 32), (1_000, BATCH_MAX), (32, 4), (1, 0)] {
        pool.take_bulk(asked, &mut bulk);
        assert_eq!(bulk.len(), got, "{asked} asked");
        held.extend(&mut bulk);
    }
    assert_eq!((held.len(), pool.free()), (100, 0));
    held.sort_by_key(|buf| buf.as_ptr());
    for (n, buf) in held.iter_mut().enumerate() {
        assert!(buf.iter().all(|&byte| byte == 0), "two buffers overlap");
        buf.fill(n as u8 + 1);
    }
    held.drain(..).for_each(|buf| pool.release(buf));
    pool.take_bulk(8, &mut bulk);
    let first = bulk.next().unwrap();
    pool.release_bulk(&mut bulk);
    assert_eq!((pool.free(), bulk.len()), (99, 0));
    pool.release(first);
}

#[test]
#[should_panic(expected = "not from")]
fn a_buffer_of_another_pool_is_refused() {
    let ((mut memory_a, mut slots_a), (mut memory_b, mut slots_b)) = (memory(2, 32), memory(2, 32));
    let mut a = Pool::new(Direction::Send, &mut memory_a, 0, (32, 32), &mut slots_a).unwrap();
    let mut b = Pool::new(Direction::Send, &mut memory_b, 0, (32, 32), &mut slots_b).unwrap();
    b.release(a.take().unwrap());
}

#[test]
#[should_panic(expected = "not from")]
fn buffers_of_another_pool_are_refused_also_in_bulk() {
    let (mut memory, mut slots) = memory(4, 32);
    let (low, high) = memory.split_at_mut(64);
    let (mut slots_b, slots_a) = (vec![PoolSlot::default(); 2], &mut slots[..2]);
    let mut a = Pool::new(Direction::Send, low, 0, (32, 32), slots_a).unwrap();
    let mut b = Pool::new(Direction::Send, high, 0, (32, 32), &mut slots_b).unwrap();
    let mut bulk = Bulk::new();
    a.take_bulk(1, &mut bulk);
    b.release_bulk(&mut bulk);
}

#[test]
#[should_panic(expected = "would be lost")]
fn a_bulk_that_is_not_empty_is_not_filled() {
    let (mut memory, mut slots) = memory(4, 32);
    let mut pool = Pool::new(Direction::Send, &mut memory, 0, (32, 32), &mut slots).unwrap();
    let mut bulk = Bulk::new();
    pool.take_bulk(2, &mut bulk);
    pool.take_bulk(1, &mut bulk);
}

#[test]
fn layouts_that_do_not_fit_are_refused() {
    let (mut memory, mut slots) = (vec![0; 100], vec![PoolSlot::default(); 2]);
    let mut refused =
        |layout, slots: &mut [PoolSlot]| Pool::new(Direction::Send, &mut memory, 0, layout, slots).unwrap_err();
    assert_eq!(refused((64, 64), &mut slots), PoolError::Memory { buffers: 2, stride: 64, bytes: 100 });
    assert_eq!(refused((64, 32), &mut slots), PoolError::Stride { len: 64, stride: 32 });
    assert_eq!(refused((0, 32), &mut slots), PoolError::Stride { len: 0, stride: 32 });
    assert_eq!(refused((8, 8), &mut []), PoolError::Buffers { buffers: 0 });
    let many = POOL_BUFFERS_MAX + 1;
    #[cfg(not(miri))]
    assert_eq!(refused((8, 8), &mut vec![PoolSlot::default(); many]), PoolError::Buffers { buffers: many });
}

/// Under miri, which sees every byte, a few thousand take as long.
const OPERATIONS: usize = if cfg!(miri) { 5_000 } else { 10_000_000 };

/// The model: a stack of free numbers, and who has lent what.
struct Model {
    free: Vec<u32>,
    lent: Vec<Option<WorkId>>,
}

/// What the test holds: buffers with the number it saw them under. The first byte of each is that number's.
struct Hands<'m> {
    bufs: Vec<(u32, Buf<'m>)>,
    bulks: Vec<(Vec<u32>, Bulk<'m>)>,
    /// Numbers of lent buffers.
    leases: Vec<u32>,
}

#[test]
fn ten_million_operations_agree_with_a_model() {
    let sizes = [1u32, 2, 5, 64, 1_000];
    for size in sizes {
        let (stride, offset) = (24, 1 << 33);
        let (mut memory, mut slots) = memory(size as usize, stride);
        let base = memory.as_ptr().addr();
        (0..size).for_each(|index| memory[index as usize * stride] = index as u8);
        let mut pool = Pool::new(Direction::Recv, &mut memory, offset, (17, stride as u32), &mut slots).unwrap();
        let mut model = Model { free: (0..size).rev().collect(), lent: vec![None; size as usize] };
        let mut hands = Hands { bufs: Vec::new(), bulks: Vec::new(), leases: Vec::new() };
        let mut random = Random(size.into());
        let index_of = |buf: &Buf<'_>| ((buf.as_ptr().addr() - base) / stride) as u32;
        for _ in 0..OPERATIONS / sizes.len() {
            let choice = random.next();
            let pick = (choice >> 32) as usize;
            // Of 64 connections in two lives each; the generation is at its end.
            let owner = work(choice >> 8 & 63, (1 << 48) - 1 - (choice >> 16 & 1), 0);
            match choice % 10 {
                0 => {
                    let (taken, expected) = (pool.take(), model.free.pop());
                    assert_eq!(taken.as_ref().map(index_of), expected);
                    hands.bufs.extend(taken.map(|mut buf| {
                        assert_eq!(buf.len(), 17);
                        let index = index_of(&buf);
                        buf[0] = index as u8;
                        (index, buf)
                    }));
                }
                1 if !hands.bufs.is_empty() => {
                    let (index, buf) = hands.bufs.swap_remove(pick % hands.bufs.len());
                    assert_eq!(buf[0], index as u8, "somebody else wrote into it");
                    pool.release(buf);
                    model.free.push(index);
                }
                2 if !hands.bufs.is_empty() => {
                    let (index, buf) = hands.bufs.swap_remove(pick % hands.bufs.len());
                    let lease = pool.lend(buf, owner);
                    assert_eq!((lease.index(), lease.from()), (index, Direction::Recv));
                    model.lent[index as usize] = Some(owner);
                    hands.leases.push(index);
                }
                3 | 4 if !hands.leases.is_empty() => {
                    // Sometimes a completion for the wrong connection, which changes nothing.
                    let lease = pick % hands.leases.len();
                    let index = hands.leases[lease];
                    let lender = model.lent[index as usize].unwrap();
                    let claimed = if choice % 10 == 3 { lender } else { owner };
                    let back = pool.reclaim(index, claimed);
                    assert_eq!(back.is_some(), claimed == lender);
                    if let Some(buf) = back {
                        assert_eq!((index_of(&buf), buf[0]), (index, index as u8));
                        model.lent[index as usize] = None;
                        hands.leases.swap_remove(lease);
                        hands.bufs.push((index, buf));
                    }
                }
                5 => {
                    let mut bulk = Bulk::new();
                    pool.take_bulk(pick % (BATCH_MAX + 2), &mut bulk);
                    let left = model.free.len() - bulk.len();
                    assert_eq!(bulk.len(), (pick % (BATCH_MAX + 2)).min(BATCH_MAX).min(left + bulk.len()));
                    hands.bulks.push((model.free.split_off(left), bulk));
                }
                6 if !hands.bulks.is_empty() => {
                    let (mut indices, mut bulk) = hands.bulks.swap_remove(pick % hands.bulks.len());
                    for mut buf in bulk.by_ref().take(pick % 4) {
                        let index = index_of(&buf);
                        assert_eq!(indices.pop(), Some(index));
                        buf[0] = index as u8;
                        hands.bufs.push((index, buf));
                    }
                    model.free.extend(indices);
                    pool.release_bulk(&mut bulk);
                }
                7 => {
                    let mut chain = [const { RecvWr::EMPTY }; 12];
                    let asked = pick % chain.len();
                    let lent = pool.lend_receives(owner, &mut chain[..asked]);
                    assert_eq!(lent, model.free.len().min(asked));
                    for (wr, index) in chain[..lent].iter().zip(model.free.split_off(model.free.len() - lent)) {
                        assert_eq!(wr.wr_id(), owner.with_index(index));
                        model.lent[index as usize] = Some(wr.wr_id());
                        hands.leases.push(index);
                    }
                }
                8 if !hands.leases.is_empty() => {
                    let lease = pick % hands.leases.len();
                    let index = hands.leases[lease];
                    let lender = model.lent[index as usize].unwrap();
                    let claimed = if choice >> 20 & 1 == 0 { lender } else { owner };
                    assert_eq!(pool.free_lent(index, claimed), claimed == lender);
                    if claimed == lender {
                        model.lent[index as usize] = None;
                        hands.leases.swap_remove(lease);
                        model.free.push(index);
                    }
                }
                _ => {
                    let index = pick as u32 % (size + 1);
                    if model.lent.get(index as usize).copied().flatten().is_none() {
                        assert!(!pool.free_lent(index, owner), "nobody has lent it");
                        assert!(pool.reclaim(index, owner).is_none(), "nobody has lent it");
                    }
                }
            }
            assert_eq!(pool.free() as usize, model.free.len());
        }
        let in_bulk: usize = hands.bulks.iter().map(|(indices, _)| indices.len()).sum();
        assert_eq!(model.free.len() + hands.bufs.len() + hands.leases.len() + in_bulk, size as usize);
    }
}
