//! What a user of the timer wheel relies on, one thing each.

use spinwire_core::id::ConnId;
use spinwire_core::time::{Instant, Nanos};
use spinwire_core::timer::{self, Expired, TICK, TimerKind, Wheel};

const HOUR: Nanos = Nanos::from_secs(3_600);

fn conn(slot: u64, life: u64) -> ConnId {
    ConnId::from_bits(life << 16 | slot).unwrap()
}

fn ms(n: u64) -> Instant {
    Instant::ZERO + Nanos::from_millis(n)
}

fn all(wheel: &mut Wheel<'_>, now: Instant) -> Vec<Expired> {
    let mut budget = u32::MAX;
    std::iter::from_fn(|| wheel.expire(now, &mut budget)).collect()
}

#[test]
fn never_early_and_at_most_one_tick_late() {
    let mut slots = [timer::IDLE];
    let mut wheel = Wheel::new(&mut slots, Instant::ZERO);
    let at = Instant::from_nanos(10 * TICK.get() + 1);
    wheel.arm(Instant::ZERO, conn(0, 1), TimerKind::Retry, at);
    assert_eq!(all(&mut wheel, at), []);
    let tick_later = at + TICK;
    assert_eq!(all(&mut wheel, tick_later), [Expired { conn: conn(0, 1), kind: TimerKind::Retry, at }]);
    assert_eq!((all(&mut wheel, tick_later), wheel.next_deadline()), (vec![], Instant::NEVER));
}

#[test]
fn a_loop_that_was_away_for_an_hour_pays_for_its_timers_and_not_for_the_ticks() {
    let mut slots = vec![timer::IDLE; 1_000];
    let mut wheel = Wheel::new(&mut slots, Instant::ZERO);
    for slot in 0..1_000 {
        wheel.arm(Instant::ZERO, conn(slot, 1), TimerKind::Deadline, ms(3 * slot));
    }
    let (mut budget, mut fired) = (u32::MAX, 0);
    while wheel.expire(Instant::ZERO + HOUR, &mut budget).is_some() {
        fired += 1;
    }
    let spent = u32::MAX - budget;
    assert_eq!(fired, 1_000);
    assert!(spent <= 4 * 1_000, "levels 0 to 3 are at most four steps for each timer, not {spent}");
}

#[test]
fn the_budget_puts_off_and_loses_nothing() {
    let mut slots = vec![timer::IDLE; 100];
    let mut wheel = Wheel::new(&mut slots, Instant::ZERO);
    for slot in 0..100 {
        wheel.arm(Instant::ZERO, conn(slot, 1), TimerKind::Deadline, ms(5_000) + Nanos::new(slot));
    }
    let now = ms(6_000);
    let (mut fired, mut calls) = (Vec::new(), 0);
    while wheel.is_due(now) {
        let mut budget = 7;
        fired.extend(std::iter::from_fn(|| wheel.expire(now, &mut budget)).map(|timer| timer.conn.slot()));
        calls += 1;
    }
    fired.sort_unstable();
    assert_eq!(fired, (0..100).collect::<Vec<_>>());
    assert!(calls >= 100 / 7, "{calls} calls");
}

#[test]
fn who_sleeps_until_the_bound_is_never_late_and_wakes_a_few_times_only() {
    let mut slots = [timer::IDLE];
    let mut wheel = Wheel::new(&mut slots, Instant::from_nanos(12_345));
    let at = Instant::ZERO + HOUR + Nanos::new(1);
    wheel.arm(Instant::from_nanos(12_345), conn(0, 1), TimerKind::Keepalive, at);
    for _ in 0..8 {
        let now = wheel.next_deadline();
        if let [fired] = all(&mut wheel, now)[..] {
            assert_eq!((fired.at, now.since(at) <= TICK), (at, true));
            return;
        }
    }
    panic!("still not fired, next at {:?}", wheel.next_deadline());
}

#[test]
fn an_earlier_life_of_the_slot_neither_cancels_nor_keeps_its_timer() {
    let mut slots = [timer::IDLE; 4];
    let mut wheel = Wheel::new(&mut slots, Instant::ZERO);
    let (earlier, later) = (conn(3, 1), conn(3, 2));
    wheel.arm(Instant::ZERO, earlier, TimerKind::Deadline, ms(10));
    wheel.arm(Instant::ZERO, later, TimerKind::Deadline, ms(20));
    assert_eq!((wheel.armed(), wheel.deadline(earlier, TimerKind::Deadline)), (1, Instant::NEVER));
    assert!(!wheel.cancel(earlier, TimerKind::Deadline));
    assert_eq!(wheel.deadline(later, TimerKind::Deadline), ms(20));
    assert_eq!(all(&mut wheel, ms(30)).len(), 1);
}

