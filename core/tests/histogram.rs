//! The histogram beside HdrHistogram, given the same values.

use spinwire_core::histogram::{Bucket, Histogram, Histogram2, Histogram3};
use spinwire_core::sim::Random;
use spinwire_core::time::Nanos;

const HOUR: u64 = 3_600_000_000_000;

type Hdr = hdrhistogram::Histogram<u64>;

fn hdr(digits: u32) -> Hdr {
    Hdr::new_with_bounds(1, HOUR, digits as u8).unwrap()
}

fn values(bucket: &Bucket) -> (u64, u64) {
    (bucket.low.get(), bucket.high.get())
}

/// Spans of every magnitude, the edges of the range among them.
fn samples(count: usize) -> impl Iterator<Item = u64> {
    let mut random = Random(7);
    let edges = [0, 1, 255, 256, 257, 2_047, 2_048, HOUR - 1, HOUR];
    edges
        .into_iter()
        .chain(std::iter::repeat_with(move || (random.next() >> random.below(64)) % (HOUR + 1)))
        .take(count)
}

fn both<const D: u32, const N: usize>(samples: impl Iterator<Item = u64>) -> (Box<Histogram<D, N>>, Hdr) {
    let (mut ours, mut theirs) = (Box::new(Histogram::new()), hdr(D));
    for nanos in samples {
        ours.record(Nanos::new(nanos));
        theirs.record(nanos).unwrap();
    }
    (ours, theirs)
}

/// Each of our counters is exactly one of theirs, in both directions.
fn converts_without_loss<const D: u32, const N: usize>() {
    let (ours, theirs) = both::<D, N>(samples(200_000));
    let mut converted = hdr(D);
    for bucket in ours.buckets() {
        let (low, high) = values(&bucket);
        assert_eq!((theirs.lowest_equivalent(low), theirs.highest_equivalent(low)), (low, high));
        assert_eq!(theirs.count_at(low), bucket.count, "{bucket:?}");
        converted.record_n(low, bucket.count).unwrap();
    }
    assert_eq!(converted, theirs);

    let mut back = Box::new(Histogram::<D, N>::new());
    for step in theirs.iter_recorded() {
        let low = theirs.lowest_equivalent(step.value_iterated_to());
        back.record_n(Nanos::new(low), step.count_since_last_iteration());
    }
    assert!(back.buckets().eq(ours.buckets()));
    assert_eq!(back.count(), ours.count());
}

#[test]
fn it_converts_to_hdr_and_back_without_loss() {
    converts_without_loss::<2, 5_331>();
    converts_without_loss::<3, 42_638>();
}

/// Every counter of the geometry, not only those that samples happen to reach.
fn every_counter_agrees<const D: u32, const N: usize>() {
    let (mut ours, theirs) = (Box::new(Histogram::<D, N>::new()), hdr(D));
    let (mut value, mut counters) = (0, 0);
    while value <= HOUR {
        ours.record(Nanos::new(value));
        let next = theirs.next_non_equivalent(value);
        ours.record(Nanos::new((next - 1).min(HOUR)));
        value = next;
        counters += 1;
    }
    assert_eq!(ours.buckets().count(), counters);
    let mut expected = 0;
    for bucket in ours.buckets() {
        let (low, high) = values(&bucket);
        assert_eq!((low, bucket.count), (expected, 2));
        assert!((high - low) as f64 <= low as f64 / (10_f64.powi(D as i32)), "{bucket:?} is too wide");
        expected = high + 1;
    }
}

#[test]
fn no_bucket_is_wider_than_its_digits_allow() {
    every_counter_agrees::<2, 5_331>();
    every_counter_agrees::<3, 42_638>();
}

#[test]
fn quantiles_are_those_of_hdr() {
    for count in [2, 3, 10, 1_000, 9_999, 100_000] {
        let (ours, theirs) = both::<2, 5_331>(samples(count));
        for (part, of) in [(1, 2), (3, 4), (9, 10), (99, 100), (999, 1_000), (9_999, 10_000), (1, 1)] {
            let theirs = theirs.value_at_quantile(f64::from(part) / f64::from(of));
            let theirs = theirs.clamp(ours.min().get(), ours.max().get());
            let ours = ours.quantile(part, of).get();
            let first = ours == 0 && theirs == 0;
            assert!(first || ours == theirs, "{part} of {of} of {count}: {ours} and {theirs}");
        }
    }
}

#[test]
fn extremes_and_mean_are_exact() {
    let mut all = Histogram2::new();
    assert_eq!((all.count(), all.min(), all.mean(), all.max()), (0, Nanos::ZERO, Nanos::ZERO, Nanos::ZERO));
    assert_eq!(all.quantile(1, 2), Nanos::ZERO);
    let values: Vec<u64> = samples(10_000).skip(3).map(|nanos| nanos + 1).collect();
    values.iter().for_each(|&nanos| all.record(Nanos::new(nanos)));
    let sum: u128 = values.iter().map(|&nanos| u128::from(nanos)).sum();
    assert_eq!(u128::from(all.mean().get()), sum / values.len() as u128);
    assert_eq!((all.count(), all.min().get()), (values.len() as u64, *values.iter().min().unwrap()));
    assert_eq!((all.max().get(), all.quantile(1, 1).get()), (*values.iter().max().unwrap(), all.max().get()));
    assert_eq!(all.quantile(0, 1), all.min());
}

#[test]
fn what_is_above_the_range_is_counted_and_seen() {
    let mut all = Histogram2::new();
    let edge = Histogram2::RANGE_MAX.get();
    assert!((HOUR..HOUR + HOUR / 100).contains(&edge));
    for nanos in [100, edge, edge + 1, u64::MAX, u64::MAX] {
        all.record(Nanos::new(nanos));
    }
    assert_eq!((all.count(), all.above_range(), all.buckets().count()), (5, 3, 2));
    assert_eq!(u128::from(all.mean().get()), (100 + 2 * u128::from(edge) + 1 + 2 * u128::from(u64::MAX)) / 5);
    assert_eq!(all.quantile(2, 5).get(), edge);
    assert_eq!((all.quantile(3, 5).get(), all.max().get()), (u64::MAX, u64::MAX));
}

#[test]
fn merged_is_as_if_recorded_in_one() {
    let (mut one, mut other, mut whole) = (Histogram2::new(), Histogram2::new(), Histogram2::new());
    for (n, nanos) in samples(10_000).chain([u64::MAX]).enumerate() {
        let nanos = Nanos::new(nanos);
        whole.record(nanos);
        if n % 3 == 0 { one.record(nanos) } else { other.record(nanos) }
    }
    one.merge(&other);
    assert_eq!(one, whole);
    one.merge(&Histogram2::new());
    assert_eq!(one, whole);
    one.clear();
    assert_eq!(one, Histogram2::new());
}

#[test]
fn sizes_are_as_stated() {
    assert_eq!((size_of::<Histogram2>(), size_of::<Histogram3>()), (42_688, 341_152));
}

#[test]
#[should_panic(expected = "2 of 1 is not a part")]
fn more_than_all_is_not_a_part() {
    Histogram2::new().quantile(2, 1);
}
