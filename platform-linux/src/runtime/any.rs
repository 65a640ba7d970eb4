//! The same set-up and loop for either fabric, so that a program changes the address and nothing else.

use spinwire_core::remote::Rights;
use spinwire_core::stats::Stats;
use spinwire_core::turn::{AuditError, Cx, Handler};

#[cfg(feature = "rdma")]
use super::Setup;
#[cfg(feature = "rdma")]
use super::SetupError;
use super::drive::{Reactor, RunError};
use super::expose::ExposeError;
use super::options::Options;
#[cfg(feature = "rdma")]
use super::options::Role;
use super::report::SetupReport;
use super::shm_setup::{ShmRole, ShmSetup, ShmSetupError};
use super::troubles::Troubles;
#[cfg(feature = "rdma")]
use crate::cm::VerbsControl;
use crate::mem::ExposedRegion;
use crate::shm::ShmControl;

/// Which side of connections a core is on, and over which fabric. An [`Address`](crate::address::Address) makes one.
#[derive(Clone, Debug)]
pub enum AnyRole {
    /// Through an RDMA device.
    #[cfg(feature = "rdma")]
    Rdma(Role),
    /// Through shared memory.
    Shm(ShmRole),
}

/// `Setup` or [`ShmSetup`], whichever the role asks for.
pub enum AnySetup {
    /// Through an RDMA device.
    #[cfg(feature = "rdma")]
    Rdma(Box<Setup>),
    /// Through shared memory.
    Shm(Box<ShmSetup>),
}

/// A core could not be set up. What was made until then is released.
#[derive(Debug, thiserror::Error)]
pub enum AnySetupError {
    /// Through an RDMA device.
    #[cfg(feature = "rdma")]
    #[error(transparent)]
    Rdma(#[from] SetupError),
    /// Through shared memory.
    #[error(transparent)]
    Shm(#[from] ShmSetupError),
}

/// A core that runs. It is asked once, before the loop, which fabric it is: a turn costs what it costs with the
/// [`Reactor`] of that fabric.
#[cfg_attr(
    feature = "rdma",
    expect(clippy::large_enum_variant, reason = "there is one for each core, and it stays where it is")
)]
pub enum AnyReactor<'m> {
    /// Through an RDMA device.
    #[cfg(feature = "rdma")]
    Rdma(Reactor<'m, VerbsControl<'m>>),
    /// Through shared memory.
    Shm(Reactor<'m, ShmControl<'m>>),
}

/// Does the same with whichever it is.
macro_rules! either {
    ($on:expr, $reactor:ident => $what:expr) => {
        match $on {
            #[cfg(feature = "rdma")]
            AnyReactor::Rdma($reactor) => $what,
            AnyReactor::Shm($reactor) => $what,
        }
    };
}

impl AnySetup {
    /// As `Setup::new` and [`ShmSetup::new`]: pins the calling thread and allocates everything that `options` ask for.
    ///
    /// # Errors
    /// See [`AnySetupError`].
    pub fn new(options: &Options, role: AnyRole) -> Result<Self, AnySetupError> {
        Ok(match role {
            #[cfg(feature = "rdma")]
            AnyRole::Rdma(role) => AnySetup::Rdma(Box::new(Setup::new(options, role)?)),
            AnyRole::Shm(role) => AnySetup::Shm(Box::new(ShmSetup::new(options, role)?)),
        })
    }

    /// As `Setup::expose` and [`ShmSetup::expose`]: makes `bytes` of zeroes that the peers of all connections may use as
    /// `rights` say, before the start.
    ///
    /// # Errors
    /// See [`ExposeError`].
    pub fn expose(&mut self, bytes: usize, rights: Rights) -> Result<ExposedRegion, ExposeError> {
        match self {
            #[cfg(feature = "rdma")]
            AnySetup::Rdma(setup) => setup.expose(bytes, rights),
            AnySetup::Shm(setup) => setup.expose(bytes, rights),
        }
    }

    /// Puts the engine together, and starts to listen if that is the role.
    ///
    /// # Errors
    /// See [`AnySetupError`]. A core is started once.
    pub fn start(&mut self) -> Result<AnyReactor<'_>, AnySetupError> {
        Ok(match self {
            #[cfg(feature = "rdma")]
            AnySetup::Rdma(setup) => AnyReactor::Rdma(setup.start()?),
            AnySetup::Shm(setup) => AnyReactor::Shm(setup.start()?),
        })
    }
}

impl AnyReactor<'_> {
    /// What was set up.
    pub fn report(&self) -> &SetupReport {
        either!(self, reactor => reactor.report())
    }

    /// The counters so far.
    pub fn stats(&self) -> &Stats {
        either!(self, reactor => reactor.stats())
    }

    /// As [`Reactor::troubles`].
    pub fn troubles(&mut self) -> Troubles {
        either!(self, reactor => reactor.troubles())
    }

    /// As [`Engine::with`](spinwire_core::turn::Engine::with): does something outside of a callback, to connect for example.
    pub fn with<R>(&mut self, f: impl FnOnce(&mut Cx<'_, '_>) -> R) -> R {
        either!(self, reactor => reactor.engine().with(f))
    }

    /// As [`Engine::audit`](spinwire_core::turn::Engine::audit): adds up what the engine owns.
    ///
    /// # Errors
    /// The first sum that does not come out.
    pub fn audit(&mut self) -> Result<(), AuditError> {
        either!(self, reactor => reactor.engine().audit())
    }

    /// As [`Reactor::run`].
    ///
    /// # Errors
    /// As there.
    pub fn run<H: Handler>(&mut self, handler: &mut H, done: impl FnMut(&H) -> bool) -> Result<(), RunError> {
        either!(self, reactor => reactor.run(handler, done))
    }

    /// As [`Reactor::close`].
    ///
    /// # Errors
    /// As there.
    pub fn close<H: Handler>(&mut self, handler: &mut H) -> Result<(), RunError> {
        either!(self, reactor => reactor.close(handler))
    }
}
