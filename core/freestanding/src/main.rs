//! Uses `spinwire-core` with nothing beneath it but the kernel's `exit`. The exit code is 0, or the number of the first
//! check that failed; 101 is a panic.
#![no_std]
#![no_main]
// The memory functions below must not be compiled into calls of themselves.
#![no_builtins]

mod bare;
#[path = "../../tests/common/tiny.rs"]
mod tiny;

use spinwire_core::cm::table::{Input, State, next};
use spinwire_core::conn::{self, Table};
use spinwire_core::id::{WorkId, WorkKind};
use spinwire_core::pool::{Direction, Pool, PoolSlot};
use spinwire_core::ring::{Header, PopError, PushError, batch, latency};

/// Runs every check and returns the exit code.
fn checks() -> u8 {
    let checks: [fn() -> bool; 6] = [
        ring_keeps_order_over_the_wrap,
        ring_gives_back_when_full,
        ring_moves_batches,
        pool_gets_a_lent_buffer_back_once,
        machine_connects_and_closes,
        || tiny::echoes(1_000),
    ];
    for (number, check) in (1..).zip(checks) {
        if !check() {
            return number;
        }
    }
    0
}

fn ring_keeps_order_over_the_wrap() -> bool {
    let (mut header, mut slots) = (Header::new(), [const { latency::Slot::new() }; 8]);
    let Ok((mut producer, mut consumer)) = latency::split_starting_at(&mut header, &mut slots, u64::MAX - 20) else {
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
    let (mut header, mut slots) = (Header::new(), [const { latency::Slot::new() }; 2]);
    let Ok((mut producer, mut consumer)) = latency::split(&mut header, &mut slots) else {
        return false;
    };
    let pushed = [producer.push(1), producer.push(2), producer.push(3)] == [Ok(()), Ok(()), Err(PushError::Full(3))];
    drop(producer);
    let popped = [consumer.pop(), consumer.pop(), consumer.pop()] == [Ok(1), Ok(2), Err(PopError::Closed)];
    let refused = batch::split(&mut Header::new(), &mut [const { batch::Slot::<u8>::new() }; 3]).is_err();
    pushed && popped && refused
}

fn ring_moves_batches() -> bool {
    let (mut header, mut slots) = (Header::new(), [const { batch::Slot::new() }; 64]);
    let Ok((mut producer, mut consumer)) = batch::split_starting_at(&mut header, &mut slots, u64::MAX - 9) else {
        return false;
    };
    let sent: [[u8; 64]; 48] = core::array::from_fn(|i| [i as u8; 64]);
    let mut received = [[0; 64]; 64];
    producer.push_slice(&sent) == 48 && consumer.pop_slice(&mut received) == 48 && received[..48] == sent
}

/// A buffer is lent for a connection of the table, and comes back for that connection only.
fn pool_gets_a_lent_buffer_back_once() -> bool {
    let (mut conns, mut places) = ([const { conn::Slot::EMPTY }; 2], [conn::Place::default(); 2]);
    let (mut memory, mut slots) = ([0; 4 * 128], [PoolSlot::default(); 4]);
    let Ok(mut conns) = Table::new(&mut conns, &mut places) else { return false };
    let Ok(mut pool) = Pool::new(Direction::Send, &mut memory, 4096, (100, 128), &mut slots) else { return false };
    let (Ok(old), Some(mut buf)) = (conns.insert(Some("old")), pool.take()) else { return false };
    buf.fill(7);
    let work = |conn| WorkId::new(conn, WorkKind::Send, 0);
    let lease = pool.lend(buf, work(old));
    let removed = conns.remove(old) == Some(Some("old"));
    let Ok(new) = conns.insert(Some("new")) else { return false };
    let stale = conns.get(old).is_none() && conns.get(new) == Some(&Some("new")) && old.slot() == new.slot();
    let stranger = pool.reclaim(lease.index(), work(new)).is_some();
    let Some(buf) = pool.reclaim(lease.index(), work(old)) else { return false };
    let kept = buf.len() == 100 && buf.iter().all(|&byte| byte == 7) && pool.layout().offset(lease.index()) == 4096;
    pool.release(buf);
    let again = pool.reclaim(lease.index(), work(old)).is_some();
    removed && stale && !stranger && kept && !again && pool.free() == 4
}

/// The active side's way through the table of states.
fn machine_connects_and_closes() -> bool {
    let way = [
        (Input::Start, State::AddrResolving),
        (Input::AddrResolved, State::RouteResolving),
        (Input::RouteResolved, State::Connecting),
        (Input::Established, State::Established),
        (Input::LocalClose, State::Lingering),
        (Input::Disconnected, State::Draining),
    ];
    let mut state = State::Opening;
    for (input, to) in way {
        match next(state, input, false) {
            Some(row) if row.to == to => state = to,
            _ => return false,
        }
    }
    next(state, Input::AddrResolved, false).is_none()
}
