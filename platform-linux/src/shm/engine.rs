//! An engine on an arena: the one place where arena, pools and fabric are joined, so that they match.

use spinwire_core::config::Config;
use spinwire_core::turn::{Engine, Memory, PoolMemory, SetupError};

use super::control::ShmControl;
use super::fabric::ShmFabric;
use super::layout::Geometry;
use super::local::LocalMemory;
use super::memory::{OwnMemory, ShareError};
use crate::mem::{Arena, PageKind};
use crate::runtime::Segment;
use crate::verbs::Tables;

/// Puts an engine together whose receive buffers are the first bytes of `arena`, and its send buffers the rest.
///
/// # Errors
/// Tables or an arena that are too small.
pub(crate) fn engine_on<'m>(
    arena: &'m mut Arena,
    config: Config,
    control: ShmControl<'m>,
    tables: Tables<'m>,
    hugepages: bool,
) -> Result<Engine<'m, ShmControl<'m>>, SetupError> {
    let Tables { conns, places, dirty, timers, sends, recv, send, stride } = tables;
    let (local, bytes) = LocalMemory::split(arena);
    // The stride keeps the second half as aligned as the first.
    let recv_bytes = recv.len().saturating_mul(stride as usize).min(bytes.len());
    let (recv_half, send_half) = bytes.split_at_mut(recv_bytes);
    // The pools below are made from the bytes of the same split with their true offsets, and the engine, which owns both
    // them and the fabric, reclaims a buffer by its completion or after it had the queue pair destroyed.
    let fabric = ShmFabric::new(local, &config, conns.len(), hugepages);
    let memory = Memory {
        conns,
        places,
        dirty,
        timers,
        sends,
        recv: PoolMemory { slots: recv, bytes: recv_half, region_offset: 0, stride },
        send: PoolMemory { slots: send, bytes: send_half, region_offset: recv_bytes as u64, stride },
    };
    Engine::new(config, memory, control, fabric)
}

/// Makes the memory of one connection and gives it back, to see that it can be had and on which pages.
///
/// # Errors
/// There is none.
pub(crate) fn probe_segment(config: &Config, hugepages: bool) -> Result<Segment, ShareError> {
    let bytes = Geometry::of(config).bytes();
    let wants_huge = hugepages && bytes >= HUGE_FROM;
    let memory = OwnMemory::new(bytes, wants_huge)?;
    let is_huge = memory.kind() == PageKind::TwoMib;
    Ok(Segment { bytes: memory.len(), is_huge, huge_refused: wants_huge && !is_huge, replaced_socket: false })
}

/// Shorter segments would waste more than half of a page of 2 MiB.
const HUGE_FROM: usize = 1 << 20;
