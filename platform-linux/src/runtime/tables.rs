//! The memory of an engine, which is the same over every fabric.

use spinwire_core::config::Config;
use spinwire_core::conn::{Conn, OpQueue, Place, Slot};
use spinwire_core::fabric::{OneSidedWr, SendWr};
use spinwire_core::pool::PoolSlot;
use spinwire_core::timer::{self, TimerSlot};
use spinwire_core::turn::{DirtySlot, Memory, Needs, OneSidedMemory, PoolMemory};

use super::options::Options;
use crate::mem::{Arena, ArenaConfig, ArenaError, PageKind, Refused, stride};
use crate::sys::os::{CallError, Errno};

/// The engine's tables.
pub(super) struct Tables {
    conns: Vec<Slot<Conn>>,
    places: Vec<Place>,
    dirty: Vec<DirtySlot>,
    timers: Vec<TimerSlot>,
    sends: Vec<SendWr>,
    recv: Vec<PoolSlot>,
    send: Vec<PoolSlot>,
    queues: Vec<OpQueue>,
    operations: Vec<OneSidedWr>,
}

/// The tables of one engine, for as long as it is there. As in [`Memory`].
pub(crate) struct Lent<'m> {
    conns: &'m mut [Slot<Conn>],
    places: &'m mut [Place],
    dirty: &'m mut [DirtySlot],
    timers: &'m mut [TimerSlot],
    sends: &'m mut [SendWr],
    recv: &'m mut [PoolSlot],
    send: &'m mut [PoolSlot],
    one_sided: OneSidedMemory<'m>,
    stride: u32,
}

impl<'m> Lent<'m> {
    /// The engine's memory, with receive buffers in the first of `bytes` and send buffers behind them. `bytes` are all of
    /// the region that the fabric knows.
    pub(crate) fn with_buffers(self, bytes: &'m mut [u8]) -> (Memory<'m>, OneSidedMemory<'m>) {
        let Lent { conns, places, dirty, timers, sends, recv, send, one_sided, stride } = self;
        // The stride keeps the second half as aligned as the first.
        let recv_bytes = recv.len().saturating_mul(stride as usize).min(bytes.len());
        let (recv_half, send_half) = bytes.split_at_mut(recv_bytes);
        let memory = Memory {
            conns,
            places,
            dirty,
            timers,
            sends,
            recv: PoolMemory { slots: recv, bytes: recv_half, region_offset: 0, stride },
            send: PoolMemory { slots: send, bytes: send_half, region_offset: recv_bytes as u64, stride },
        };
        (memory, one_sided)
    }

    /// One-sided operations that a connection may have under way.
    pub(crate) fn operations(&self) -> usize {
        self.one_sided.slots.len().checked_div(self.conns.len()).unwrap_or(0)
    }

    /// Connections there can be.
    pub(crate) fn connections(&self) -> usize {
        self.conns.len()
    }
}

/// The memory cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{explanation}: {source}")]
pub struct MemoryError {
    /// What was refused.
    pub source: ArenaError,
    /// What the memory is for.
    pub explanation: String,
}

impl Tables {
    /// `operations` are one-sided ones, of all connections together.
    ///
    /// # Errors
    /// The first table that there is no memory for; where the address space is limited, its limit is named.
    pub(super) fn new(needs: &Needs, operations: usize) -> Result<Self, MemoryError> {
        fn all<T>(needs: &Needs, count: usize, make: impl FnMut() -> T) -> Result<Vec<T>, MemoryError> {
            let mut all = Vec::new();
            all.try_reserve_exact(count).map_err(|_| no_table(needs, count.saturating_mul(size_of::<T>())))?;
            all.extend(std::iter::repeat_with(make).take(count));
            Ok(all)
        }
        Ok(Self {
            conns: all(needs, needs.conns, || Slot::EMPTY)?,
            places: all(needs, needs.conns, Place::default)?,
            dirty: all(needs, needs.conns, DirtySlot::default)?,
            timers: all(needs, needs.conns, || timer::IDLE)?,
            sends: all(needs, needs.sends, || SendWr::EMPTY)?,
            recv: all(needs, needs.recv_buffers, PoolSlot::default)?,
            send: all(needs, needs.send_buffers, PoolSlot::default)?,
            queues: all(needs, if operations > 0 { needs.conns } else { 0 }, OpQueue::default)?,
            operations: all(needs, operations, || OneSidedWr::EMPTY)?,
        })
    }

