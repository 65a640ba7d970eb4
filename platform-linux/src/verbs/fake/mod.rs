//! The real posting and polling code, driven without a device: verbs' inline functions call through a table in the
//! context, and here that table is ours. So a provider can be given every fault that no device shows on request.

mod rig;

use spinwire_core::fabric::{Batch, Fabric, Outcome, PostError, RecvWr, SendWr, WcStatus};
use spinwire_core::id::{ConnId, WorkId, WorkKind};
use spinwire_core::pool::{Direction, Pool, PoolSlot};

use crate::sys::verbs::ibv_send_flags;
use crate::verbs::VerbsFabric;
use rig::*;

#[test]
fn both_halves_of_a_ring_go_out_as_one_chain_with_one_doorbell() {
    let mut rig = Rig::new();
    let mut head = [rig.send(0, b"a"), rig.send(1, b"bc")];
    head[0].imm = Some(0x0102_0304);
    head[1].signaled = true;
    let tail = [rig.send(2, b"")];
    rig.fabric.post_send(conn(1), (&head, &tail)).unwrap();
    let (signaled, inline) = (ibv_send_flags::IBV_SEND_SIGNALED.0, ibv_send_flags::IBV_SEND_INLINE.0);
    let expected = |work: &SendWr, opcode, flags, imm, payload: &[u8]| Sent {
        wr_id: work.wr_id.to_bits(),
        opcode,
        flags,
        imm,
        payload: payload.to_vec(),
        lkeys: if payload.is_empty() { vec![] } else { vec![LKEY] },
    };
    // Opcode 2 is SEND, 3 SEND_WITH_IMM; immediate data goes in network byte order.
    let wanted = [
        expected(&head[0], 3, inline, 0x0102_0304_u32.to_be(), b"a"),
        expected(&head[1], 2, signaled, 0, b"bc"),
        expected(&tail[0], 2, 0, 0, b""),
    ];
    assert_eq!(rig.provider().sent, wanted);
    assert_eq!(rig.provider().calls, 1);
    let counters = rig.fabric.counters();
    assert_eq!((counters.doorbells, counters.sends), (1, 3));
}

#[test]
fn fields_of_an_earlier_post_do_not_shine_through() {
    let mut rig = Rig::new();
    let mut first = rig.send(0, b"payload");
    (first.imm, first.signaled) = (Some(u32::MAX), true);
    rig.fabric.post_send(conn(1), (&[first], &[])).unwrap();
    let second = rig.send(1, b"");
    rig.fabric.post_send(conn(1), (&[second], &[])).unwrap();
    let sent = &rig.provider().sent[1];
    assert_eq!((sent.opcode, sent.flags, sent.imm, sent.payload.len()), (2, 0, 0, 0));
}

#[test]
fn every_way_of_refusing_a_post_is_understood() {
    for says in [Says::Errno, Says::MinusOneAndErrno, Says::NegativeErrno] {
        for limit in 0..3 {
            let mut rig = Rig::new();
            rig.provider().refuse_after = Some((limit, says));
            let error = Err(PostError { taken: limit as u32, errno: libc::ENOMEM });
            let sends = [rig.send(0, b"x"), rig.send(1, b"y"), rig.send(2, b"z")];
            assert_eq!(rig.fabric.post_send(conn(1), (&sends[..1], &sends[1..])), error);
            let recvs = [rig.recv(), rig.recv(), rig.recv()];
            assert_eq!(rig.fabric.post_recv(conn(1), &recvs), error);
            let counters = rig.fabric.counters();
            assert_eq!((counters.sends, counters.recvs), (limit as u64, limit as u64), "only what was taken counts");
            // The chain is whole again afterwards.
            rig.provider().refuse_after = None;
            assert_eq!(rig.fabric.post_send(conn(1), (&sends, &[])), Ok(()));
            assert_eq!(rig.provider().sent.len(), limit + 3);
        }
    }
}

#[test]
fn receives_name_their_whole_buffers() {
    let mut rig = Rig::new();
    let recvs = [rig.recv(), rig.recv()];
    rig.fabric.post_recv(conn(1), &recvs).unwrap();
    let base = rig.memory as u64;
    let address = |index: u32| base + u64::from(index * BUFFER);
    let wanted: Vec<_> =
        recvs.iter().map(|r| (r.wr_id().to_bits(), address(r.wr_id().index()), BUFFER, LKEY)).collect();
    assert_eq!(rig.provider().received, wanted);
    assert_eq!((rig.provider().calls, rig.fabric.counters().recv_chains), (1, 1));
}

#[test]
fn another_life_of_the_slot_cannot_be_posted_on() {
    let mut rig = Rig::new();
    let recvs = [rig.recv()];
    let gone = Err(PostError { taken: 0, errno: libc::ENOTCONN });
    assert_eq!(rig.fabric.post_recv(conn(2), &recvs), gone);
    assert_eq!(
        rig.fabric.post_recv(ConnId::from_bits(1 << 16 | 3).unwrap(), &recvs),
        gone,
        "a slot without queue pair"
    );
    assert_eq!(
        rig.fabric.post_recv(ConnId::from_bits(1 << 16 | 999).unwrap(), &recvs),
        gone,
        "a slot that is not there"
    );
    assert_eq!(rig.provider().calls, 0);
}

