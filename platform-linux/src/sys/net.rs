//! Network addresses as C has them, and those of this machine's interfaces.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use super::os::{CallError, check};

/// One address of one network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InterfaceAddress {
    pub interface: String,
    pub address: IpAddr,
}

/// Lists the addresses of this machine's network interfaces.
pub(crate) fn interface_addresses() -> Result<Vec<InterfaceAddress>, CallError> {
    let mut list: *mut libc::ifaddrs = core::ptr::null_mut();
    // SAFETY: `list` is ours to be written; what it then points to is freed below.
    check("getifaddrs", || unsafe { libc::getifaddrs(&mut list) })?;
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: `next` walks the list that getifaddrs made, which stays until freeifaddrs.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: `ifa_addr` is null or a socket address of the length that its family says.
        if let Some(address) = unsafe { read_sockaddr(entry.ifa_addr) } {
            // SAFETY: `ifa_name` is a NUL-terminated string in the list.
            let name = unsafe { core::ffi::CStr::from_ptr(entry.ifa_name) };
            found.push(InterfaceAddress { interface: name.to_string_lossy().into_owned(), address: address.ip() });
        }
        next = entry.ifa_next;
    }
    // SAFETY: `list` came from getifaddrs and nothing borrowed from it is left.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// A socket address in the form C wants, with room for both families.
pub(crate) struct RawSocketAddr(libc::sockaddr_storage);

impl RawSocketAddr {
    /// Converts `address`; the scope id of an IPv6 link-local address is kept.
    pub(crate) fn new(address: SocketAddr) -> Self {
        // SAFETY: all zeroes is a valid sockaddr_storage.
        let mut raw: libc::sockaddr_storage = unsafe { core::mem::zeroed() };
        let at = core::ptr::from_mut(&mut raw);
        match address {
            SocketAddr::V4(v4) => {
                let value = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
                // SAFETY: sockaddr_storage is larger than sockaddr_in and at least as aligned.
                unsafe { at.cast::<libc::sockaddr_in>().write(value) }
            }
            SocketAddr::V6(v6) => {
                let value = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: sockaddr_storage is larger than sockaddr_in6 and at least as aligned.
                unsafe { at.cast::<libc::sockaddr_in6>().write(value) }
            }
        }
        RawSocketAddr(raw)
    }

    /// The pointer C functions take. Valid while `self` is; C does not write through it.
    pub(crate) fn as_ptr(&mut self) -> *mut libc::sockaddr {
        core::ptr::from_mut(&mut self.0).cast()
    }
}

/// Reads an IPv4 or IPv6 address; `None` for null and for other families.
///
/// # Safety
/// `address` is null, or points to a socket address as long as its family says.
pub(crate) unsafe fn read_sockaddr(address: *const libc::sockaddr) -> Option<SocketAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: not null, and every socket address starts with its family (caller).
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says that a whole sockaddr_in is there (caller); alignment is not assumed.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that a whole sockaddr_in6 is there (caller); alignment is not assumed.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_trip_through_c() {
        for text in ["192.0.2.1:7471", "[2001:db8::7]:80", "[fe80::1%3]:9", "0.0.0.0:0"] {
            let address: SocketAddr = text.parse().unwrap();
            let mut raw = RawSocketAddr::new(address);
            // SAFETY: a whole sockaddr_storage stands behind the pointer.
            assert_eq!(unsafe { read_sockaddr(raw.as_ptr()) }, Some(address));
        }
        // SAFETY: null is allowed.
        assert_eq!(unsafe { read_sockaddr(core::ptr::null()) }, None);
    }

    #[test]
    fn the_loopback_interface_is_listed() {
        let all = interface_addresses().unwrap();
        assert!(all.iter().any(|a| a.interface == "lo" && a.address == IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }
}
