//! Peers that answer are asked seldom how far they are, and those that have stopped to answer are found out all the same.

use super::fabric::ShmFabric;
use super::tests::{Side, conn, done, join, poll, recv_chain, send};
use spinwire_core::fabric::Fabric;
use spinwire_core::pool::Lease;

/// Two sides after one message and its answer.
fn after_an_answer(act: impl FnOnce(&mut ShmFabric<'_>, Lease, &mut ShmFabric<'_>)) {
    let (mut left, mut right) = (Side::new(64, 4), Side::new(64, 4));
    let (mut a, mut of_a, _) = left.fabric(4);
    let (mut b, mut of_b, _) = right.fabric(4);
    join(&mut a, &mut b);
    a.post_recv(conn(), &recv_chain(vec![of_a.remove(0)])).unwrap();
    b.post_recv(conn(), &recv_chain(vec![of_b.remove(0), of_b.remove(0)])).unwrap();
    a.post_send(conn(), (&[send(0, of_a.remove(0), 5)], &[])).unwrap();
    assert_eq!(poll(&mut b).len(), 1);
    b.post_send(conn(), (&[send(0, of_b.remove(0), 5)], &[])).unwrap();
    assert_eq!(poll(&mut a).len(), 1);
    assert_eq!(done(&mut a).len(), 1, "the answer has told it");
    act(&mut a, of_a.remove(0), &mut b);
}

/// Turns of `a` until its send is confirmed, which `b` takes and does not answer.
fn turns_until_confirmed(a: &mut ShmFabric<'_>, buf: Lease, b: &mut ShmFabric<'_>) -> usize {
    a.post_send(conn(), (&[send(1, buf, 5)], &[])).unwrap();
    assert_eq!(poll(b).len(), 1);
    assert_eq!(poll(b), [], "this poll tells the counter");
    let turn = |a: &mut ShmFabric<'_>| (poll(a).len(), done(a).len());
    1 + (0..100).position(|_| turn(a) == (0, 1)).expect("it is confirmed")
}

#[test]
fn a_peer_that_stops_to_answer_is_asked_within_sixteen_turns() {
    after_an_answer(|a, buf, b| assert!(turns_until_confirmed(a, buf, b) <= 16));
}

#[test]
fn where_nothing_has_come_for_long_it_is_asked_in_each_turn() {
    // Some loops sleep between such turns.
    for quiet in [1_100, 1_101, 1_102] {
        after_an_answer(|a, buf, b| {
            for _ in 0..quiet {
                assert_eq!((poll(a).len(), done(a).len()), (0, 0));
            }
            assert_eq!(turns_until_confirmed(a, buf, b), 1, "after {quiet}");
        });
    }
}
