//! Connections with much to say do not keep others out.

use super::fabric::ShmFabric;
use super::tests::{DEPTH, Side, done, offer_of, poll, recv_chain, send};
use spinwire_core::config::BATCH_MAX;
use spinwire_core::fabric::{Batch, Fabric};
use spinwire_core::id::ConnId;

/// The connection in slot `n`.
fn at(n: usize) -> ConnId {
    ConnId::from_bits(1 << 16 | n as u64).unwrap()
}

/// Connects the first `links` slots, of which the first is open.
fn join_all(a: &mut ShmFabric<'_>, b: &mut ShmFabric<'_>, links: usize) {
    for n in 0..links {
        if n > 0 {
            a.open(at(n)).unwrap();
            b.open(at(n)).unwrap();
        }
        let (from_a, from_b) = (offer_of(a, at(n)), offer_of(b, at(n)));
        a.attach(at(n), from_b, false).unwrap();
        b.attach(at(n), from_a, false).unwrap();
    }
}

#[test]
fn busy_connections_do_not_keep_a_silent_one_out() {
    const LINKS: usize = 33;
    let (mut left, mut right) = (Side::new(64, 2 * LINKS), Side::new(64, 4 * LINKS));
    let ((mut a, from, _), (mut b, to, _)) =
        (left.fabric_of((LINKS, DEPTH), 2 * LINKS), right.fabric_of((LINKS, DEPTH), 4 * LINKS));
    let (mut from, mut to) = (from.into_iter(), to.into_iter());
    let mut recvs = Vec::new();
    join_all(&mut a, &mut b, LINKS);
    for n in 0..LINKS {
        recvs.push(recv_chain(to.by_ref().take(4).collect()));
        b.post_recv(at(n), &recvs[n]).unwrap();
    }
    // All but the last send two messages for each poll, which fill the batch.
    let sends: Vec<_> = (0..LINKS).map(|_| [send(0, from.next().unwrap(), 8)]).collect();
    let mut silent_was_heard = false;
    for round in 0..200 {
        for (n, send) in sends[..LINKS - 1].iter().enumerate() {
            let _ = a.post_send(at(n), (send, &[]));
        }
        if round == 100 {
            a.post_send(at(LINKS - 1), (&sends[LINKS - 1], &[])).unwrap();
        }
        let silent = b.qp_num(at(LINKS - 1)).unwrap();
        let got = poll(&mut b);
        for completion in &got {
            let n = (0..LINKS).find(|&n| b.qp_num(at(n)) == Some(completion.qp_num)).unwrap();
            let _ = b.post_recv(at(n), &recvs[n][..1]);
        }
        done(&mut a);
        silent_was_heard |= got.iter().any(|completion| completion.qp_num == silent);
        assert!(round < 20 || got.len() == BATCH_MAX, "round {round}: {} messages", got.len());
    }
    assert!(silent_was_heard);
}

#[test]
fn one_that_fills_every_batch_does_not_keep_out_others_that_talk_too() {
    const LINKS: usize = 3;
    const FLOOD: usize = 40;
    let count = FLOOD + LINKS;
    let (mut left, mut right) = (Side::new(64, count), Side::new(64, count));
    let ((mut a, from, _), (mut b, to, _)) = (left.fabric_of((LINKS, 40), count), right.fabric_of((LINKS, 40), count));
    let (mut from, mut to) = (from.into_iter(), to.into_iter());
    join_all(&mut a, &mut b, LINKS);
    let (mut recvs, mut sends) = (Vec::new(), Vec::new());
    for n in 0..LINKS {
        let messages = if n == 0 { FLOOD } else { 1 };
        recvs.push(recv_chain(to.by_ref().take(messages).collect()));
        b.post_recv(at(n), &recvs[n]).unwrap();
        sends.push((0..messages).map(|m| send(m as u32, from.next().unwrap(), 8)).collect::<Vec<_>>());
    }
    let mut heard = [0; LINKS];
    for _ in 0..200 {
        for (n, sends) in sends.iter().enumerate() {
            let _ = a.post_send(at(n), (sends, &[]));
        }
        let got = poll(&mut b);
        for completion in &got {
            let n = (0..LINKS).find(|&n| b.qp_num(at(n)) == Some(completion.qp_num)).unwrap();
            heard[n] += 1;
            b.post_recv(at(n), &recvs[n][..1]).unwrap();
        }
        // No room for a message: this one only tells what was taken.
        let mut full: Batch = got.iter().copied().cycle().take(BATCH_MAX).collect();
        b.poll_recv(&mut full);
        while !done(&mut a).is_empty() {}
    }
    assert_eq!(heard.iter().sum::<usize>(), 200 * BATCH_MAX, "every batch is full: {heard:?}");
    assert!(heard[1..].iter().all(|&times| times >= 60), "{heard:?}");
}