#[test]
fn a_queue_pair_tells_its_number_to_its_own_connection_only() {
    let rig = Rig::new();
    let elsewhere = |bits| rig.fabric.qp_num(ConnId::from_bits(bits).unwrap());
    assert_eq!(rig.fabric.qp_num(conn(1)), Some(17));
    assert_eq!((rig.fabric.qp_num(conn(2)), elsewhere(1 << 16 | 3), elsewhere(1 << 16 | 999)), (None, None, None));
}

#[test]
#[should_panic(expected = "lease of another region")]
fn memory_outside_the_region_is_never_given_to_the_device() {
    let mut rig = Rig::new();
    let memory = vec![0; 64].leak();
    let slots = vec![PoolSlot::default(); 1].leak();
    let mut elsewhere = Pool::new(Direction::Recv, memory, 1 << 40, (64, 64), slots).unwrap();
    let buf = elsewhere.take().unwrap();
    let work = WorkId::new(conn(1), WorkKind::Recv, 0);
    let buf = elsewhere.lend(buf, work);
    rig.prepare(elsewhere.layout(), 0);
    let _ = rig.fabric.post_recv(conn(1), &[RecvWr::new(work, buf)]);
}

#[test]
fn an_inline_payload_is_taken_during_the_post() {
    let mut rig = Rig::new();
    rig.prepare(rig.pool.layout(), 6);
    let work = rig.send(0, b"before");
    let index = work.buf.as_ref().unwrap().index();
    rig.fabric.post_send(conn(1), (&[work], &[])).unwrap();
    let mut buf = rig.pool.reclaim(index, WorkId::new(conn(1), WorkKind::Send, 0)).unwrap();
    buf.fill(0xee);
    assert_eq!(rig.provider().sent[0].payload, b"before");
    rig.pool.release(buf);
}

#[test]
fn of_a_failed_completion_only_the_defined_fields_are_read() {
    let mut rig = Rig::new();
    let mut wc = completion(99, 5);
    wc.vendor_err = 0xabc;
    // What a provider may leave behind in the rest.
    (wc.opcode, wc.byte_len, wc.wc_flags) = (0xdead_beef, u32::MAX, u32::MAX);
    wc.imm_data_invalidated_rkey_union.imm_data = 0x5555_5555;
    let mut from_the_future = completion(100, 4_000_000_000);
    from_the_future.byte_len = 7;
    for poll in [VerbsFabric::poll_recv, VerbsFabric::poll_send] {
        // SAFETY: a copy of plain integers.
        rig.provider().completions.extend(unsafe { [core::ptr::read(&wc), core::ptr::read(&from_the_future)] });
        let mut out = Batch::new();
        poll(&mut rig.fabric, &mut out);
        assert_eq!(out[0].outcome, Outcome::Failed { status: WcStatus::WR_FLUSH_ERR, vendor: 0xabc });
        assert_eq!((out[0].wr_id, out[0].qp_num), (WorkId::from_bits(99), 17));
        assert_eq!(out[1].outcome, Outcome::Failed { status: WcStatus(4_000_000_000), vendor: 0 });
    }
}

#[test]
fn a_received_message_brings_its_length_and_its_immediate_data_only_if_it_has_some() {
    let mut rig = Rig::new();
    let mut with = completion(1, 0);
    (with.byte_len, with.wc_flags) = (u32::MAX, 2);
    with.imm_data_invalidated_rkey_union.imm_data = 0x0102_0304_u32.to_be();
    let mut without = completion(2, 0);
    without.imm_data_invalidated_rkey_union.imm_data = 0x5555_5555;
    rig.provider().completions.extend([with, without]);
    let mut out = Batch::new();
    rig.fabric.poll_recv(&mut out);
    // A length beyond any buffer is handed on as the claim it is; checking it is the engine's job.
    assert_eq!(out[0].outcome, Outcome::Done { bytes: u32::MAX, imm: Some(0x0102_0304) });
    assert_eq!(out[1].outcome, Outcome::Done { bytes: 0, imm: None });
}

#[test]
fn a_poll_takes_no_more_than_there_is_room_for() {
    let mut rig = Rig::new();
    rig.provider().completions.extend((0..100).map(|i| completion(i, 0)));
    let mut out = Batch::new();
    let mut seen = Vec::new();
    rig.fabric.poll_send(&mut out);
    assert!(out.is_full());
    rig.fabric.poll_send(&mut out);
    while !out.is_empty() {
        seen.extend(out.iter().map(|c| c.wr_id.to_bits()));
        out.clear();
        rig.fabric.poll_send(&mut out);
    }
    assert_eq!(seen, (0..100).collect::<Vec<_>>(), "each once, in order");
    assert_eq!(rig.fabric.counters().completions, 100);
}

#[test]
fn a_broken_completion_queue_is_remembered() {
    // Neither a provider's own number (mlx's CQ_POLL_ERR is -2) nor an errno left over is taken for the reason.
    for code in [-1, -2, i32::MIN] {
        let mut rig = Rig::new();
        rig.provider().poll_error = Some(code);
        // SAFETY: errno of this thread.
        unsafe { *libc::__errno_location() = libc::EBUSY };
        let mut out = Batch::new();
        rig.fabric.poll_recv(&mut out);
        assert!(out.is_empty());
        assert_eq!(rig.fabric.counters().failed_polls, 1);
        assert_eq!(rig.fabric.poll_failure().unwrap().errno.0, libc::EIO);
    }
}
