//! How long things are waited for, and how often they are tried.

use crate::time::Nanos;

/// How long each step may take before the connection is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Address resolution, and again route resolution.
    pub resolve: Nanos,
    /// From the connect request to the answer; on the passive side from accept to established.
    pub connect: Nanos,
    /// For sends still in flight when the application closes.
    pub linger: Nanos,
    /// For posted work to come back after the disconnect.
    pub drain: Nanos,
}

impl Default for Timeouts {
    /// Resolve 3 s (a missing neighbour is reported by the kernel after 2.3 s), connect 5 s, linger 2 s, drain 500 ms.
    fn default() -> Self {
        Self {
            resolve: Nanos::from_secs(3),
            connect: Nanos::from_secs(5),
            linger: Nanos::from_secs(2),
            drain: Nanos::from_millis(500),
        }
    }
}

/// When a connection that does not come up is tried again, on the side that asked for it.
///
/// Tried again are failures that may pass: the address or the route not found at the moment, the peer unreachable, no
/// answer in time, no resources at the peer. Never tried again are a refusal with its reason, a hello that cannot be
/// read, a device that goes, and the own close. Each attempt has an rdma_cm id and a queue pair of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Attempts in all when they fail in a way that may pass, at least 1.
    pub attempts: u32,
    /// Attempts in all when the peer says "stale connection" (InfiniBand reason 10), at least 1. It still knows an earlier
    /// connection by the same numbers, drops it on seeing the new one, and takes the next.
    pub attempts_stale: u32,
    /// Nobody listening there counts as a failure that may pass: the peer is just starting.
    pub nobody_listens: bool,
    /// The pause after the first failure. It doubles with each further one.
    pub pause_first: Nanos,
    /// The longest pause. Each pause is cut by up to half of it at random, so that many that failed together do not come
    /// back together.
    pub pause_longest: Nanos,
    /// From the first attempt to the end of the last. No pause is begun that would end later.
    pub within: Nanos,
}

impl Retry {
    /// One attempt, five on a stale connection; 100 ms, doubling up to 2 s; all within 30 s.
    pub const DEFAULT: Retry = Retry {
        attempts: 1,
        attempts_stale: 5,
        nobody_listens: false,
        pause_first: Nanos::from_millis(100),
        pause_longest: Nanos::from_secs(2),
        within: Nanos::from_secs(30),
    };
}

impl Default for Retry {
    /// [`Retry::DEFAULT`].
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// How a peer is noticed that vanished while nothing was sent: a machine that stopped, a cable that was cut, a program
/// that hangs. A peer in raw mode cannot be asked.
///
/// A connection on which nothing arrived for the interval asks the peer for a sign of life. Two things can answer. The
/// device acknowledges, which the program behind it need not live for: without that the send fails, as any other. The
/// peer's loop answers with a message of its own: only that counts as heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence after which the peer is asked, above 0.
    pub interval: Nanos,
    /// Silence after which it is given up, above the interval. The difference is the time a peer has to answer: longer
    /// than its handlers ever take.
    pub limit: Nanos,
}

impl Keepalive {
    /// Asks after 5 s, gives up after 15 s.
    pub const DEFAULT: Keepalive = Keepalive { interval: Nanos::from_secs(5), limit: Nanos::from_secs(15) };
}

impl Default for Keepalive {
    /// [`Keepalive::DEFAULT`].
    fn default() -> Self {
        Self::DEFAULT
    }
}
