//! Addresses as the command takes them: `rdma://192.0.2.1:7471`, `rdma://[fe80::1%eth0]:7471`, `rdma://name:7471`,
//! `shm://name`, `shm:///path/of/a/socket`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::str::FromStr;
use std::sync::mpsc;
use std::time::Duration;

use spinwire_linux::shm::{Name, NameError};

/// Where to listen or connect to. It says over which fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Through an RDMA device.
    Rdma(Endpoint),
    /// Through shared memory, on this machine.
    Shm(Name),
}

/// A place on the network, not yet looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    host: Host,
    port: u16,
}

/// A local address to connect from; it decides which device is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceAddr(Host);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Ip(IpAddr),
    /// An IPv6 address with the interface it belongs to, by name or number: link-local addresses need one.
    Scoped(Ipv6Addr, String),
    Name(String),
}

/// An address that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A name in shared memory that cannot be used.
    #[error(transparent)]
    Shm(#[from] NameError),
    /// Anything else.
    #[error(
        "'{0}' is not an address; write rdma://192.0.2.1:7471 or rdma://[fe80::1%eth0]:7471 or rdma://name:7471, or \
         shm://name for shared memory on this machine"
    )]
    Form(String),
    /// A source address that is no IP address.
    #[error("'{0}' is not an IP address; write 192.0.2.1 or fe80::1%eth0")]
    Source(String),
}

/// An address that could not be looked up.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// No such interface.
    #[error("there is no network interface '{0}' on this machine (`ip link` lists them)")]
    NoInterface(String),
    /// The resolver said no.
    #[error("cannot look up '{name}': {cause}")]
    Resolver {
        /// The name asked for.
        name: String,
        /// What the resolver gave.
        cause: std::io::Error,
    },
    /// The resolver gave an empty answer.
    #[error("'{0}' has no address")]
    Empty(String),
    /// The resolver did not answer in time.
    #[error("looking up '{name}' took longer than {limit:?}; use a numeric address, or check the name server")]
    Slow {
        /// The name asked for.
        name: String,
        /// The limit that passed.
        limit: Duration,
    },
}

impl Endpoint {
    /// Looks the address up. Numeric addresses cost nothing; names are asked for on a thread of their own, because
    /// the C library's resolver has no deadline.
    ///
    /// # Errors
    /// See [`LookupError`].
    pub fn resolve(&self, limit: Duration) -> Result<SocketAddr, LookupError> {
        self.host.resolve(self.port, limit)
    }
}

impl SourceAddr {
    /// The socket address, with port 0.
    ///
    /// # Errors
    /// [`LookupError::NoInterface`].
    pub fn resolve(&self) -> Result<SocketAddr, LookupError> {
        self.0.resolve(0, Duration::ZERO)
    }
}

impl Host {
    fn resolve(&self, port: u16, limit: Duration) -> Result<SocketAddr, LookupError> {
        match self {
            Host::Ip(ip) => Ok(SocketAddr::new(*ip, port)),
            Host::Scoped(ip, scope) => Ok(SocketAddrV6::new(*ip, port, 0, interface_index(scope)?).into()),
            Host::Name(name) => look_up(name, port, limit),
        }
    }
}

/// The number of an interface given by name or number.
fn interface_index(scope: &str) -> Result<u32, LookupError> {
    let missing = || LookupError::NoInterface(scope.to_owned());
    if let Ok(index) = scope.parse() {
        return Ok(index);
    }
    if scope.contains('/') {
        return Err(missing());
    }
    let text = std::fs::read_to_string(format!("/sys/class/net/{scope}/ifindex")).map_err(|_| missing())?;
    text.trim().parse().map_err(|_| missing())
}

fn look_up(name: &str, port: u16, limit: Duration) -> Result<SocketAddr, LookupError> {
    let (answer, answered) = mpsc::channel();
    let asked = name.to_owned();
    // Not joined: after the limit the resolver may go on for as long as it likes.
    std::thread::spawn(move || {
        let found = (asked.as_str(), port).to_socket_addrs().map(|mut all| all.next());
        // Nobody listens any more once the limit has passed.
        let _ = answer.send(found);
    });
    let name = name.to_owned();
    match answered.recv_timeout(limit) {
        Ok(Ok(Some(address))) => Ok(address),
        Ok(Ok(None)) => Err(LookupError::Empty(name)),
        Ok(Err(cause)) => Err(LookupError::Resolver { name, cause }),
        Err(_) => Err(LookupError::Slow { name, limit }),
    }
}

