//! The timer wheel.

use std::hint::black_box;

use spinwire_core::id::ConnId;
use spinwire_core::time::{Instant, Nanos};
use spinwire_core::timer::{self, TICK, TimerKind, Wheel};

const CONNS: u64 = 1_024;
const WAIT: Nanos = Nanos::from_secs(2);

fn conn(slot: u64) -> ConnId {
    ConnId::from_bits(1 << 16 | slot).expect("its generation is not zero")
}

/// A wheel on which every connection has a deadline armed, some apart from others.
fn with_wheel(run: impl FnOnce(&mut Wheel<'_>)) {
    let mut slots = vec![timer::IDLE; CONNS as usize];
    let mut wheel = Wheel::new(&mut slots, Instant::ZERO);
    for slot in 0..CONNS {
        let at = Instant::ZERO + WAIT + Nanos::from_micros(100 * slot);
        wheel.arm(Instant::ZERO, conn(slot), TimerKind::Deadline, at);
    }
    run(&mut wheel);
}

/// A keepalive armed and cancelled, beside the deadlines of all connections.
#[inline(never)]
pub fn arm_cancel(iterations: u64) {
    with_wheel(|wheel| {
        for n in 0..iterations {
            let conn = conn(n % CONNS);
            wheel.arm(Instant::ZERO, conn, TimerKind::Keepalive, Instant::ZERO + WAIT);
            black_box(wheel.cancel(conn, TimerKind::Keepalive));
        }
        assert_eq!(u64::from(wheel.armed()), CONNS);
    });
}

/// A retry armed for the tick after next, and fired.
#[inline(never)]
pub fn arm_expire(iterations: u64) {
    let mut slots = vec![timer::IDLE; CONNS as usize];
    let mut wheel = Wheel::new(&mut slots, Instant::ZERO);
    let mut now = Instant::ZERO;
    let mut fired = 0;
    for n in 0..iterations {
        wheel.arm(now, conn(n % CONNS), TimerKind::Retry, now + TICK);
        now = now + TICK;
        fired += u64::from(black_box(wheel.expire(now, &mut 16)).is_some());
    }
    assert_eq!(fired, iterations);
}

/// The check when nothing is due.
#[inline(never)]
pub fn idle(iterations: u64) {
    with_wheel(|wheel| {
        for _ in 0..iterations {
            assert!(!black_box(&mut *wheel).is_due(Instant::ZERO));
        }
    });
}
