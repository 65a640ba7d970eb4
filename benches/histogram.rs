//! Recording a latency: ours beside hdrhistogram, with the same buckets.
//!
//! The spans lie around 10 us and one in a hundred in a tail of up to 1 ms, as under a steady load. Each record is told
//! apart from the next, for a program has other work in between: nothing stays in registers. Both keep the smallest,
//! the largest and the number of values, ours their exact sum as well.
#![allow(missing_docs)]

use std::hint::black_box;
use std::process::ExitCode;

use spinwire_benches::{Contestant, limits};
use spinwire_core::histogram::Histogram2;
use spinwire_core::time::Nanos;

fn main() -> ExitCode {
    spinwire_benches::main("histogram", |run| {
        let spans = spans();
        let ours = &mut Histogram2::new();
        let theirs = &mut hdrhistogram::Histogram::<u64>::new_with_bounds(1, HOUR, 2).expect("bounds that are allowed");
        run.single(
            "histogram/record",
            limits::HISTOGRAM_RECORD,
            &mut [
                Contestant::new("spinwire", |times| {
                    each(&spans, times, |span| black_box(&mut *ours).record(Nanos::new(span)));
                }),
                Contestant::new("hdrhistogram", |times| {
                    each(&spans, times, |span| black_box(&mut *theirs).record(span).expect("within the range"));
                }),
                // What reading the spans costs, and keeping the records apart.
                Contestant::new("loop", |times| each(&spans, times, |span| _ = black_box(&mut black_box(span)))),
            ],
        );
        // What was measured has worked.
        assert!(ours.count() > 0 && !theirs.is_empty() && ours.quantile(1, 2).get().abs_diff(10_000) < 1_000);
    })
}

/// A whole number of times through, so that both see the same.
fn each(spans: &[u64], times: u64, mut record: impl FnMut(u64)) {
    spans.iter().cycle().take(times as usize).for_each(|&span| record(span));
}

fn spans() -> Vec<u64> {
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    };
    (0..4_096).map(|n| 9_000 + random() % 2_000 + if n % 100 == 0 { random() % 1_000_000 } else { 0 }).collect()
}

const HOUR: u64 = 3_600_000_000_000;
