//! The steps before the loop, in the one order that works.

use std::time::Duration;

use spinwire_core::config::{Config, ConfigError};
use spinwire_core::conn::{Conn, Place, Slot};
use spinwire_core::fabric::SendWr;
use spinwire_core::pool::PoolSlot;
use spinwire_core::timer::TimerSlot;
use spinwire_core::turn::{self, DirtySlot, Needs};

use super::drive::Reactor;
use super::options::{Options, ReadinessWish, Role};
use super::report::{Fabric, SetupReport};
use crate::clock::ClockSource;
use crate::cm::address::AddressError;
use crate::cm::readiness::{Readiness, Wish};
use crate::cm::{ChannelError, ControlOptions, LocateError, VerbsControl, device_for_connecting, device_for_listening};
use crate::cpu::{AllowedCpus, CpuPlacement, PinError, pin_current};
use crate::mem::{Arena, ArenaConfig, ArenaError, stride};
use crate::sys::os::CallError;
use crate::verbs::{self, Device, MrError, QueueError, QueueOptions, Queues, Region};

/// A core that is set up but does not run yet: it owns the memory that a [`Reactor`] works in.
pub struct Setup {
    options: Options,
    role: Role,
    config: Config,
    cpu: CpuPlacement,
    device: Device,
    tables: Tables,
    /// Taken by the first start.
    queues: Option<Queues>,
    // After the queues: their protection domain is the region's too, and each holds it.
    region: Region<Arena>,
}

