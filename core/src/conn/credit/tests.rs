//! Immediate data, and conversations of two sides.

extern crate std;
use super::*;
use crate::testing::Random;
use std::collections::VecDeque;

#[test]
fn immediate_data_reads_back_and_nonsense_is_refused() {
    use MessageKind::{Ask, Credit, Data, Goodbye, WriteImm};
    for kind in [Data, Credit, Ask, Goodbye, WriteImm] {
        for credits in [0, 1, u16::MAX] {
            let imm = Imm { credits, kind };
            assert_eq!(Imm::from_bits(imm.to_bits()), Some(imm));
        }
    }
    for bits in [3 << 16, 5 << 16, 6 << 16, 9 << 16, 1 << 20, 1 << 31, u32::MAX] {
        assert_eq!(Imm::from_bits(bits), None);
    }
}

#[test]
fn credits_beyond_the_window_are_a_fault_of_the_peer() {
    let mut credits = Credits::new(4, 4);
    assert_eq!((credits.window_for_data(), Credits::RAW.window_for_data()), (Some(3), None));
    assert!(credits.spend(MessageKind::Data));
    assert_eq!(credits.gain(2), Err(ProtocolError::Credits { got: 2, have: 3, max: 4 }));
    assert_eq!(credits.gain(1), Ok(()));
}

/// Under miri, which sees every step, a few take as long.
const SEEDS: u64 = if cfg!(miri) { 2 } else { 2_000 };
const STEPS: u32 = if cfg!(miri) { 2_000 } else { 40_000 };

/// One side of a conversation: credits as above, receives posted again at random times.
struct Side {
    credits: Credits,
    used: u32,
    inbox: VecDeque<Imm>,
    sent: u32,
    asks: u32,
    /// Questions of the peer that wait for an answer.
    owes_answer: bool,
    /// Own questions whose answer has not come.
    waits: bool,
}

/// Two sides with random windows, random wishes to send and to ask, and random delays. Nothing is ever sent to a receive
/// that is not there, nobody waits for ever, every question is answered, and idle sides fall silent.
#[test]
fn two_sides_never_overrun_never_deadlock_and_fall_silent() {
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let always = [3 + random.below(20) as u32, 3 + random.below(20) as u32];
        // Receives are posted again in batches; of one of the sides one by one.
        let batches = [1 + random.below(always[0] as u64 / 2) as u32, 1];
        let windows = [always[0] + batches[0] - 1, always[1]];
        let mut side = |own: usize| Side {
            credits: Credits::new(windows[1 - own], always[own]),
            used: 0,
            inbox: VecDeque::new(),
            sent: 0,
            asks: random.below(20) as u32,
            owes_answer: false,
            waits: false,
        };
        let mut sides = [side(0), side(1)];
        let goals = [random.below(200) as u32, random.below(200) as u32];
        for step in 0..STEPS {
            let me = random.below(2) as usize;
            let (burst, lazy) = (1 + random.below(8) as u32, random.below(3) == 0);
            let mut out = std::vec::Vec::new();
            {
                let side = &mut sides[me];
                while let Some(imm) = side.inbox.pop_front() {
                    side.credits.gain(imm.credits).unwrap();
                    if imm.kind != MessageKind::Data {
                        side.credits.used_by_control();
                    }
                    side.waits = false;
                    side.owes_answer |= imm.kind == MessageKind::Ask;
                    side.used += 1;
                }
                if !lazy && side.used >= batches[me] {
                    side.credits.owe(core::mem::take(&mut side.used));
                }
                for _ in 0..burst.min(goals[me] - side.sent).min(side.credits.for_data()) {
                    assert!(side.credits.spend(MessageKind::Data));
                    side.sent += 1;
                    out.push(Imm { credits: side.credits.give(), kind: MessageKind::Data });
                }
                side.owes_answer &= out.is_empty();
                let asks = side.asks > 0 && !side.waits && random.below(4) == 0;
                if asks && side.credits.spend(MessageKind::Ask) {
                    (side.asks, side.waits) = (side.asks - 1, true);
                    out.push(Imm { credits: side.credits.give(), kind: MessageKind::Ask });
                }
                let posted = windows[me] - side.used;
                let due = side.credits.update_is_due(posted) || side.owes_answer;
                if due && side.credits.spend(MessageKind::Credit) {
                    side.credits.note_update(posted);
                    side.owes_answer = false;
                    out.push(Imm { credits: side.credits.give(), kind: MessageKind::Credit });
                }
            }
            sides[1 - me].inbox.extend(out);
            let peer = &sides[1 - me];
            let filled = peer.inbox.len() as u32 + peer.used + peer.credits.owed;
            assert!(filled <= windows[1 - me], "seed {seed}: more messages than receives");
            if step > STEPS - 1_000 {
                assert!(sides.iter().all(|side| side.inbox.is_empty()), "seed {seed}: they never fall silent");
            }
        }
        assert_eq!([sides[0].sent, sides[1].sent], goals, "seed {seed}: somebody waits for ever");
        let silent = |side: &Side| side.asks == 0 && !side.waits && !side.owes_answer;
        assert!(sides.iter().all(silent), "seed {seed}: a question or its answer can never go");
    }
}
