//! Why a region cannot be exposed.

use spinwire_core::remote::Rights;

use crate::shm::ShareError;
use crate::signals;
#[cfg(feature = "rdma")]
use crate::{mem::ArenaError, verbs::MrError};

/// A region cannot be exposed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExposeError {
    /// Not a byte, or more than an address space has.
    #[error("a region of {bytes} bytes cannot be exposed")]
    Size {
        /// Bytes asked.
        bytes: usize,
    },
    /// [`Rights::NONE`]: no peer could use it.
    #[error("a region that allows nothing cannot be exposed: give it the right to read, to write or to use atomics")]
    NoRights,
    /// There are as many as there can be.
    #[error("{max} regions are exposed already, and no core can have more: make one larger region of some")]
    TooMany {
        /// Regions there can be.
        max: usize,
    },
    /// The core has started.
    #[error("this core has started: regions are exposed before that")]
    Started,
    /// [`Options::stop`](super::Options::stop) said so.
    #[error("a region of {bytes} bytes was being made when {} came", signals::name(*.signal))]
    Stopped {
        /// Bytes asked.
        bytes: usize,
        /// The number of the signal.
        signal: u8,
    },
    /// There is no memory to share with other processes.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// There is no memory.
    #[cfg(feature = "rdma")]
    #[error(transparent)]
    Memory(#[from] ArenaError),
    /// The memory is there but cannot be registered with the device.
    #[cfg(feature = "rdma")]
    #[error(transparent)]
    Register(#[from] MrError),
}

impl ExposeError {
    /// Whether a region of `bytes` with these rights can be added to the `count` that there are.
    pub(super) fn check((bytes, rights): (usize, Rights), count: usize, max: usize, started: bool) -> Result<(), Self> {
        if started {
            return Err(ExposeError::Started);
        }
        if count >= max {
            return Err(ExposeError::TooMany { max });
        }
        if rights == Rights::NONE {
            return Err(ExposeError::NoRights);
        }
        if bytes == 0 || bytes > isize::MAX as usize / 2 { Err(ExposeError::Size { bytes }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_peer_could_use_is_not_exposed() {
        let check = |bytes, rights| ExposeError::check((bytes, rights), 0, 1, false);
        for rights in [Rights::READ, Rights::WRITE, Rights::ATOMIC, Rights::ALL] {
            assert!(check(1, rights).is_ok(), "{rights}");
        }
        assert!(matches!(check(1, Rights::NONE), Err(ExposeError::NoRights)));
        assert!(matches!(check(0, Rights::READ), Err(ExposeError::Size { bytes: 0 })));
        assert!(matches!(ExposeError::check((1, Rights::NONE), 1, 1, false), Err(ExposeError::TooMany { max: 1 })));
    }
}
