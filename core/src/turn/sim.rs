//! What the simulator sees of an engine, and nobody else.

use super::Engine;
use crate::cm::table::State;
use crate::config::Mode;
use crate::fabric::Control;
use crate::id::ConnId;
use crate::pool::Direction;

impl<C: Control> Engine<'_, C> {
    /// The bytes of a buffer that the connection which the platform knows as `link` has lent to the device; `None` when it
    /// has not lent that one.
    pub(crate) fn device_bytes(&mut self, from: Direction, index: u32, link: ConnId) -> Option<&mut [u8]> {
        let conn = self.core.conns.id_at(link.slot())?;
        let work = self.core.conns.get(conn).filter(|conn| conn.link == link)?.recv_work;
        let pool = match from {
            Direction::Recv => &mut self.recv_pool,
            Direction::Send => &mut self.core.send_pool,
        };
        pool.lent_bytes(index, work)
    }

    /// Of an established connection that counts credits: those it has, and those it owes. By its `link`, as above.
    pub(crate) fn credits(&self, link: ConnId) -> Option<(u32, u32)> {
        let conn = self.core.conns.get(self.core.conns.id_at(link.slot())?).filter(|conn| conn.link == link)?;
        let counts = conn.state == State::Established && self.core.config.mode == Mode::Spinwire;
        counts.then(|| conn.credits.counts())
    }
}
