//! What a core is set up with.

use std::hash::{BuildHasher, Hasher, RandomState};
#[cfg(feature = "rdma")]
use std::net::SocketAddr;
use std::time::Duration;

use spinwire_core::config::{Config, ConfigError, Keepalive, Mode, Retry, Timeouts};

use super::idle::Idle;
use super::link::LinkOptions;
use super::size::Size;
#[cfg(feature = "rdma")]
use crate::cm::Endpoint;
use crate::mem::PagePolicy;
use crate::readiness::Wish;
use crate::shm::SILENCE;
use crate::signals::Stop;

/// Everything that can be chosen about one core and its loop.
///
/// ```
/// use spinwire_linux::runtime::{Options, Size};
///
/// // One deep connection with messages of up to 64 KiB, on CPU 2.
/// let options =
///     Options { connections: 1, depth: Size::Asked(256), message_bytes_max: 64 << 10, ..Options::on_core(2) };
/// # let _ = options;
/// ```
///
/// Sizes that are [`Size::Default`] are lowered to what the device takes, and that is printed once; sizes that are
/// [`Size::Asked`] and too large are errors that name the largest possible.
#[derive(Clone, Debug)]
pub struct Options {
    /// The CPU to pin the calling thread to.
    pub cpu: u32,
    /// Who speaks at the other end.
    pub mode: Mode,
    /// Connections at one time.
    pub connections: u32,
    /// Messages in flight per connection and direction.
    pub depth: Size,
    /// Largest message in bytes, at least 1.
    pub message_bytes_max: u32,
    /// Largest payload that travels inside its work request, in bytes.
    pub inline: Size,
    /// One-sided operations that a connection may have under way, at most 1,024; rounded up to a power of two. Each takes a
    /// send buffer of its own. 0, the default: none can be asked for, but peers can reach what this core exposes.
    pub one_sided: u32,
    /// Kinds of memory pages, in the order to try them.
    pub pages: PagePolicy,
    /// How to learn of connection events.
    pub readiness: ReadinessWish,
    /// What to do in turns without work.
    pub idle: Idle,
    /// Retries and timers of a reliable connection.
    pub link: LinkOptions,
    /// Limits on waiting.
    pub timeouts: Timeouts,
    /// When a connection that does not come up is tried again.
    pub retry: Retry,
    /// How a peer is noticed that vanished while nothing was sent. Of no effect in raw mode.
    pub keepalive: Option<Keepalive>,
    /// Over shared memory: lend this core's buffers to peers of the same user, who then copy messages of more than 120 bytes
    /// from there straight into their receives; else there are two copies, as with peers of other users. Lent means that the
    /// peer can read all of this core's buffers, also those of other connections, for as long as it keeps them mapped. It
    /// cannot write them. (A process can read the memory of others of its user in any case, unless the kernel keeps it from
    /// tracing them.) Without meaning over RDMA.
    pub lend_buffers: bool,
    /// Over shared memory, a peer whose loop does not turn for so long is given up: at least
    /// [`SILENCE_MIN`](crate::shm::SILENCE_MIN).
    pub silence: Duration,
    /// Ends the set-up early if a signal came: large memory takes a while to be made present. The default never does.
    pub stop: Stop,
    /// Where the engine's randomness comes from.
    pub seed: u64,
}

impl Options {
    /// What the engine is set up with, without inline sends: a device says how long they may be.
    pub(super) fn config(&self) -> Result<Config, ConfigError> {
        let config = Config {
            mode: self.mode,
            depth: self.depth.value(),
            message_bytes_max: self.message_bytes_max,
            inline_bytes_max: 0,
            timeouts: self.timeouts,
            retry: self.retry,
            keepalive: self.keepalive,
            seed: self.seed,
        };
        config.check()?;
        Ok(config)
    }

    /// One-sided operations of a connection, as they are made room for.
    pub(super) fn operations(&self) -> u32 {
        match self.one_sided {
            0 => 0,
            wish => wish.min(ONE_SIDED_MAX).next_power_of_two(),
        }
    }
}

/// Which side of connections a core is on.
#[cfg(feature = "rdma")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Takes connections at this address. Port 0 lets the kernel choose.
    Listen(SocketAddr),
    /// Makes connections to this endpoint, which gets the number 0.
    Connect(Endpoint),
}

/// How to learn of connection events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReadinessWish {
    /// io_uring where the kernel allows it, else by poll(2) on a budget of time.
    #[default]
    Best,
    /// io_uring, or an error.
    IoUring,
    /// poll(2), at most once in this time.
    Timed(Duration),
}

impl ReadinessWish {
    /// What to ask for; whether it was got is seen afterwards.
    pub(super) fn wish(self) -> Wish {
        match self {
            ReadinessWish::Best | ReadinessWish::IoUring => Wish::Best,
            ReadinessWish::Timed(every) => Wish::Timed(every),
        }
    }
}

impl Options {
    /// The defaults, on CPU `cpu`: 64 connections, depth 32, messages of up to 4 KiB, 220 bytes inline, spinning,
    /// a random seed.
    pub fn on_core(cpu: u32) -> Self {
        Self {
            cpu,
            mode: Mode::Spinwire,
            connections: 64,
            depth: Size::Default(32),
            message_bytes_max: 4_096,
            inline: Size::Default(INLINE_BYTES),
            one_sided: 0,
            pages: PagePolicy::default(),
            readiness: ReadinessWish::Best,
            idle: Idle::Spin,
            link: LinkOptions::default(),
            timeouts: Timeouts::default(),
            retry: Retry::DEFAULT,
            keepalive: Some(Keepalive::DEFAULT),
            lend_buffers: true,
            silence: SILENCE,
            stop: Stop::default(),
            seed: RandomState::new().build_hasher().finish(),
        }
    }
}

/// More would be waited for longer than they help.
pub(super) const ONE_SIDED_MAX: u32 = 1_024;

/// What common cards grant without making their work requests longer than four 64-byte blocks.
const INLINE_BYTES: u32 = 220;
