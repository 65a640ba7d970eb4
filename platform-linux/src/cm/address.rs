//! Which addresses can be used for RDMA on this machine, and what to say about those that cannot.

mod diagnose;

use core::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use crate::sys::net::{InterfaceAddress, interface_addresses};
use crate::sys::os::{CallError, Errno};
pub use diagnose::NoRdma;
pub(super) use diagnose::diagnose;

/// An RDMA device with the network interfaces it runs on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsableDevice {
    /// The device's name, such as `mlx5_0` or `rxe0`.
    pub device: String,
    /// The interface's name, such as `eth1`.
    pub interface: String,
    /// The interface's addresses.
    pub addresses: Vec<IpAddr>,
}

impl fmt::Display for UsableDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} (", self.device, self.interface)?;
        for (i, address) in self.addresses.iter().enumerate() {
            write!(f, "{}{address}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str(if self.addresses.is_empty() { "no address)" } else { ")" })
    }
}

/// An address could not be bound, or a connection could not start from it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The address is this machine's, but the interface that has it has no RDMA device.
    #[error("{address}: interface {interface} has no rdma device; usable: {}", OrNone(.usable))]
    NoDevice {
        /// The address asked for.
        address: SocketAddr,
        /// The interface that has it.
        interface: String,
        /// What could be used instead.
        usable: Vec<UsableDevice>,
    },
    /// No interface has the address.
    #[error("{address}: no interface of this machine has that address; usable: {}", OrNone(.usable))]
    NotOurs {
        /// The address asked for.
        address: SocketAddr,
        /// What could be used instead.
        usable: Vec<UsableDevice>,
    },
    /// Another listener has the port.
    #[error("{address}: the port is in use by another rdma listener; `rdma resource show cm_id` shows by whom")]
    InUse {
        /// The address asked for.
        address: SocketAddr,
    },
    /// Any other failure.
    #[error("{address}: {cause}")]
    Call {
        /// The address asked for.
        address: SocketAddr,
        /// What the library gave.
        cause: CallError,
    },
}

struct OrNone<'a>(&'a [UsableDevice]);

impl fmt::Display for OrNone<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, usable) in self.0.iter().enumerate() {
            write!(f, "{}{usable}", if i == 0 { "" } else { "; " })?;
        }
        if self.0.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}

/// Lists the RDMA devices of this machine by the network interfaces they run on.
pub fn usable_devices() -> Vec<UsableDevice> {
    devices_in("/".as_ref(), &interface_addresses().unwrap_or_default())
}

/// Says what is wrong with a local address that `cause` came of.
pub fn explain(address: SocketAddr, cause: CallError) -> AddressError {
    let addresses = interface_addresses().unwrap_or_default();
    let usable = devices_in("/".as_ref(), &addresses);
    explain_with(address, cause, &addresses, usable)
}

/// The interface that has `address`, if it is known to be without an RDMA device.
///
/// Binding to such an address can succeed (127.0.0.1 does) and give an id that has no device.
pub fn without_device(address: SocketAddr) -> Option<AddressError> {
    let addresses = interface_addresses().unwrap_or_default();
    let usable = devices_in("/".as_ref(), &addresses);
    let has_device = usable.iter().any(|device| device.addresses.contains(&address.ip()));
    let cause = CallError { call: "rdma_bind_addr", errno: Errno(libc::ENODEV) };
    (!has_device && !address.ip().is_unspecified()).then(|| explain_with(address, cause, &addresses, usable))
}

fn explain_with(
    address: SocketAddr,
    cause: CallError,
    addresses: &[InterfaceAddress],
    usable: Vec<UsableDevice>,
) -> AddressError {
    match cause.errno {
        Errno(libc::EADDRINUSE) => AddressError::InUse { address },
        Errno(libc::ENODEV | libc::EADDRNOTAVAIL) => {
            match addresses.iter().find(|candidate| candidate.address == address.ip()) {
                Some(owner) if usable.iter().all(|device| device.interface != owner.interface) => {
                    AddressError::NoDevice { address, interface: owner.interface.clone(), usable }
                }
                Some(_) => AddressError::Call { address, cause },
                None => AddressError::NotOurs { address, usable },
            }
        }
        _ => AddressError::Call { address, cause },
    }
}

/// Reads the devices and their interfaces from sysfs below `root`. From the kernel's
/// `Documentation/ABI/stable/sysfs-class-infiniband`.
fn devices_in(root: &Path, addresses: &[InterfaceAddress]) -> Vec<UsableDevice> {
    let mut found: Vec<UsableDevice> = Vec::new();
    for device in names_in(&root.join("sys/class/infiniband")) {
        let ports = root.join("sys/class/infiniband").join(&device).join("ports");
        for port in names_in(&ports) {
            for interface in interfaces_in(&ports.join(port).join("gid_attrs/ndevs")) {
                if found.iter().any(|known| known.device == device && known.interface == interface) {
                    continue;
                }
                let addresses = addresses.iter().filter(|a| a.interface == interface).map(|a| a.address).collect();
                found.push(UsableDevice { device: device.clone(), interface, addresses });
            }
        }
    }
    found.sort_by(|a, b| (&a.device, &a.interface).cmp(&(&b.device, &b.interface)));
    found
}

