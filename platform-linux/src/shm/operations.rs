//! One-sided operations of a connection: carried out by the side that asks, when they are posted.

use std::collections::VecDeque;

use spinwire_core::fabric::{Batch, Completion, OneSidedWr, Outcome, WcStatus};
use spinwire_core::id::WorkId;

use super::exposed::PeerRegion;
use super::local::LocalMemory;

/// The peer's regions, and operations whose completion was not polled yet.
pub(super) struct Operations {
    regions: Vec<PeerRegion>,
    done: VecDeque<(WorkId, Outcome)>,
    slots: usize,
}

impl Operations {
    /// Room for `slots` operations.
    pub(super) fn new(slots: usize) -> Self {
        Self { regions: Vec::new(), done: VecDeque::with_capacity(slots), slots }
    }

    /// The peer has exposed these.
    pub(super) fn attach(&mut self, regions: Vec<PeerRegion>) {
        self.regions = regions;
    }

    /// Carries out an operation, or flushes it if the connection `is_over`. Tells whether that goes on; the errno if there is
    /// no room for its completion.
    pub(super) fn post(&mut self, wr: &OneSidedWr, local: &LocalMemory<'_>, is_over: bool) -> Result<bool, i32> {
        if self.done.len() >= self.slots {
            return Err(libc::ENOMEM);
        }
        let lease = wr.buf.as_ref().ok_or(libc::EINVAL)?;
        let buffer = local.lease(lease, wr.len);
        let region = self.regions.get(wr.key as usize);
        // SAFETY: `len` bytes of a leased buffer, which is ours until its completion.
        let outcome = if is_over {
            Outcome::Failed { status: WcStatus::WR_FLUSH_ERR, vendor: 0 }
        } else if region.is_some_and(|region| unsafe { region.carry_out(wr, buffer) }) {
            Outcome::Done { bytes: 0, imm: None }
        } else {
            Outcome::Failed { status: WcStatus::REM_ACCESS_ERR, vendor: 0 }
        };
        self.done.push_back((wr.wr_id, outcome));
        Ok(matches!(outcome, Outcome::Done { .. }))
    }

    /// Whether no completion waits.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.done.is_empty()
    }

    /// Reports what is done, as far as `out` has room.
    pub(super) fn complete(&mut self, out: &mut Batch, qp_num: u32) {
        while let Some(&(wr_id, outcome)) = self.done.front() {
            if out.push(Completion { wr_id, qp_num, outcome }).is_err() {
                return;
            }
            self.done.pop_front();
        }
    }
}
