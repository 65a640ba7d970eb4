//! One pinned core, set up in the right order and driven.
//!
//! ```no_run
//! use spinwire_core::id::ConnId;
//! use spinwire_core::turn::{Answer, Cx, Handler};
//! use spinwire_linux::address::Address;
//! use spinwire_linux::runtime::{AnySetup, Options};
//!
//! struct Echo;
//!
//! impl Handler for Echo {
//!     fn on_message(&mut self, _: &mut Cx<'_, '_>, _: ConnId, message: &mut [u8]) -> Answer {
//!         Answer::InPlace(message.len() as u32)
//!     }
//! }
//!
//! let address: Address = "rdma://192.0.2.1:7471".parse()?; // or "shm://echo"
//! let mut setup = AnySetup::new(&Options::on_core(2), address.listen()?)?;
//! let mut reactor = setup.start()?;
//! println!("{}", reactor.report());
//! reactor.run(&mut Echo, |_| false)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | step | done by | what it can fail with |
//! |---|---|---|
//! | pin the thread, check where it runs | `Setup::new` | `SetupError::Pin` |
//! | find the device behind the address | `Setup::new` | `SetupError::Locate` |
//! | protection domain, completion queues, sizes fitted to the device | `Setup::new` | `SetupError::Queues` |
//! | memory, on the device's NUMA node | `Setup::new` | `SetupError::Memory` |
//! | registration | `Setup::new` | `SetupError::Register` |
//! | event channel, engine, listener or endpoint | `Setup::start` | `SetupError::Channel`, `SetupError::Address` |
//! | the loop | [`Reactor::run`] | [`RunError`] |
//!
//! This is the order over RDMA, in `Setup`. [`ShmSetup`] does the same for processes of one machine over shared memory,
//! where there is no device to find and nothing to register. [`AnySetup`] is whichever of the two the address asks for;
//! the application is the same.
//!
//! Everything is allocated before the loop begins; the loop allocates nothing.
//!
//! **Threads and children.** The thread that sets a core up stays on its CPU, and threads that it starts later begin there too: a
//! program starts the threads of its other cores first, or sets each core up in a thread of its own. It forks, to become a
//! daemon for example, before the set-up. A child that is forked later and runs no other program keeps the sockets: peers then
//! learn of the parent's end only when the child ends too, or by [`Options::silence`].

mod any;
mod drive;
mod expose;
mod idle;
mod link;
mod options;
mod report;
#[cfg(feature = "rdma")]
mod setup;
mod shm_setup;
mod size;
mod tables;
mod transport;
mod troubles;

pub use any::{AnyReactor, AnyRole, AnySetup, AnySetupError};
pub use drive::{CqFailure, Reactor, RunError};
pub use expose::ExposeError;
pub use idle::Idle;
pub use link::LinkOptions;
#[cfg(feature = "rdma")]
pub(crate) use link::RETRIES_MAX;
#[cfg(feature = "rdma")]
pub use options::Role;
pub use options::{Options, ReadinessWish};
pub use report::{Device, Fabric, Segment, SetupReport};
#[cfg(feature = "rdma")]
pub use setup::{Setup, SetupError};
pub use shm_setup::{ShmRole, ShmSetup, ShmSetupError};
pub use size::Size;
pub(crate) use tables::Lent;
pub use tables::MemoryError;
pub use transport::Transport;
pub use troubles::Troubles;
