//! Long messages that lie in the sender's buffers until the receiver has copied them from there.

use std::rc::Rc;

use spinwire_core::fabric::{Completion, Fabric, Outcome, WcStatus};

use super::fabric::ShmFabric;
use super::hostile_tests::{Hostile, lie};
use super::memory::PeerMemory;
use super::receiver::Lie;
use super::tests::{GUARD, Side, conn, done, join_lending, poll, recv_chain, send};
use super::word::{Body, Word};

const MIB: usize = 1 << 20;

fn fill(buffer: *mut u8, len: u32, seed: u8) {
    for at in 0..len as usize {
        // SAFETY: a buffer of our own arena, at least so long, that is not lent at the moment.
        unsafe { buffer.add(at).write((at as u8).wrapping_mul(31) ^ (at >> 12) as u8 ^ seed) };
    }
}

/// Polls until something comes, at most as often as `len` bytes take.
fn wait(fabric: &mut ShmFabric<'_>, len: u32) -> Completion {
    let visits = len / (128 << 10) + 1;
    (0..visits).find_map(|_| poll(fabric).pop()).expect("128 KiB are copied in one visit")
}

#[test]
fn a_long_message_is_read_where_it_is_and_confirmed_when_it_was_copied() {
    for room in [4_096, 70_000, 8 * MIB] {
        let (mut left, mut right) = (Side::new(room, 1), Side::new(room, 1));
        let lent = left.lent();
        let (mut a, from, source) = left.fabric(1);
        let (mut b, to, target) = right.fabric(1);
        join_lending(&mut a, lent, &mut b);
        let lengths = [121, 128, 4_095, 4_096, 16_385, 70_000, MIB as u32 + 1, 8 * MIB as u32];
        let (mut sends, to) = (vec![send(7, from.into_iter().next().unwrap(), 0)], recv_chain(to));
        for (n, len) in lengths.into_iter().filter(|&len| len as usize <= room).enumerate() {
            fill(source, len, n as u8);
            sends[0].len = len;
            b.post_recv(conn(), &to).unwrap();
            a.post_send(conn(), (&sends, &[])).unwrap();
            assert_eq!(done(&mut a), [], "{len} bytes are lent until they are copied");
            assert_eq!(wait(&mut b, len).outcome, Outcome::Done { bytes: len, imm: Some(7) });
            // SAFETY: the only buffers of our own arenas, which nobody has lent any more.
            let (sent, got) = unsafe {
                (std::slice::from_raw_parts(source, len as usize), std::slice::from_raw_parts(target, room + GUARD))
            };
            assert!(sent == &got[..len as usize], "{len} bytes are not what was sent");
            assert!(got[room..].iter().all(|&byte| byte == 0xee), "nothing past the buffer is written");
            assert_eq!((poll(&mut b), done(&mut a).len()), (vec![], 1), "each once");
        }
    }
}

#[test]
fn short_and_long_messages_keep_their_order() {
    const ROOM: usize = 300_000;
    let (mut left, mut right) = (Side::new(ROOM, 4), Side::new(ROOM, 4));
    let lent = left.lent();
    let (mut a, from, _) = left.fabric(4);
    let (mut b, to, _) = right.fabric(4);
    join_lending(&mut a, lent, &mut b);
    b.post_recv(conn(), &recv_chain(to)).unwrap();
    let lengths = [300_000, 8, 200_000, 120];
    let sends: Vec<_> =
        from.into_iter().zip(lengths).enumerate().map(|(n, (buf, len))| send(n as u32, buf, len)).collect();
    a.post_send(conn(), (&sends, &[])).unwrap();
    let got: Vec<_> = (0..8).flat_map(|_| poll(&mut b)).map(|completion| completion.outcome).collect();
    let expected = lengths.into_iter().enumerate().map(|(n, bytes)| Outcome::Done { bytes, imm: Some(n as u32) });
    assert_eq!(got, expected.collect::<Vec<_>>());
    assert_eq!(done(&mut a).len(), 4);
}

const FLUSHED: Outcome = Outcome::Failed { status: WcStatus::WR_FLUSH_ERR, vendor: 0 };

