//! The release window against a plain queue of flags, and its corners by name.
#![cfg(not(loom))]

use std::collections::VecDeque;

use spinwire_core::conn::{NotHeld, ReleaseWindow, WindowError};
use spinwire_core::sim::Random;

#[test]
fn a_slot_given_back_early_waits_for_the_older_ones() {
    let mut bits = [0; 1];
    let mut window = ReleaseWindow::new(&mut bits, 4, 10).unwrap();
    let held: Vec<_> = core::iter::from_fn(|| window.arrive()).collect();
    assert_eq!(held, [10, 11, 12, 13], "four slots, and the peer has no credit for a fifth");
    assert_eq!((window.release(12), window.release(11), window.held()), (Ok(0), Ok(0), 2));
    assert_eq!(window.arrive(), None, "nothing is free before the oldest is");
    assert_eq!(window.release(10), Ok(3), "it and the two that waited for it");
    assert_eq!((window.arrive(), window.unreleased(), window.release(13)), (Some(14), 2, Ok(1)));
}

#[test]
fn a_slot_is_given_back_once_and_only_if_it_is_held() {
    let mut bits = [0; 1];
    let mut window = ReleaseWindow::new(&mut bits, 64, u32::MAX).unwrap();
    assert!(window.release(u32::MAX).is_err(), "nothing has arrived");
    assert_eq!((window.arrive(), window.arrive(), window.arrive()), (Some(u32::MAX), Some(0), Some(1)));
    assert_eq!(window.release(1), Ok(0));
    let refused = |seq| Err(NotHeld { seq, oldest: u32::MAX, held: 2 });
    // Twice, never arrived, long released, and far away with the same bit.
    for seq in [1, 2, u32::MAX - 1, 64] {
        assert_eq!(window.release(seq), refused(seq));
    }
    assert_eq!(window.release(u32::MAX).and_then(|first| Ok((first, window.release(0)?))), Ok((1, 2)));
    assert_eq!(window.release(0).unwrap_err().to_string(), "slot 0 is not held: 0 are, from 2 on");
}

#[test]
fn a_whole_ring_in_reverse_is_released_at_once() {
    for (words, start) in [(1, 0), (1, 1), (2, 63), (64, u32::MAX - 100)] {
        let mut bits = vec![0; words];
        let slots = 64 * words as u32;
        let mut window = ReleaseWindow::new(&mut bits, slots, start).unwrap();
        for _ in 0..3 {
            let held: Vec<_> = core::iter::from_fn(|| window.arrive()).collect();
            let (oldest, younger) = held.split_first().unwrap();
            assert!(younger.iter().rev().all(|&seq| window.release(seq) == Ok(0)));
            assert_eq!((window.held(), window.release(*oldest), window.unreleased()), (1, Ok(slots), 0));
        }
    }
}

#[test]
fn layouts_that_cannot_wrap_are_refused() {
    for (words, slots) in [(0, 1), (1, 0), (1, 65), (3, 1), (3, 192)] {
        let error = ReleaseWindow::new(&mut vec![0; words], slots, 0).unwrap_err();
        assert_eq!(error, WindowError { slots, words });
    }
}

#[test]
fn ten_million_operations_agree_with_a_model_over_the_wrap() {
    let shapes = [(1, 1), (1, 2), (1, 63), (1, 64), (2, 100), (16, 1_024), (128, 4_098)];
    for (words, slots) in shapes {
        let start = u32::MAX - 100_000;
        let mut bits = vec![u64::MAX; words];
        let mut window = ReleaseWindow::new(&mut bits, slots, start).unwrap();
        let mut random = Random(slots.into());
        // From the oldest unreleased slot on: whether it is held.
        let (mut model, mut oldest) = (VecDeque::<bool>::new(), start);
        let mut releases = 0u64;
        for _ in 0..10_000_000 / shapes.len() {
            let choice = random.next();
            if choice % 5 < 2 {
                let expected = (model.len() < slots as usize).then(|| oldest.wrapping_add(model.len() as u32));
                assert_eq!(window.arrive(), expected);
                model.extend(expected.map(|_| true));
            } else {
                // Mostly one of the oldest, else any of the ring or beside it.
                let reach = if choice % 5 < 4 { (model.len() as u64).min(8) + 1 } else { u64::from(slots) + 8 };
                let offset = (choice >> 32) % reach;
                let seq = oldest.wrapping_add(offset as u32).wrapping_sub(u32::from(choice % 50 == 4) * 8);
                let place = seq.wrapping_sub(oldest) as usize;
                match model.get_mut(place).filter(|held| **held) {
                    Some(held) => {
                        *held = false;
                        let run = model.iter().take_while(|held| !**held).count() as u32;
                        model.drain(..run as usize);
                        oldest = oldest.wrapping_add(run);
                        assert_eq!(window.release(seq), Ok(run));
                        releases += 1;
                    }
                    None => assert!(window.release(seq).is_err()),
                }
            }
            assert_eq!(window.unreleased() as usize, model.len());
        }
        assert_eq!(window.held() as usize, model.iter().filter(|held| **held).count());
        assert!(releases > 100_000 && oldest < start, "the sequence numbers wrapped");
    }
}
