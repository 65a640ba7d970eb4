//! Latencies, every one of them: a log-linear histogram that neither drops nor allocates.

use core::fmt;

use crate::time::Nanos;

/// Two significant digits, 42 KiB: any value to 0.8 %. A run touches few of its counters, so they stay in the nearest cache.
pub type Histogram2 = Histogram<2, { counters(2) }>;

/// Three significant digits, 333 KiB: any value to 0.1 %. For reports; keep it in a box or a static.
pub type Histogram3 = Histogram<3, { counters(3) }>;

/// A histogram of spans from 0 ns to [`Histogram::RANGE_MAX`], 1 h.
///
/// Use [`Histogram2`] or [`Histogram3`]. All memory is in place, `8 * COUNTERS + 48` bytes: plain counters that belong to
/// one core. Histograms of several cores are merged after the run.
///
/// ```text
///  two digits    values           counters     width of each
///                0 .. 255         256          1 ns
///                256 .. 511       128          2 ns
///                512 .. 1,023     128          4 ns
///                ..               ..           ..
/// ```
///
/// These are the buckets of an HdrHistogram with a lowest value of 1, a highest of 1 h and `DIGITS` significant digits:
/// each counter is one counter there, so that [`Histogram::buckets`] carries everything over. Beside them the smallest,
/// the largest and the sum of all values are kept exactly, and values beyond the range are counted apart.
///
/// ```
/// use spinwire_core::histogram::Histogram2;
/// use spinwire_core::time::Nanos;
///
/// let mut latencies = Histogram2::new();
/// (1..=1_000).for_each(|n| latencies.record(Nanos::from_micros(n)));
/// assert_eq!((latencies.count(), latencies.mean()), (1_000, Nanos::new(500_500)));
/// let p99 = latencies.quantile(99, 100).get();
/// assert!(p99.abs_diff(990_000) * 128 <= 990_000);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram<const DIGITS: u32, const COUNTERS: usize> {
    counts: [u64; COUNTERS],
    above_range: u64,
    sum: u128,
    /// Before the first value, `u64::MAX`.
    min: u64,
    /// The largest value less the smallest, so that one comparison tells that a value is neither.
    span: u64,
}

/// A counter that is not zero, and the values it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The smallest value counted here.
    pub low: Nanos,
    /// The largest value counted here.
    pub high: Nanos,
    /// How many were.
    pub count: u64,
}

impl<const DIGITS: u32, const COUNTERS: usize> Histogram<DIGITS, COUNTERS> {
    /// The largest value told apart: 1 h, and what shares its counter.
    pub const RANGE_MAX: Nanos = Nanos::new(values(DIGITS, COUNTERS - 1).1);

    /// An empty histogram. Other numbers of counters than the digits ask for do not compile.
    pub const fn new() -> Self {
        const { assert!(COUNTERS == counters(DIGITS), "use Histogram2 or Histogram3") };
        Self { counts: [0; COUNTERS], above_range: 0, sum: 0, min: u64::MAX, span: 0 }
    }

    /// Records one value. About 15 instructions; no loop, no division.
    #[inline]
    pub fn record(&mut self, value: Nanos) {
        self.record_n(value, 1);
    }

    /// Records the same value `count` times, at the cost of one.
    #[inline]
    pub fn record_n(&mut self, value: Nanos, count: u64) {
        let nanos = value.get();
        // Seldom taken, and so cheaper than a store each. Before the sum, which tells whether there is a value yet.
        if nanos.wrapping_sub(self.min) > self.span {
            self.widen(nanos, nanos);
        }
        self.sum += u128::from(nanos) * u128::from(count);
        match self.counts.get_mut(index(DIGITS, nanos)) {
            Some(counter) => *counter += count,
            None => self.count_outside(nanos, count),
        }
    }

    /// Takes `low` and `high` into the extremes.
    #[cold]
    #[inline(never)]
    fn widen(&mut self, low: u64, high: u64) {
        let (min, max) = (self.min.min(low), self.max().get().max(high));
        (self.min, self.span) = (min, max - min);
    }

    /// Counts a value for which there is no exponent: zero, or one above the range.
    #[cold]
    #[inline(never)]
    fn count_outside(&mut self, nanos: u64, count: u64) {
        *if nanos == 0 { &mut self.counts[0] } else { &mut self.above_range } += count;
    }

    /// Adds everything `other` has recorded. O(COUNTERS).
    pub fn merge(&mut self, other: &Self) {
        if other.count() > 0 {
            self.widen(other.min, other.max().get());
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.above_range += other.above_range;
        self.sum += other.sum;
    }

    /// Forgets everything. O(COUNTERS).
    pub fn clear(&mut self) {
        self.counts.fill(0);
        (self.above_range, self.sum, self.min, self.span) = (0, 0, u64::MAX, 0);
    }

    /// Values recorded, those above the range included. O(COUNTERS), some microseconds: they are added up here, and not counted
    /// a second time with each record.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.above_range
    }

