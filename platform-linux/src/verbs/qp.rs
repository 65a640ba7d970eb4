//! The queue pair: made on a connection id, moved through its states by librdmacm.

mod sizes;

use core::ptr::NonNull;
use core::time::Duration;
use std::rc::Rc;

use super::cq::Cq;
use super::device::Device;
use super::pd::Pd;
use super::timing::{ack_timeout, rnr_code, rnr_delay};
use crate::sys::os::{CallError, Errno, check, note_destroy};
use crate::sys::rdmacm::Id;
use crate::sys::verbs as ffi;
use sizes::init_attributes;
pub use sizes::{QpCaps, QpError, QpSizes};

/// A queue pair on a connection id.
///
/// The order of release is stated here, once: the queue pair is destroyed first, then what it held lets go of its
/// completion queues and protection domain, and last of the id. Memory regions hold the protection domain, and the
/// owner of both drops the queue pair before the region.
pub struct Qp {
    qp: NonNull<ffi::ibv_qp>,
    number: u32,
    caps: QpCaps,
    // Held for the length of the queue pair's life.
    _send_cq: Cq,
    _recv_cq: Cq,
    pd: Pd,
    id: Rc<Id>,
    /// Destroying it was tried.
    gone: bool,
}

/// What a queue pair was set to. From `ibv_query_qp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpAttributes {
    /// Wait for an acknowledgement before sending again; zero is for ever.
    pub ack_timeout: Duration,
    /// Times a send without acknowledgement is repeated.
    pub retries: u8,
    /// Times a send is repeated because the peer had no receive posted; 7 is for ever.
    pub rnr_retries: u8,
    /// How long a peer that found no receive here is told to wait.
    pub rnr_delay: Duration,
}

impl Qp {
    /// Makes a queue pair on `id`, ready for receives to be posted. Cost: 1 to 20 ms.
    ///
    /// # Errors
    /// `ENODEV` if the id is not bound to `pd`'s device, else what the device gave.
    pub(crate) fn on_id(id: &Rc<Id>, pd: &Pd, (send_cq, recv_cq): (&Cq, &Cq), caps: &QpCaps) -> Result<Qp, CallError> {
        const CALL: &str = "rdma_create_qp";
        if id.context() != Some(pd.device().context()) {
            return Err(CallError { call: CALL, errno: Errno(libc::ENODEV) });
        }
        let mut raw = init_attributes(send_cq, recv_cq, caps);
        // SAFETY: the id is alive and bound to the device of `pd` and queues; all are held below.
        check(CALL, || unsafe { crate::sys::rdmacm::rdma_create_qp(id.as_ptr(), pd.as_ptr(), &mut raw) })?;
        // SAFETY: the call put the queue pair there.
        let qp = NonNull::new(unsafe { (*id.as_ptr()).qp }).ok_or(CallError { call: CALL, errno: Errno(0) })?;
        let granted = raw.cap;
        Ok(Qp {
            qp,
            // SAFETY: alive, and the number never changes.
            number: unsafe { qp.as_ref().qp_num },
            caps: QpCaps {
                send: granted.max_send_wr.min(caps.send),
                recv: granted.max_recv_wr.min(caps.recv),
                inline: granted.max_inline_data.min(caps.inline),
            },
            _send_cq: send_cq.clone(),
            _recv_cq: recv_cq.clone(),
            pd: pd.clone(),
            id: Rc::clone(id),
            gone: false,
        })
    }

    /// A queue pair that no library knows. Must be forgotten, not dropped.
    #[cfg(test)]
    pub(super) fn from_fake(qp: NonNull<ffi::ibv_qp>, pd: Pd, cq: &Cq, id: Rc<Id>) -> Qp {
        let caps = QpCaps { send: 16, recv: 16, inline: 64 };
        // SAFETY: a test's, alive.
        let number = unsafe { qp.as_ref().qp_num };
        Qp { qp, number, caps, _send_cq: cq.clone(), _recv_cq: cq.clone(), pd, id, gone: false }
    }

    /// The queue pair's number on its device.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// What was granted, never more than asked.
    pub fn caps(&self) -> QpCaps {
        self.caps
    }

    /// The device it is on.
    pub fn device(&self) -> &Device {
        self.pd.device()
    }

    pub(crate) fn raw(&self) -> NonNull<ffi::ibv_qp> {
        self.qp
    }

