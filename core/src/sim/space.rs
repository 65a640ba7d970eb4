//! The memory of one simulated engine.

use std::vec;
use std::vec::Vec;

use crate::config::{Config, Mode, Retry, Timeouts};
use crate::conn::{Conn, OpQueue, Place, Slot};
use crate::fabric::{OneSidedWr, SendWr};
use crate::pool::PoolSlot;
use crate::timer::{self, TimerSlot};
use crate::turn::{DirtySlot, Memory, Needs, OneSidedMemory, PoolMemory};

/// The memory of one engine.
#[derive(Debug)]
pub struct Space {
    pub(super) config: Config,
    conns: Vec<Slot<Conn>>,
    places: Vec<Place>,
    dirty: Vec<DirtySlot>,
    timers: Vec<TimerSlot>,
    sends: Vec<SendWr>,
    recv_slots: Vec<PoolSlot>,
    send_slots: Vec<PoolSlot>,
    bytes: Vec<u8>,
    queues: Vec<OpQueue>,
    operations: Vec<OneSidedWr>,
}

impl Space {
    /// For an engine of `conns` connections under `config`.
    pub fn new(config: Config, conns: usize) -> Self {
        let needs = Needs::of(&config, conns);
        Self {
            config,
            conns: (0..conns).map(|_| Slot::EMPTY).collect(),
            places: vec![Place::default(); conns],
            dirty: vec![DirtySlot::default(); conns],
            timers: vec![timer::IDLE; conns],
            sends: (0..needs.sends).map(|_| SendWr::EMPTY).collect(),
            recv_slots: vec![PoolSlot::default(); needs.recv_buffers],
            send_slots: vec![PoolSlot::default(); needs.send_buffers],
            bytes: vec![0; (needs.recv_buffers + needs.send_buffers) * config.message_bytes_max as usize],
            queues: Vec::new(),
            operations: Vec::new(),
        }
    }

    /// With room for so many one-sided operations on each connection, a power of two.
    #[must_use]
    pub fn with_operations(mut self, each: usize) -> Self {
        let conns = self.conns.len();
        // Their numbers soon come to their end.
        self.queues = vec![OpQueue::starting_at(u32::MAX - 5); conns];
        self.operations = (0..each * conns).map(|_| OneSidedWr::EMPTY).collect();
        let buffers = OneSidedMemory::buffers(self.operations.len());
        self.send_slots.resize(self.send_slots.len() + buffers, PoolSlot::default());
        self.bytes.resize(self.bytes.len() + buffers * self.config.message_bytes_max as usize, 0);
        self
    }

    /// One-sided operations on each connection.
    pub(super) fn operations(&self) -> usize {
        self.operations.len() / self.conns.len()
    }

    /// What the engine is given.
    pub(super) fn memory(&mut self) -> (Memory<'_>, OneSidedMemory<'_>) {
        let stride = self.config.message_bytes_max;
        let (recv, send) = self.bytes.split_at_mut(self.recv_slots.len() * stride as usize);
        let region_offset = recv.len() as u64;
        let one_sided = OneSidedMemory { queues: &mut self.queues, slots: &mut self.operations };
        let memory = Memory {
            conns: &mut self.conns,
            places: &mut self.places,
            dirty: &mut self.dirty,
            timers: &mut self.timers,
            sends: &mut self.sends,
            recv: PoolMemory { slots: &mut self.recv_slots, bytes: recv, region_offset: 0, stride },
            send: PoolMemory { slots: &mut self.send_slots, bytes: send, region_offset, stride },
        };
        (memory, one_sided)
    }
}

/// Messages of up to 64 bytes, inline up to 16, and the usual limits. No keepalive: with one, an idle network never falls
/// silent.
pub fn config(depth: u32) -> Config {
    Config {
        mode: Mode::Spinwire,
        depth,
        message_bytes_max: 64,
        inline_bytes_max: 16,
        timeouts: Timeouts::default(),
        retry: Retry::DEFAULT,
        keepalive: None,
        seed: 1,
    }
}

/// The memory for [`pair`](super::pair).
pub fn spaces(depth: u32, conns: usize) -> [Space; 2] {
    [Space::new(config(depth), conns), Space::new(config(depth), conns)]
}
