//! Latencies, every one of them, and what a report says about them.

use spinwire_core::histogram::Histogram3;
use spinwire_core::time::Nanos;

/// A histogram of spans from 0 ns to 1 h, exact to 0.1 %; the extremes and the mean are kept exactly.
#[derive(Clone, Debug)]
pub struct Latencies(Box<Histogram3>);

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
    /// Samples above 1 h. A percentile among them is the largest.
    pub above_range: u64,
}

impl Latencies {
    /// An empty histogram with all its memory (333 KiB) in place.
    pub fn new() -> Self {
        Self(Box::new(Histogram3::new()))
    }

    /// Records one span. O(1); no allocation.
    #[inline]
    pub fn record(&mut self, span: Nanos) {
        self.0.record(span);
    }

    /// The counters in use: the smallest and the largest value counted, in nanoseconds, and how often. In rising order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.0.buckets().map(|bucket| (bucket.low.get(), bucket.high.get(), bucket.count))
    }

    /// The percentiles, if anything was recorded.
    pub fn summary_if_any(&self) -> Option<Summary> {
        Some(self.summary()).filter(|summary| summary.count > 0)
    }

    /// The percentiles; all zero when nothing was recorded.
    pub fn summary(&self) -> Summary {
        let at = |part, of| self.0.quantile(part, of).get();
        Summary {
            count: self.0.count(),
            min: self.0.min().get(),
            mean: self.0.mean().get(),
            p50: at(1, 2),
            p90: at(9, 10),
            p99: at(99, 100),
            p99_9: at(999, 1_000),
            p99_99: at(9_999, 10_000),
            max: self.0.max().get(),
            above_range: self.0.above_range(),
        }
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

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
        let beyond = Histogram3::RANGE_MAX.get() + 1;
        let summary = of([0, 100, beyond, u64::MAX]);
        assert_eq!((summary.count, summary.above_range), (4, 2));
        assert_eq!((summary.min, summary.max), (0, u64::MAX));
        assert_eq!((summary.p50, summary.p99_99), (100, u64::MAX), "{summary:?}");
    }

    #[test]
    fn nothing_recorded_is_all_zero() {
        assert_eq!(of([]), Summary::default());
    }
}
