//! How large queue pairs can be on a device: asked for, tried, granted.

use super::super::cq::Cq;
use super::super::limits::{Limit, LimitError};
use super::super::pd::Pd;
use crate::runtime::Size;
use crate::sys::os::{CallError, check, check_ptr, note_destroy};
use crate::sys::verbs as ffi;

/// The sizes of a queue pair, as wished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpSizes {
    /// Work requests in the send queue.
    pub send: Size,
    /// Work requests in the receive queue.
    pub recv: Size,
    /// Bytes that a send may carry inside its work request.
    pub inline: Size,
}

/// The sizes of a queue pair, as a device grants them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpCaps {
    /// Work requests in the send queue.
    pub send: u32,
    /// Work requests in the receive queue.
    pub recv: u32,
    /// Bytes that a send may carry inside its work request.
    pub inline: u32,
}

/// Why queue pairs of the wished sizes cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QpError {
    /// A size is above what the device takes.
    #[error(transparent)]
    TooLarge(#[from] LimitError),
    /// The device refused, and not because of the inline size.
    #[error("queue pair with {} sends, {} receives on {device}: {cause}", .caps.send, .caps.recv)]
    Refused {
        /// The sizes asked, all within the device's limits.
        caps: QpCaps,
        /// The device's name.
        device: String,
        /// What it gave.
        cause: CallError,
    },
}

impl QpSizes {
    /// Finds out which sizes the device grants, before any connection depends on them.
    ///
    /// The inline size cannot be queried: a queue pair is made and destroyed again with the size wished, and if that
    /// fails up to a dozen more to find the largest. Cost: 1 to 20 ms each on real devices.
    ///
    /// # Errors
    /// [`QpError::TooLarge`] for a size that was asked for; defaults are lowered instead.
    pub fn probe(&self, pd: &Pd, send_cq: &Cq, recv_cq: &Cq) -> Result<QpCaps, QpError> {
        let device = pd.device();
        let (name, max) = (device.name(), device.limits().max_qp_wr);
        let fit = |size| Limit { option: "depth", max, limit: "max_qp_wr", device: name }.fit(size);
        let mut caps = QpCaps { send: fit(self.send)?, recv: fit(self.recv)?, inline: self.inline.value() };
        let found = largest_inline(self.inline.value(), |inline| {
            let mut raw = init_attributes(send_cq, recv_cq, &QpCaps { inline, ..caps });
            // SAFETY: protection domain and queues are alive and of one device (asserted in `init_attributes`).
            let qp = check_ptr("ibv_create_qp", || unsafe { ffi::ibv_create_qp(pd.as_ptr(), &mut raw) })?;
            // SAFETY: made above, never used.
            let result = check("ibv_destroy_qp", || unsafe { ffi::ibv_destroy_qp(qp.as_ptr()) });
            note_destroy(format_args!("a probing queue pair of {name}"), result);
            // The device may grant more than asked; only what was asked is relied on.
            Ok(inline.min(raw.cap.max_inline_data))
        });
        let granted = found.map_err(|cause| QpError::Refused { caps, device: name.to_owned(), cause })?;
        caps.inline =
            Limit { option: "inline", max: granted, limit: "found by trying", device: name }.fit(self.inline)?;
        Ok(caps)
    }
}

/// The largest inline size up to `wish` with which `create` succeeds: first the wish, then by halving the range.
///
/// # Errors
/// That of `create(0)`, if not even that succeeds: then the inline size is not the cause.
fn largest_inline(wish: u32, mut create: impl FnMut(u32) -> Result<u32, CallError>) -> Result<u32, CallError> {
    if let Ok(granted) = create(wish) {
        return Ok(granted);
    }
    let (mut good, mut bad) = (create(0)?, wish);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        match create(middle) {
            Ok(granted) => good = granted.max(good),
            Err(_) => bad = middle,
        }
        if good < middle && bad > middle {
            // The device grants less than asked without failing: what it granted is the limit.
            break;
        }
    }
    Ok(good)
}

pub(super) fn init_attributes(send_cq: &Cq, recv_cq: &Cq, caps: &QpCaps) -> ffi::ibv_qp_init_attr {
    assert!(send_cq.device().is_same(recv_cq.device()), "completion queues of two devices");
    // SAFETY: all zeroes is a valid ibv_qp_init_attr: null pointers and integers.
    let mut raw: ffi::ibv_qp_init_attr = unsafe { core::mem::zeroed() };
    raw.send_cq = send_cq.as_ptr();
    raw.recv_cq = recv_cq.as_ptr();
    raw.cap.max_send_wr = caps.send;
    raw.cap.max_recv_wr = caps.recv;
    raw.cap.max_send_sge = 1;
    raw.cap.max_recv_sge = 1;
    raw.cap.max_inline_data = caps.inline;
    raw.qp_type = ffi::ibv_qp_type::IBV_QPT_RC;
    raw.sq_sig_all = 0;
    raw
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::os::Errno;

    const REFUSED: CallError = CallError { call: "ibv_create_qp", errno: Errno(libc::EINVAL) };

    fn device_with_limit(limit: u32) -> impl FnMut(u32) -> Result<u32, CallError> {
        move |inline| if inline <= limit { Ok(inline) } else { Err(REFUSED) }
    }

    #[test]
    fn the_largest_inline_size_is_found() {
        for limit in [0, 1, 63, 64, 100, 219, 220, 400, 512] {
            assert_eq!(largest_inline(220, device_with_limit(limit)), Ok(limit.min(220)), "limit {limit}");
        }
    }

    #[test]
    fn a_wish_that_is_granted_costs_one_attempt() {
        let mut attempts = 0;
        let result = largest_inline(64, |inline| {
            attempts += 1;
            Ok(inline)
        });
        assert_eq!((result, attempts), (Ok(64), 1));
    }

    #[test]
    fn a_failure_that_has_another_cause_is_passed_on() {
        assert_eq!(largest_inline(64, |_| Err(REFUSED)), Err(REFUSED));
    }

    #[test]
    fn a_device_that_grants_less_without_failing_is_believed() {
        assert_eq!(largest_inline(400, |inline| if inline > 300 { Err(REFUSED) } else { Ok(inline.min(64)) }), Ok(64));
    }
}
