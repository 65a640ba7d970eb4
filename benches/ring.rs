//! Our ring beside rtrb, crossbeam's `ArrayQueue` and heapless' `spsc`, in one run.
//!
//! Two patterns, both between two pinned threads over 1,024 slots of `u64`:
//! - `single`: one push, one pop, as fast as both sides go. It shows the cost of an operation while the ring is neither
//!   empty nor full for long. Real traffic between cores is burstier.
//! - `batch_32`: up to 32 items a turn, which is what a polling loop does. Peers without batches push one by one.
//!
//! Round trips are not measured here. `-- --test` runs each once with few items.
#![allow(missing_docs)]

use std::hint::spin_loop;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime};
use crossbeam_queue::ArrayQueue;
use spinwire_benches::{CorePair, machine};
use spinwire_core::ring::{Header, Slot, split};

const CAPACITY: usize = 1024;
const BATCH: usize = 32;
/// Items in one criterion iteration, so that the threads' start is small beside the work.
const ITEMS: u64 = 1 << 14;

/// Pushes `0..items`. `push` takes a slice of the items to come and says how many it took.
fn produce(items: u64, batch: usize, mut push: impl FnMut(&[u64]) -> usize) {
    let mut buffer = [0; BATCH];
    let mut next = 0;
    while next < items {
        let want = (items - next).min(batch as u64) as usize;
        (next..).zip(&mut buffer[..want]).for_each(|(item, to)| *to = item);
        match push(&buffer[..want]) {
            0 => spin_loop(),
            pushed => next += pushed as u64,
        }
    }
}

/// Pops until `items` came, and checks each: a bench of a ring that loses items is worth nothing.
fn consume(items: u64, batch: usize, mut pop: impl FnMut(&mut [u64]) -> usize) {
    let mut buffer = [0; BATCH];
    let mut next = 0;
    while next < items {
        let popped = pop(&mut buffer[..batch]);
        if popped == 0 {
            spin_loop();
        }
        for &item in &buffer[..popped] {
            assert_eq!(item, next, "items must come in order");
            next += 1;
        }
    }
}

fn spinwire(cores: CorePair, items: u64, batch: usize) -> Duration {
    let (mut header, mut slots) = (Header::new(), [const { Slot::new() }; CAPACITY]);
    let (mut producer, mut consumer) = split(&mut header, &mut slots).expect("a power of two");
    match batch {
        1 => cores.time(
            move || produce(items, 1, |items| usize::from(producer.push(items[0]).is_ok())),
            move || consume(items, 1, |to| consumer.pop().map_or(0, |item| put(to, item))),
        ),
        _ => cores.time(
            move || produce(items, batch, |items| producer.push_slice(items)),
            move || consume(items, batch, |to| consumer.pop_slice(to)),
        ),
    }
}

fn rtrb(cores: CorePair, items: u64, batch: usize) -> Duration {
    let (mut producer, mut consumer) = rtrb::RingBuffer::<u64>::new(CAPACITY);
    match batch {
        1 => cores.time(
            move || produce(items, 1, |items| usize::from(producer.push(items[0]).is_ok())),
            move || consume(items, 1, |to| consumer.pop().map_or(0, |item| put(to, item))),
        ),
        _ => cores.time(
            move || {
                produce(items, batch, |items| {
                    let count = producer.slots().min(items.len());
                    let chunk = producer.write_chunk_uninit(count).expect("slots were counted");
                    chunk.fill_from_iter(items.iter().copied())
                });
            },
            move || {
                consume(items, batch, |to| {
                    let count = consumer.slots().min(to.len());
                    let chunk = consumer.read_chunk(count).expect("slots were counted");
                    chunk.into_iter().zip(to).map(|(item, to)| *to = item).count()
                });
            },
        ),
    }
}

fn array_queue(cores: CorePair, items: u64, batch: usize) -> Duration {
    let (producer, consumer) = {
        let queue = Arc::new(ArrayQueue::new(CAPACITY));
        (queue.clone(), queue)
    };
    cores.time(
        move || produce(items, batch, |items| items.iter().take_while(|&&item| producer.push(item).is_ok()).count()),
        move || consume(items, batch, |to| fill(to, || consumer.pop())),
    )
}

fn heapless(cores: CorePair, items: u64, batch: usize) -> Duration {
    // Its capacity is one less than its size, and only powers of two are fast.
    let mut queue = heapless::spsc::Queue::<u64, CAPACITY>::new();
    let (mut producer, mut consumer) = queue.split();
    cores.time(
        move || produce(items, batch, |items| items.iter().take_while(|&&item| producer.enqueue(item).is_ok()).count()),
        move || consume(items, batch, |to| fill(to, || consumer.dequeue())),
    )
}

fn put(to: &mut [u64], item: u64) -> usize {
    to[0] = item;
    1
}

fn fill(to: &mut [u64], mut pop: impl FnMut() -> Option<u64>) -> usize {
    to.iter_mut().map_while(|to| pop().map(|item| *to = item)).count()
}

type Contestant = (&'static str, fn(CorePair, u64, usize) -> Duration);

const CONTESTANTS: [Contestant; 4] =
    [("spinwire", spinwire), ("rtrb", rtrb), ("crossbeam_array_queue", array_queue), ("heapless_spsc", heapless)];

fn compare(group: &mut BenchmarkGroup<'_, WallTime>, cores: CorePair, batch: usize) {
    group
        .throughput(Throughput::Elements(ITEMS))
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2));
    for (name, run) in CONTESTANTS {
        // First that it works, all the way round the ring several times; `consume` asserts.
        run(cores, 10 * CAPACITY as u64 + 7, batch);
        group.bench_function(name, |bencher| bencher.iter_custom(|rounds| run(cores, rounds * ITEMS, batch)));
    }
}

fn ring(criterion: &mut Criterion) {
    let cores = CorePair::first_allowed().unwrap_or_else(|reason| panic!("ring bench: {reason}"));
    println!("{}", machine(cores));
    println!("ring: u64 items, {CAPACITY} slots");
    compare(&mut criterion.benchmark_group("ring/single"), cores, 1);
    compare(&mut criterion.benchmark_group("ring/batch_32"), cores, BATCH);
}

criterion_group!(benches, ring);
criterion_main!(benches);
