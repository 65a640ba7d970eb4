//! The protection domain: what ties memory to the queue pairs that may use it.

use core::ptr::NonNull;
use std::rc::Rc;

use super::device::Device;
use crate::sys::os::{CallError, check, check_ptr, note_destroy};
use crate::sys::verbs as ffi;

/// A protection domain. Cheap to clone; released when the last queue pair, memory region and clone are gone.
#[derive(Clone)]
pub struct Pd(Rc<Inner>);

struct Inner {
    pd: NonNull<ffi::ibv_pd>,
    device: Device,
}

impl Pd {
    /// Allocates a protection domain: one per core and device.
    ///
    /// # Errors
    /// What `ibv_alloc_pd` gave.
    pub fn new(device: &Device) -> Result<Pd, CallError> {
        // SAFETY: a device's context is open.
        let pd = check_ptr("ibv_alloc_pd", || unsafe { ffi::ibv_alloc_pd(device.context().as_ptr()) })?;
        Ok(Pd(Rc::new(Inner { pd, device: device.clone() })))
    }

    /// The device it belongs to.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    pub(crate) fn as_ptr(&self) -> *mut ffi::ibv_pd {
        self.0.pd.as_ptr()
    }

    /// A protection domain that no library knows, never released.
    #[cfg(test)]
    pub(super) fn from_fake(device: Device) -> Pd {
        let leaked = Rc::new(Inner { pd: NonNull::dangling(), device });
        core::mem::forget(Rc::clone(&leaked));
        Pd(leaked)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: made by ibv_alloc_pd. Everything made from it holds a clone of the owner, so nothing is left.
        let result = check("ibv_dealloc_pd", || unsafe { ffi::ibv_dealloc_pd(self.pd.as_ptr()) });
        note_destroy(format_args!("protection domain of {}", self.device.name()), result);
    }
}
