//! Time per turn of the loop, over a fabric that does nothing, beside an iteration that does nothing.
//!
//! What a turn costs in instructions, with limits, is `ci/instructions`' business.
#![allow(missing_docs)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use spinwire_benches::null::with_rig;

fn turns(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("turn");
    group.bench_function("nothing", |bencher| bencher.iter(|| ()));
    for (name, arriving) in [("empty", 0), ("echo", 1), ("echo-batch-32", 32)] {
        group.throughput(Throughput::Elements(arriving.max(1) as u64));
        group.bench_function(name, |bencher| with_rig(arriving, |rig| bencher.iter(|| rig.turn())));
    }
    group.finish();
}

criterion_group!(benches, turns);
criterion_main!(benches);
