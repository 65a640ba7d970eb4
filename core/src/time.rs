//! Time as an argument. Core reads no clock: whoever drives it passes the stamp of the turn.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A point on a monotonic time line, in nanoseconds since an origin the caller chose.
///
/// Only differences mean anything. Values handed to one engine never go backwards; the engine checks that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The origin of the time line.
    pub const ZERO: Instant = Instant(0);
    /// Later than any stamp: "no deadline".
    pub const NEVER: Instant = Instant(u64::MAX);

    /// A point `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero when `earlier` is the later one.
    pub const fn since(self, earlier: Instant) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Nanos> for Instant {
    type Output = Instant;

    /// Saturates at [`Instant::NEVER`].
    fn add(self, span: Nanos) -> Instant {
        Instant(self.0.saturating_add(span.0))
    }
}

/// A span of time in nanoseconds (up to 584 years).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Nanos = Nanos(0);

    /// A span of `nanos` nanoseconds.
    pub const fn new(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A span of `micros` microseconds, saturating.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// A span of `millis` milliseconds, saturating.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// A span of `secs` seconds, saturating.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// The span in nanoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The span in whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
}

impl From<core::time::Duration> for Nanos {
    /// Saturates at `u64::MAX` nanoseconds.
    fn from(span: core::time::Duration) -> Self {
        Self(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        self.0 = self.0.saturating_add(other.0);
    }
}

impl Sub for Nanos {
    type Output = Nanos;

    /// Saturates at zero.
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Nanos {
    /// Prints with the largest unit that keeps a value of at least one, rounded to a hundredth of it: `250 ns`, `1.5 us`,
    /// `20 ms`, `2.25 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What rounds up to the next unit is printed in that.
        let (unit, name) = match self.0 {
            0..1_000 => (1, "ns"),
            1_000..999_995 => (1_000, "us"),
            999_995..999_995_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let rounded = (u128::from(self.0) * 100 + unit / 2) / unit;
        let (whole, hundredths) = (rounded / 100, rounded % 100);
        match (hundredths, hundredths % 10) {
            (0, _) => write!(f, "{whole} {name}"),
            (tenths, 0) => write!(f, "{whole}.{} {name}", tenths / 10),
            _ => write!(f, "{whole}.{hundredths:02} {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Instant::from_nanos(u64::MAX - 1) + Nanos::from_secs(1), Instant::NEVER);
        assert_eq!(Instant::ZERO.since(Instant::from_nanos(5)), Nanos::ZERO);
        assert_eq!(Nanos::from_secs(u64::MAX).get(), u64::MAX);
    }

    #[test]
    fn spans_print_with_a_readable_unit() {
        for (nanos, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_500, "1.5 us"),
            (20_000_000, "20 ms"),
            (2_250_000_000, "2.25 s"),
            (1_050, "1.05 us"),
            (4_816_000_000, "4.82 s"),
            (1_004, "1 us"),
            (999_994, "999.99 us"),
            (999_995, "1 ms"),
            (999_995_000, "1 s"),
            (u64::MAX, "18446744073.71 s"),
        ] {
            assert_eq!(Nanos::new(nanos).to_string(), text);
        }
    }
}
