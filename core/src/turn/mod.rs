//! One turn of the loop, generic over the seams and the application.
//!
//! [`Engine::turn`] is the specification: six steps in a fixed order, each bounded. Completions are gathered first and
//! handled afterwards, handlers only note down what they want, and it goes out when the handler has returned: in the last
//! step, but for the answers to the last connection of a batch. So there is no recursion, and no handler is entered from
//! within a handler.

mod attempt;
mod audit;
mod core_state;
mod cx;
mod dirty;
mod event;
mod flush;
mod handler;
mod held;
mod keepalive;
mod memory;
mod observe;
mod one_sided;
mod receive;
mod send;
mod short_way;
#[cfg(feature = "sim")]
mod sim;
mod step;
mod timers;

pub use audit::AuditError;
use core_state::Core;
pub use cx::{ConnectError, Cx, SendError};
pub use dirty::DirtySlot;
pub use handler::{Answer, Handler, Request, Verdict};
pub use memory::{Memory, Needs, PoolMemory, SetupError};
pub use one_sided::{Done, OneSidedError, OneSidedFailure, OneSidedMemory};

use core::mem;

use crate::config::Config;
use crate::fabric::{Batch, BufferMap, Control, Fabric};
use crate::pool::Pool;
use crate::stats::Stats;
use crate::time::{Instant, Nanos};

/// Connection events handled in one turn. Each may make or destroy a queue pair, which takes milliseconds on some
/// devices: more in one turn would starve the data path.
const EVENTS_PER_TURN: usize = 4;

/// Connections released in one turn, as far as their number is the engine's to choose: for the same reason.
const RELEASES_PER_TURN: u16 = 4;

/// Timers handled in one turn: enough to keep up, and each may begin an attempt to connect.
const TIMERS_PER_TURN: u32 = 16;

/// A run-to-completion engine: everything one pinned core owns.
///
/// It is driven by calling [`Engine::turn`] again and again from one thread. Time never goes backwards between turns.
#[derive(Debug)]
#[repr(C)]
pub struct Engine<'m, C: Control> {
    // First: its address is then the engine's, which saves every poll and post the sum.
    fabric: C::Fabric,
    core: Core<'m>,
    recv_pool: Pool<'m>,
    control: C,
    /// A step of this turn found something to do.
    worked: bool,
    /// This turn left something in a queue: what is in there may be what a deadline waits for.
    behind: bool,
    /// Connections released in this turn.
    releases: u16,
}

/// A turn under way. Dropped only when a callback panics: forgotten otherwise, which costs nothing.
struct Unfinished<'e, 'm, C: Control>(&'e mut Engine<'m, C>);

impl<C: Control> Drop for Unfinished<'_, '_, C> {
    /// No time comes after this one, so no turn does.
    fn drop(&mut self) {
        self.0.core.now = Instant::NEVER;
    }
}

/// Why there is no turn after the one at `before`.
#[cold]
fn refuse(before: Instant) -> ! {
    match before {
        Instant::NEVER => {
            panic!("a callback panicked in an earlier turn: what it had at hand is lost, and no turn follows")
        }
        _ => panic!("time went backwards between two turns"),
    }
}

impl<'m, C: Control> Engine<'m, C> {
    /// An engine without connections.
    ///
    /// # Errors
    /// A configured value is out of range, or some memory is too short; says which.
    pub fn new(config: Config, memory: Memory<'m>, control: C, mut fabric: C::Fabric) -> Result<Self, SetupError> {
        let (mut core, recv_pool) = Core::new(config, memory)?;
        core.endpoints = control.endpoints();
        let (recv, send) = (recv_pool.layout(), core.send_pool.layout());
        fabric.prepare(&BufferMap { recv, send, inline_bytes_max: core.config.inline_bytes_max });
        Ok(Self { fabric, core, recv_pool, control, worked: false, behind: false, releases: 0 })
    }

    /// One turn. Returns whether there was anything to do. Never blocks.
    ///
    /// # Panics
    /// When `now` is earlier than in the turn before. After a turn in which a callback panicked: what it was shown, and the
    /// rest of its batch, are lost, so that turn was the last.
    #[inline]
    pub fn turn<H: Handler>(&mut self, now: Instant, handler: &mut H) -> bool {
        self.stamp(now);
        let turn = Unfinished(self);
        let worked = turn.0.steps(handler);
        mem::forget(turn);
        worked
    }

    /// The steps of a turn.
    #[inline(always)]
    fn steps<H: Handler>(&mut self, handler: &mut H) -> bool {
        let mut batch = Batch::new();
        self.fabric.poll_recv(&mut batch);
        if !batch.is_empty() {
            self.worked = true;
            self.receive(handler, &mut batch);
            batch.clear();
        }
        self.complete_sends(handler, &mut batch);
        self.connection_events(handler);
        self.timers(handler);
        handler.on_turn(&mut Cx::new(&mut self.core));
        if !self.core.dirty.is_empty() {
            self.worked = true;
            self.flush(handler);
        }
        if !self.worked {
            self.core.stats.turns_empty += 1;
        }
        self.worked
    }

    /// Lets a handler act outside a turn: to begin connections before the first, or to close them at the end. What it
    /// notes down goes out with the next turn.
    pub fn with<R>(&mut self, act: impl FnOnce(&mut Cx<'_, 'm>) -> R) -> R {
        self.core.endpoints = self.control.endpoints();
        act(&mut Cx::new(&mut self.core))
    }

    /// Connections that are not over yet.
    pub fn live(&self) -> u32 {
        self.core.conns.live()
    }

    /// When the engine next has to run although nothing happens; [`Instant::NEVER`] for not at all.
    pub fn next_deadline(&self) -> Instant {
        if !self.core.dirty.is_empty() { self.core.now } else { self.core.timers.next_deadline() }
    }

    /// The counters so far.
    pub fn stats(&self) -> &Stats {
        &self.core.stats
    }

    /// What the engine was set up with.
    pub fn config(&self) -> &Config {
        &self.core.config
    }

    /// The receive and the send pool, to look at.
    pub fn pools(&self) -> (&Pool<'m>, &Pool<'m>) {
        (&self.recv_pool, &self.core.send_pool)
    }

    /// The connection side, to look at or to add listeners and endpoints. What is added counts from the next
    /// [`Engine::with`] on.
    pub fn control(&mut self) -> &mut C {
        &mut self.control
    }

    /// The data side, to look at. Not to change: what is posted beside the engine's books, or by the fabric of another
    /// engine, would let a device write into buffers that somebody holds.
    pub fn fabric(&self) -> &C::Fabric {
        &self.fabric
    }

    #[inline]
    fn stamp(&mut self, now: Instant) {
        let core = &mut self.core;
        if now < core.now {
            refuse(core.now);
        }
        if self.worked {
            // Not earlier: the plain difference is enough.
            core.stats.turned(core.now, Nanos::new(now.as_nanos() - core.now.as_nanos()));
            (self.worked, self.behind, self.releases) = (false, false, 0);
        }
        core.now = now;
        core.stats.turns += 1;
    }
}
