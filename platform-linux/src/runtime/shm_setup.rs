//! The steps before the loop over shared memory.

use std::rc::Rc;
use std::time::Duration;

use spinwire_core::config::{CONNS_MAX, Config, ConfigError, DEPTH_MAX, POOL_BUFFERS_MAX};
use spinwire_core::remote::Rights;
use spinwire_core::turn::{self, Needs};

use super::drive::Reactor;
use super::expose::ExposeError;
use super::options::{Options, ReadinessWish};
use super::report::{Fabric, Segment, SetupReport};
use super::tables::{MemoryError, Tables, allocate, needs_of};
use crate::clock::ClockSource;
use crate::cpu::{AllowedCpus, CpuPlacement, PinError, pin_current};
use crate::mem::{Arena, ExposedRegion, PageKind};
use crate::readiness::Readiness;
use crate::shm::{
    self, Closer, ControlError, ListenError, Name, OwnRegion, REGIONS_MAX, SILENCE_MIN, ShareError, ShmControl,
    ShmControlOptions, Users,
};
use crate::sys::os::CallError;

/// A core that is set up but does not run yet: it owns the memory that a [`Reactor`] works in.
pub struct ShmSetup {
    options: Options,
    role: ShmRole,
    config: Config,
    cpu: CpuPlacement,
    segment: Segment,
    tables: Tables,
    arena: Arena,
    exposed: Vec<Rc<OwnRegion>>,
    /// Until the start.
    closer: Option<Closer>,
}

/// Which side of connections a core is on.
#[derive(Clone, Debug)]
pub enum ShmRole {
    /// Takes connections at this name from processes of these users.
    Listen(Name, Users),
    /// Makes connections to this name, which is endpoint 0, if its server is of these users.
    Connect(Name, Users),
}

