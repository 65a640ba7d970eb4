//! Several producers, one consumer.
//!
//! What goes wrong here is waiting for each other: a queue with one tail for all makes a producer that has its slot wait
//! for another one that has not published yet, and if that one lost its CPU meanwhile, for a whole time slice.

use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use spinwire_core::ring::{Lanes, Memory};

use super::ours::{Batch, Latency};
use super::peers::Crossbeam;
use super::{BATCH, CAPACITY, Patience, Ring, Rx, Tx};
use crate::contest::Sample;
use crate::gate::Gate;
use crate::window::{Dropped, Pinned, Role};

/// Producers in every contest here.
pub const PRODUCERS: usize = 2;

/// Where the producers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seats {
    /// Each on a CPU of its own. With two CPUs the second producer is the consumer's own thread, which pushes and pops
    /// in turn, as a loop does that also sends to itself.
    Apart,
    /// Both on the first CPU, so that the kernel takes it from one to give it to the other at any moment; the consumer
    /// on the second.
    Shared,
}

/// How a contest goes.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Where the producers run.
    pub seats: Seats,
    /// Items they push at a time, 1 or [`BATCH`].
    pub batch: usize,
}

/// One ring of the latency layout for each producer, polled in turn.
///
/// # Errors
/// [`Dropped`], and why.
pub fn latency_lanes(pinned: &Pinned, items: u64, case: Case) -> Result<Sample, Dropped> {
    let mut rings: [Latency<u64>; PRODUCERS] = [Ring::new(), Ring::new()];
    let [(a, from_a), (b, from_b)] = rings.each_mut().map(Ring::split);
    run(pinned, [a, b], Lanes::from([from_a, from_b]), items, case)
}

/// One ring of the batch layout for each producer, polled in turn.
///
/// # Errors
/// [`Dropped`], and why.
pub fn batch_lanes(pinned: &Pinned, items: u64, case: Case) -> Result<Sample, Dropped> {
    let mut rings: [Batch<u64>; PRODUCERS] = [Ring::new(), Ring::new()];
    let [(a, from_a), (b, from_b)] = rings.each_mut().map(Ring::split);
    run(pinned, [a, b], Lanes::from([from_a, from_b]), items, case)
}

/// crossbeam's `ArrayQueue`.
///
/// # Errors
/// [`Dropped`], and why.
pub fn crossbeam(pinned: &Pinned, items: u64, case: Case) -> Result<Sample, Dropped> {
    let mut queue = Crossbeam::new();
    let (tx, rx) = queue.split();
    run(pinned, [tx, tx], rx, items, case)
}

/// DPDK's `rte_ring` for many producers.
///
/// # Errors
/// [`Dropped`], and why.
#[cfg(dpdk)]
pub fn rte_ring(pinned: &Pinned, items: u64, case: Case) -> Result<Sample, Dropped> {
    let queue = crate::dpdk::RteRing::with_producers(true);
    run(pinned, [queue.half(), queue.half()], queue.half(), items, case)
}

impl<M: Memory<Item = u64>> Rx<u64> for Lanes<M, PRODUCERS>
where
    Self: Send,
{
    #[inline]
    fn pop(&mut self) -> Option<u64> {
        Lanes::pop(self).ok().map(|(_, item)| item)
    }

    #[inline]
    fn pop_batch(&mut self, max: usize, mut each: impl FnMut(&u64)) -> usize {
        self.poll(max / PRODUCERS, |_, item| each(&item)).unwrap_or(0)
    }
}

/// Sends `items`, half of them from each producer; with [`Seats::Shared`] as many as go in [`SHARED_WINDOW`]. The consumer
/// takes what is there, up to [`BATCH`] at a time, and checks that each producer's come in order.
///
/// # Errors
/// [`Dropped`], and why.
fn run(
    pinned: &Pinned,
    [a, b]: [impl Tx<u64>; PRODUCERS],
    rx: impl Rx<u64>,
    items: u64,
    Case { seats, batch }: Case,
) -> Result<Sample, Dropped> {
    if seats == Seats::Shared {
        return share(pinned, [a, b], rx, batch);
    }
    let (count, warm_up) = ((items / 2).max(1), 2 * CAPACITY as u64);
    let mut roles = vec![producer(0, a, 0, warm_up, count, batch)];
    if pinned.cores() < 3 {
        roles.push(Role::new(1, move |gate| {
            let (mut b, mut check) = (b, Check::new(rx));
            turns(&mut b, &mut check, 0, warm_up, batch);
            gate.start();
            turns(&mut b, &mut check, warm_up, count, batch);
        }));
    } else {
        roles.push(producer(1, b, 1, warm_up, count, batch));
        roles.push(Role::new(2, move |gate| {
            let mut check = Check::new(rx);
            check.all(PRODUCERS as u64 * warm_up);
            gate.start();
            check.all(PRODUCERS as u64 * count);
        }));
    }
    Ok(Sample::per_item(pinned.window(roles)?, PRODUCERS as u64 * count))
}

