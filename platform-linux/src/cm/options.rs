//! What a control is set up with, and what it counts.

use core::time::Duration;
use std::net::SocketAddr;

use crate::readiness::Wish;
use crate::runtime::LinkOptions;

/// What a control is set up with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlOptions {
    /// How to see that an event waits.
    pub readiness: Wish,
    /// How persistent connections are.
    pub link: LinkOptions,
    /// For the kernel's own resolution of an address, and again of a route.
    pub resolve: Duration,
    /// Connect requests that may wait in the kernel. When it is full, the kernel drops further ones without a word, and
    /// the far side asks again seconds later. Capped by the sysctl `net.rdma_ucm.max_backlog`.
    pub backlog: i32,
}

impl Default for ControlOptions {
    fn default() -> Self {
        ControlOptions {
            readiness: Wish::Best,
            link: LinkOptions::default(),
            resolve: Duration::from_secs(2),
            backlog: 1_024,
        }
    }
}

/// A place to connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// The far side.
    pub target: SocketAddr,
    /// Our side; `None` lets the kernel choose by its routes.
    pub source: Option<SocketAddr>,
}

/// What the control did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ControlCounters {
    /// Connection events handed out.
    pub events: u64,
    /// Connection events about ids that nobody owns any more, or requests refused for want of a place.
    pub dropped: u64,
    /// Events of the device itself.
    pub device_events: u64,
    /// Calls that failed where the engine could not be told; see [`last_failure`](super::VerbsControl::last_failure).
    pub failures: u64,
}
