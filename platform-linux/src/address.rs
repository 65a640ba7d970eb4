//! Addresses as people write them: `rdma://192.0.2.1:7471`, `rdma://[fe80::1%eth0]:7471`, `rdma://name:7471`,
//! `shm://name`, `shm:///path/of/a/socket`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::str::FromStr;
use std::sync::mpsc;
use std::time::Duration;

#[cfg(feature = "rdma")]
use crate::cm;
#[cfg(feature = "rdma")]
use crate::runtime::Role;
use crate::runtime::{AnyRole, ShmRole};
use crate::shm::{Name, NameError, Users};

/// Where to listen or connect to. It says over which fabric, and is all that a program changes to use the other one.
///
/// ```
/// use spinwire_linux::address::Address;
///
/// let address: Address = "shm://echo".parse()?;
/// let role = address.listen()?; // for AnySetup::new
/// # let _ = role;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// This build cannot reach it.
    #[error(
        "this program was built without rdma (the feature `rdma`) and knows shm:// only; `ci/setup` installs what it needs, \
             and `cargo build --release -p spinwire` makes one that has both"
    )]
    NoRdma,
}

impl Address {
    /// The role of a server here, for peers of the own user where that counts.
    ///
    /// # Errors
    /// See [`LookupError`]. A name takes at most [`LOOKUP_LIMIT`] to look up.
    pub fn listen(&self) -> Result<AnyRole, LookupError> {
        match self {
            #[cfg(feature = "rdma")]
            Address::Rdma(endpoint) => Ok(AnyRole::Rdma(Role::Listen(endpoint.resolve(LOOKUP_LIMIT)?))),
            #[cfg(not(feature = "rdma"))]
            Address::Rdma(_) => Err(LookupError::NoRdma),
            Address::Shm(name) => Ok(AnyRole::Shm(ShmRole::Listen(name.clone(), Users::default()))),
        }
    }

    /// The role of a client of a server there, which is endpoint 0. `source` is the own address, whose network interface decides
    /// which device is used; without it the kernel chooses by its routes. It means nothing over shared memory.
    ///
    /// # Errors
    /// As [`Address::listen`].
    pub fn connect(&self, source: Option<&SourceAddr>) -> Result<AnyRole, LookupError> {
        match self {
            #[cfg(feature = "rdma")]
            Address::Rdma(endpoint) => {
                let target = endpoint.resolve(LOOKUP_LIMIT)?;
                let source = source.map(SourceAddr::resolve).transpose()?;
                Ok(AnyRole::Rdma(Role::Connect(cm::Endpoint { target, source })))
            }
            #[cfg(not(feature = "rdma"))]
            Address::Rdma(_) => {
                let _ = source;
                Err(LookupError::NoRdma)
            }
            Address::Shm(name) => Ok(AnyRole::Shm(ShmRole::Connect(name.clone(), Users::default()))),
        }
    }
}

/// The look-up of a name may take so long.
pub const LOOKUP_LIMIT: Duration = Duration::from_secs(5);

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
mod tests;