/// A core could not be set up. What was made until then is released.
#[derive(Debug, thiserror::Error)]
pub enum ShmSetupError {
    /// The thread cannot be pinned.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// The CPUs that may be used cannot be asked for.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A value is out of its range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Connections and depth are too many together.
    #[error(
        "{connections} connections of depth {depth} need {buffers} buffers in one direction, at most \
        {POOL_BUFFERS_MAX} are possible: fewer connections, or a smaller depth"
    )]
    Buffers {
        /// Connections asked.
        connections: u32,
        /// Depth asked.
        depth: u32,
        /// Buffers that follow.
        buffers: usize,
    },
    /// [`Options::silence`] is too short: peers that are well would be given up.
    #[error("a silence of {asked:?} is too short: at least {SILENCE_MIN:?}")]
    Silence {
        /// What was asked.
        asked: Duration,
    },
    /// The buffers cannot be had.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The memory of a connection cannot be had, not even for one.
    #[error("the memory of one connection: {0}")]
    Segment(#[from] ShareError),
    /// The connection side cannot be set up.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// io_uring was asked for and does not work here.
    #[error("io_uring was asked for, but connection events can only be seen by: {0}")]
    Readiness(Readiness),
    /// The name cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The engine does not accept its memory: a fault of this program.
    #[error("engine: {0}")]
    Engine(#[from] turn::SetupError),
    /// [`ShmSetup::start`] was called twice.
    #[error("this core was started before")]
    Started,
}

impl ShmSetup {
    /// Pins the calling thread and allocates everything that `options` ask for, except the connections' own memory, which
    /// is made with each; it is made once here to see that it can be had. The same thread has to run the loop.
    ///
    /// `inline` and `link` of the options mean nothing here. Cost: the time the kernel takes to clear the memory.
    ///
    /// # Errors
    /// See [`ShmSetupError`].
    pub fn new(options: &Options, role: ShmRole) -> Result<Self, ShmSetupError> {
        if options.silence < SILENCE_MIN {
            return Err(ShmSetupError::Silence { asked: options.silence });
        }
        // Before the pin: it is not to run on this core.
        let closer = Some(Closer::new().map_err(ControlError::from)?);
        let cpu = pin_current(&AllowedCpus::snapshot()?, options.cpu)?;
        let config = options.config()?;
        let (needs, operations) = needs_of(&config, options);
        check_counts(options.connections, &config, &needs)?;
        let hugepages = options.pages.kinds().contains(&PageKind::TwoMib);
        let mut segment = shm::probe_segment(&config, hugepages)?;
        // Short messages travel in their descriptors: for them no buffer is lent.
        let lends = options.lend_buffers && config.message_bytes_max as usize > shm::INLINE_MAX;
        let arena = allocate(&config, options, &needs, cpu.node, lends)?;
        segment.lends_buffers = shm::may_be_lent(&arena).is_some();
        let tables = Tables::new(&needs, operations)?;
        Ok(Self { options: options.clone(), role, config, cpu, segment, tables, arena, exposed: Vec::new(), closer })
    }

    /// Makes `bytes` of zeroes that the peers of all connections may use as `rights` say: at most [`REGIONS_MAX`] regions,
    /// before the start. Each is a memfd of its own, passed to every peer that connects or is connected to; send them
    /// [`ExposedRegion::remote`]. On pages of 2 MiB where peers only read it and there are any, else on small pages.
    ///
    /// # Errors
    /// See [`ExposeError`].
    pub fn expose(&mut self, bytes: usize, rights: Rights) -> Result<ExposedRegion, ExposeError> {
        ExposeError::check((bytes, rights), self.exposed.len(), REGIONS_MAX, self.closer.is_none())?;
        let hugepages = self.options.pages.kinds().contains(&PageKind::TwoMib);
        let stop = &self.options.stop;
        let made = shm::expose(self.exposed.len(), bytes, rights, hugepages, stop);
        if let (Err(_), Some(signal)) = (&made, stop.signal()) {
            return Err(ExposeError::Stopped { bytes, signal });
        }
        let (region, exposed) = made?;
        self.exposed.push(region);
        Ok(exposed)
    }

    /// Puts the engine together, and starts to listen if that is the role.
    ///
    /// # Errors
    /// See [`ShmSetupError`]. A core is started once.
    pub fn start(&mut self) -> Result<Reactor<'_, ShmControl<'_>>, ShmSetupError> {
        let closer = self.closer.take().ok_or(ShmSetupError::Started)?;
        let (ShmRole::Listen(_, users) | ShmRole::Connect(_, users)) = &self.role;
        let control_options = ShmControlOptions {
            readiness: self.options.readiness.wish(),
            users: users.clone(),
            silence: self.options.silence,
        };
        let mut control = ShmControl::with_closer(self.options.connections as usize, control_options, closer)?;
        let readiness = control.readiness();
        if self.options.readiness == ReadinessWish::IoUring && readiness != Readiness::IoUring {
            return Err(ShmSetupError::Readiness(readiness));
        }
        self.exposed.iter().for_each(|region| control.expose(Rc::clone(region)));
        let mut replaced_socket = false;
        let listening = match &self.role {
            ShmRole::Listen(name, _) => {
                let listener = control.listen(name)?;
                replaced_socket = control.replaced_a_dead_one(listener);
                Some(name.to_string())
            }
            ShmRole::Connect(name, _) => {
                control.add_endpoint(name.clone());
                None
            }
        };
        let memory = self.arena.placement().clone();
        let tables = self.tables.lend(&self.config);
        let engine = shm::engine_on(&mut self.arena, self.config, control, tables, self.segment.is_huge)?;
        let report = SetupReport {
            cpu: self.cpu.clone(),
            fabric: Fabric::Shm(Segment { replaced_socket, ..self.segment }),
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

fn check_counts(connections: u32, config: &Config, needs: &Needs) -> Result<(), ShmSetupError> {
    if connections == 0 || connections as usize > CONNS_MAX {
        let (name, asked, max) = ("connections", connections, CONNS_MAX as u32);
        return Err(ConfigError::Range { name, asked, max }.into());
    }
    let buffers = needs.recv_buffers.max(needs.send_buffers);
    if buffers > POOL_BUFFERS_MAX {
        return Err(ShmSetupError::Buffers { connections, depth: config.depth, buffers });
    }
    Ok(())
}

const _: () = assert!(DEPTH_MAX as usize * 4 < POOL_BUFFERS_MAX, "one connection of any depth fits");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_that_peers_which_are_well_would_not_survive_is_refused() {
        for millis in [0, 499] {
            let options = Options { silence: Duration::from_millis(millis), ..Options::on_core(0) };
            let role = ShmRole::Connect("shm://silence".parse().unwrap(), Users::default());
            let error = ShmSetup::new(&options, role).err().expect("it is too short");
            assert!(error.to_string().ends_with("is too short: at least 500ms"), "{error}");
        }
    }
}