/// A core could not be set up. What was made until then is released.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The thread cannot be pinned.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// The CPUs that may be used cannot be asked for.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A value is out of its range on any device.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no RDMA device behind the address.
    #[error(transparent)]
    Locate(#[from] LocateError),
    /// The queues cannot be had.
    #[error(transparent)]
    Queues(#[from] QueueError),
    /// The memory cannot be had.
    #[error("{explanation}: {source}")]
    Memory {
        /// What was refused.
        source: ArenaError,
        /// What the memory is for.
        explanation: String,
    },
    /// The memory is there but cannot be registered with the device.
    #[error(transparent)]
    Register(#[from] MrError),
    /// The event channel cannot be opened.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// io_uring was asked for and does not work here.
    #[error("io_uring was asked for, but connection events can only be seen by: {0}")]
    Readiness(Readiness),
    /// The address cannot be listened on.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The engine does not accept its memory: a fault of this program.
    #[error("engine: {0}")]
    Engine(#[from] turn::SetupError),
    /// [`Setup::start`] was called twice.
    #[error("this core was started before")]
    Started,
}

/// The engine's tables.
struct Tables {
    conns: Vec<Slot<Conn>>,
    places: Vec<Place>,
    dirty: Vec<DirtySlot>,
    timers: Vec<TimerSlot>,
    sends: Vec<SendWr>,
    recv: Vec<PoolSlot>,
    send: Vec<PoolSlot>,
}

/// For finding out by which device an address is reached. A missing neighbour is reported after 2.3 s.
const LOCATE_LIMIT: Duration = Duration::from_secs(3);

impl Setup {
    /// Pins the calling thread and allocates everything that `options` ask for. The same thread has to run the loop. A
    /// thread that is pinned already may use no other CPU than its own.
    ///
    /// Cost: tens of milliseconds, and the time the kernel takes to clear the memory.
    ///
    /// # Errors
    /// See [`SetupError`].
    pub fn new(options: &Options, role: Role) -> Result<Self, SetupError> {
        let cpu = pin_current(&AllowedCpus::snapshot()?, options.cpu)?;
        let mut config = Config {
            mode: options.mode,
            depth: options.depth.value(),
            message_bytes_max: options.message_bytes_max,
            inline_bytes_max: 0,
            timeouts: options.timeouts,
            retry: options.retry,
            keepalive: options.keepalive,
            seed: options.seed,
        };
        config.check()?;
        let device = match role {
            Role::Listen(address) => device_for_listening(address)?,
            Role::Connect(endpoint) => device_for_connecting(endpoint, LOCATE_LIMIT)?,
        };
        let sizes = QueueOptions { connections: options.connections, depth: options.depth, inline: options.inline };
        let queues = Queues::new(&device, &sizes)?;
        config.depth = queues.depth();
        config.inline_bytes_max = queues.inline_bytes();
        let needs = Needs::of(&config, options.connections as usize);
        let bytes = pool_bytes(&config, needs.recv_buffers) + pool_bytes(&config, needs.send_buffers);
        let arena = ArenaConfig { bytes, pages: options.pages.clone(), node: device.numa_node(), lock: false };
        let arena = Arena::allocate(&arena).map_err(|source| SetupError::Memory {
            source,
            explanation: explain_memory(&config, options.connections, &needs),
        })?;
        let region = Region::register(queues.pd(), arena)?;
        let tables = Tables::new(&needs);
        Ok(Self { options: options.clone(), role, config, cpu, device, tables, queues: Some(queues), region })
    }

    /// Opens the event channel, puts the engine together, and starts to listen if that is the role.
    ///
    /// # Errors
    /// See [`SetupError`]. A core is started once.
    pub fn start(&mut self) -> Result<Reactor<'_>, SetupError> {
        let queues = self.queues.take().ok_or(SetupError::Started)?;
        let slots = self.options.connections as usize;
        let mut control = VerbsControl::new(&self.device, slots, control_options(&self.options))?;
        let readiness = control.readiness();
        if self.options.readiness == ReadinessWish::IoUring && readiness != Readiness::IoUring {
            return Err(SetupError::Readiness(readiness));
        }
        let memory = self.region.memory().placement().clone();
        let listening = match self.role {
            Role::Listen(address) => {
                let listener = control.listen(address)?;
                control.listener_address(listener)
            }
            Role::Connect(endpoint) => {
                control.add_endpoint(endpoint);
                None
            }
        };
        let tables = verbs::Tables {
            conns: &mut self.tables.conns,
            places: &mut self.tables.places,
            dirty: &mut self.tables.dirty,
            timers: &mut self.tables.timers,
            sends: &mut self.tables.sends,
            recv: &mut self.tables.recv,
            send: &mut self.tables.send,
            stride: buffer_stride(&self.config) as u32,
        };
        let engine = verbs::engine_on(&mut self.region, queues, self.config, control, tables)?;
        let report = SetupReport {
            cpu: self.cpu.clone(),
            fabric: Fabric::Verbs,
            device: self.device.name().to_owned(),
            vendor_id: self.device.limits().vendor_id,
            is_software: self.device.is_software(),
            device_node: self.device.numa_node(),
            memory,
            config: self.config,
            connections: self.options.connections,
            readiness,
            clock: ClockSource::current(),
            listening,
        };
        Ok(Reactor::new(engine, self.options.idle, report))
    }
}

impl Tables {
    fn new(needs: &Needs) -> Self {
        fn all<T>(count: usize, make: impl FnMut() -> T) -> Vec<T> {
            std::iter::repeat_with(make).take(count).collect()
        }
        Self {
            conns: all(needs.conns, || Slot::EMPTY),
            places: all(needs.conns, Place::default),
            dirty: all(needs.conns, DirtySlot::default),
            timers: all(needs.conns, || TimerSlot::IDLE),
            sends: all(needs.sends, || SendWr::EMPTY),
            recv: all(needs.recv_buffers, PoolSlot::default),
            send: all(needs.send_buffers, PoolSlot::default),
        }
    }
}

fn control_options(options: &Options) -> ControlOptions {
    ControlOptions {
        readiness: match options.readiness {
            ReadinessWish::Best | ReadinessWish::IoUring => Wish::Best,
            ReadinessWish::Timed(every) => Wish::Timed(every),
        },
        link: options.link,
        ..ControlOptions::default()
    }
}

fn buffer_stride(config: &Config) -> usize {
    stride(config.message_bytes_max as usize)
}

fn pool_bytes(config: &Config, buffers: usize) -> usize {
    buffers * buffer_stride(config)
}

fn explain_memory(config: &Config, connections: u32, needs: &Needs) -> String {
    let per_connection = (needs.recv_buffers + needs.send_buffers) / needs.conns.max(1);
    format!(
        "{connections} connections x {per_connection} buffers of {} bytes (which follow from depth {})",
        config.message_bytes_max, config.depth
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::Size;

    /// Each on a thread of its own, which setting up pins.
    fn set_up(change: impl FnOnce(&mut Options) + Send) -> SetupError {
        let pinned = std::thread::scope(|threads| {
            let attempt = || {
                let cpu = AllowedCpus::snapshot().unwrap().as_slice()[0];
                let mut options = Options::on_core(cpu);
                change(&mut options);
                let address = "127.0.0.1:7471".parse().unwrap();
                Setup::new(&options, Role::Listen(address)).err()
            };
            threads.spawn(attempt).join().unwrap()
        });
        pinned.expect("127.0.0.1 has no RDMA device, so nothing can be set up there")
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused_first() {
        let error = set_up(|options| (options.cpu, options.depth) = (8_191, Size::Asked(0)));
        assert!(matches!(error, SetupError::Pin(_)), "{error}");
    }

    #[test]
    fn values_out_of_range_are_refused_before_a_device_is_opened() {
        let error = set_up(|options| options.depth = Size::Asked(5_000));
        assert_eq!(error.to_string(), "depth of 5000 is out of range: 1 to 4096");
        let error = set_up(|options| options.message_bytes_max = 0);
        assert_eq!(error.to_string(), "message size of 0 is out of range: 1 to 8388608");
    }

    #[test]
    fn without_a_device_the_address_is_the_reason() {
        let error = set_up(|_| {});
        assert!(matches!(error, SetupError::Locate(_)), "{error}");
    }

    #[test]
    fn memory_that_cannot_be_had_says_what_it_is_for() {
        let config = Config {
            mode: spinwire_core::config::Mode::Spinwire,
            depth: 32,
            message_bytes_max: 4_096,
            inline_bytes_max: 0,
            timeouts: Default::default(),
            retry: Default::default(),
            keepalive: None,
            seed: 0,
        };
        let text = explain_memory(&config, 64, &Needs::of(&config, 64));
        let sizing = config.sizing();
        let buffers = sizing.recv_buffers + sizing.send_buffers;
        assert!(text.contains(&format!("64 connections x {buffers} buffers of 4096 bytes")), "{text}");
    }
}
