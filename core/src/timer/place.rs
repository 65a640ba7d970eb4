//! Where in the wheel a tick belongs. Arithmetic only.

use crate::time::{Instant, Nanos};

/// The resolution of the wheel: 2^17 ns, 131 us.
///
/// A power of two, so that a stamp becomes a tick by a shift; well below the shortest wait of the connection side, about
/// a millisecond; and long enough that 48 bits, twelve levels of 16 lists, hold a tick more than there are stamps for.
pub const TICK: Nanos = Nanos::new(1 << TICK_BITS);

/// One list of the wheel, by its index: level by level, and within a level by the digit that its ticks have there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(usize);

impl Place {
    /// The list for `tick` when the wheel stands at `wheel`, which is not later.
    #[inline]
    pub(super) fn of(wheel: u64, tick: u64) -> Self {
        // A digit is four bits, so where the highest one that differs begins needs no division.
        let shift = ((wheel ^ tick) | DIGIT_MASK).ilog2() & !(DIGIT_BITS - 1);
        let digit = (tick >> shift) & DIGIT_MASK;
        Self::at(u64::from(shift / DIGIT_BITS) << DIGIT_BITS | digit)
    }

    /// The list of an index, which is the low bits of `word`.
    #[inline]
    pub(super) fn at(word: u64) -> Self {
        Self(word as usize & 0xff)
    }

    /// 0 to `LISTS - 1`.
    #[inline]
    pub(super) fn index(self) -> usize {
        self.0
    }

    #[inline]
    pub(super) fn is_lowest(self) -> bool {
        self.0 >> DIGIT_BITS == 0
    }

    /// Of a tick of this list, how many bits lie below the digit.
    #[inline]
    fn shift(self) -> u32 {
        (self.0 >> DIGIT_BITS) as u32 * DIGIT_BITS
    }

    /// When the wheel, now at `wheel`, reaches this list.
    #[inline]
    pub(super) fn start(self, wheel: u64) -> Instant {
        let above = wheel >> self.shift() & !DIGIT_MASK;
        start_of((above | self.0 as u64 & DIGIT_MASK) << self.shift())
    }

    /// The same for a list in which `tick` lies.
    #[inline]
    pub(super) fn start_of(self, tick: u64) -> Instant {
        start_of(tick >> self.shift() << self.shift())
    }
}

/// When `tick` begins; [`Instant::NEVER`] if no stamp is in it.
#[inline]
fn start_of(tick: u64) -> Instant {
    if tick > tick_of(Instant::NEVER) { Instant::NEVER } else { Instant::from_nanos(tick << TICK_BITS) }
}

/// The tick `at` lies in.
#[inline]
pub(super) fn tick_of(at: Instant) -> u64 {
    at.as_nanos() >> TICK_BITS
}

/// The first tick that begins at `at` or later.
#[inline]
pub(super) fn tick_after(at: Instant) -> u64 {
    match at.as_nanos().checked_add(TICK.get() - 1) {
        Some(nanos) => nanos >> TICK_BITS,
        None => tick_of(Instant::NEVER) + 1,
    }
}

const LEVELS: usize = 12;
pub(super) const LISTS: usize = LEVELS << DIGIT_BITS;
const TICK_BITS: u32 = 17;
const DIGIT_BITS: u32 = 4;
const DIGIT_MASK: u64 = (1 << DIGIT_BITS) - 1;

const _: () = assert!(
    u64::BITS - TICK_BITS < LEVELS as u32 * DIGIT_BITS,
    "the tick after the last stamp must fit in the wheel, or the last deadlines would fire early",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_starts_after_the_wheel_and_not_after_its_ticks() {
        let mut random = crate::testing::Random::new(1);
        for _ in 0..if cfg!(miri) { 1_000 } else { 100_000 } {
            let wheel = random.next() >> TICK_BITS >> random.below(47);
            let tick = (wheel + (random.next() >> TICK_BITS >> random.below(47))).min(tick_of(Instant::NEVER));
            let place = Place::of(wheel, tick);
            let start = place.start(wheel);
            assert!(tick_of(start) <= tick && tick_of(start) >= wheel, "{wheel} {tick} {place:?}");
            assert_eq!(place.start_of(tick), start);
            assert_eq!(place.is_lowest(), wheel >> DIGIT_BITS == tick >> DIGIT_BITS);
            // Reached, its ticks belong in lower levels.
            assert!(place.is_lowest() || Place::of(tick_of(start), tick).shift() < place.shift());
        }
    }

    #[test]
    fn deadlines_are_rounded_up_to_ticks_that_exist_in_the_wheel() {
        let tick = TICK.get();
        for (nanos, expected) in [(0, 0), (1, 1), (tick - 1, 1), (tick, 1), (tick + 1, 2)] {
            assert_eq!(tick_after(Instant::from_nanos(nanos)), expected);
        }
        let beyond = tick_after(Instant::from_nanos(u64::MAX - 1));
        assert_eq!(beyond, tick_of(Instant::NEVER) + 1);
        for wheel in [0, beyond - 1] {
            assert_eq!(Place::of(wheel, beyond).index() >> DIGIT_BITS, LEVELS - 1);
            assert_eq!(Place::of(wheel, beyond).start(wheel), Instant::NEVER);
        }
    }
}
