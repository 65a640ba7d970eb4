//! There and back over two rings, one item under way.
//!
//! This is the realistic pattern: a request to another core and its answer. The rings are always nearly empty, so what
//! counts is how many cache lines have to cross for one item.

use super::{Item, Patience, Ring, Rx, Tx};
use crate::contest::Sample;
use crate::window::{Dropped, Pinned, Role, ticks};

/// Makes `rounds` round trips, and measures each: a stamp of about 10 ns is in it, for all contestants alike.
///
/// # Errors
/// [`Dropped`], and why.
pub fn round_trip<R: Ring<T>, T: Item>(pinned: &Pinned, rounds: u64) -> Result<Sample, Dropped> {
    let (mut there, mut back) = (R::new(), R::new());
    let ((mut request, mut requests), (mut answer, mut answers)) = (there.split(), back.split());
    let mut times = Vec::with_capacity(rounds as usize);
    let out = &mut times;
    let elapsed = pinned.window(vec![
        Role::new(0, move |gate| {
            ask(&mut request, &mut answers, 0..WARM_UP, |_| ());
            gate.start();
            ask(&mut request, &mut answers, WARM_UP..WARM_UP + rounds, |time| out.push(time));
        }),
        Role::new(1, move |gate| {
            echo(&mut requests, &mut answer, WARM_UP);
            gate.start();
            echo(&mut requests, &mut answer, rounds);
        }),
    ])?;
    Ok(Sample::percentiles(elapsed, times))
}

fn ask<T: Item>(
    request: &mut impl Tx<T>,
    answers: &mut impl Rx<T>,
    numbers: std::ops::Range<u64>,
    mut each: impl FnMut(u32),
) {
    let (mut patience, mut before) = (Patience::default(), ticks());
    for number in numbers {
        assert!(request.push(T::new(number)), "one item at a time is never too much");
        let item = wait(answers, &mut patience);
        assert!(item.is(number), "answers must come whole and in order");
        let now = ticks();
        each((now - before) as u32);
        before = now;
    }
}

fn echo<T: Item>(requests: &mut impl Rx<T>, answer: &mut impl Tx<T>, rounds: u64) {
    let mut patience = Patience::default();
    for _ in 0..rounds {
        let item = wait(requests, &mut patience);
        assert!(answer.push(item), "one item at a time is never too much");
    }
}

#[inline(always)]
fn wait<T: Item>(rx: &mut impl Rx<T>, patience: &mut Patience) -> T {
    loop {
        match rx.pop() {
            Some(item) => return item,
            None => patience.spin(),
        }
    }
}

/// Once round the ring, and a bit: every page is touched.
const WARM_UP: u64 = super::CAPACITY as u64 + 7;