/// Both producers on the first CPU. Time is given and not items, for a queue that stands still most of the time must not
/// be measured in the moments when it does not.
fn share(
    pinned: &Pinned,
    [a, b]: [impl Tx<u64>; PRODUCERS],
    rx: impl Rx<u64>,
    batch: usize,
) -> Result<Sample, Dropped> {
    let (stop, mut popped) = (&AtomicBool::new(false), 0);
    let out = &mut popped;
    let elapsed = pinned.window(vec![
        Role::new(0, move |gate| push_until(stop, gate, a, first(0), batch)),
        Role::new(0, move |gate| push_until(stop, gate, b, first(1), batch)),
        Role::new(1, move |gate| {
            let mut check = Check::new(rx);
            gate.start();
            let start = Instant::now();
            while start.elapsed() < SHARED_WINDOW {
                // So often that the clock does not matter.
                *out += (0..64).map(|_| check.some()).sum::<u64>();
            }
            stop.store(true, Ordering::Relaxed);
        }),
    ])?;
    Ok(Sample::per_item(elapsed, popped.max(1)))
}

fn push_until(stop: &AtomicBool, gate: &Gate<'_>, mut tx: impl Tx<u64>, first: u64, batch: usize) {
    let mut next = first;
    gate.start();
    while !stop.load(Ordering::Relaxed) {
        let pushed = if batch == 1 { usize::from(tx.push(next)) } else { tx.push_batch(next, BATCH) };
        if pushed == 0 {
            hint::spin_loop();
        }
        next += pushed as u64;
    }
}

/// The first item of a producer. The top bits say whose it is.
fn first(who: usize) -> u64 {
    (who as u64) << WHO
}

fn producer<'a>(core: usize, tx: impl Tx<u64> + 'a, who: usize, warm_up: u64, count: u64, batch: usize) -> Role<'a> {
    Role::new(core, move |gate| {
        let mut tx = tx;
        super::stream::produce(&mut tx, first(who), warm_up, batch);
        gate.start();
        super::stream::produce(&mut tx, first(who) + warm_up, count, batch);
    })
}

/// Pushes `count` items of its own, and pops those and as many of the other's.
fn turns<R: Rx<u64>>(tx: &mut impl Tx<u64>, check: &mut Check<R>, from: u64, count: u64, batch: usize) {
    let (mut pushed, mut popped, mut patience) = (0, 0, Patience::default());
    while pushed < count || popped < PRODUCERS as u64 * count {
        let next = first(1) + from + pushed;
        let sent = if pushed == count {
            0
        } else if batch == 1 {
            u64::from(tx.push(next))
        } else {
            tx.push_batch(next, (count - pushed).min(BATCH as u64) as usize) as u64
        };
        let got = check.some();
        (pushed, popped) = (pushed + sent, popped + got);
        if sent + got == 0 {
            patience.spin();
        }
    }
}

struct Check<R> {
    rx: R,
    /// The next item of each producer.
    next: [u64; PRODUCERS],
}

impl<R: Rx<u64>> Check<R> {
    fn new(rx: R) -> Self {
        Check { rx, next: [0, 1].map(first) }
    }

    /// Pops what is there, up to [`BATCH`], checks it, and returns how many.
    #[inline]
    fn some(&mut self) -> u64 {
        let Check { rx, next } = self;
        let mut right = true;
        let popped = rx.pop_batch(BATCH, |&item| {
            let next = &mut next[(item >> WHO) as usize];
            right &= item == *next;
            *next += 1;
        });
        assert!(right, "each producer's items must come in order");
        popped as u64
    }

    fn all(&mut self, items: u64) {
        let (mut popped, mut patience) = (0, Patience::default());
        while popped < items {
            match self.some() {
                0 => patience.spin(),
                some => popped += some,
            }
        }
    }
}

/// Several turns of both producers: the kernel gives each a few milliseconds.
const SHARED_WINDOW: Duration = Duration::from_millis(40);
/// Bits below the producer's number.
const WHO: u32 = 56;
