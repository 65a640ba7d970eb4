//! Several producers, one consumer.
//!
//! What goes wrong here is waiting for each other: a queue with one tail for all makes a producer that has its slot wait
//! for another one that has not published yet, and if that one lost its CPU meanwhile, for a whole time slice.

use spinwire_core::ring::{Lanes, Local, Memory, batch, latency};

use super::ours::{Batch, Latency};
use super::peers::Crossbeam;
use super::{BATCH, CAPACITY, Patience, Ring, Rx, Tx};
use crate::contest::Sample;
use crate::window::{Dropped, Pinned, Role};

/// Producers in every contest here.
pub const PRODUCERS: usize = 2;

/// A queue for [`PRODUCERS`] producers of `u64`.
pub trait Many {
    /// A producer's half.
    type Tx<'m>: Tx<u64>
    where
        Self: 'm;
    /// The consumer's half.
    type Rx<'m>: Rx<u64>
    where
        Self: 'm;

    /// An empty queue, of [`CAPACITY`] slots, or of so many for each producer.
    fn new() -> Self;

    /// Its halves. To be called once.
    fn split(&mut self) -> ([Self::Tx<'_>; PRODUCERS], Self::Rx<'_>);
}

/// Lanes: one of our rings for each producer, polled in turn.
pub struct Ours<R>([R; PRODUCERS]);

/// In the latency layout.
pub type LatencyLanes = Ours<Latency<u64>>;
/// In the batch layout.
pub type BatchLanes = Ours<Batch<u64>>;

impl Many for LatencyLanes {
    type Tx<'m> = latency::Producer<'m, u64>;
    type Rx<'m> = Lanes<Local<'m, latency::Slot<u64>>, PRODUCERS>;

    fn new() -> Self {
        Ours([(); PRODUCERS].map(|()| Ring::new()))
    }

    fn split(&mut self) -> ([Self::Tx<'_>; PRODUCERS], Self::Rx<'_>) {
        let [a, b] = self.0.each_mut().map(Ring::split);
        ([a.0, b.0], Lanes::from([a.1, b.1]))
    }
}

impl Many for BatchLanes {
    type Tx<'m> = batch::Producer<'m, u64>;
    type Rx<'m> = Lanes<Local<'m, batch::Slot<u64>>, PRODUCERS>;

    fn new() -> Self {
        Ours([(); PRODUCERS].map(|()| Ring::new()))
    }

    fn split(&mut self) -> ([Self::Tx<'_>; PRODUCERS], Self::Rx<'_>) {
        let [a, b] = self.0.each_mut().map(Ring::split);
        ([a.0, b.0], Lanes::from([a.1, b.1]))
    }
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

impl Many for Crossbeam<u64> {
    type Tx<'m> = <Self as Ring<u64>>::Tx<'m>;
    type Rx<'m> = <Self as Ring<u64>>::Rx<'m>;

    fn new() -> Self {
        Ring::new()
    }

    fn split(&mut self) -> ([Self::Tx<'_>; PRODUCERS], Self::Rx<'_>) {
        ([&self.0; PRODUCERS], &self.0)
    }
}

#[cfg(dpdk)]
impl Many for crate::dpdk::RteRing<u64> {
    type Tx<'m> = <Self as Ring<u64>>::Tx<'m>;
    type Rx<'m> = <Self as Ring<u64>>::Rx<'m>;

    fn new() -> Self {
        Self::with_producers(true)
    }

    fn split(&mut self) -> ([Self::Tx<'_>; PRODUCERS], Self::Rx<'_>) {
        ([(); PRODUCERS].map(|()| self.half()), self.half())
    }
}

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

/// Sends `items`, half of them from each producer, `batch` at a time, 1 or [`BATCH`]. The consumer checks that each
/// producer's come in order.
///
/// # Errors
/// [`Dropped`], and why.
pub fn many<M: Many>(pinned: &Pinned, items: u64, batch: usize, seats: Seats) -> Result<Sample, Dropped> {
    let mut queue = M::new();
    let ([a, b], rx) = queue.split();
    let (count, warm_up) = ((items / 2).max(1), 2 * CAPACITY as u64);
    let elapsed = match seats {
        Seats::Apart if pinned.cores() < 3 => pinned.window(vec![
            producer(0, a, 0, warm_up, count, batch),
            Role::new(1, move |gate| {
                let (mut b, mut check) = (b, Check::new(rx));
                turns(&mut b, &mut check, 0, warm_up, batch);
                gate.start();
                turns(&mut b, &mut check, warm_up, count, batch);
            }),
        ])?,
        seats => {
            let (second, third) = if seats == Seats::Shared { (0, 1) } else { (1, 2) };
            pinned.window(vec![
                producer(0, a, 0, warm_up, count, batch),
                producer(second, b, 1, warm_up, count, batch),
                Role::new(third, move |gate| {
                    let mut check = Check::new(rx);
                    check.all(PRODUCERS as u64 * warm_up, batch);
                    gate.start();
                    check.all(PRODUCERS as u64 * count, batch);
                }),
            ])?
        }
    };
    Ok(Sample::per_item(elapsed, PRODUCERS as u64 * count))
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
        // As many again as this thread pushed: the other producer's share.
        let got = check.some(batch) + check.some(batch);
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

    /// Pops up to `batch`, checks them, and returns how many.
    #[inline]
    fn some(&mut self, batch: usize) -> u64 {
        let Check { rx, next } = self;
        let mut right = true;
        let mut check = |item: u64| {
            let next = &mut next[(item >> WHO) as usize];
            right &= item == *next;
            *next += 1;
        };
        let popped = match batch {
            1 => rx.pop().map_or(0, |item| {
                check(item);
                1
            }),
            _ => rx.pop_batch(BATCH, |&item| check(item)) as u64,
        };
        assert!(right, "each producer's items must come in order");
        popped
    }

    fn all(&mut self, items: u64, batch: usize) {
        let (mut popped, mut patience) = (0, Patience::default());
        while popped < items {
            match self.some(batch) {
                0 => patience.spin(),
                some => popped += some,
            }
        }
    }
}

/// Bits below the producer's number.
const WHO: u32 = 56;
