//! What a control is set up with, what it counts, and why there may be none.

use core::time::Duration;

use super::memory::ShareError;
use super::users::Users;
use crate::readiness::Wish;
use crate::sys::os::CallError;

/// What a control is set up with.
#[derive(Clone, Debug)]
pub struct ShmControlOptions {
    /// How to see that an event waits.
    pub readiness: Wish,
    /// Whose processes may be at the other end.
    pub users: Users,
    /// A peer whose loop does not turn for so long is given up; at least [`SILENCE_MIN`], or some that do turn are.
    pub silence: Duration,
}

impl Default for ShmControlOptions {
    /// The own user, and [`SILENCE`].
    fn default() -> Self {
        Self { readiness: Wish::Best, users: Users::default(), silence: SILENCE }
    }
}

/// For how long a peer's loop may stand still by default: less than the engine's own keepalive takes, so that the reason says
/// what the matter is.
pub const SILENCE: Duration = Duration::from_secs(12);

/// The least it may be given: whether a peer's loop turns is looked at four times a second.
pub const SILENCE_MIN: Duration = Duration::from_millis(500);

/// What the control did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShmControlCounters {
    /// Connection events handed out.
    pub events: u64,
    /// Clients turned away before the engine saw them; see [`ShmControl::last_dropped`](super::ShmControl::last_dropped).
    pub dropped: u64,
    /// Calls that failed where the engine could not be told; see [`ShmControl::last_failure`](super::ShmControl::last_failure).
    pub failures: u64,
}

/// A control cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// A call failed.
    #[error("{cause}{}", super::memory::hint(.cause))]
    Call {
        /// What it gave.
        #[from]
        cause: CallError,
    },
    /// There is no memory to share.
    #[error(transparent)]
    Share(#[from] ShareError),
}
