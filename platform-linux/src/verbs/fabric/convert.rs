//! Work requests in the device's form, and its completions in the engine's.

use spinwire_core::config::BATCH_MAX;
use spinwire_core::fabric::{Batch, BufferMap, Completion, Outcome, SendWr, WcStatus};
use spinwire_core::id::WorkId;

use super::super::cq::Cq;
use super::super::region::RegionKey;
use crate::sys::os::CallError;
use crate::sys::verbs as ffi;

/// Writes the fields of a send that vary. The rest stays as `Chain::new` left it.
#[inline]
pub(super) fn fill_send(
    region: &RegionKey<'_>,
    buffers: &BufferMap,
    work: &SendWr,
    wr: &mut ffi::ibv_send_wr,
    sge: &mut ffi::ibv_sge,
) {
    wr.wr_id = work.wr_id.to_bits();
    wr.num_sge = match &work.buf {
        Some(lease) => {
            assert!(work.len <= buffers.capacity(lease), "a send is longer than its buffer");
            *sge = ffi::ibv_sge {
                addr: region.address(buffers.offset(lease), work.len),
                length: work.len,
                lkey: region.lkey(),
            };
            1
        }
        None => 0,
    };
    let (opcode, imm) = match work.imm {
        Some(imm) => (ffi::ibv_wr_opcode::IBV_WR_SEND_WITH_IMM, imm),
        None => (ffi::ibv_wr_opcode::IBV_WR_SEND, 0),
    };
    wr.opcode = opcode;
    wr.imm_data_invalidated_rkey_union.imm_data = imm.to_be();
    let signaled = if work.signaled { ffi::ibv_send_flags::IBV_SEND_SIGNALED.0 } else { 0 };
    let inline = if buffers.is_inline(work.len) { ffi::ibv_send_flags::IBV_SEND_INLINE.0 } else { 0 };
    wr.send_flags = signaled | inline;
}

/// Polls once for as many completions as `out` has room for; gives how many came.
#[inline]
pub(super) fn poll(
    cq: &Cq,
    polled: &mut [ffi::ibv_wc; BATCH_MAX],
    out: &mut Batch,
    done: impl Fn(&ffi::ibv_wc) -> Outcome,
) -> Result<usize, CallError> {
    let room = out.capacity() - out.len();
    let count = cq.poll(&mut polled[..room])?;
    out.extend(polled[..count].iter().map(|wc| Completion {
        wr_id: WorkId::from_bits(wc.wr_id),
        qp_num: wc.qp_num,
        outcome: match wc.status {
            0 => done(wc),
            // Only the fields named here mean anything now; length, opcode and flags may be left over.
            status => Outcome::Failed { status: WcStatus(status), vendor: wc.vendor_err },
        },
    }));
    Ok(count)
}

/// What a completed receive brought.
#[inline]
pub(super) fn received(wc: &ffi::ibv_wc) -> Outcome {
    let has_imm = wc.wc_flags & ffi::ibv_wc_flags::IBV_WC_WITH_IMM.0 != 0;
    // SAFETY: both fields of the union are 32 bits without invalid values; with the flag it is the immediate data.
    let imm = has_imm.then(|| u32::from_be(unsafe { wc.imm_data_invalidated_rkey_union.imm_data }));
    Outcome::Done { bytes: wc.byte_len, imm }
}
