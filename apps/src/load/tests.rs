//! Plans, step by step.

use super::*;

const MS: u64 = 1_000_000;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// Sends all that is due and returns the sends.
fn drain(load: &mut Load, now: Instant) -> Vec<Sent> {
    let mut sent = Vec::new();
    while load.due(now).is_some() {
        sent.push(load.sent(now));
    }
    sent
}

#[test]
fn a_stall_is_charged_to_every_message_it_delayed() {
    // One message each ms; an answer takes 0.1 ms; the loop stands still from 0 to 10 ms.
    let mut load = Load::new(Pace::Rate(1_000), Extent::Count(100), 0, at(0));
    let first = drain(&mut load, at(0));
    assert_eq!(first.len(), 1);
    let late = drain(&mut load, at(10 * MS));
    assert_eq!(late.len(), 10, "the ones planned at 1, 2 ... 10 ms");
    let answered = at(10 * MS + MS / 10);
    let latencies: Vec<u64> = first.iter().chain(&late).map(|s| answered.since(s.planned).get()).collect();
    for (n, &latency) in latencies.iter().enumerate().take(10) {
        let right = (10 - n as u64) * MS;
        assert!(latency.abs_diff(right) <= MS / 5, "message {n}: {latency} ns, right is about {right}");
    }
    assert_eq!(latencies.len(), 11, "each is one sample, none is made up");
    let services = late.iter().map(|s| answered.since(s.at).get());
    assert!(services.into_iter().all(|nanos| nanos == MS / 10), "service time hides the stall");
    assert_eq!(late.iter().filter(|s| load.is_late(s)).count(), 9);
    assert!(drain(&mut load, at(10 * MS + MS / 2)).is_empty(), "back on plan");
}

#[test]
fn the_rate_does_not_drift() {
    let mut load = Load::new(Pace::Rate(3), Extent::Count(u64::MAX), 0, at(0));
    assert_eq!(drain(&mut load, at(1_000_000_000_000 - 1)).len(), 3_000);
    assert_eq!(load.due(at(1_000_000_000_000)), Some(at(1_000_000_000_000)));
}

#[test]
fn only_what_follows_the_warm_up_counts() {
    let mut load = Load::new(Pace::Closed, Extent::Count(3), 2, at(0));
    let measured: Vec<bool> = (0..5).map(|n| load.sent(at(n)).measured).collect();
    assert_eq!(measured, [false, false, true, true, true]);
    assert!(load.exhausted(at(9)) && load.due(at(9)).is_none());
    assert_eq!(load.measured_from(), Some(at(2)));
}

#[test]
fn a_span_is_counted_from_the_first_measured_message() {
    let mut load = Load::new(Pace::Closed, Extent::Span(Nanos::new(10)), 1, at(0));
    load.sent(at(100));
    assert!(!load.exhausted(at(1_000)), "the warm-up does not eat the time");
    load.sent(at(2_000));
    assert!(load.due(at(2_009)).is_some() && load.due(at(2_010)).is_none());
}

#[test]
fn a_span_at_a_rate_plans_every_message_in_it() {
    let mut load = Load::new(Pace::Rate(1_000), Extent::Span(Nanos::from_secs(1)), 10, at(0));
    let sent: Vec<Sent> = (0..1_500).flat_map(|ms| drain(&mut load, at(ms * MS))).collect();
    assert_eq!(sent.iter().filter(|s| s.measured).count(), 1_000);
}

#[test]
fn a_span_lasts_as_long_as_was_asked_also_after_its_last_message() {
    let mut load = Load::new(Pace::Rate(1), Extent::Span(Nanos::from_secs(1)), 0, at(0));
    assert_eq!(drain(&mut load, at(0)).len(), 1);
    assert!(!load.exhausted(at(1)) && !load.exhausted(at(1_000 * MS - 1)));
    assert!(load.exhausted(at(1_000 * MS)) && drain(&mut load, at(1_000 * MS)).is_empty());
}

#[test]
fn a_slow_warm_up_is_not_charged_to_what_is_measured() {
    let mut load = Load::new(Pace::Rate(1_000), Extent::Count(10), 5, at(0));
    assert_eq!(drain(&mut load, at(300 * MS)).iter().filter(|s| s.measured).count(), 1);
    assert_eq!(load.measured_from(), Some(at(300 * MS)));
    assert_eq!(load.due(at(301 * MS)), Some(at(301 * MS)));
    let mut prompt = Load::new(Pace::Rate(1_000), Extent::Count(10), 5, at(0));
    (0..5).for_each(|n| drain(&mut prompt, at(n * MS)).clear());
    assert_eq!(prompt.due(at(5 * MS)), Some(at(5 * MS)), "a warm-up in time changes nothing");
    assert_eq!(prompt.due(at(5 * MS - 1)), None);
}

#[test]
fn waiting_for_the_last_replies_of_the_warm_up_is_not_charged_either() {
    let mut load = Load::new(Pace::Rate(1_000), Extent::Count(10), 2, at(0));
    load.sent(at(0));
    assert!(!load.is_before_first());
    load.sent(at(MS));
    assert!(load.is_before_first());
    load.put_off(at(7 * MS));
    assert_eq!(load.sent(at(7 * MS)), Sent { planned: at(7 * MS), at: at(7 * MS), measured: true });
    assert_eq!(load.due(at(8 * MS)), Some(at(8 * MS)));
    assert!(!load.is_before_first());
}

#[test]
fn a_rate_out_of_reach_ends_the_span_in_time_and_counts_what_was_not_sent() {
    let mut load = Load::new(Pace::Rate(1_000), Extent::Span(Nanos::from_secs(2)), 0, at(0));
    // One message each 10 ms is all that goes.
    let mut now = 0;
    while !load.exhausted(at(now)) {
        assert!(load.due(at(now)).is_some());
        load.sent(at(now));
        now += 10 * MS;
    }
    assert_eq!(now, 3_000 * MS, "the span and a second to catch up");
    assert_eq!(load.unsent(), 2_000 - 300);
    let mut met = Load::new(Pace::Rate(1_000), Extent::Span(Nanos::from_secs(2)), 5, at(0));
    (0..2_500).for_each(|ms| drain(&mut met, at(ms * MS)).clear());
    assert_eq!(met.unsent(), 0);
}

#[test]
fn the_default_warm_up_is_a_tenth_but_bounded() {
    let rate = Pace::Rate(100);
    let span = Extent::Span(Nanos::from_secs(2));
    assert_eq!(default_warmup(Pace::Closed, Extent::Count(1), 64), 0);
    assert_eq!(default_warmup(Pace::Closed, Extent::Count(5_000), 64), 500);
    assert_eq!(default_warmup(rate, Extent::Count(1_000_000), 0), 1_000);
    assert_eq!(default_warmup(rate, span, 64), 20);
    assert_eq!(default_warmup(Pace::Closed, span, 64 << 10), 1_000);
    assert_eq!(default_warmup(Pace::Closed, span, 1 << 20), 64);
    assert_eq!(default_warmup(Pace::Closed, span, 8 << 20), 10, "not 8 GB before the first that counts");
}
