//! The scales of a picture: times on a logarithmic axis, shares that approach the whole.

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// `1 in 1,000 is slower` as the share that is not: 99.9 %.
pub(super) fn share(one_in: f64) -> String {
    let nines = one_in.log10().round() as usize;
    match nines {
        0 => "0 %".to_owned(),
        _ => format!("{:.*} %", nines.saturating_sub(2), 100.0 - 100.0 / 10_f64.powi(nines as i32)),
    }
}

/// A time in the unit that suits it.
pub(super) fn micros(value: f64) -> String {
    let digits = |value: f64| {
        if value < 10.0 {
            2
        } else if value < 100.0 {
            1
        } else {
            0
        }
    };
    match value {
        value if value < 1.0 => format!("{:.0} ns", value * 1e3),
        value if value < 1e3 => format!("{:.*} us", digits(value), value),
        value if value < 1e6 => format!("{:.*} ms", digits(value / 1e3), value / 1e3),
        value => format!("{:.*} s", digits(value / 1e6), value / 1e6),
    }
}

/// A logarithmic axis with a label at 1, 2 and 5 of every decade, or at each decade when there are many.
#[derive(Clone)]
pub(super) struct Decades {
    low: f64,
    high: f64,
    steps: &'static [f64],
    /// No label below it.
    least: f64,
}

impl Decades {
    /// Microseconds from `low` to `high`, both above 0; more where these are so close that no label would be between.
    pub(super) fn micros(low: f64, high: f64) -> Self {
        let wider = (6.0 / (high / low)).max(1.0).sqrt();
        Self { low: low / wider, high: high * wider, steps: &[1.0, 2.0, 5.0], least: 0.0 }
    }

    /// How many of something, from `low` to `high`.
    pub(super) fn counts(low: f64, high: f64) -> Self {
        Self { low, high, steps: &[1.0, 2.0, 5.0], least: 1.0 }
    }

    /// One in so many, up to `high`: with labels for whole nines only.
    pub(super) fn shares(high: f64) -> Self {
        Self { low: 1.0, high, steps: &[1.0], least: 1.0 }
    }
}

impl ValueFormatter<f64> for Decades {
    fn format(value: &f64) -> String {
        match value {
            value if *value < 1.0 => format!("{} ns", (value * 1e3).round()),
            value if *value < 1e3 => format!("{} us", value.round()),
            value if *value < 1e6 => format!("{} ms", (value / 1e3).round()),
            value => format!("{} s", (value / 1e6).round()),
        }
    }
}

impl Ranged for Decades {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let part = (value / self.low).ln() / (self.high / self.low).ln();
        from + (part * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let steps = if decades.clone().count() > 5 { &[1.0] } else { self.steps };
        let all = decades.flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)));
        // A power of ten is a little off by its arithmetic.
        let range = self.low.max(self.least) * (1.0 - 1e-9)..=self.high * (1.0 + 1e-9);
        all.filter(|at| range.contains(at)).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.low..self.high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_shares_are_written_as_people_do() {
        assert_eq!(
            [0.55, 7.25, 81.2, 812.0, 8_120.0, 3.6e9].map(micros),
            ["550 ns", "7.25 us", "81.2 us", "812 us", "8.12 ms", "3600 s"]
        );
        let labels = |axis: Decades| axis.key_points(10_usize);
        assert_eq!(labels(Decades::shares(3_000.0)).len(), 4, "0, 90, 99 and 99.9 %, each once");
        assert_eq!(labels(Decades::counts(0.5, 20.0)), [1.0, 2.0, 5.0, 10.0, 20.0]);
        assert!(labels(Decades::micros(0.7, 0.71)).len() > 1, "a single message has labels too");
        assert_eq!([1.0, 10.0, 100.0, 1_000.0, 100_000.0].map(share), ["0 %", "90 %", "99 %", "99.9 %", "99.999 %"]);
    }
}
