//! What is otherwise in the simulator: it is told of each transition, and sends are numbered from near the end on. Without the
//! feature nothing is left of it.

#[cfg(feature = "sim")]
pub(super) use on::{FIRST_SEND, transition};

#[cfg(not(feature = "sim"))]
pub(super) use off::{FIRST_SEND, transition};

#[cfg(feature = "sim")]
mod on {
    pub(in crate::turn) use crate::sim::record::transition;

    /// Each queue soon passes the end of its numbers, and of the bits of them that travel in work ids.
    pub(in crate::turn) const FIRST_SEND: u32 = u32::MAX - 20;
}

#[cfg(not(feature = "sim"))]
mod off {
    use crate::cm::table::{Input, Row, State};
    use crate::id::ConnId;

    /// The number of a connection's first send.
    pub(in crate::turn) const FIRST_SEND: u32 = 0;

    #[inline(always)]
    pub(in crate::turn) fn transition(_: ConnId, _: State, _: Input, _: Option<&'static Row>) {}
}
