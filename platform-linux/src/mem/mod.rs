//! Memory for messages: one mapping made once, on the largest pages that can be had, and a record of what was got.
//!
//! ```no_run
//! use spinwire_linux::mem::{Arena, ArenaConfig, stride};
//!
//! let mut arena = Arena::allocate(&ArenaConfig { bytes: 64 << 20, ..ArenaConfig::default() })?;
//! println!("{}", arena.placement());                  // 64 MiB on 32 pages of 2 MiB, node 0
//! let mut carver = arena.carver();
//! let receive = carver.take(4_096 * stride(1_024), 64)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Pages are made present by a call that returns an error where touching them would end the process with SIGBUS, so a
//! pod without hugepages gets a sentence and not a signal. The memory has no name: however the process ends, the
//! kernel takes the pages back. A child made by `fork` does not see it.

mod arena;
mod carver;
mod cgroup;
mod exposed;
mod hugepage;
mod map;
pub(crate) mod memfd;
mod page;
pub(crate) mod pieces;
mod placement;
mod room;
mod stable;

pub use arena::{Arena, ArenaConfig, ArenaError};
pub use carver::{Carver, OutOfArena, Piece};
pub use cgroup::CgroupLimit;
pub use exposed::ExposedRegion;
pub(crate) use exposed::copy_shared;
pub use hugepage::{PagePool, Refusal, Refused};
pub use page::{PageKind, PagePolicy, PagePolicyError};
#[cfg(feature = "rdma")]
pub(crate) use placement::Limit;
pub use placement::Placement;
pub use room::Room;
pub use stable::StableMemory;

/// How to lift the limit of locked memory, for the three places it is set in.
pub(crate) const RAISE_MEMLOCK: &str = "raise it with `ulimit -l unlimited` in the shell (as root, or within \
    /etc/security/limits.conf), `LimitMEMLOCK=infinity` in the systemd unit, `--ulimit memlock=-1` for a container";

/// The distance at which to lay buffers of `len` bytes so that they spread over the L1 cache.
///
/// Buffers at a stride of 4,096 all begin in the same set of a cache and push each other out (taking and touching one
/// costs four times as much as at 4,224). The result is `len` rounded up to an odd number of 128-byte line pairs, so
/// that the beginnings of 32 neighbours are in 32 different places, and no two buffers share a line.
///
/// # Panics
/// If `len` is within 256 of `usize::MAX`.
pub const fn stride(len: usize) -> usize {
    let pairs = len.div_ceil(LINE_PAIR);
    (pairs | 1) * LINE_PAIR
}

/// Two cache lines of 64 bytes: what x86 fetches together.
const LINE_PAIR: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_hold_the_buffer_and_do_not_alias() {
        for (len, expected) in [(0, 128), (1, 128), (64, 128), (128, 128), (129, 384), (1024, 1152), (4096, 4224)] {
            assert_eq!(stride(len), expected, "buffers of {len}");
        }
        for len in 1..10_000 {
            let stride = stride(len);
            assert!(stride >= len && stride < len + 2 * LINE_PAIR);
            let mut beginnings: Vec<usize> = (0..32).map(|n| n * stride % 4096).collect();
            beginnings.sort_unstable();
            beginnings.dedup();
            assert_eq!(beginnings.len(), 32, "buffers of {len}");
        }
    }
}
