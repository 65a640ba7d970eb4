//! Receive slots that are given back out of order, and how many of them the peer may be told of.

/// The slots of a receive ring that the application still holds, by sequence number.
///
/// Where messages lie in one ring, as in shared memory, or come out of a shared receive queue, a credit does not mean "one
/// buffer more" but "the next slot in order is free". A slot that is given back before an older one must wait for it: only
/// the contiguous run from the oldest on is released, and so many credits may be given (a cumulative acknowledgement, with
/// the rest kept as a scoreboard, as TCP does it).
///
/// ```text
///       released        arrived
///          |               |
///   free   H R R H R H H H |  free     H held, R given back, waiting for the H before it
/// ```
///
/// A verbs queue pair has no need of it: its receives are buffers of their own, and any may be posted again. The engine
/// does not use it; it is for fabrics whose receives are a ring.
///
/// One bit per slot, in memory that is handed in. [`ReleaseWindow::arrive`] is O(1), [`ReleaseWindow::release`] amortised:
/// each bit is set once and cleared once, 64 at a time where they lie together.
#[derive(Debug)]
pub struct ReleaseWindow<'m> {
    /// One bit for each slot that was given back before its turn.
    bits: &'m mut [u64],
    slots: u32,
    /// The oldest slot that is held, or the next to be used.
    released: u32,
    /// The next slot to be used.
    arrived: u32,
}

/// A window cannot be laid out as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a release window of {slots} slots does not fit {words} words of 64 bits, whose number must be a power of two")]
pub struct WindowError {
    /// Slots asked.
    pub slots: u32,
    /// Words given.
    pub words: usize,
}

/// A slot was given back that is not held: it never arrived, or it was given back before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("slot {seq} is not held: {held} are, from {oldest} on")]
pub struct NotHeld {
    /// The sequence number claimed.
    pub seq: u32,
    /// The oldest slot that is not released.
    pub oldest: u32,
    /// Slots that are held.
    pub held: u32,
}

impl<'m> ReleaseWindow<'m> {
    /// A window over a ring of `slots` slots, none of them held, whose first message has the sequence number `start`.
    /// Tests start near the wrap.
    ///
    /// # Errors
    /// No slot, more slots than bits, or a number of words that is not a power of two or has more than 2^31 bits: then
    /// sequence numbers could not wrap.
    pub fn new(bits: &'m mut [u64], slots: u32, start: u32) -> Result<Self, WindowError> {
        let words = bits.len();
        let fits = words.is_power_of_two() && words <= 1 << 25 && slots as usize <= words * 64;
        if slots == 0 || !fits {
            return Err(WindowError { slots, words });
        }
        bits.fill(0);
        Ok(Self { bits, slots, released: start, arrived: start })
    }

    /// A message came into the next slot, which is held from now on: its sequence number. `None` when all slots are held or
    /// wait for an older one: the peer sent without a credit.
    #[inline]
    pub fn arrive(&mut self) -> Option<u32> {
        let seq = self.arrived;
        if self.unreleased() == self.slots {
            return None;
        }
        self.arrived = seq.wrapping_add(1);
        Some(seq)
    }

    /// The application gives a slot back, in any order. Returns how many slots became free in a row by it, 0 while an older
    /// one is held: so many credits may be given.
    ///
    /// # Errors
    /// The slot is not held; nothing is changed.
    #[inline]
    pub fn release(&mut self, seq: u32) -> Result<u32, NotHeld> {
        let (word, bit) = self.place(seq);
        if seq.wrapping_sub(self.released) >= self.unreleased() || self.bits[word] & bit != 0 {
            return Err(NotHeld { seq, oldest: self.released, held: self.held() });
        }
        if seq != self.released {
            self.bits[word] |= bit;
            return Ok(0);
        }
        let before = self.released;
        self.released = seq.wrapping_add(1);
        self.skip_given_back();
        Ok(self.released.wrapping_sub(before))
    }

    /// Slots that are held, or wait for an older one.
    #[inline]
    pub const fn unreleased(&self) -> u32 {
        self.arrived.wrapping_sub(self.released)
    }

    /// Slots that are held. Counts bits: for reports, not for every message.
    pub fn held(&self) -> u32 {
        self.unreleased() - self.bits.iter().map(|word| word.count_ones()).sum::<u32>()
    }

    /// Moves `released` over the slots that were given back before their turn.
    #[inline]
    fn skip_given_back(&mut self) {
        loop {
            let (word, bit) = self.place(self.released);
            let from = bit.trailing_zeros();
            // Shifted in are zeroes, so a run ends at the word's end at the latest.
            let run = (self.bits[word] >> from).trailing_ones();
            // All bits from `from` to `from + run`, also where that is the whole word.
            self.bits[word] &= !(u64::MAX.checked_shr(64 - run).unwrap_or(0) << from);
            self.released = self.released.wrapping_add(run);
            if from + run < u64::BITS {
                return;
            }
        }
    }

    /// The word of a slot, and its bit. The number of bits is a power of two, so sequence numbers may wrap.
    #[inline]
    fn place(&self, seq: u32) -> (usize, u64) {
        ((seq / 64) as usize & (self.bits.len() - 1), 1 << (seq % 64))
    }
}
