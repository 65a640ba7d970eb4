//! The simulator itself: a seed is one story, on every run; a few of each kind hold. `ci/sim` runs them by the thousand.
#![cfg(not(loom))]

use spinwire_core::sim::{Coverage, Fault, Scenario, replay, run};

fn worlds(scenario: Scenario, seeds: u64) -> Coverage {
    let mut met = Coverage::default();
    for seed in 0..seeds {
        match run(scenario, seed) {
            Ok(coverage) => met.add(&coverage),
            Err(failure) => panic!("{failure}\nci/sim --scenario {} --replay {seed} tells the story", scenario.name()),
        }
    }
    met
}

#[test]
fn nothing_is_lost_leaked_or_stuck_in_small_worlds() {
    let met = worlds(Scenario::Small, 600);
    // Runs that never get anywhere would prove nothing.
    assert!(met.opened > 200 && met.messages > 2_000, "{met:?}");
}

#[test]
fn nothing_is_lost_leaked_or_stuck_in_full_worlds() {
    let met = worlds(Scenario::Full, 200);
    assert!(met.opened > 200 && met.messages > 5_000, "{met:?}");
    let rare = [Fault::EventForged, Fault::LoopAway, Fault::MessageLost, Fault::PeerKilled, Fault::QueueFull];
    assert!(rare.iter().all(|&fault| met.met(fault) > 0), "{met:?}");
    assert!(met.rows().filter(|(_, count)| *count > 0).count() > 40, "{met:?}");
}

#[test]
fn nothing_is_lost_leaked_or_stuck_among_many() {
    let met = worlds(Scenario::Many, 10);
    assert!(met.opened > 50, "{met:?}");
}

#[test]
fn a_seed_replays_bit_for_bit() {
    for scenario in Scenario::ALL {
        let mut hashes = Vec::new();
        for seed in 0..8 {
            let (first, second) = (replay(scenario, seed), replay(scenario, seed));
            assert_eq!(first, second, "{} seed {seed}", scenario.name());
            assert_eq!(first.0, run(scenario, seed), "the trace changes nothing");
            assert!(!first.1.lines.is_empty());
            hashes.push(first.1.hash());
        }
        hashes.sort_unstable();
        hashes.dedup();
        assert!(hashes.len() > 4, "seeds differ");
    }
}
