//! The memory an engine works in: provided by the caller, once, at its full size.

use super::dirty::DirtySlot;
use crate::config::{Config, ConfigError};
use crate::conn::{Conn, Place, Slot, TableError};
use crate::fabric::SendWr;
use crate::pool::{PoolError, PoolSlot};
use crate::timer::TimerSlot;

/// Everything an engine keeps its state in. How much is needed follows from the number of connections and from
/// [`Config::sizing`]; [`Needs::of`] does the sum.
#[derive(Debug)]
pub struct Memory<'m> {
    /// One for each connection; their number is the table's capacity.
    pub conns: &'m mut [Slot<Conn>],
    /// One for each connection.
    pub places: &'m mut [Place],
    /// One for each connection.
    pub dirty: &'m mut [DirtySlot],
    /// One for each connection.
    pub timers: &'m mut [TimerSlot],
    /// `send_slots` for each connection; start them as [`SendWr::EMPTY`].
    pub sends: &'m mut [SendWr],
    /// The receive buffers.
    pub recv: PoolMemory<'m>,
    /// The send buffers.
    pub send: PoolMemory<'m>,
}

/// The memory of one pool.
#[derive(Debug)]
pub struct PoolMemory<'m> {
    /// One for each buffer.
    pub slots: &'m mut [PoolSlot],
    /// The buffers' bytes, inside the registered region.
    pub bytes: &'m mut [u8],
    /// Where `bytes` starts in the registered region.
    pub region_offset: u64,
    /// Distance from buffer to buffer in bytes, at least the message size.
    pub stride: u32,
}

/// How many of each an engine needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Connection slots, and their places, dirty slots and timer slots.
    pub conns: usize,
    /// Send queue slots of all connections together.
    pub sends: usize,
    /// Receive buffers: `recv_buffers` for each connection.
    pub recv_buffers: usize,
    /// Send buffers: `send_buffers` for each connection.
    pub send_buffers: usize,
}

impl Needs {
    /// The needs of `conns` connections under `config`.
    pub const fn of(config: &Config, conns: usize) -> Self {
        let sizing = config.sizing();
        Self {
            conns,
            sends: conns * sizing.send_slots as usize,
            recv_buffers: conns * sizing.recv_buffers as usize,
            send_buffers: conns * sizing.send_buffers as usize,
        }
    }
}

/// An engine cannot be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// A configured value is out of its range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The connection table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A buffer pool.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A slice that is too short.
    #[error("{what}: {given} given, {needed} needed")]
    Short {
        /// Which.
        what: &'static str,
        /// Its length.
        given: usize,
        /// The length needed.
        needed: usize,
    },
}

impl Memory<'_> {
    pub(super) fn check(&self, config: &Config) -> Result<(), SetupError> {
        let needs = Needs::of(config, self.conns.len());
        let at_least = |what, given, needed| {
            if given < needed { Err(SetupError::Short { what, given, needed }) } else { Ok(()) }
        };
        at_least("places of the connection table", self.places.len(), needs.conns)?;
        at_least("dirty slots", self.dirty.len(), needs.conns)?;
        at_least("timer slots", self.timers.len(), needs.conns)?;
        at_least("send queue slots", self.sends.len(), needs.sends)?;
        at_least("receive buffers", self.recv.slots.len(), needs.recv_buffers)?;
        at_least("send buffers", self.send.slots.len(), needs.send_buffers)
    }
}
