//! Where in the wheel a tick belongs. Arithmetic only.

use crate::time::{Instant, Nanos};

/// The resolution of the wheel: 2^17 ns, 131 us.
///
/// A power of two, so that a stamp becomes a tick by a shift; well below the shortest wait of the connection side, about
/// a millisecond; and long enough that 48 bits, eight levels of 64 lists, hold a tick more than there are stamps for.
pub const TICK: Nanos = Nanos::new(1 << TICK_BITS);

/// One list of the wheel: level and position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u16);

impl Place {
    /// The list for `tick` when the wheel stands at `wheel`, which is not later.
    #[inline]
    pub(super) fn of(wheel: u64, tick: u64) -> Self {
        let level = ((wheel ^ tick) | DIGIT_MASK).ilog2() / DIGIT_BITS;
        Self::new(level as usize, ((tick >> (level * DIGIT_BITS)) & DIGIT_MASK) as usize)
    }

    /// A list by its level and its position there.
    #[inline]
    pub(super) fn new(level: usize, position: usize) -> Self {
        Self((level << DIGIT_BITS | position) as u16)
    }

    /// 0 to `LEVELS - 1`.
    #[inline]
    pub(super) fn level(self) -> usize {
        self.index() >> DIGIT_BITS
    }

    /// 0 to 63.
    #[inline]
    pub(super) fn position(self) -> usize {
        self.index() & DIGIT_MASK as usize
    }

    /// 0 to `LISTS - 1`.
    #[inline]
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }

    #[inline]
    pub(super) fn is_lowest(self) -> bool {
        self.level() == 0
    }

    /// When the wheel, now at `wheel`, reaches this list.
    #[inline]
    pub(super) fn start(self, wheel: u64) -> Instant {
        let shift = self.level() as u32 * DIGIT_BITS;
        let above = wheel >> shift >> DIGIT_BITS << DIGIT_BITS;
        let tick = (above | self.position() as u64) << shift;
        if tick > tick_of(Instant::NEVER) { Instant::NEVER } else { Instant::from_nanos(tick << TICK_BITS) }
    }
}

/// The tick `at` lies in.
#[inline]
pub(super) fn tick_of(at: Instant) -> u64 {
    at.as_nanos() >> TICK_BITS
}

/// The first tick that begins at `at` or later.
#[inline]
pub(super) fn tick_after(at: Instant) -> u64 {
    tick_of(at) + u64::from(at.as_nanos() & (TICK.get() - 1) != 0)
}

pub(super) const LEVELS: usize = 8;
pub(super) const LISTS: usize = LEVELS << DIGIT_BITS;
const TICK_BITS: u32 = 17;
const DIGIT_BITS: u32 = 6;
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
        for _ in 0..100_000 {
            let wheel = random.next() >> TICK_BITS >> random.below(47);
            let tick = (wheel + (random.next() >> TICK_BITS >> random.below(47))).min(tick_of(Instant::NEVER));
            let place = Place::of(wheel, tick);
            let start = place.start(wheel);
            assert!(tick_of(start) <= tick && tick_of(start) >= wheel, "{wheel} {tick} {place:?}");
            assert_eq!(place.is_lowest(), wheel >> DIGIT_BITS == tick >> DIGIT_BITS);
            // Reached, its ticks belong in lower levels.
            assert!(place.is_lowest() || Place::of(tick_of(start), tick).level() < place.level());
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
            assert_eq!(Place::of(wheel, beyond).level(), LEVELS - 1);
            assert_eq!(Place::of(wheel, beyond).start(wheel), Instant::NEVER);
        }
    }
}
