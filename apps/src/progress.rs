//! What `echo ping` says while it runs.

use std::fmt;

use crate::units::counted;

/// What is said before the messages start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Every connection is up.
    Connected {
        /// How many.
        connections: u32,
        /// Messages before the measured ones.
        warmup: u64,
    },
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Progress::Connected { connections, warmup } = self;
        write!(f, "connected ({}); ", counted((*connections).into(), "connection"))?;
        match warmup {
            0 => f.write_str("measuring"),
            _ => write!(f, "{} to warm up, then measuring", counted(*warmup, "message")),
        }
    }
}
