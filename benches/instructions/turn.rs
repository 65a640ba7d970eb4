//! Turns of the loop over a fabric that has nothing, and over one that brings messages to echo.

use spinwire_benches::null::{echo_without_engine, with_rig};

/// A turn that finds nothing.
#[inline(never)]
pub fn empty(iterations: u64) {
    turns(iterations, 0);
}

/// A turn that finds one message, which is answered in place; with its share of retiring the answers.
#[inline(never)]
pub fn echo(iterations: u64) {
    turns(iterations, 1);
}

/// What of it is the fabric's own, with what makes the calls.
#[inline(never)]
pub fn echo_fabric(iterations: u64) {
    echo_without_engine(iterations);
}

/// A turn that finds 32 messages.
#[inline(never)]
pub fn echo_batch(iterations: u64) {
    turns(iterations, 32);
}

fn turns(iterations: u64, arriving: usize) {
    with_rig(arriving, |rig| {
        let worked: u64 = (0..iterations).map(|_| u64::from(rig.turn())).sum();
        assert_eq!(worked, if arriving > 0 { iterations } else { 0 });
    });
}