    /// Sets how long a peer that found no receive posted is told to wait; the next longer delay that exists is taken.
    ///
    /// Only once connected. Without this it is 655 ms, because rdma_cm leaves the code at 0. A queue pair that is broken
    /// already (by a message that was there first) refuses it; that is no failure, for the completion that tells why
    /// follows.
    pub(crate) fn set_rnr_delay(&self, delay: Duration) -> Result<(), CallError> {
        // SAFETY: all zeroes is a valid ibv_qp_attr; only the field that the mask names is read.
        let mut attributes: ffi::ibv_qp_attr = unsafe { core::mem::zeroed() };
        attributes.min_rnr_timer = rnr_code(delay);
        let mask = ffi::ibv_qp_attr_mask::IBV_QP_MIN_RNR_TIMER.0 as i32;
        // SAFETY: alive.
        let result = check("ibv_modify_qp", || unsafe { ffi::ibv_modify_qp(self.qp.as_ptr(), &mut attributes, mask) });
        if result.is_err() && self.is_broken() { Ok(()) } else { result }
    }

    /// Whether the queue pair is in the error state.
    fn is_broken(&self) -> bool {
        let wanted = ffi::ibv_qp_attr_mask::IBV_QP_STATE;
        self.query(wanted).is_ok_and(|attributes| attributes.qp_state == ffi::QP_STATE_ERROR)
    }

    /// Asks the device what the queue pair is set to.
    ///
    /// # Errors
    /// What `ibv_query_qp` gave.
    pub fn attributes(&self) -> Result<QpAttributes, CallError> {
        use ffi::ibv_qp_attr_mask as mask;
        let wanted =
            mask::IBV_QP_TIMEOUT | mask::IBV_QP_RETRY_CNT | mask::IBV_QP_RNR_RETRY | mask::IBV_QP_MIN_RNR_TIMER;
        let attributes = self.query(wanted)?;
        Ok(QpAttributes {
            ack_timeout: if attributes.timeout == 0 { Duration::ZERO } else { ack_timeout(attributes.timeout) },
            retries: attributes.retry_cnt,
            rnr_retries: attributes.rnr_retry,
            rnr_delay: rnr_delay(attributes.min_rnr_timer),
        })
    }

    /// Reads and atomics that it may have under way: what the two devices agreed on. 0 before it is connected.
    ///
    /// # Errors
    /// What `ibv_query_qp` gave.
    pub fn reads_max(&self) -> Result<u8, CallError> {
        Ok(self.query(ffi::ibv_qp_attr_mask::IBV_QP_MAX_QP_RD_ATOMIC)?.max_rd_atomic)
    }

    fn query(&self, wanted: ffi::ibv_qp_attr_mask) -> Result<ffi::ibv_qp_attr, CallError> {
        // SAFETY: all zeroes is valid for both: null pointers and integers.
        let mut attributes: ffi::ibv_qp_attr = unsafe { core::mem::zeroed() };
        // SAFETY: as above.
        let mut init: ffi::ibv_qp_init_attr = unsafe { core::mem::zeroed() };
        // SAFETY: alive; both are ours to be written.
        check("ibv_query_qp", || unsafe {
            ffi::ibv_query_qp(self.qp.as_ptr(), &mut attributes, wanted.0 as i32, &mut init)
        })?;
        Ok(attributes)
    }
}

impl Qp {
    /// Destroys it and says how that went, where a drop can only count a failure. The device touches none of its
    /// buffers afterwards, also if it failed.
    pub(crate) fn destroy(mut self) -> Result<(), CallError> {
        self.release()
    }

    fn release(&mut self) -> Result<(), CallError> {
        if core::mem::replace(&mut self.gone, true) {
            return Ok(());
        }
        // As rdma_destroy_qp does it (the completion queues are ours, not the library's), but that hides the result.
        // SAFETY: made on the id and destroyed once, here; the pointer in the id is cleared so that nothing follows it.
        let result = check("ibv_destroy_qp", || unsafe { ffi::ibv_destroy_qp(self.qp.as_ptr()) });
        if result.is_err() {
            self.stop();
        }
        // SAFETY: the id is alive, held by this queue pair.
        unsafe { (*self.id.as_ptr()).qp = core::ptr::null_mut() };
        note_destroy(format_args!("queue pair {} of {}", self.number, self.pd.device().name()), result);
        result
    }

    /// Moves one that could not be destroyed to the error state, for its buffers are about to be used again.
    fn stop(&self) {
        // SAFETY: all zeroes is a valid ibv_qp_attr; only the field that the mask names is read.
        let mut attributes: ffi::ibv_qp_attr = unsafe { core::mem::zeroed() };
        attributes.qp_state = ffi::ibv_qp_state::IBV_QPS_ERR;
        let mask = ffi::ibv_qp_attr_mask::IBV_QP_STATE.0 as i32;
        // SAFETY: it was not destroyed, so it is alive. Nothing is left to be tried if this fails too.
        let _ = check("ibv_modify_qp", || unsafe { ffi::ibv_modify_qp(self.qp.as_ptr(), &mut attributes, mask) });
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        // A failure was counted and printed.
        let _ = self.release();
    }
}