/// A sender that gives the connection up after `copied` of its message was, and uses the buffer again.
fn given_up(polls: usize, give_up: impl FnOnce(&mut ShmFabric<'_>)) -> Vec<Outcome> {
    const ROOM: usize = 300_000;
    let (mut left, mut right) = (Side::new(ROOM, 2), Side::new(ROOM, 3));
    let lent = left.lent();
    let (mut a, from, source) = left.fabric(2);
    let (mut b, to, _) = right.fabric(3);
    join_lending(&mut a, lent, &mut b);
    b.post_recv(conn(), &recv_chain(to)).unwrap();
    let sends: Vec<_> = from.into_iter().enumerate().map(|(n, buf)| send(n as u32, buf, 300_000)).collect();
    a.post_send(conn(), (&sends, &[])).unwrap();
    let mut got: Vec<_> = (0..polls).flat_map(|_| poll(&mut b)).collect();
    give_up(&mut a);
    fill(source, 300_000, 9);
    b.disconnect(conn());
    got.extend((0..9).flat_map(|_| poll(&mut b)));
    got.into_iter().map(|completion| completion.outcome).collect()
}

#[test]
fn a_message_whose_buffer_is_used_again_is_never_delivered() {
    let flush = |a: &mut ShmFabric<'_>| {
        a.disconnect(conn());
        assert_eq!(done(a).len(), 2, "its sends come back");
    };
    let close = |a: &mut ShmFabric<'_>| a.close(conn());
    for polls in 0..3 {
        assert_eq!(given_up(polls, flush), [FLUSHED; 3]);
        assert_eq!(given_up(polls, close), [FLUSHED; 3]);
    }
    let first = Outcome::Done { bytes: 300_000, imm: Some(0) };
    assert_eq!(given_up(3, close), [first, FLUSHED, FLUSHED], "what was copied before is whole");
    assert_eq!(given_up(0, |_| {})[..2], [first, Outcome::Done { bytes: 300_000, imm: Some(1) }], "nobody gave it up");
}

/// What a fabric with receives of 5,000 bytes makes of a descriptor that speaks of lent memory.
fn meets(lent: Option<&Rc<PeerMemory>>, behind: [u64; 2]) -> Vec<Completion> {
    const ROOM: usize = 5_000;
    let mut side = Side::new(ROOM, 6);
    let (mut fabric, leases, base) = side.fabric(6);
    let mut peer = Hostile::lending_to(&mut fabric, lent.map(Rc::clone));
    fabric.post_recv(conn(), &recv_chain(leases)).unwrap();
    peer.put_two(Word::new(true, Body::Lent, Some(3), 0), behind);
    let got = poll(&mut fabric);
    // SAFETY: our own arena.
    let bytes = unsafe { std::slice::from_raw_parts(base, (ROOM + GUARD) * 6) };
    for (n, buffer) in bytes.chunks(ROOM + GUARD).enumerate() {
        let from = if n == 5 { ROOM } else { 0 };
        assert!(buffer[from..].iter().all(|&byte| byte == 0xee), "only the buffer posted last may be written");
    }
    got
}

#[test]
fn places_and_lengths_outside_the_lent_memory_are_lies() {
    let lender = Side::new(8_000, 1);
    let (lent, len) = (lender.lent(), lender.lent().len() as u64);
    for behind in [[len, 121], [len - 120, 121], [u64::MAX, 121], [u64::MAX - 120, 121], [1 << 63, 4_096]] {
        assert_eq!(lie(&meets(Some(&lent), behind)), Lie::Lent as u32, "{behind:?} of {len}");
    }
    assert_eq!(lie(&meets(None, [0, 121])), Lie::Lent as u32, "nothing was lent");
    for bytes in [0, 1, 120, 1 << 32, u64::MAX] {
        assert_eq!(lie(&meets(Some(&lent), [0, bytes])), Lie::Length as u32, "{bytes} bytes do not lie in a buffer");
    }
    let whole = |bytes| Outcome::Done { bytes, imm: Some(3) };
    assert_eq!(meets(Some(&lent), [len - 121, 121])[0].outcome, whole(121), "the last bytes there are");
    let longer = meets(Some(&lent), [0, 5_001]);
    assert_eq!(longer[0].outcome, whole(5_001), "too long for the receive: the engine names both numbers");
    assert!(longer[1..].iter().all(|completion| completion.outcome == FLUSHED));
}
