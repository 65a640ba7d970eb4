//! A callback that panics: its turn is the engine's last.
#![cfg(not(loom))]

use std::panic::{AssertUnwindSafe, catch_unwind};

use spinwire_core::fabric::Control;
use spinwire_core::id::ConnId;
use spinwire_core::sim::{Plan, pair, spaces};
use spinwire_core::time::Instant;
use spinwire_core::turn::{Answer, Cx, Engine, Handler};

struct Panics;

impl Handler for Panics {
    fn on_message(&mut self, _: &mut Cx<'_, '_>, _: ConnId, _: &mut [u8]) -> Answer {
        Answer::None
    }

    fn on_turn(&mut self, _: &mut Cx<'_, '_>) {
        panic!("as asked");
    }
}

/// What a turn panics with.
fn turn<C: Control>(engine: &mut Engine<'_, C>, now: u64) -> String {
    let turn = AssertUnwindSafe(|| engine.turn(Instant::from_nanos(now), &mut Panics));
    let words = catch_unwind(turn).expect_err("the handler panics, always");
    words.downcast_ref::<&str>().unwrap().to_string()
}

#[test]
fn no_turn_follows_one_in_which_a_callback_panicked() {
    let mut spaces = spaces(4, 1);
    let mut world = pair(&mut spaces, 1, Plan::SILENT, Plan::SILENT);
    let engine = &mut world.nodes[0].engine;
    assert_eq!(turn(engine, 1_000), "as asked");
    for now in [1_000, 2_000, u64::MAX - 1] {
        let words = turn(engine, now);
        assert!(words.contains("a callback panicked in an earlier turn"), "{words}");
    }
}
