//! Tells the simulator of each transition. Without the feature nothing is left of it.

#[cfg(feature = "sim")]
pub(super) use on::transition;

#[cfg(not(feature = "sim"))]
pub(super) use off::transition;

#[cfg(feature = "sim")]
mod on {
    pub(in crate::turn) use crate::sim::record::transition;
}

#[cfg(not(feature = "sim"))]
mod off {
    use crate::cm::table::{Input, Row, State};
    use crate::id::ConnId;

    #[inline(always)]
    pub(in crate::turn) fn transition(_: ConnId, _: State, _: Input, _: Option<&'static Row>) {}
}
