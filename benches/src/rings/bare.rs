//! The cache lines alone: what no ring gets below.

use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::contest::Sample;
use crate::ping_pong::PingPong;
use crate::window::{Dropped, Pinned, Role, ticks};

/// Round trips over two lines, each written by one side and polled by the other. Seven more words in each line change
/// nothing that can be measured, so this is the limit for whatever fits into a line.
///
/// # Errors
/// [`Dropped`], and why.
pub fn round_trip(pinned: &Pinned, rounds: u64) -> Result<Sample, Dropped> {
    let lines = PingPong::default();
    let mut times = Vec::with_capacity(rounds as usize);
    let out = &mut times;
    let elapsed = pinned.window(vec![
        Role::new(0, |gate| {
            lines.ping(0, WARM_UP, || ());
            gate.start();
            let mut before = ticks();
            lines.ping(WARM_UP, rounds, || {
                let now = ticks();
                out.push((now - before) as u32);
                before = now;
            });
        }),
        Role::new(1, |gate| {
            lines.serve(0, WARM_UP);
            gate.start();
            lines.serve(WARM_UP, rounds);
        }),
    ])?;
    Ok(Sample::percentiles(elapsed, times))
}

/// Hands over cache lines in bulk: one side writes half a ring's worth, says so, and writes the other half while the
/// first is read. `items` are counted, of which each line has `per_line`, 1 or 8.
///
/// # Errors
/// [`Dropped`], and why.
pub fn bulk(pinned: &Pinned, items: u64, per_line: u64) -> Result<Sample, Dropped> {
    let halves = [(); 2].map(|()| Half::default());
    let count = (items / (per_line * LINES as u64)).max(1);
    let elapsed = pinned.window(vec![
        Role::new(0, |gate| {
            write(&halves, 0, WARM_UP_HALVES);
            gate.start();
            write(&halves, WARM_UP_HALVES, count);
        }),
        Role::new(1, |gate| {
            read(&halves, 0, WARM_UP_HALVES);
            gate.start();
            read(&halves, WARM_UP_HALVES, count);
        }),
    ])?;
    Ok(Sample::per_item(elapsed, count * per_line * LINES as u64))
}

#[derive(Default)]
#[repr(align(128))]
struct Flag(AtomicU64);

#[derive(Default)]
#[repr(align(64))]
struct Words([AtomicU64; 8]);

struct Half {
    /// How many halves were written when this one was.
    written: Flag,
    read: Flag,
    lines: Box<[Words]>,
}

impl Default for Half {
    fn default() -> Self {
        Half { written: Flag::default(), read: Flag::default(), lines: (0..LINES).map(|_| Words::default()).collect() }
    }
}

fn write(halves: &[Half; 2], first: u64, count: u64) {
    for number in first + 1..=first + count {
        let half = &halves[number as usize % 2];
        while half.read.0.load(Ordering::Acquire) + 2 < number {
            hint::spin_loop();
        }
        for word in half.lines.iter().flat_map(|line| &line.0) {
            word.store(number, Ordering::Relaxed);
        }
        half.written.0.store(number, Ordering::Release);
    }
}

fn read(halves: &[Half; 2], first: u64, count: u64) {
    for number in first + 1..=first + count {
        let half = &halves[number as usize % 2];
        while half.written.0.load(Ordering::Acquire) != number {
            hint::spin_loop();
        }
        let wrong = half
            .lines
            .iter()
            .flat_map(|line| &line.0)
            .fold(0, |wrong, word| wrong | (word.load(Ordering::Relaxed) ^ number));
        assert_eq!(wrong, 0, "lines must come whole");
        half.read.0.store(number, Ordering::Release);
    }
}

const WARM_UP: u64 = 1000;
/// Lines in a half.
const LINES: usize = super::CAPACITY / 2;
const WARM_UP_HALVES: u64 = 4;
