//! An engine on an arena: the one place where arena, pools and fabric are joined, so that they match.

use spinwire_core::config::Config;
use spinwire_core::turn::{Engine, SetupError};

use super::control::ShmControl;
use super::fabric::ShmFabric;
use super::layout::Geometry;
use super::local::LocalMemory;
use super::memory::{OwnMemory, ShareError};
use crate::mem::{Arena, PageKind};
use crate::runtime::{Lent, Segment};

/// Puts an engine together whose receive buffers are the first bytes of `arena`, and its send buffers the rest.
///
/// # Errors
/// Tables or an arena that are too small.
pub(crate) fn engine_on<'m>(
    arena: &'m mut Arena,
    config: Config,
    mut control: ShmControl<'m>,
    tables: Lent<'m>,
    hugepages: bool,
) -> Result<Engine<'m, ShmControl<'m>>, SetupError> {
    // What peers may read is the memory that this engine's sends are posted from, and no other.
    control.lend(arena);
    let (local, bytes) = LocalMemory::split(arena);
    // The pools are made from the bytes of the same split with their true offsets, and the engine, which owns both them
    // and the fabric, reclaims a buffer by its completion or after it had the queue pair destroyed.
    let fabric = ShmFabric::new(local, &config, tables.connections(), hugepages).with_operations(tables.operations());
    let (memory, one_sided) = tables.with_buffers(bytes);
    let engine = Engine::new(config, memory, control, fabric)?;
    if one_sided.slots.is_empty() { Ok(engine) } else { engine.with_one_sided(one_sided) }
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
    Ok(Segment {
        bytes: memory.len(),
        is_huge,
        huge_refused: wants_huge && !is_huge,
        lends_buffers: false,
        replaced_socket: false,
    })
}

/// Shorter segments would waste more than half of a page of 2 MiB.
const HUGE_FROM: usize = 1 << 20;
