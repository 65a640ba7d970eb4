//! SIGINT, SIGTERM and SIGHUP as a flag that a loop can read without a system call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::sys::os::is_ignored;

/// Tells whether the process was asked to stop. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicUsize>);

impl Stop {
    /// Takes over SIGINT, SIGTERM and SIGHUP: the first sets the flag, a second ends the process at once with 128 + its
    /// number. A SIGHUP that the process was started to ignore, as nohup(1) does, stays ignored.
    ///
    /// # Errors
    /// What sigaction(2) gave.
    pub fn on_signals() -> std::io::Result<Self> {
        let stop = Self::default();
        let armed = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if signal == SIGHUP && is_ignored(signal) {
                continue;
            }
            // In this order: the first signal finds the shutdown not armed yet, and arms it.
            flag::register_conditional_shutdown(signal, 128 + signal, armed.clone())?;
            flag::register(signal, armed.clone())?;
            flag::register_usize(signal, stop.0.clone(), signal as usize)?;
        }
        Ok(stop)
    }

    /// As if the signal with this number had come.
    pub fn set(&self, signal: u8) {
        // Relaxed: as below.
        self.0.store(signal.into(), Ordering::Relaxed);
    }

    /// The number of the signal that came, if one did. One relaxed load.
    #[inline]
    pub fn signal(&self) -> Option<u8> {
        // Relaxed: the number stands for itself, nothing else is published with it.
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(signal as u8),
        }
    }
}

/// A signal's name, for those this module takes over.
pub fn name(signal: u8) -> &'static str {
    match i32::from(signal) {
        SIGINT => "SIGINT",
        SIGTERM => "SIGTERM",
        SIGHUP => "SIGHUP",
        _ => "a signal",
    }
}
