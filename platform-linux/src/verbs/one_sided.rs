//! One-sided operations over verbs: work requests, and regions that peers may reach.

use std::rc::Rc;

use spinwire_core::fabric::{BufferMap, OneSidedOp, OneSidedWr};
use spinwire_core::remote::{RemoteRegion, Rights};

use super::mr::{Access, Mr, MrError};
use super::pd::Pd;
use super::region::RegionKey;
use crate::mem::{Arena, ExposedRegion, StableMemory};
use crate::sys::verbs as ffi;

/// Registers `arena` for peers to use the first `bytes` of it as `rights` say.
///
/// # Errors
/// See [`MrError`]; the memory is given back then.
pub(crate) fn expose(pd: &Pd, arena: Arena, bytes: usize, rights: Rights) -> Result<ExposedRegion, MrError> {
    let base = StableMemory::base(&arena);
    let access = Access::Remote { read: rights.read, write: rights.write, atomic: rights.atomic };
    // SAFETY: mapped, readable and writable while the arena lives, which is longer than the registration: see below. No
    // reference to the bytes exists: the region uses raw copies and atomics alone.
    let mr = unsafe { Mr::register(pd, base, bytes, access)? };
    let remote = RemoteRegion::new(base.as_ptr() as u64, bytes as u64, mr.rkey(), rights).expect("memory of a process");
    // SAFETY: the arena keeps its bytes mapped and initialised, from the beginning of a page, and is in the keeper, behind
    // the registration: fields go in their order.
    Ok(unsafe { ExposedRegion::new(base, bytes, remote, Rc::new((mr, arena))) })
}

/// Writes the fields of an operation. What a send would set beside them stays zero, as the chain was made.
pub(super) fn fill(
    region: &RegionKey<'_>,
    buffers: &BufferMap,
    work: &OneSidedWr,
    wr: &mut ffi::ibv_send_wr,
    sge: &mut ffi::ibv_sge,
) {
    let lease = work.buf.as_ref().expect("an operation that is posted has a buffer");
    assert!(work.len <= buffers.capacity(lease), "an operation is longer than its buffer");
    *sge =
        ffi::ibv_sge { addr: region.address(buffers.offset(lease), work.len), length: work.len, lkey: region.lkey() };
    wr.wr_id = work.wr_id.to_bits();
    wr.num_sge = 1;
    let (remote_addr, rkey) = (work.addr, work.key);
    let rdma = ffi::wr_t { rdma: ffi::rdma_t { remote_addr, rkey } };
    let atomic = |compare_add, swap| ffi::wr_t { atomic: ffi::atomic_t { remote_addr, compare_add, swap, rkey } };
    (wr.opcode, wr.wr) = match work.op {
        OneSidedOp::Write => (ffi::ibv_wr_opcode::IBV_WR_RDMA_WRITE, rdma),
        OneSidedOp::Read => (ffi::ibv_wr_opcode::IBV_WR_RDMA_READ, rdma),
        OneSidedOp::CompareSwap { expected, new } => {
            (ffi::ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP, atomic(expected, new))
        }
        OneSidedOp::FetchAdd { add } => (ffi::ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD, atomic(add, 0)),
    };
    let inline = if work.inline { ffi::ibv_send_flags::IBV_SEND_INLINE.0 } else { 0 };
    wr.send_flags = ffi::ibv_send_flags::IBV_SEND_SIGNALED.0 | inline;
}
