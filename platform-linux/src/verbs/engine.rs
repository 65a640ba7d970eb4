//! An engine on a registered region: the one place where region, pools and fabric are joined, so that they match.

use spinwire_core::config::Config;
use spinwire_core::conn::{Conn, Place, Slot};
use spinwire_core::fabric::{Control, SendWr};
use spinwire_core::pool::PoolSlot;
use spinwire_core::timer::TimerSlot;
use spinwire_core::turn::{DirtySlot, Engine, Memory, PoolMemory, SetupError};

use super::fabric::VerbsFabric;
use super::queues::Queues;
use super::region::{Region, StableMemory};

/// What an engine works in besides the buffers. As in [`Memory`].
pub(crate) struct Tables<'m> {
    pub conns: &'m mut [Slot<Conn>],
    pub places: &'m mut [Place],
    pub dirty: &'m mut [DirtySlot],
    pub timers: &'m mut [TimerSlot],
    pub sends: &'m mut [SendWr],
    pub recv: &'m mut [PoolSlot],
    pub send: &'m mut [PoolSlot],
    /// Distance from buffer to buffer in bytes.
    pub stride: u32,
}

/// Puts an engine together whose receive buffers are the first bytes of `region`, and its send buffers the rest.
///
/// # Errors
/// Tables or a region that are too small.
pub(crate) fn engine_on<'m, M: StableMemory, C: Control<Fabric = VerbsFabric<'m>>>(
    region: &'m mut Region<M>,
    queues: Queues,
    config: Config,
    control: C,
    tables: Tables<'m>,
) -> Result<Engine<'m, C>, SetupError> {
    let Tables { conns, places, dirty, timers, sends, recv, send, stride } = tables;
    let (key, bytes) = region.split();
    // The stride keeps the second half as aligned as the first.
    let recv_bytes = recv.len().saturating_mul(stride as usize).min(bytes.len());
    let (recv_half, send_half) = bytes.split_at_mut(recv_bytes);
    // SAFETY: the engine owns the fabric and lends it, to be changed, to its control alone: this crate's, which makes and
    // destroys queue pairs and posts nothing. So what is posted are the leases of the engine's own pools, which are made
    // below from the bytes of the same split with their true offsets. The engine reclaims them by completions, and after
    // it had the queue pair destroyed.
    let fabric = unsafe { VerbsFabric::new(queues, key, conns.len()) };
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