    /// Values above [`Histogram::RANGE_MAX`]: in the count, the mean and the maximum, but in no bucket.
    pub fn above_range(&self) -> u64 {
        self.above_range
    }

    /// The smallest value, exactly; zero when nothing was recorded.
    pub fn min(&self) -> Nanos {
        self.max().min(Nanos::new(self.min))
    }

    /// The largest value, exactly; zero when nothing was recorded.
    pub fn max(&self) -> Nanos {
        // Where all values are zero, so is the largest.
        Nanos::new(if self.sum == 0 { 0 } else { self.min + self.span })
    }

    /// The mean of all values, exact but for being rounded down to a nanosecond; zero when nothing was recorded.
    /// O(COUNTERS).
    pub fn mean(&self) -> Nanos {
        let mean = self.sum.checked_div(u128::from(self.count())).unwrap_or(0);
        // A mean is not above the largest value, which fits.
        Nanos::new(mean as u64)
    }

    /// The value that `part` of every `of` values do not exceed: `quantile(99, 100)` is the 99th percentile. Zero when
    /// nothing was recorded. O(COUNTERS).
    ///
    /// A bucket answers with its upper edge, as an HdrHistogram does, within the exact extremes. Among values above the
    /// range the answer is the largest.
    ///
    /// # Panics
    /// If `part` is more than `of`, or `of` is zero.
    pub fn quantile(&self, part: u32, of: u32) -> Nanos {
        assert!(part <= of && of > 0, "{part} of {of} is not a part");
        let rank = (u128::from(self.count()) * u128::from(part)).div_ceil(u128::from(of));
        if rank <= 1 {
            return self.min();
        }
        let mut below = 0;
        let reached = self.buckets().find(|bucket| {
            below += u128::from(bucket.count);
            below >= rank
        });
        reached.map_or(self.max(), |bucket| bucket.high.clamp(self.min(), self.max()))
    }

    /// The counters that are not zero, from the smallest values to the largest.
    ///
    /// To hand them to an HdrHistogram of the same geometry, record `low` there `count` times for each.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        let used = self.counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        used.map(|(index, &count)| {
            let (low, high) = values(DIGITS, index);
            Bucket { low: Nanos::new(low), high: Nanos::new(high), count }
        })
    }
}

impl<const DIGITS: u32, const COUNTERS: usize> Default for Histogram<DIGITS, COUNTERS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const DIGITS: u32, const COUNTERS: usize> fmt::Debug for Histogram<DIGITS, COUNTERS> {
    /// The summary; there are thousands of counters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("above_range", &self.above_range)
            .field("min", &self.min())
            .field("mean", &self.mean())
            .field("max", &self.max())
            .finish_non_exhaustive()
    }
}

/// The counters that `digits` significant digits up to 1 h take.
pub const fn counters(digits: u32) -> usize {
    index(digits, Nanos::from_secs(3_600).get()) + 1
}

/// The counter of `value`: the exponent and the first bits of the mantissa of its floating-point form, which is what
/// log-linear means. What is above the range has a number that is too large, and so has zero, which has no exponent.
///
/// The conversion is several times cheaper than a search for the highest bit, which processors of the x86-64 baseline do
/// in microcode. It is exact for all that is within the range, and values beyond `i64::MAX` turn negative and stay too large.
#[inline]
const fn index(digits: u32, value: u64) -> usize {
    let form = (value as i64 as f64).to_bits();
    (form >> (f64::MANTISSA_DIGITS - 1 - mantissa_bits(digits))).wrapping_sub(index_of_zero(digits)) as usize
}

/// The smallest and the largest value of a counter that [`index`] gives.
const fn values(digits: u32, index: usize) -> (u64, u64) {
    let low = lowest(digits, index);
    let next = lowest(digits, index + 1);
    // Below two to the power of the mantissa bits there are more counters than values.
    (low, if next > low { next - 1 } else { low })
}

const fn lowest(digits: u32, index: usize) -> u64 {
    f64::from_bits((index as u64 + index_of_zero(digits)) << (f64::MANTISSA_DIGITS - 1 - mantissa_bits(digits))) as u64
}

/// Counters in a doubling, as a power of two: at least the power of ten.
const fn mantissa_bits(digits: u32) -> u32 {
    10_u64.pow(digits).next_power_of_two().ilog2()
}

/// Where 0 comes to lie: just before 1, whose exponent bits are 1,023.
const fn index_of_zero(digits: u32) -> u64 {
    (1_023 << mantissa_bits(digits)) - 1
}

const _: () = assert!(counters(2) == 5_331 && counters(3) == 42_638);