#[test]
fn one_kind_leaves_the_others_alone() {
    let mut slots = [timer::IDLE];
    let mut wheel = Wheel::new(&mut slots, Instant::ZERO);
    for (kind, at) in TimerKind::ALL.into_iter().zip([ms(3), ms(1), ms(2)]) {
        wheel.arm(Instant::ZERO, conn(0, 1), kind, at);
    }
    wheel.arm(Instant::ZERO, conn(0, 1), TimerKind::Retry, Instant::NEVER);
    let fired: Vec<_> = all(&mut wheel, ms(9)).into_iter().map(|timer| timer.kind).collect();
    assert_eq!(fired, [TimerKind::Keepalive, TimerKind::Deadline]);
    wheel.arm(ms(9), conn(0, 1), TimerKind::Retry, ms(12));
    wheel.cancel_all(conn(0, 1));
    assert_eq!((wheel.armed(), all(&mut wheel, ms(20))), (0, vec![]));
}

#[test]
fn a_timer_that_is_put_off_fires_once_for_its_last_deadline_and_a_cancelled_one_not_at_all() {
    let mut slots = [timer::IDLE; 3];
    let mut wheel = Wheel::new(&mut slots, Instant::ZERO);
    for at in [5, 6, 500, 40] {
        wheel.arm(Instant::ZERO, conn(0, 1), TimerKind::Deadline, ms(at));
        wheel.arm(Instant::ZERO, conn(1, 1), TimerKind::Deadline, ms(at));
        wheel.arm(Instant::ZERO, conn(2, 1), TimerKind::Deadline, ms(at));
    }
    assert!(wheel.cancel(conn(0, 1), TimerKind::Deadline));
    assert!(wheel.cancel(conn(1, 1), TimerKind::Deadline));
    wheel.arm(Instant::ZERO, conn(1, 2), TimerKind::Deadline, ms(700));
    let fired: Vec<_> = (0..1_000).flat_map(|n| all(&mut wheel, ms(n))).map(|timer| (timer.conn, timer.at)).collect();
    assert_eq!(fired, [(conn(2, 1), ms(40)), (conn(1, 2), ms(700))]);
    assert_eq!((wheel.armed(), wheel.next_deadline()), (0, Instant::NEVER), "no list keeps what was cancelled");
}

#[test]
fn a_timer_that_is_armed_again_at_once_does_not_hold_up_the_others() {
    let mut slots = [timer::IDLE; 2];
    let mut wheel = Wheel::new(&mut slots, Instant::ZERO);
    wheel.arm(Instant::ZERO, conn(0, 1), TimerKind::Retry, ms(1));
    wheel.arm(Instant::ZERO, conn(1, 1), TimerKind::Deadline, ms(2));
    let (mut budget, mut fired) = (10, Vec::new());
    while let Some(timer) = wheel.expire(ms(5), &mut budget) {
        fired.push(timer.conn.slot());
        if timer.kind == TimerKind::Retry {
            wheel.arm(ms(5), timer.conn, timer.kind, Instant::ZERO);
        }
    }
    assert_eq!(fired, [0, 1], "a deadline in the past counts as now, and waits for the next tick");
}

#[test]
fn the_last_stamps_work() {
    let mut slots = [timer::IDLE; 2];
    let now = Instant::from_nanos(u64::MAX - 3 * TICK.get());
    let mut wheel = Wheel::new(&mut slots, now);
    let at = now + TICK;
    wheel.arm(now, conn(0, 1), TimerKind::Deadline, at);
    wheel.arm(now, conn(1, 1), TimerKind::Deadline, Instant::from_nanos(u64::MAX - 1));
    assert_eq!(all(&mut wheel, Instant::NEVER), [Expired { conn: conn(0, 1), kind: TimerKind::Deadline, at }]);
    assert_eq!(wheel.armed(), 1, "no stamp is a tick after the last deadline");
}

#[test]
#[should_panic(expected = "time went backwards")]
fn an_earlier_stamp_is_refused() {
    let mut slots = [timer::IDLE];
    let mut wheel = Wheel::new(&mut slots, Instant::ZERO);
    wheel.expire(ms(2), &mut 1);
    wheel.arm(ms(1), conn(0, 1), TimerKind::Retry, ms(3));
}