/// Empty slots in a row after which the rest of a device's address table is taken to be empty. The kernel fills it from
/// the front; reading all of it (1,024 slots on Soft-RoCE) takes a second on a slow machine.
const EMPTY_SLOTS_MAX: usize = 32;

/// The interfaces named in the address table of a port, once for each address.
fn interfaces_in(ndevs: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut empty = 0;
    for slot in 0.. {
        match std::fs::read_to_string(ndevs.join(slot.to_string())) {
            Ok(name) => {
                found.push(name.trim().to_owned());
                empty = 0;
            }
            // Reading an empty slot fails, and so does reading beyond the table.
            Err(_) if empty == EMPTY_SLOTS_MAX => break,
            Err(_) => empty += 1,
        }
    }
    found
}

/// The names in a directory; none if it cannot be read.
fn names_in(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    /// A directory tree that stands for a machine, removed at the end.
    struct Machine(PathBuf);

    impl Machine {
        fn new(name: &str) -> Machine {
            let root = std::env::temp_dir().join(format!("spinwire-address-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            fs::create_dir_all(&root).unwrap();
            Machine(root)
        }

        fn file(&self, path: &str, text: &str) -> &Machine {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn on(interface: &str, address: &str) -> InterfaceAddress {
        InterfaceAddress { interface: interface.into(), address: address.parse().unwrap() }
    }

    const ENODEV: CallError = CallError { call: "rdma_bind_addr", errno: Errno(libc::ENODEV) };

    #[test]
    fn an_address_without_a_device_names_its_interface_and_lists_the_usable_ones() {
        let machine = Machine::new("usable");
        machine.file("sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/0", "v0\n");
        machine.file("sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/7", "v0\n");
        machine.file("sys/class/infiniband/rxe1/ports/1/gid_attrs/ndevs/0", "v1\n");
        let addresses = [on("lan7", "198.51.100.4"), on("v0", "192.0.2.1"), on("v0", "fe80::1"), on("v1", "192.0.2.2")];
        let usable = devices_in(&machine.0, &addresses);
        let error = explain_with("198.51.100.4:7471".parse().unwrap(), ENODEV, &addresses, usable.clone());
        assert_eq!(
            error.to_string(),
            "198.51.100.4:7471: interface lan7 has no rdma device; usable: rxe0 on v0 (192.0.2.1, fe80::1); rxe1 on v1 \
             (192.0.2.2)"
        );
        let foreign = explain_with("203.0.113.9:1".parse().unwrap(), ENODEV, &addresses, usable);
        assert!(matches!(foreign, AddressError::NotOurs { .. }), "{foreign}");
    }

    #[test]
    fn a_port_in_use_is_said_as_such() {
        let cause = CallError { call: "rdma_bind_addr", errno: Errno(libc::EADDRINUSE) };
        let error = explain_with("192.0.2.1:7471".parse().unwrap(), cause, &[], Vec::new());
        assert_eq!(error, AddressError::InUse { address: "192.0.2.1:7471".parse().unwrap() });
    }

    #[test]
    fn a_kernel_without_the_module_is_told_the_package() {
        let machine = Machine::new("bare");
        machine.file("proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
        let text = diagnose(&machine.0, ENODEV).to_string();
        for part in ["no rdma device", "linux-modules-extra-6.8.0-45-generic", "ci/vm", "INTERFACE"] {
            assert!(text.contains(part), "{part:?} is missing in: {text}");
        }
        assert!(!text.contains("eth0"), "interfaces have other names: {text}");
    }

    #[test]
    fn a_kernel_with_the_module_is_told_to_load_it() {
        let machine = Machine::new("module");
        machine.file("proc/sys/kernel/osrelease", "6.1.0-1-amd64\n");
        machine.file("lib/modules/6.1.0-1-amd64/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko", "");
        let text = diagnose(&machine.0, ENODEV).to_string();
        assert!(text.contains("modprobe rdma_rxe") && !text.contains("linux-modules-extra"), "{text}");
    }

    #[test]
    fn a_device_without_its_cm_node_is_told_the_other_module() {
        let machine = Machine::new("node");
        machine.file("sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "eth5\n");
        let text = diagnose(&machine.0, ENODEV).to_string();
        assert!(text.contains("mlx5_0") && text.contains("modprobe rdma_ucm"), "{text}");
    }
}
