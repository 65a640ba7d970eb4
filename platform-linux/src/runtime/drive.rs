//! The loop: turn after turn until the application says that it is done.

use spinwire_core::stats::Stats;
use spinwire_core::time::{Instant, Nanos};
use spinwire_core::turn::{Engine, Handler};

use super::idle::{Idle, Step};
use super::report::SetupReport;
use super::transport::Transport;
use super::troubles::Troubles;
use crate::clock;
use crate::sys::os::CallError;

/// A core that runs: the engine with everything it needs. Belongs to the thread that set it up.
///
/// `C` says over which fabric: `VerbsControl`, or [`ShmControl`](crate::shm::ShmControl).
pub struct Reactor<'m, C: Transport> {
    engine: Engine<'m, C>,
    idle: Idle,
    report: SetupReport,
}

/// The loop cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A completion queue is broken, and every connection with it.
    #[error("the completion queue is broken: {0}")]
    CompletionQueue(CqFailure),
    /// Connections did not end although each has a deadline.
    #[error("{live} connections were still there {waited} after everything was closed")]
    NotClosed {
        /// How many.
        live: u32,
        /// How long they were given.
        waited: Nanos,
    },
}

/// How it was learned that a completion queue is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CqFailure {
    /// It could not be polled.
    #[error(transparent)]
    Poll(CallError),
    /// The device reported it.
    #[error("the device reports an overrun or a protection error (IBV_EVENT_CQ_ERR)")]
    Event,
}

impl<'m, C: Transport> Reactor<'m, C> {
    pub(super) fn new(engine: Engine<'m, C>, idle: Idle, report: SetupReport) -> Self {
        Self { engine, idle, report }
    }

    /// What was set up.
    pub fn report(&self) -> &SetupReport {
        &self.report
    }

    /// The counters so far.
    pub fn stats(&self) -> &Stats {
        self.engine.stats()
    }

    /// What went wrong so far where no connection was there to be told of it: clients that were turned away, for whatever
    /// reason, and calls that failed. A few loads, for between two calls of [`Reactor::run`].
    pub fn troubles(&mut self) -> Troubles {
        self.engine.control().troubles()
    }

    /// The engine, to look at.
    pub fn engine(&mut self) -> &mut Engine<'m, C> {
        &mut self.engine
    }

    /// Turns until `done` says so; it is asked after each turn.
    ///
    /// Connections stay as they are: another call goes on with them.
    ///
    /// # Errors
    /// [`RunError::CompletionQueue`].
    pub fn run<H: Handler>(&mut self, handler: &mut H, mut done: impl FnMut(&H) -> bool) -> Result<(), RunError> {
        let mut last_work = clock::now();
        loop {
            let now = clock::now();
            if self.engine.turn(now, handler) {
                last_work = now;
            } else {
                self.rest(now, last_work)?;
            }
            if done(handler) {
                return Ok(());
            }
        }
    }

    /// Closes every connection and turns until all are over.
    ///
    /// # Errors
    /// [`RunError::CompletionQueue`] when one is broken; what could be closed is closed then. [`RunError::NotClosed`] when
    /// they are not within the linger and the drain time, a second, and the time it takes to destroy their queue pairs.
    pub fn close<H: Handler>(&mut self, handler: &mut H) -> Result<(), RunError> {
        let limit = self.close_limit();
        self.engine.with(|cx| cx.close_all());
        let begun = clock::now();
        while self.engine.live() > 0 {
            let now = clock::now();
            if now.since(begun) > limit {
                // Without completions nothing drains: then that is what to report.
                C::check(&mut self.engine)?;
                return Err(RunError::NotClosed { live: self.engine.live(), waited: now.since(begun) });
            }
            self.engine.turn(now, handler);
        }
        C::check(&mut self.engine)
    }

    /// How long closing may take: linger and drain, then one release after the other. Each destroys a queue pair, up to
    /// 20 ms on real cards, and before that one is moved to the error state.
    fn close_limit(&self) -> Nanos {
        let timeouts = &self.engine.config().timeouts;
        let mut limit = Nanos::from_secs(1);
        limit += timeouts.linger;
        limit += timeouts.drain;
        limit += Nanos::from_millis(50 * u64::from(self.engine.live()));
        limit
    }

    #[inline]
    fn rest(&mut self, now: Instant, last_work: Instant) -> Result<(), RunError> {
        C::check(&mut self.engine)?;
        match self.idle.step(now, last_work, self.engine.next_deadline()) {
            Step::Nothing => {}
            Step::Pause => core::hint::spin_loop(),
            Step::Wait(limit) => self.engine.control().wait(limit),
        }
        Ok(())
    }
}