    /// All of it, for one engine.
    pub(super) fn lend(&mut self, config: &Config) -> Lent<'_> {
        Lent {
            conns: &mut self.conns,
            places: &mut self.places,
            dirty: &mut self.dirty,
            timers: &mut self.timers,
            sends: &mut self.sends,
            recv: &mut self.recv,
            send: &mut self.send,
            one_sided: OneSidedMemory { queues: &mut self.queues, slots: &mut self.operations },
            stride: buffer_stride(config) as u32,
        }
    }
}

/// A table of so many bytes cannot be had.
fn no_table(needs: &Needs, bytes: usize) -> MemoryError {
    let kind = PageKind::Small;
    let cause = CallError { call: "malloc", errno: Errno(libc::ENOMEM) };
    let refused = vec![Refused::call(kind, bytes.div_ceil(kind.page_bytes()) as u64, cause)];
    let explanation = format!("a table for {} connections with {} sends", needs.conns, needs.sends);
    MemoryError { source: ArenaError::NoPages { bytes, refused }, explanation }
}

/// What an engine needs for `options`, and the one-sided operations of all connections together.
pub(super) fn needs_of(config: &Config, options: &Options) -> (Needs, usize) {
    let conns = options.connections as usize;
    let operations = conns * options.operations() as usize;
    let mut needs = Needs::of(config, conns);
    needs.send_buffers += OneSidedMemory::buffers(operations);
    (needs, operations)
}

/// The arena of all buffers, on `node`; `shared` where peers may be let read it.
pub(super) fn allocate(
    config: &Config,
    options: &Options,
    needs: &Needs,
    node: Option<u32>,
    shared: bool,
) -> Result<Arena, MemoryError> {
    let bytes = pool_bytes(config, needs.recv_buffers) + pool_bytes(config, needs.send_buffers);
    let arena =
        ArenaConfig { bytes, pages: options.pages.clone(), node, lock: false, shared, stop: options.stop.clone() };
    Arena::allocate(&arena)
        .map_err(|source| MemoryError { source, explanation: explain_memory(config, options.connections, needs) })
}

fn buffer_stride(config: &Config) -> usize {
    stride(config.message_bytes_max as usize)
}

fn pool_bytes(config: &Config, buffers: usize) -> usize {
    buffers * buffer_stride(config)
}

fn explain_memory(config: &Config, connections: u32, needs: &Needs) -> String {
    let per_connection = (needs.recv_buffers + needs.send_buffers) / needs.conns.max(1);
    format!(
        "{connections} connections x {per_connection} buffers of {} bytes (which follow from depth {})",
        config.message_bytes_max, config.depth
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config {
            mode: spinwire_core::config::Mode::Spinwire,
            depth: 32,
            message_bytes_max: 4_096,
            inline_bytes_max: 0,
            timeouts: Default::default(),
            retry: Default::default(),
            keepalive: None,
            seed: 0,
        }
    }

    #[test]
    fn memory_that_cannot_be_had_says_what_it_is_for() {
        let config = config();
        let text = explain_memory(&config, 64, &Needs::of(&config, 64));
        let sizing = config.sizing();
        let buffers = sizing.recv_buffers + sizing.send_buffers;
        assert!(text.contains(&format!("64 connections x {buffers} buffers of 4096 bytes")), "{text}");
    }

    #[test]
    fn a_table_that_cannot_be_had_is_an_error_and_ends_no_process() {
        let config = config();
        let needs = Needs { sends: 1 << 50, ..Needs::of(&config, 2) };
        let text = Tables::new(&needs, 0).err().expect("there is no such memory").to_string();
        assert!(text.contains("2 connections with") && text.contains("malloc: Cannot allocate memory"), "{text}");
        assert!(Tables::new(&Needs::of(&config, 2), 3).is_ok());
    }
}
