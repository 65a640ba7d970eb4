//! Many producers: a ring each, polled in turn.

use core::fmt;

use super::{Consumer, Memory, PopError};

/// The consumer's side of many producers: one ring for each, called a lane, polled in turn.
///
/// No producer ever waits for another, not even for one that is stopped in the middle of a push, for they share nothing.
/// Order is kept within a lane, and not between lanes. A lane that is closed and empty is retired: its consumer is
/// dropped and its place can be used again. There are `N` places.
///
/// ```
/// use spinwire_core::ring::{Header, Lanes, PopError, batch};
///
/// let mut headers = [const { Header::new() }; 2];
/// let mut slots = [const { [const { batch::Slot::<u32>::new() }; 4] }; 2];
/// let ([header_a, header_b], [slots_a, slots_b]) = (&mut headers, &mut slots);
/// let (mut a, consumer_a) = batch::split(header_a, slots_a)?;
/// let (mut b, consumer_b) = batch::split(header_b, slots_b)?;
///
/// let mut lanes = Lanes::from([consumer_a, consumer_b]);
/// a.push(1).unwrap();
/// a.push(2).unwrap();
/// b.push(3).unwrap();
/// assert_eq!([lanes.pop(), lanes.pop(), lanes.pop()], [Ok((0, 1)), Ok((1, 3)), Ok((0, 2))]);
/// drop((a, b));
/// assert_eq!(lanes.pop(), Err(PopError::Closed));
/// # Ok::<(), spinwire_core::ring::RingError>(())
/// ```
pub struct Lanes<M: Memory, const N: usize> {
    places: [Option<Consumer<M>>; N],
    /// The lane whose turn it is in `pop`.
    turn: usize,
}

/// A producer broke the rules of its lane. Only possible in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lane {lane}: {fault}")]
pub struct LaneFault<F> {
    /// The lane, which is retired.
    pub lane: usize,
    /// What its producer did.
    pub fault: F,
}

/// What [`Lanes::pop`] returns: the lane and its item.
pub type LanePop<M> = Result<(usize, <M as Memory>::Item), PopError<LaneFault<<M as Memory>::Fault>>>;

impl<M: Memory, const N: usize> Lanes<M, N> {
    /// Room for `N` lanes, and none yet.
    pub fn new() -> Self {
        Lanes { places: [const { None }; N], turn: 0 }
    }

    /// Puts a consumer into the first free place and returns its lane.
    ///
    /// # Errors
    /// Gives the consumer back if no place is free.
    pub fn add(&mut self, consumer: Consumer<M>) -> Result<usize, Consumer<M>> {
        match self.places.iter().position(Option::is_none) {
            Some(lane) => {
                self.places[lane] = Some(consumer);
                Ok(lane)
            }
            None => Err(consumer),
        }
    }

    /// Lanes that are not retired. One of them may be closed by now.
    pub fn open(&self) -> usize {
        self.places.iter().flatten().count()
    }

    /// Takes one item from the first lane that has one, beginning with the lane after the one that gave the last, and
    /// says which lane it was. So between two items of a lane, every other lane that has one gives one. Looks at each
    /// lane once at most.
    ///
    /// # Errors
    /// [`PopError::Empty`]; [`PopError::Closed`] once every lane is retired, and while there is none yet; [`PopError::Peer`] for the lane it names,
    /// which is retired, and nothing for the others: go on.
    #[inline]
    pub fn pop(&mut self) -> LanePop<M> {
        let mut open = false;
        for _ in 0..N {
            let lane = self.next();
            let Some(consumer) = &mut self.places[lane] else { continue };
            match consumer.pop() {
                Ok(item) => return Ok((lane, item)),
                Err(PopError::Empty) => open = true,
                Err(PopError::Closed) => self.places[lane] = None,
                Err(PopError::Peer(fault)) => {
                    self.places[lane] = None;
                    return Err(PopError::Peer(LaneFault { lane, fault }));
                }
            }
        }
        Err(if open { PopError::Empty } else { PopError::Closed })
    }

    /// Visits each lane once, in order, and hands up to `burst` items of it to `take`, with the number of the lane. Returns how
    /// many items there were; ask [`open`](Self::open) whether more can come.
    ///
    /// Bounded by `burst` times `N`. A lane with less to say delays the others less.
    ///
    /// # Errors
    /// [`LaneFault`] for a lane, which is retired; lanes after it are visited next time. Items handed over before that
    /// are good.
    #[inline]
    pub fn poll(&mut self, burst: usize, mut take: impl FnMut(usize, M::Item)) -> Result<usize, LaneFault<M::Fault>> {
        let mut taken = 0;
        for (lane, place) in self.places.iter_mut().enumerate() {
            let Some(consumer) = place else { continue };
            let count = consumer.take_up_to(burst, |item| take(lane, item));
            taken += count;
            if count == 0 && consumer.is_closed() {
                let fault = consumer.fault();
                *place = None;
                if let Some(fault) = fault {
                    return Err(LaneFault { lane, fault });
                }
            }
        }
        Ok(taken)
    }

    /// The lane whose turn it is; the one after it is next.
    #[inline(always)]
    fn next(&mut self) -> usize {
        let lane = self.turn;
        self.turn = if lane + 1 < N { lane + 1 } else { 0 };
        lane
    }
}

/// Lane `n` is consumer `n`.
impl<M: Memory, const N: usize> From<[Consumer<M>; N]> for Lanes<M, N> {
    fn from(consumers: [Consumer<M>; N]) -> Self {
        Lanes { places: consumers.map(Some), turn: 0 }
    }
}

impl<M: Memory, const N: usize> Default for Lanes<M, N> {
    fn default() -> Self {
        Lanes::new()
    }
}

impl<M: Memory, const N: usize> fmt::Debug for Lanes<M, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes").field("turn", &self.turn).field("places", &self.places).finish()
    }
}
