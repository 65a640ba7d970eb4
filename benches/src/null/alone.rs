//! The null fabric without an engine.

use std::hint::black_box;
use std::slice;

use spinwire_core::config::Sizing;
use spinwire_core::fabric::{Batch, Fabric, RecvWr, SendWr};
use spinwire_core::id::ConnId;

use super::{CONFIG, NullFabric};

/// The calls into the fabric that `turns` turns with a message each make, and nothing else: what of such a turn is the fabric's
/// own, and no engine's.
///
/// # Panics
/// When the fabric did not bring a message in each.
pub fn echo_without_engine(turns: u64) {
    const SIZING: Sizing = CONFIG.sizing();
    const CHAIN: usize = SIZING.recv_batch as usize;
    let conn = ConnId::from_bits(1 << 16).expect("its generation is not zero");
    let receives = [const { RecvWr::EMPTY }; CHAIN];
    let answers = [false, true].map(|signaled| SendWr { signaled, ..SendWr::EMPTY });
    let mut fabric = NullFabric { arriving: 1, ..NullFabric::new() };
    // The compiler is to know as little of what is in there as it does in an engine.
    let (fabric, receives, answers) = (black_box(&mut fabric), black_box(&receives), black_box(&answers));
    let mut brought = 0;
    for turn in 0..turns {
        let mut batch = Batch::new();
        fabric.poll_recv(&mut batch);
        brought += batch.len() as u64;
        let answer = &answers[usize::from(turn % u64::from(SIZING.signal_every) == 0)];
        let mut posted = fabric.post_send(conn, (slice::from_ref(answer), &[]));
        if turn % CHAIN as u64 == 0 {
            posted = posted.and(fabric.post_recv(conn, receives));
        }
        assert!(posted.is_ok());
        batch.clear();
        fabric.poll_send(&mut batch);
    }
    assert_eq!(brought, turns);
}
