//! Recording a latency: ours beside hdrhistogram with the same buckets, in one run.
//!
//! Each iteration records 4,096 spans around 10 us with a tail, as a run with a steady load does. Both keep the smallest,
//! the largest and the number of values; ours keeps their exact sum as well. `-- --test` runs each once.
#![allow(missing_docs)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use spinwire_core::histogram::Histogram2;
use spinwire_core::time::Nanos;

fn latencies() -> Vec<u64> {
    let mut state = 1_u64;
    let random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    };
    let random: Vec<u64> = std::iter::repeat_with(random).take(4_096).collect();
    random.iter().map(|word| 9_000 + word % 2_000 + if word % 100 == 0 { word % 1_000_000 } else { 0 }).collect()
}

fn record(criterion: &mut Criterion) {
    let latencies = latencies();
    let mut ours = Histogram2::new();
    let mut theirs = hdrhistogram::Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 2).expect("valid bounds");
    let mut group = criterion.benchmark_group("histogram/record");
    group.throughput(Throughput::Elements(latencies.len() as u64));
    group.bench_function("spinwire", |bencher| {
        bencher.iter(|| latencies.iter().for_each(|&nanos| black_box(&mut ours).record(Nanos::new(nanos))));
    });
    group.bench_function("hdrhistogram", |bencher| {
        bencher.iter(|| latencies.iter().for_each(|&nanos| black_box(&mut theirs).record(nanos).expect("in range")));
    });
    group.finish();
    // What was measured has worked.
    assert_eq!((ours.count() % 4_096, theirs.len() % 4_096), (0, 0));
    assert_eq!(ours.quantile(1, 2).get(), theirs.value_at_quantile(0.5));
}

criterion_group!(benches, record);
criterion_main!(benches);
