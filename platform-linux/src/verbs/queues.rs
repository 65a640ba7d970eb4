//! What all connections of one core on one device share, sized together.

use spinwire_core::config::{CONNS_MAX, DEPTH_MAX, POOL_BUFFERS_MAX, Sizing};

use super::cq::{Cq, CqError, CqId};
use super::device::{Device, Limits};
use super::limits::{Limit, LimitError};
use super::pd::Pd;
use super::qp::{QpCaps, QpError, QpSizes};
use crate::runtime::Size;
use crate::sys::os::CallError;

/// The wishes that size queues, completion queues and buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueOptions {
    /// Most connections at one time.
    pub connections: u32,
    /// Messages in flight per connection and direction.
    pub depth: Size,
    /// Bytes that a send may carry inside its work request instead of in a buffer.
    pub inline: Size,
    /// One-sided operations that a connection may have under way.
    pub one_sided: u32,
}

/// A protection domain, a completion queue for each direction, and the sizes that the device was seen to grant.
pub struct Queues {
    pub(super) pd: Pd,
    pub(super) send_cq: Cq,
    pub(super) recv_cq: Cq,
    pub(super) caps: QpCaps,
    connections: u32,
    depth: u32,
    one_sided: u32,
}

/// Why the queues cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// A size is above what the device takes.
    #[error(transparent)]
    TooLarge(#[from] LimitError),
    /// There is no protection domain.
    #[error("protection domain: {0}")]
    Pd(#[from] CallError),
    /// There is no completion queue.
    #[error(transparent)]
    Cq(#[from] CqError),
    /// There is no queue pair.
    #[error(transparent)]
    Qp(#[from] QpError),
}

impl Queues {
    /// Makes them, after fitting the depth to the device.
    ///
    /// # Errors
    /// A size that was asked for and that the device does not take is named with the largest it takes.
    pub fn new(device: &Device, options: &QueueOptions) -> Result<Queues, QueueError> {
        let connections = options.connections.max(1);
        let depth = fit_depth(device.name(), device.limits(), (connections, options.one_sided), options.depth)?;
        let Sizing { send_slots, recv_posted, .. } = Sizing::of(depth);
        let send_slots = send_slots + options.one_sided;
        let pd = Pd::new(device)?;
        // One connection's worth of room beyond what can be outstanding: a slot is used again while completions of its
        // last life may still lie in the queue.
        let entries = |slots: u32| Size::Asked(((connections + 1) * slots).min(device.limits().max_cqe));
        let send_cq = Cq::new(device, "depth", entries(send_slots))?;
        let recv_cq = Cq::new(device, "depth", entries(recv_posted))?;
        let sizes = QpSizes { send: Size::Asked(send_slots), recv: Size::Asked(recv_posted), inline: options.inline };
        let caps = sizes.probe(&pd, &send_cq, &recv_cq)?;
        Ok(Queues { pd, send_cq, recv_cq, caps, connections, depth, one_sided: options.one_sided })
    }

    #[cfg(test)]
    pub(super) fn from_fake(pd: Pd, send_cq: Cq, recv_cq: Cq, depth: u32, connections: u32) -> Queues {
        let Sizing { send_slots: send, recv_posted: recv, .. } = Sizing::of(depth);
        let caps = QpCaps { send, recv, inline: 64 };
        Queues { pd, send_cq, recv_cq, caps, connections, depth, one_sided: 4 }
    }

    /// The protection domain, to register memory with.
    pub fn pd(&self) -> &Pd {
        &self.pd
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.pd.device()
    }

    /// The send and the receive completion queue, as events of the device name them.
    pub fn cq_ids(&self) -> [CqId; 2] {
        [self.send_cq.id(), self.recv_cq.id()]
    }

    /// Most connections at one time.
    pub fn connections(&self) -> u32 {
        self.connections
    }

    /// Messages in flight per connection and direction, as fitted.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// One-sided operations that a connection may have under way.
    pub fn one_sided(&self) -> u32 {
        self.one_sided
    }

    /// Bytes that a send may carry inside its work request, as granted.
    pub fn inline_bytes(&self) -> u32 {
        self.caps.inline
    }
}

/// The depth to use: as wished if everything that follows from it fits the device and this program.
fn fit_depth(
    device: &str,
    limits: &Limits,
    (connections, one_sided): (u32, u32),
    wish: Size,
) -> Result<u32, LimitError> {
    let per_queue = |depth| (Sizing::of(depth).send_slots + one_sided).max(Sizing::of(depth).recv_posted);
    // Each operation has a send buffer, and the callback of one holds another.
    let own = if one_sided > 0 { one_sided + 1 } else { 0 };
    let buffers = |depth| Sizing::of(depth).recv_buffers.max(Sizing::of(depth).send_buffers + own);
    let pool_max = u32::try_from(POOL_BUFFERS_MAX).unwrap_or(u32::MAX);
    let conns_max = u32::try_from(CONNS_MAX).unwrap_or(u32::MAX);

    // Not even depth 1: it is the device that does not fit, or the number of connections.
    let too_large = |option, asked, max, limit| LimitError { option, asked, max, limit, device: device.to_owned() };
    if per_queue(1) > limits.max_qp_wr {
        return Err(too_large("depth", wish.value(), 0, "max_qp_wr"));
    }
    let most_connections = [
        (limits.max_cqe / per_queue(1), "max_cqe"),
        (pool_max / buffers(1), POOL_LIMIT),
        (conns_max, "CONNS_MAX, a limit of this program"),
    ];
    if let Some((max, limit)) = most_connections.into_iter().min_by_key(|(max, _)| *max)
        && connections > max
    {
        return Err(too_large("connections", connections, max, limit));
    }

    let shared = |each: u32| u64::from(each) * u64::from(connections);
    let largest = |fits: &dyn Fn(u32) -> bool| {
        let (mut low, mut high) = (1, DEPTH_MAX);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) { low = middle } else { high = middle - 1 }
        }
        low
    };
    // The first of equals is named: the program's own range, which no other device and no other count lifts.
    let largest_depths = [
        (DEPTH_MAX, "the limit of this program"),
        (largest(&|depth| per_queue(depth) <= limits.max_qp_wr), "max_qp_wr"),
        (largest(&|depth| shared(per_queue(depth)) <= limits.max_cqe.into()), "max_cqe, shared by all connections"),
        (largest(&|depth| shared(buffers(depth)) <= pool_max.into()), POOL_LIMIT),
    ];
    let (max, limit) = largest_depths.into_iter().min_by_key(|(max, _)| *max).unwrap_or((DEPTH_MAX, ""));
    Limit { option: "depth", max, limit, device }.fit(wish).map(|depth| depth.max(1))
}

/// How the limit of a pool's buffers is named.
const POOL_LIMIT: &str = "POOL_BUFFERS_MAX, a limit of this program, shared by all connections";

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        *Device::from_fake(core::ptr::NonNull::dangling()).limits()
    }

    #[test]
    fn a_depth_that_fits_is_taken_as_it_is() {
        assert_eq!(fit_depth("d", &limits(), (64, 0), Size::Asked(32)), Ok(32));
        assert_eq!(fit_depth("d", &limits(), (1, 0), Size::Asked(1)), Ok(1));
    }

    #[test]
    fn completion_queues_bound_the_depth_of_many_connections() {
        let error = fit_depth("rxe0", &limits(), (64, 0), Size::Asked(4_000)).unwrap_err();
        assert_eq!((error.option, error.asked, error.limit), ("depth", 4_000, "max_cqe, shared by all connections"));
        let fits = Sizing::of(error.max).send_slots * 64;
        let above = Sizing::of(error.max + 1).send_slots * 64;
        assert!(fits <= 32_767 && above > 32_767, "{fits} {above}");
        assert_eq!(fit_depth("rxe0", &limits(), (64, 0), Size::Default(4_000)), Ok(error.max));
    }

    #[test]
    fn a_small_device_names_its_queue_limit() {
        let small = Limits { max_qp_wr: 128, ..limits() };
        let error = fit_depth("fake0", &small, (1, 0), Size::Asked(4_000)).unwrap_err();
        assert_eq!(error.limit, "max_qp_wr");
        assert!(Sizing::of(error.max).send_slots <= 128);
    }

    #[test]
    fn too_many_connections_for_any_depth_are_named() {
        let error = fit_depth("rxe0", &limits(), (40_000, 0), Size::Default(32)).unwrap_err();
        assert_eq!((error.option, error.asked), ("connections", 40_000));
        assert_eq!(fit_depth("rxe0", &limits(), (error.max, 0), Size::Default(1)), Ok(1));
    }

    #[test]
    fn a_device_too_small_for_any_depth_names_its_queue_limit() {
        let tiny = Limits { max_qp_wr: Sizing::of(1).send_slots - 1, ..limits() };
        let error = fit_depth("fake0", &tiny, (1, 0), Size::Default(32)).unwrap_err();
        assert_eq!(error.to_string(), "depth 32: fake0 takes at most 0 (max_qp_wr)");
    }

    #[test]
    fn the_buffers_of_a_pool_bound_depth_and_connections() {
        let vast = Limits { max_cqe: i32::MAX as u32, ..limits() };
        let pool = |depth, connections: u32| {
            let sizing = Sizing::of(depth);
            sizing.recv_buffers.max(sizing.send_buffers) as usize * connections as usize
        };
        let error = fit_depth("fake0", &vast, (1_000, 0), Size::Asked(4_000)).unwrap_err();
        assert_eq!((error.option, error.limit), ("depth", POOL_LIMIT));
        assert!(pool(error.max, 1_000) <= POOL_BUFFERS_MAX && pool(error.max + 1, 1_000) > POOL_BUFFERS_MAX);

        for connections in [CONNS_MAX as u32 + 1, u32::MAX] {
            let error = fit_depth("fake0", &vast, (connections, 0), Size::Asked(1)).unwrap_err();
            assert_eq!((error.option, error.asked), ("connections", connections));
            assert_eq!(error.max, (CONNS_MAX).min(POOL_BUFFERS_MAX / pool(1, 1)) as u32);
            assert_eq!(fit_depth("fake0", &vast, (error.max, 0), Size::Asked(1)), Ok(1));
        }
    }
}
