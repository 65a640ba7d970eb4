//! The devices' way to the engines' memory: lent buffers, and nothing else.

use std::vec::Vec;

use super::net::Wire;
use crate::id::ConnId;
use crate::pool::Direction;

/// A buffer as the device knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferName {
    /// The pool it is from.
    pub from: Direction,
    /// Its number there.
    pub index: u32,
}

/// The memory of all machines.
pub trait DeviceMemory {
    /// The bytes of a buffer `conn` on `node` has lent to its device; `None` when it has not.
    fn lent(&mut self, node: usize, conn: ConnId, buffer: BufferName) -> Option<&mut [u8]>;
}

/// Runs `act` on a buffer's bytes.
///
/// # Panics
/// It is not lent: a real device would read or write memory that somebody else uses.
pub(super) fn touch<R>(
    memory: &mut dyn DeviceMemory,
    (node, conn): (usize, ConnId),
    buffer: BufferName,
    act: impl FnOnce(&mut [u8]) -> R,
) -> R {
    match memory.lent(node, conn, buffer) {
        Some(bytes) => act(bytes),
        None => panic!("node {node}, {conn}: the device uses {buffer:?}, which it was not lent"),
    }
}

impl Wire {
    /// After a turn of `node`: inline payloads are copied, and receives that were posted are filled with rubbish, so
    /// that a buffer that is read while the device has it does not go unnoticed.
    pub fn settle(&mut self, node: usize, memory: &mut dyn DeviceMemory) {
        let mut posted = std::mem::take(&mut self.hosts[node].posted);
        for end in posted.drain(..) {
            let end = &mut self.ends[end];
            let (Some(conn), Some(qp)) = (end.conn, &mut end.qp) else { continue };
            for (_, index) in qp.recvs.iter().rev().take(std::mem::take(&mut qp.recvs_fresh)) {
                let buffer = BufferName { from: Direction::Recv, index: *index };
                touch(memory, (node, conn), buffer, |bytes| bytes.fill(0xdb));
            }
            for flight in qp.sends.iter_mut().rev().take(std::mem::take(&mut qp.sends_fresh)) {
                if let Some(into) = flight.operation.and_then(|operation| operation.into) {
                    touch(memory, (node, conn), into, |bytes| bytes.fill(0xdb));
                }
                if let Some(buffer) = flight.buffer.filter(|_| flight.inline) {
                    let len = flight.len as usize;
                    flight.payload = touch(memory, (node, conn), buffer, |bytes| Vec::from(&bytes[..len]));
                    flight.buffer = None;
                }
            }
        }
        self.hosts[node].posted = posted;
    }
}