impl FromStr for Address {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.split_once("://") {
            Some(("shm", _)) => Ok(Address::Shm(text.parse()?)),
            _ => Ok(Address::Rdma(text.parse()?)),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Rdma(endpoint) => endpoint.fmt(f),
            Address::Shm(name) => name.fmt(f),
        }
    }
}

impl FromStr for Endpoint {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let form = || ParseError::Form(text.to_owned());
        let rest = match text.split_once("://") {
            Some(("rdma", rest)) => rest,
            _ => return Err(form()),
        };
        let (host, port) = rest.rsplit_once(':').ok_or_else(form)?;
        let port: u16 = port.parse().map_err(|_| form())?;
        let bracketed = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
        let host = match bracketed {
            Some(inner) => ip(inner).filter(|host| !matches!(host, Host::Ip(IpAddr::V4(_)))),
            // An IPv6 address without brackets would swallow the port.
            None if host.contains(':') => None,
            None => ip(host).or_else(|| is_name(host).then(|| Host::Name(host.to_owned()))),
        };
        Ok(Self { host: host.ok_or_else(form)?, port })
    }
}

impl FromStr for SourceAddr {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        ip(text).map(Self).ok_or_else(|| ParseError::Source(text.to_owned()))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        match host {
            Host::Ip(ip) => write!(f, "rdma://{}", SocketAddr::new(*ip, *port)),
            Host::Scoped(ip, scope) => write!(f, "rdma://[{ip}%{scope}]:{port}"),
            Host::Name(name) => write!(f, "rdma://{name}:{port}"),
        }
    }
}

fn ip(text: &str) -> Option<Host> {
    match text.split_once('%') {
        Some((ip, scope)) if !scope.is_empty() => Some(Host::Scoped(ip.parse().ok()?, scope.to_owned())),
        Some(_) => None,
        None => text.parse().ok().map(Host::Ip),
    }
}

/// Letters, digits, `-`, `_` and `.`, not all of it digits and dots: that would be a mistyped address.
fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.chars().all(allowed) && text.chars().any(|c| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(2);

    #[test]
    fn numeric_addresses_need_no_look_up() {
        for (text, want) in [
            ("rdma://192.0.2.1:7471", "192.0.2.1:7471"),
            ("rdma://[2001:db8::1]:7471", "[2001:db8::1]:7471"),
            ("rdma://[fe80::1%3]:9", "[fe80::1%3]:9"),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.resolve(Duration::ZERO).unwrap(), want.parse().unwrap());
            assert_eq!(endpoint.to_string(), text);
        }
    }

    #[test]
    fn an_interface_may_be_named() {
        let endpoint: Endpoint = "rdma://[fe80::1%lo]:7471".parse().unwrap();
        let SocketAddr::V6(v6) = endpoint.resolve(LIMIT).unwrap() else { panic!("not IPv6") };
        assert_eq!(v6.scope_id(), 1, "lo is the first interface of every Linux");
        for scope in ["no-such-if0", "../net/lo"] {
            let endpoint: Endpoint = format!("rdma://[fe80::1%{scope}]:7471").parse().unwrap();
            assert!(matches!(endpoint.resolve(LIMIT), Err(LookupError::NoInterface(_))), "{scope}");
        }
    }

    #[test]
    fn names_are_looked_up() {
        let endpoint: Endpoint = "rdma://localhost:7471".parse().unwrap();
        assert!(endpoint.resolve(LIMIT).unwrap().ip().is_loopback());
        let slow = endpoint.resolve(Duration::ZERO);
        assert!(matches!(slow, Ok(_) | Err(LookupError::Slow { .. })), "{slow:?}");
    }

    #[test]
    fn the_scheme_says_which_fabric() {
        for text in ["rdma://192.0.2.1:7471", "shm://echo", "shm:///run/app/echo"] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(matches!(address, Address::Shm(_)), text.starts_with("shm"));
        }
        let error = "shm://a b".parse::<Address>().unwrap_err().to_string();
        assert!(error.contains("shm://name"), "{error}");
        assert!("tcp://a".parse::<Address>().unwrap_err().to_string().contains("shm://name"));
    }

    #[test]
    fn what_is_no_address_is_refused_with_an_example() {
        for text in [
            "192.0.2.1:7471",
            "tcp://192.0.2.1:7471",
            "rdma://192.0.2.1",
            "rdma://192.0.2.1:70000",
            "rdma://192.0.2:7471",
            "rdma://fe80::1:7471",
            "rdma://[192.0.2.1]:7471",
            "rdma://[fe80::1%]:7471",
            "rdma://:7471",
            "rdma://a b:7471",
        ] {
            let error = text.parse::<Endpoint>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("rdma://192.0.2.1:7471"), "{error}");
        }
        assert!("eth0".parse::<SourceAddr>().is_err());
    }
}
