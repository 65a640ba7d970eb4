//! Everybody who takes part.

#[cfg(feature = "aeron")]
mod aeron;
mod bare;
#[cfg(feature = "iceoryx2")]
mod iceoryx2;
pub mod programs;
mod socket;
mod spinwire;

use crate::peer::Peer;

/// Those that run in our two processes, ours first.
pub const ALL: &[Peer] = &[
    spinwire::PEER,
    bare::PEER,
    #[cfg(feature = "aeron")]
    aeron::PEER,
    #[cfg(feature = "iceoryx2")]
    iceoryx2::PEER,
    socket::UNIX,
    socket::TCP,
];

/// Those that this program was built without.
pub const WITHOUT: &[&str] = &[
    #[cfg(not(feature = "aeron"))]
    "aeron_ipc",
    #[cfg(not(feature = "iceoryx2"))]
    "iceoryx2",
];
