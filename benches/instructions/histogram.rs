//! The latency histogram, and the peer it has to beat.

use std::hint::black_box;

use spinwire_core::histogram::Histogram2;
use spinwire_core::time::Nanos;

/// Latencies of 10 us and some more, so that counters and paths vary as they do in a run.
fn latency(n: u64) -> u64 {
    black_box(10_000 + (n & 0xfff) * 3)
}

/// One latency recorded: exact sum and extremes included.
#[inline(never)]
pub fn record(iterations: u64) {
    let mut histogram = Box::new(Histogram2::new());
    for n in 0..iterations {
        black_box(&mut *histogram).record(Nanos::new(latency(n)));
    }
    assert_eq!(histogram.count(), iterations);
}

/// The same in an HdrHistogram of the same geometry.
#[inline(never)]
pub fn record_hdr(iterations: u64) {
    let mut histogram = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 2).expect("valid bounds");
    for n in 0..iterations {
        black_box(&mut histogram).record(latency(n)).expect("within the range");
    }
    assert_eq!(histogram.len(), iterations);
}
