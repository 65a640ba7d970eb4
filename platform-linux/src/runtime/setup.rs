//! The steps before the loop, in the one order that works.

use std::time::Duration;

use spinwire_core::config::{Config, ConfigError};
use spinwire_core::remote::Rights;
use spinwire_core::turn;

use super::drive::Reactor;
use super::expose::ExposeError;
use super::options::{Options, ReadinessWish, Role};
use super::report::{self, SetupReport};
use super::tables::{MemoryError, Tables, allocate, needs_of};
use crate::clock::ClockSource;
use crate::cm::address::AddressError;
use crate::cm::{ChannelError, ControlOptions, LocateError, VerbsControl, device_for_connecting, device_for_listening};
use crate::cpu::{AllowedCpus, CpuPlacement, PinError, pin_current};
use crate::mem::{Arena, ArenaConfig, ExposedRegion};
use crate::readiness::Readiness;
use crate::shm::REGIONS_MAX;
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
    exposed: usize,
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
    #[error(transparent)]
    Memory(#[from] MemoryError),
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
        let mut config = options.config()?;
        let device = match role {
            Role::Listen(address) => device_for_listening(address)?,
            Role::Connect(endpoint) => device_for_connecting(endpoint, LOCATE_LIMIT)?,
        };
        let sizes = QueueOptions {
            connections: options.connections,
            depth: options.depth,
            inline: options.inline,
            one_sided: options.operations(),
        };
        let queues = Queues::new(&device, &sizes)?;
        config.depth = queues.depth();
        config.inline_bytes_max = queues.inline_bytes();
        let (needs, operations) = needs_of(&config, options);
        let arena = allocate(&config, options, &needs, device.numa_node(), false)?;
        let region = Region::register(queues.pd(), arena)?;
        let tables = Tables::new(&needs, operations)?;
        Ok(Self {
            options: options.clone(),
            role,
            config,
            cpu,
            device,
            tables,
            queues: Some(queues),
            region,
            exposed: 0,
        })
    }

    /// Makes `bytes` of zeroes that the peers of all connections may use as `rights` say, and registers them with the device:
    /// at most [`REGIONS_MAX`] regions, before the start. Send [`ExposedRegion::remote`] to those who are to use it; whoever
    /// is connected to this core and guesses it may, too. On the pages that the options name, on the device's NUMA node.
    ///
    /// # Errors
    /// See [`ExposeError`].
    pub fn expose(&mut self, bytes: usize, rights: Rights) -> Result<ExposedRegion, ExposeError> {
        ExposeError::check((bytes, rights), self.exposed, REGIONS_MAX, self.queues.is_none())?;
        let Some(queues) = &self.queues else { return Err(ExposeError::Started) };
        let pages = self.options.pages.clone();
        let stop = self.options.stop.clone();
        let arena = ArenaConfig { bytes, pages, node: self.device.numa_node(), lock: false, shared: false, stop };
        let region = verbs::expose(queues.pd(), Arena::allocate(&arena)?, bytes, rights)?;
        self.exposed += 1;
        Ok(region)
    }

    /// Opens the event channel, puts the engine together, and starts to listen if that is the role.
    ///
    /// # Errors
    /// See [`SetupError`]. A core is started once.
    pub fn start(&mut self) -> Result<Reactor<'_, VerbsControl<'_>>, SetupError> {
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
                control.listener_address(listener).or(Some(address)).map(|address| format!("rdma://{address}"))
            }
            Role::Connect(endpoint) => {
                control.add_endpoint(endpoint);
                None
            }
        };
        let tables = self.tables.lend(&self.config);
        let engine = verbs::engine_on(&mut self.region, queues, self.config, control, tables)?;
        let report = SetupReport {
            cpu: self.cpu.clone(),
            fabric: report::Fabric::Verbs(report::Device {
                name: self.device.name().to_owned(),
                vendor_id: self.device.limits().vendor_id,
                is_software: self.device.is_software(),
                node: self.device.numa_node(),
            }),
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

fn control_options(options: &Options) -> ControlOptions {
    ControlOptions { readiness: options.readiness.wish(), link: options.link, ..ControlOptions::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Size;

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
}
