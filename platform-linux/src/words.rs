//! Sizes and numbers as people read them.

use std::fmt;

/// A size as people read it: exact, in the largest unit that divides it.
pub(crate) struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        match units.iter().find(|(shift, _)| self.0 != 0 && self.0.trailing_zeros() >= *shift) {
            Some((shift, unit)) => write!(f, "{} {unit}", self.0 >> shift),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

/// A size as people read it in a report: as [`Bytes`] where that is short, else rounded to a hundredth of the largest unit.
pub(crate) struct Rounded(pub u64);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        match units.iter().find(|(shift, _)| self.0 >> shift > 0) {
            Some((shift, unit)) if !self.0.is_multiple_of(1 << shift) => {
                write!(f, "{:.2} {unit}", self.0 as f64 / (1_u64 << shift) as f64)
            }
            _ => Bytes(self.0).fmt(f),
        }
    }
}

/// A number with its digits in groups of three: `1,234,567`.
pub struct Grouped(pub u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{}", self.0),
            _ => write!(f, "{},{:03}", Grouped(self.0 / 1_000), self.0 % 1_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact() {
        let cases =
            [(0, "0 bytes"), (1025, "1025 bytes"), (64 << 10, "64 KiB"), (3 << 20, "3 MiB"), (2 << 30, "2 GiB")];
        for (bytes, text) in cases {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn sizes_in_reports_are_short() {
        let cases = [
            (0, "0 bytes"),
            (1_023, "1023 bytes"),
            (64 << 10, "64 KiB"),
            (27_604 << 10, "26.96 MiB"),
            (3 << 20, "3 MiB"),
            (1_030 << 20, "1.01 GiB"),
            (2 << 30, "2 GiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(Rounded(bytes).to_string(), text);
        }
    }

    #[test]
    fn digits_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (6_901_050, "6,901,050")] {
            assert_eq!(Grouped(number).to_string(), text);
        }
    }
}
