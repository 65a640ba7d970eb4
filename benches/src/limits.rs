//! What Spinwire has to reach, as ratios to a contestant of the same run.
//!
//! Only ratios carry over from one machine to another. A limit is about one metric of a contest; times are better when
//! smaller, rates are their inverse.

/// Stands for whichever contestant but ours is best. The bare line is not a peer.
pub const BEST_PEER: &str = "best peer";

/// The limit that no structure gets below: a cache line that is written and polled, and nothing else.
pub const BARE: &str = "bare";

/// What our ratio to another contestant must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The metric it is about; empty: the contest's first.
    pub metric: &'static str,
    /// The contestant compared with, or [`BEST_PEER`].
    pub of: &'static str,
    /// The ratio allowed.
    pub ratio: Ratio,
}

/// Which way a ratio is counted, and the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ratio {
    /// Our time divided by theirs is at most this.
    TimeAtMost(f64),
    /// Our rate divided by theirs is at least this.
    RateAtLeast(f64),
}

/// Our time is at most `ratio` times that of `of`.
pub const fn time_at_most(ratio: f64, of: &'static str) -> Limit {
    Limit { metric: "", of, ratio: Ratio::TimeAtMost(ratio) }
}

/// Our rate is at least `ratio` times that of `of`.
pub const fn rate_at_least(ratio: f64, of: &'static str) -> Limit {
    Limit { metric: "", of, ratio: Ratio::RateAtLeast(ratio) }
}

impl Limit {
    /// The same limit, for another metric than the contest's first.
    pub const fn on(self, metric: &'static str) -> Limit {
        Limit { metric, ..self }
    }
}

impl Ratio {
    /// The ratio of two times, counted this way.
    pub fn of_times(self, ours: f64, theirs: f64) -> f64 {
        match self {
            Ratio::TimeAtMost(_) => ours / theirs,
            Ratio::RateAtLeast(_) => theirs / ours,
        }
    }

    /// Whether a ratio, counted this way, is within the limit.
    pub fn allows(self, ratio: f64) -> bool {
        match self {
            Ratio::TimeAtMost(limit) => ratio <= limit,
            Ratio::RateAtLeast(limit) => ratio >= limit,
        }
    }
}

/// Round trips over two rings: what the flag in the item's own line is for.
pub const RING_ROUND_TRIP: &[Limit] = &[
    time_at_most(0.70, BEST_PEER).on("p50"),
    time_at_most(1.10, BARE).on("p50"),
    time_at_most(0.75, BEST_PEER).on("p99"),
];
/// `u64`, one at a time.
pub const RING_U64_SINGLE: &[Limit] = &[rate_at_least(1.5, BEST_PEER)];
/// `u64`, 32 at a time: what indices that are published lazily are for.
pub const RING_U64_BATCH: &[Limit] = &[rate_at_least(1.2, BEST_PEER)];
/// Items of a cache line, 32 at a time.
pub const RING_LINE_BATCH: &[Limit] = &[rate_at_least(1.0, BEST_PEER), rate_at_least(0.75, BARE)];
/// Two producers, one consumer.
pub const RING_MANY: &[Limit] = &[rate_at_least(4.0, "crossbeam_array_queue")];

/// Look-ups whose keys are known in advance.
pub const TABLE_INDEPENDENT: &[Limit] = &[time_at_most(0.7, "slotmap"), time_at_most(0.5, "fx_hash_map")];
/// Look-ups whose key comes out of the look-up before.
pub const TABLE_DEPENDENT: &[Limit] = &[time_at_most(1.05, "slotmap"), time_at_most(0.5, "fx_hash_map")];

/// One buffer taken and released.
pub const POOL_SINGLE: &[Limit] = &[time_at_most(0.4, "rte_mempool")];
/// 32 buffers taken and released in one go, by each.
pub const POOL_BULK: &[Limit] = &[time_at_most(1.0, "rte_mempool_bulk_32")];

/// One timer armed and cancelled, or armed and fired: the reason to have a wheel of our own.
pub const TIMER: &[Limit] = &[time_at_most(1.0, BEST_PEER)];

/// One value recorded.
pub const HISTOGRAM_RECORD: &[Limit] = &[time_at_most(0.4, "hdrhistogram")];
