//! What a run of `echo ping` is to do.

use spinwire_core::time::Nanos;

use crate::load::{Extent, Pace};
use crate::reason::Over;

/// What a run is to do.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Connections to open.
    pub connections: u32,
    /// Messages in flight on each.
    pub depth: u32,
    /// Message size in bytes.
    pub message_bytes: u32,
    /// How messages follow each other.
    pub pace: Pace,
    /// How long the run goes on.
    pub extent: Extent,
    /// Messages that do not count, before the ones that do.
    pub warmup: u64,
    /// Check every byte of every reply.
    pub verify: bool,
    /// The peer is not a Spinwire: replies are matched by counting, unless they are verified.
    pub raw: bool,
    /// The CPU of the loop.
    pub core: u32,
    /// What the target is reached over.
    pub over: Over,
    /// The longest time without progress.
    pub timeout: Nanos,
}
