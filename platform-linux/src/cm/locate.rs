//! Finding the device that an address leads to, before anything is set up on it.

use core::time::Duration;
use std::net::SocketAddr;
use std::time::Instant;

use super::address::{AddressError, explain, usable_devices, without_device};
use super::channel::{Channel, ChannelError};
use super::id::CmId;
use super::options::Endpoint;
use crate::sys::code::Code;
use crate::sys::os::{CallError, Errno};
use crate::sys::rdmacm::EventKind;
use crate::verbs::Device;

/// Why no device was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocateError {
    /// There is no RDMA here.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The local address cannot be used.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The kernel knows no way to the target, or nobody there answers for the address.
    #[error("{target}: cannot be reached from an rdma device: {cause}")]
    Unreachable {
        /// Where to.
        target: SocketAddr,
        /// What the kernel said.
        cause: CallError,
    },
    /// No answer of any kind.
    #[error("{target}: no answer to address resolution within {limit:?}")]
    TimedOut {
        /// Where to.
        target: SocketAddr,
        /// The time given.
        limit: Duration,
    },
    /// A wildcard address on a machine with several devices: one loop drives one device.
    #[error("{address}: this machine has {} rdma devices; name the address of one: {}", .devices.len(), .devices.join("; "))]
    Ambiguous {
        /// The wildcard address.
        address: SocketAddr,
        /// The devices to choose from, with their addresses.
        devices: Vec<String>,
    },
}

/// The device that has `address`; for a wildcard address the machine's only one.
///
/// # Errors
/// See [`LocateError`].
pub fn device_for_listening(address: SocketAddr) -> Result<Device, LocateError> {
    let channel = Channel::open()?;
    if address.ip().is_unspecified() {
        let mut devices = Device::list().map_err(ChannelError::from)?;
        return match devices.len() {
            1 => Ok(devices.remove(0)),
            _ => {
                let devices = usable_devices().iter().map(ToString::to_string).collect();
                Err(LocateError::Ambiguous { address, devices })
            }
        };
    }
    // The port may be in use; the device is a matter of the address alone.
    let mut any_port = address;
    any_port.set_port(0);
    let mut id = CmId::new(&channel, 0).map_err(|cause| explain(address, cause))?;
    id.bind(any_port).map_err(|error| explain(address, error.into()))?;
    let no_device = CallError { call: "rdma_bind_addr", errno: Errno(libc::ENODEV) };
    match id.device().map_err(ChannelError::from)? {
        Some(device) => Ok(device),
        None => Err(without_device(address).unwrap_or_else(|| explain(address, no_device)).into()),
    }
}

/// The device that the kernel reaches `endpoint` by. Waits for at most `limit`; not for a loop that has work to do.
///
/// # Errors
/// See [`LocateError`].
pub fn device_for_connecting(endpoint: Endpoint, limit: Duration) -> Result<Device, LocateError> {
    let Endpoint { target, source } = endpoint;
    let channel = Channel::open()?;
    let unreachable = |cause: CallError| match source {
        Some(address) if matches!(cause.errno, Errno(libc::EADDRNOTAVAIL)) => explain(address, cause).into(),
        Some(address) if cause.errno == Errno(libc::ENODEV) => {
            without_device(address).map_or(LocateError::Unreachable { target, cause }, LocateError::Address)
        }
        _ => LocateError::Unreachable { target, cause },
    };
    let mut id = CmId::new(&channel, 0).map_err(unreachable)?;
    id.resolve_address(source, target, limit).map_err(|error| unreachable(error.into()))?;
    let started = Instant::now();
    // The kernel keeps the limit itself, rounded up; the margin lets its answer win over ours.
    while started.elapsed() < limit + Duration::from_secs(1) {
        let Some(event) = channel.next().map_err(unreachable)? else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        id.on_event(event.kind);
        match event.kind {
            Code::Known(EventKind::AddrResolved) => {
                let no_device = CallError { call: "rdma_resolve_addr", errno: Errno(libc::ENODEV) };
                return id.device().map_err(ChannelError::from)?.ok_or_else(|| unreachable(no_device));
            }
            Code::Known(EventKind::AddrError) => {
                let errno = Errno(event.status.saturating_abs());
                return Err(unreachable(CallError { call: "rdma_resolve_addr", errno }));
            }
            _ => {}
        }
    }
    Err(LocateError::TimedOut { target, limit })
}
