//! The completion queue: where finished work is found.

use core::ptr::NonNull;
use std::rc::Rc;

use super::device::Device;
use super::limits::{Limit, LimitError};
use crate::runtime::Size;
use crate::sys::os::{CallError, check, check_ptr, note_destroy};
use crate::sys::verbs as ffi;

/// A completion queue, polled and never waited on. Cheap to clone; released after the queue pairs that use it.
#[derive(Clone)]
pub struct Cq(Rc<Inner>);

struct Inner {
    cq: NonNull<ffi::ibv_cq>,
    device: Device,
    capacity: u32,
}

/// Which completion queue something is about. Only to compare: after its release a new one may have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CqId(usize);

impl CqId {
    /// `cq` is not followed.
    pub(super) fn of(cq: *mut ffi::ibv_cq) -> CqId {
        CqId(cq.addr())
    }

    #[cfg(test)]
    pub(crate) fn from_fake(address: usize) -> CqId {
        CqId(address)
    }
}

/// Why there is no completion queue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CqError {
    /// More entries than the device takes.
    #[error(transparent)]
    TooDeep(#[from] LimitError),
    /// The device refused.
    #[error("completion queue of {entries} entries on {device}: {cause}")]
    Refused {
        /// The number of entries asked.
        entries: u32,
        /// The device's name.
        device: String,
        /// What it gave.
        cause: CallError,
    },
}

impl Cq {
    /// Makes a queue for at least `entries` completions.
    ///
    /// A queue that overruns is lost with every queue pair on it, so `entries` must cover all work that can be
    /// outstanding on it at once.
    ///
    /// # Errors
    /// [`CqError::TooDeep`] if `entries` was asked for and is above the device's `max_cqe`.
    pub fn new(device: &Device, option: &'static str, entries: Size) -> Result<Cq, CqError> {
        let max = device.limits().max_cqe;
        let entries = Limit { option, max, limit: "max_cqe", device: device.name() }.fit(entries)?.max(1);
        let wish = i32::try_from(entries).unwrap_or(i32::MAX);
        let none = core::ptr::null_mut();
        // SAFETY: the context is open; no completion channel, vector 0 always exists.
        let cq = check_ptr("ibv_create_cq", || unsafe {
            ffi::ibv_create_cq(device.context().as_ptr(), wish, none, core::ptr::null_mut(), 0)
        })
        .map_err(|cause| CqError::Refused { entries, device: device.name().to_owned(), cause })?;
        // SAFETY: just made; the library wrote the size it really has.
        let capacity = u32::try_from(unsafe { cq.as_ref().cqe }).unwrap_or(entries);
        Ok(Cq(Rc::new(Inner { cq, device: device.clone(), capacity })))
    }

    /// How many completions fit before the queue overruns.
    pub fn capacity(&self) -> u32 {
        self.0.capacity
    }

    /// What events of the device name this queue by.
    pub fn id(&self) -> CqId {
        CqId::of(self.as_ptr())
    }

    pub(crate) fn device(&self) -> &Device {
        &self.0.device
    }

    pub(crate) fn as_ptr(&self) -> *mut ffi::ibv_cq {
        self.0.cq.as_ptr()
    }

    /// Fills `entries` with what has completed and gives how many there were. No system call.
    #[inline]
    pub(crate) fn poll(&self, entries: &mut [ffi::ibv_wc]) -> Result<usize, CallError> {
        // SAFETY: alive while `self` is, and `Rc` keeps it on one thread.
        unsafe { ffi::poll_cq(self.0.cq, entries) }
    }

    /// A queue over memory that a test made, never released.
    #[cfg(test)]
    pub(crate) fn from_fake(cq: NonNull<ffi::ibv_cq>, device: Device, capacity: u32) -> Cq {
        let leaked = Rc::new(Inner { cq, device, capacity });
        core::mem::forget(leaked.clone());
        Cq(leaked)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: made by ibv_create_cq. Every queue pair on it holds a clone of the owner, so none is left.
        let result = check("ibv_destroy_cq", || unsafe { ffi::ibv_destroy_cq(self.cq.as_ptr()) });
        note_destroy(format_args!("completion queue of {}", self.device.name()), result);
    }
}
