//! An engine on a registered region: the one place where region, pools and fabric are joined, so that they match.

use spinwire_core::config::Config;
use spinwire_core::fabric::Control;
use spinwire_core::turn::{Engine, SetupError};

use super::fabric::VerbsFabric;
use super::queues::Queues;
use super::region::Region;
use crate::mem::StableMemory;
use crate::runtime::Lent;

/// Puts an engine together whose receive buffers are the first bytes of `region`, and its send buffers the rest.
///
/// # Errors
/// Tables or a region that are too small.
pub(crate) fn engine_on<'m, M: StableMemory, C: Control<Fabric = VerbsFabric<'m>>>(
    region: &'m mut Region<M>,
    queues: Queues,
    config: Config,
    control: C,
    tables: Lent<'m>,
) -> Result<Engine<'m, C>, SetupError> {
    let (key, bytes) = region.split();
    // SAFETY: the engine owns the fabric and lends it, to be changed, to its control alone: this crate's, which makes and
    // destroys queue pairs and posts nothing. So what is posted are the leases of the engine's own pools, which are made
    // below from the bytes of the same split with their true offsets. The engine reclaims them by completions, and after
    // it had the queue pair destroyed.
    let fabric = unsafe { VerbsFabric::new(queues, key, tables.connections()) };
    let (memory, one_sided) = tables.with_buffers(bytes);
    let engine = Engine::new(config, memory, control, fabric)?;
    if one_sided.slots.is_empty() { Ok(engine) } else { engine.with_one_sided(one_sided) }
}
