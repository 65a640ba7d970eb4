//! Latencies, every one of them: a high dynamic range histogram that neither drops nor allocates while recording.

use hdrhistogram::Histogram;
use spinwire_core::time::Nanos;

/// A histogram of spans from 1 ns to 1 h, exact to 0.1 %; the extremes are kept exactly.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    min: u64,
    max: u64,
    total: u128,
    above_range: u64,
}

/// What a histogram says, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// Samples recorded, those above the range included.
    pub count: u64,
    /// The smallest, exactly.
    pub min: u64,
    /// The mean, rounded down.
    pub mean: u64,
    /// Half of all samples are at most this.
    pub p50: u64,
    /// 90 % are at most this.
    pub p90: u64,
    /// 99 % are at most this.
    pub p99: u64,
    /// 99.9 % are at most this.
    pub p99_9: u64,
    /// 99.99 % are at most this.
    pub p99_99: u64,
    /// The largest, exactly.
    pub max: u64,
    /// Samples above 1 h. They count as 1 h in the percentiles.
    pub above_range: u64,
}

impl Latencies {
    /// An empty histogram with all its memory (some 270 KiB) in place.
    pub fn new() -> Self {
        // The bounds are constants that the constructor accepts: 1 <= low, 2 x low <= high, 0 to 5 digits.
        let histogram = Histogram::new_with_bounds(1, RANGE_NANOS_MAX, 3).expect("constant bounds are valid");
        Self { histogram, min: u64::MAX, max: 0, total: 0, above_range: 0 }
    }

    /// Records one span. O(1); no allocation.
    #[inline]
    pub fn record(&mut self, span: Nanos) {
        let nanos = span.get();
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
        self.total += u128::from(nanos);
        self.above_range += u64::from(nanos > RANGE_NANOS_MAX);
        self.histogram.saturating_record(nanos);
    }

    /// Samples recorded so far.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The percentiles; all zero when nothing was recorded.
    pub fn summary(&self) -> Summary {
        let count = self.count();
        if count == 0 {
            return Summary::default();
        }
        // A bucket reports its upper edge, which may lie beyond the largest sample.
        let at = |quantile| self.histogram.value_at_quantile(quantile).clamp(self.min, self.max);
        Summary {
            count,
            min: self.min,
            mean: u64::try_from(self.total / u128::from(count)).unwrap_or(u64::MAX),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: self.max,
            above_range: self.above_range,
        }
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

/// The largest span told apart: 1 h.
const RANGE_NANOS_MAX: u64 = 3_600_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(samples: impl IntoIterator<Item = u64>) -> Summary {
        let mut all = Latencies::new();
        samples.into_iter().for_each(|nanos| all.record(Nanos::new(nanos)));
        all.summary()
    }

    #[test]
    fn percentiles_of_known_samples() {
        let summary = of((1..=10_000).map(|n| n * 1_000));
        let near = |got: u64, want: u64| got.abs_diff(want) * 1_000 <= want;
        assert_eq!((summary.count, summary.min, summary.max), (10_000, 1_000, 10_000_000));
        assert!(near(summary.p50, 5_000_000), "{summary:?}");
        assert!(near(summary.p90, 9_000_000), "{summary:?}");
        assert!(near(summary.p99, 9_900_000), "{summary:?}");
        assert!(near(summary.p99_9, 9_990_000), "{summary:?}");
        assert!(near(summary.p99_99, 9_999_000), "{summary:?}");
        assert_eq!(summary.mean, 5_000_500);
    }

    #[test]
    fn one_slow_sample_in_many_is_the_maximum_and_stays() {
        let summary = of((0..99_999).map(|_| 50_000).chain([8_123_457]));
        assert_eq!((summary.max, summary.count), (8_123_457, 100_000));
        assert_eq!(summary.p99_99, 50_015, "the upper edge of the bucket of 50,000 at three digits");
    }

    #[test]
    fn what_is_out_of_range_is_counted_not_dropped() {
        let summary = of([0, 100, RANGE_NANOS_MAX + 1, u64::MAX]);
        assert_eq!((summary.count, summary.above_range), (4, 2));
        assert_eq!((summary.min, summary.max), (0, u64::MAX));
        assert!(summary.p99_99 >= RANGE_NANOS_MAX, "{summary:?}");
    }

    #[test]
    fn nothing_recorded_is_all_zero() {
        assert_eq!(of([]), Summary::default());
    }
}
