//! Uses `spinwire-core` with nothing beneath it but the kernel's `exit`. The exit code is 0, or the number of the first
//! check that failed; 101 is a panic.
#![no_std]
#![no_main]
// The memory functions below must not be compiled into calls of themselves.
#![no_builtins]

mod bare;

use spinwire_core::ring::{Header, PopError, PushError, Slot, split_starting_at};

/// Runs every check and returns the exit code.
fn checks() -> u8 {
    let checks: [fn() -> bool; 3] = [ring_keeps_order_over_the_wrap, ring_gives_back_when_full, ring_moves_batches];
    for (number, check) in (1..).zip(checks) {
        if !check() {
            return number;
        }
    }
    0
}

fn ring_keeps_order_over_the_wrap() -> bool {
    let (mut header, mut slots) = (Header::new(), [const { Slot::new() }; 8]);
    let Ok((mut producer, mut consumer)) = split_starting_at(&mut header, &mut slots, usize::MAX - 20) else {
        return false;
    };
    for item in 0..1_000_u64 {
        if producer.push(item).is_err() || consumer.pop() != Ok(item) {
            return false;
        }
    }
    consumer.pop() == Err(PopError::Empty)
}

fn ring_gives_back_when_full() -> bool {
    let (mut header, mut slots) = (Header::new(), [const { Slot::new() }; 2]);
    let Ok((mut producer, mut consumer)) = split_starting_at(&mut header, &mut slots, 0) else {
        return false;
    };
    let pushed = [producer.push(1), producer.push(2), producer.push(3)] == [Ok(()), Ok(()), Err(PushError::Full(3))];
    drop(producer);
    let popped = [consumer.pop(), consumer.pop(), consumer.pop()] == [Ok(1), Ok(2), Err(PopError::Closed)];
    let refused = split_starting_at(&mut Header::new(), &mut [const { Slot::<u8>::new() }; 3], 0).is_err();
    pushed && popped && refused
}

fn ring_moves_batches() -> bool {
    let (mut header, mut slots) = (Header::new(), [const { Slot::new() }; 64]);
    let Ok((mut producer, mut consumer)) = split_starting_at(&mut header, &mut slots, usize::MAX - 9) else {
        return false;
    };
    let sent: [[u8; 64]; 48] = core::array::from_fn(|i| [i as u8; 64]);
    let mut received = [[0; 64]; 64];
    producer.push_slice(&sent) == 48 && consumer.pop_slice(&mut received) == 48 && received[..48] == sent
}
