//! The shared-memory fabric: connections between processes of one machine, with the semantics of a reliable connection.
//!
//! # Whose memory is whose
//!
//! Each side of a connection makes one segment, writes it, and lets the other read it. Nobody writes what another owns:
//!
//! ```text
//!   client                                            server
//!   buffers --copy--> client's segment  ==read==>  --copy--> buffers
//!   buffers <--copy-- <==read==  server's segment  <--copy-- buffers
//!
//!   buffers, lent  ==read==============================copy==> buffers      messages of more than 120 bytes between
//!   buffers <==copy==============================read== buffers, lent       processes of one user
//! ```
//!
//! The kernel keeps it so: segments, and arenas that are lent, are memfds sealed against shrinking, growing and further
//! writers (`memory`). What a peer can do is to write nonsense into its own memory, and every number read from there is
//! checked, once, before it is used (`receiver::Lie`); its connection then ends with a failed completion.
//!
//! **What a peer can read.** Its own segment's counterpart, always. A peer of the same user also the whole arena: every
//! buffer of this core, with whatever messages of other connections are in there. A process can read others of its user
//! anyway unless the kernel keeps it from tracing them; where that matters, lending is turned off
//! ([`Options::lend_buffers`](crate::runtime::Options::lend_buffers)). Peers of other users, root among them, get no arena.
//!
//! # The data path
//!
//! A message of up to 120 bytes lies in its descriptor's slot, beside the word that says so; longer ones in the buffer they
//! were posted from, if that is lent, or else in the slot's chunk, in parts if need be. The receiver copies it straight into
//! the posted buffer. A descriptor carries the
//! acknowledgement of the other direction, so an answer costs no further cache line; without answers a counter is written
//! once per poll that found something. A send is done when the peer has taken it.
//!
//! | what | pairs |
//! |---|---|
//! | S1 the word of a slot is stored, release; S2 it is loaded, acquire | who sees a message sees all of it |
//! | V1 `revoked` is stored before a lent buffer is used again; V2 it is loaded after the copy | who saw later bytes sees that they are |
//! | C1 the counter (or the acknowledgement in a word) is stored, release; C2 it is loaded, acquire | a slot is read before it is written again |
//!
//! # The connection path
//!
//! A Unix socket that keeps packets apart. A client sends a request with its segment and its pulse, the server accepts with
//! its own, the client says that it is ready; or the server refuses. The socket stays open and says nothing: its end is the
//! peer's end, whatever ended it, and is seen through one epoll set by the same readiness check as rdma_cm events are. A
//! peer that is stopped and not dead shows in its pulse (`pulse`).

mod arenas;
mod closer;
mod conn;
mod control;
mod dropped;
mod engine;
mod exposed;
mod fabric;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod handshake;
mod hook;
mod incoming;
mod layout;
mod lend;
mod link;
mod listener;
mod local;
#[doc(hidden)]
pub mod measure;
mod memory;
mod name;
mod name_lock;
mod operations;
mod options;
mod poller;
mod posted;
mod pulse;
mod receiver;
mod sender;
mod slot;
mod socket;
mod tick;
mod token;
mod unmap;
mod users;
mod watch;
mod wire;
mod word;

#[cfg(test)]
mod asking_tests;
#[cfg(test)]
mod closing_tests;
#[cfg(test)]
mod exposed_tests;
#[cfg(test)]
mod fairness_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod lending_tests;
#[cfg(test)]
mod memory_tests;
#[cfg(test)]
mod soak;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod watch_tests;

pub(crate) use arenas::may_be_lent;
pub(crate) use closer::Closer;
pub use control::ShmControl;
pub use dropped::{DropReason, Dropped};
pub(crate) use engine::{engine_on, probe_segment};
pub use exposed::REGIONS_MAX;
pub(crate) use exposed::{OwnRegion, expose};
pub use fabric::ShmFabric;
pub use listener::ListenError;
pub(crate) use memory::hint as call_hint;
pub use memory::{ShareError, limit_hint, threads_hint};
pub use name::{Name, NameError};
pub use options::{ControlError, SILENCE, SILENCE_MIN, ShmControlCounters, ShmControlOptions};
pub use slot::INLINE_MAX;
pub use socket::Credentials;
pub use users::{Users, user_number};
