//! The memory region: memory that the device may read and write.

use core::ptr::NonNull;

use super::pd::Pd;
use crate::mem::{Limit, RAISE_MEMLOCK};
use crate::sys::os::{CallError, Errno, check, check_ptr, memlock_limit, note_destroy, pinned_bytes};
use crate::sys::verbs as ffi;
use crate::words::Bytes;

/// Who may touch a region besides the program itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// Our own device, on behalf of work that we posted. The default: no peer can reach the region by itself.
    #[default]
    Local,
    /// Also peers that were given the region's remote key, with the rights named.
    Remote {
        /// Peers may read.
        read: bool,
        /// Peers may write.
        write: bool,
        /// Peers may use atomics.
        atomic: bool,
    },
}

/// A registered memory region. Released on drop, before the memory may be unmapped.
pub struct Mr {
    mr: NonNull<ffi::ibv_mr>,
    pd: Pd,
}

/// Why memory could not be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MrError {
    /// The process may not lock that much memory.
    #[error("register {} of memory on {device}: cannot lock memory (limit of this process: {}, may be raised to {}); {}",
        Bytes(*.bytes as u64), Limit(*.soft), Limit(*.hard), RAISE_MEMLOCK)]
    Memlock {
        /// The size wanted, in bytes.
        bytes: usize,
        /// The limit that holds, in bytes; `None` is unlimited.
        soft: Option<u64>,
        /// How far the process may raise it itself, in bytes; `None` is unlimited.
        hard: Option<u64>,
        /// The device's name.
        device: String,
    },
    /// The device refused.
    #[error("register {} of memory on {device}: {cause}", Bytes(*.bytes as u64))]
    Refused {
        /// The size wanted, in bytes.
        bytes: usize,
        /// The device's name.
        device: String,
        /// What it gave.
        cause: CallError,
    },
}

impl Mr {
    /// Registers `len` bytes from `base`.
    ///
    /// Cost: a system call, and the pages are made present and locked: 0.1 ms for 2 MiB, tens of ms per GiB.
    ///
    /// # Errors
    /// [`MrError::Memlock`] when the process's limit of locked memory is the cause, with how to raise it.
    ///
    /// # Safety
    /// The whole range stays mapped, readable and writable until the region is dropped, and while work on it is
    /// posted (or for ever, if peers may write it) the program treats it as memory that changes by itself: no
    /// reference to it may exist at that time.
    pub unsafe fn register(pd: &Pd, base: NonNull<u8>, len: usize, access: Access) -> Result<Mr, MrError> {
        let address = base.as_ptr().cast();
        // SAFETY: the range is mapped (caller) and the protection domain alive. The older `ibv_reg_mr` symbol is
        // avoided; this one takes all access flags.
        let made = check_ptr("ibv_reg_mr", || unsafe {
            ffi::ibv_reg_mr_iova2(pd.as_ptr(), address, len, address as u64, access.flags())
        });
        match made {
            Ok(mr) => Ok(Mr { mr, pd: pd.clone() }),
            Err(cause) => Err(explain(cause, len, pd.device().name(), memlock_limit(), pinned_bytes())),
        }
    }

    /// The key that our own work requests name the region by.
    pub fn lkey(&self) -> u32 {
        // SAFETY: alive until drop.
        unsafe { self.mr.as_ref().lkey }
    }

    /// The key that peers name the region by. Of no use to them unless access was given.
    pub fn rkey(&self) -> u32 {
        // SAFETY: alive until drop.
        unsafe { self.mr.as_ref().rkey }
    }

    /// The first byte.
    pub fn base(&self) -> NonNull<u8> {
        // SAFETY: alive until drop. The address is the one that was registered, so not null.
        unsafe { NonNull::new_unchecked(self.mr.as_ref().addr.cast()) }
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        // SAFETY: alive until drop.
        unsafe { self.mr.as_ref().length }
    }

    /// Whether there is not a single byte in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The protection domain it belongs to.
    pub fn pd(&self) -> &Pd {
        &self.pd
    }
}

#[cfg(test)]
impl Mr {
    /// A registration that no library knows, never to be dropped.
    pub(super) fn from_fake(pd: Pd) -> Mr {
        // SAFETY: zeroes are a valid ibv_mr: pointers and integers.
        let mr: &'static mut ffi::ibv_mr = Box::leak(Box::new(unsafe { core::mem::zeroed() }));
        Mr { mr: NonNull::from(mr), pd }
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: made by registration and released once, here.
        let result = check("ibv_dereg_mr", || unsafe { ffi::ibv_dereg_mr(self.mr.as_ptr()) });
        note_destroy(format_args!("memory region of {}", self.pd.device().name()), result);
    }
}

impl Access {
    fn flags(self) -> u32 {
        let (read, write, atomic) = match self {
            Access::Local => (false, false, false),
            Access::Remote { read, write, atomic } => (read, write, atomic),
        };
        let flag = |on: bool, flag: ffi::ibv_access_flags| if on { flag.0 } else { 0 };
        ffi::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0
            | flag(read, ffi::ibv_access_flags::IBV_ACCESS_REMOTE_READ)
            | flag(write, ffi::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE)
            | flag(atomic, ffi::ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC)
    }
}

/// `ENOMEM` means the lock limit when the size wanted, with the `pinned` bytes of other regions, is above it; otherwise
/// memory really is short. The same sum as in the kernel (`ib_umem_get`).
fn explain(
    cause: CallError,
    bytes: usize,
    device: &str,
    (soft, hard): (Option<u64>, Option<u64>),
    pinned: u64,
) -> MrError {
    let device = device.to_owned();
    let limited = soft.is_some_and(|soft| pinned.saturating_add(bytes as u64) > soft);
    match cause.errno {
        Errno(libc::ENOMEM | libc::EPERM | libc::EAGAIN) if limited => MrError::Memlock { bytes, soft, hard, device },
        _ => MrError::Refused { bytes, device, cause },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: CallError = CallError { call: "ibv_reg_mr", errno: Errno(libc::ENOMEM) };

    #[test]
    fn a_lock_limit_is_named_with_its_size_and_the_way_to_raise_it() {
        let text = explain(REFUSED, 8 << 20, "rxe0", (Some(64 << 10), Some(1 << 20)), 0).to_string();
        for part in
            ["8 MiB", "limit of this process: 64 KiB", "raised to 1 MiB", "ulimit -l", "LimitMEMLOCK", "memlock=-1"]
        {
            assert!(text.contains(part), "{part:?} is missing in: {text}");
        }
    }

    #[test]
    fn without_a_lock_limit_the_device_is_quoted() {
        let error = explain(REFUSED, 4097, "rxe0", (None, None), 1 << 40);
        assert_eq!(
            error.to_string(),
            "register 4097 bytes of memory on rxe0: ibv_reg_mr: Cannot allocate memory (os error 12)"
        );
    }

    #[test]
    fn a_lock_limit_that_has_room_is_not_the_reason() {
        let limit = (Some(1 << 20), None);
        let limited = |bytes, pinned| matches!(explain(REFUSED, bytes, "rxe0", limit, pinned), MrError::Memlock { .. });
        assert!(!limited(1 << 20, 0), "the limit itself may be used up");
        assert!(limited((1 << 20) + 1, 0));
        assert!(limited(4_096, 1 << 20), "other regions count");
    }

    #[test]
    fn no_peer_may_touch_memory_by_default() {
        let remote = ffi::ibv_access_flags::IBV_ACCESS_REMOTE_READ.0
            | ffi::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0
            | ffi::ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC.0;
        assert_eq!(Access::default().flags() & remote, 0);
    }
}
