//! What the loop needs of a fabric besides turning the engine.

use std::time::Duration;

use spinwire_core::fabric::Control;
use spinwire_core::turn::Engine;

#[cfg(feature = "rdma")]
use super::drive::CqFailure;
use super::drive::RunError;
use super::troubles::Troubles;
#[cfg(feature = "rdma")]
use crate::cm::VerbsControl;
use crate::shm::ShmControl;

/// A fabric that a [`Reactor`](super::Reactor) can drive.
pub trait Transport: Control + Sized {
    /// Whether the data path as a whole still works. Asked in turns that found nothing to do; costs a few loads.
    ///
    /// # Errors
    /// What broke: no connection can be served any more.
    fn check(engine: &mut Engine<'_, Self>) -> Result<(), RunError>;

    /// Sleeps until a connection event may wait, or `limit` is over.
    fn wait(&self, limit: Duration);

    /// What went wrong so far where no connection was there to be told of it.
    fn troubles(&self) -> Troubles;
}

#[cfg(feature = "rdma")]
impl Transport for VerbsControl<'_> {
    #[inline]
    fn check(engine: &mut Engine<'_, Self>) -> Result<(), RunError> {
        if let Some(failure) = engine.fabric().poll_failure() {
            return Err(RunError::CompletionQueue(CqFailure::Poll(failure)));
        }
        if engine.control().cq_failed() {
            return Err(RunError::CompletionQueue(CqFailure::Event));
        }
        Ok(())
    }

    fn wait(&self, limit: Duration) {
        VerbsControl::wait(self, limit);
    }

    fn troubles(&self) -> Troubles {
        let failures = self.counters().failures;
        Troubles { failures, last_failure: self.last_failure(), ..Troubles::default() }
    }
}

impl Transport for ShmControl<'_> {
    /// Connections break one by one here, never all at once.
    #[inline]
    fn check(_: &mut Engine<'_, Self>) -> Result<(), RunError> {
        Ok(())
    }

    fn wait(&self, limit: Duration) {
        ShmControl::wait(self, limit);
    }

    fn troubles(&self) -> Troubles {
        let counters = self.counters();
        Troubles {
            dropped: counters.dropped,
            last_dropped: self.last_dropped(),
            failures: counters.failures,
            last_failure: self.last_failure(),
        }
    }
}
