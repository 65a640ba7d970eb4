//! Adds up what an engine owns: for tests, and for whoever suspects a leak.

use super::Engine;
use crate::fabric::Control;
use crate::id::WorkId;
use crate::pool::Holding;

/// A sum that does not come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {found} found, {expected} expected")]
pub struct AuditError {
    /// Which sum.
    pub what: &'static str,
    /// What is there.
    pub found: u64,
    /// What has to be there.
    pub expected: u64,
}

impl<C: Control> Engine<'_, C> {
    /// Checks, between two turns, that every buffer is free or lent exactly once, that each lent one belongs to a live
    /// connection, and that the connections' own counts add up to the same. Walks everything the engine has.
    ///
    /// # Errors
    /// The first sum that does not come out.
    pub fn audit(&self) -> Result<(), AuditError> {
        let core = &self.core;
        let (mut received, mut sent) = (0, 0);
        for place in 0..core.conns.live() {
            let Some(conn) = core.conns.live_at(place).and_then(|id| core.conns.get(id)) else { continue };
            received += u64::from(conn.recv_posted + conn.sends.answers());
            let id_slot = conn.link.slot();
            sent += u64::from(conn.sends.app() + core.operations(id_slot));
            at_most("posted receives", conn.recv_posted, core.sizing.recv_posted)?;
            at_most(
                "receive buffers of one connection",
                conn.recv_posted + conn.sends.answers(),
                core.sizing.recv_buffers,
            )?;
            at_most("sends of the application", conn.sends.app(), core.sizing.app_slots)?;
            at_most("control messages", conn.sends.control() - conn.held, core.sizing.control_slots)?;
            at_most("send slots", conn.sends.occupied(), core.sizing.send_slots)?;
        }
        let is_live = |work: WorkId| {
            let conn = core.conns.id_at(work.slot()).and_then(|id| core.conns.get(id));
            conn.is_some_and(|conn| work.is_of(conn.recv_work))
        };
        for (holding, lent) in [(self.recv_pool.holding(is_live), received), (core.send_pool.holding(is_live), sent)] {
            let Holding { twice_or_lost, lent_by_dead, lent: by_pool } = holding;
            exactly("buffers that are free twice, or neither free nor lent", twice_or_lost.into(), 0)?;
            exactly("buffers lent by connections that are gone", lent_by_dead.into(), 0)?;
            exactly("lent buffers that connections know of", lent, by_pool.into())?;
        }
        Ok(())
    }
}

fn exactly(what: &'static str, found: u64, expected: u64) -> Result<(), AuditError> {
    if found == expected { Ok(()) } else { Err(AuditError { what, found, expected }) }
}

fn at_most(what: &'static str, found: u32, limit: u32) -> Result<(), AuditError> {
    if found <= limit { Ok(()) } else { Err(AuditError { what, found: found.into(), expected: limit.into() }) }
}
