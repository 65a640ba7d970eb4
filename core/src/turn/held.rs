//! Messages that arrive before the peer's answer to the connect request is seen.
//!
//! The first message proves that the peer has accepted, but what it may send and be sent stands in the hello that comes
//! with ESTABLISHED. A loop that fetches its events itself sees that first: the library makes the queue pair able to
//! receive while the event is fetched. Where another thread fetches events, completions can overtake them. So a message
//! waits until the hello is there, in order, at most one for each posted receive; then it is read like any other.
//!
//! A held message lies where there is room for as many and nothing else can be yet: in the ring of sends, which has a
//! slot for each receive buffer. Its buffer is booked as still posted.

use super::{Core, Engine, Handler};
use crate::cm::table::State;
use crate::fabric::{Control, SendWr};
use crate::id::ConnId;
use crate::pool::{Buf, Pool};

impl<'m> Core<'m> {
    /// Keeps a message until the hello is there. After an answer that was no hello, nothing is wanted any more.
    #[cold]
    pub(super) fn hold(
        &mut self,
        recv_pool: &mut Pool<'m>,
        id: ConnId,
        buf: Buf<'m>,
        (bytes, imm): (u32, Option<u32>),
    ) {
        let Some(conn) = self.conns.get_mut(id).filter(|conn| conn.state == State::Connecting) else {
            self.stats.messages_after_close += 1;
            return recv_pool.release(buf);
        };
        let wr_id = conn.recv_work.with_index(buf.index());
        recv_pool.lend(buf, wr_id);
        conn.recv_posted += 1;
        conn.held += 1;
        conn.sends.push(self.sends, SendWr { wr_id, len: bytes, imm, ..SendWr::EMPTY });
        self.stats.messages_held += 1;
    }
}

impl<C: Control> Engine<'_, C> {
    /// Reads the messages that were held back. What handlers send meanwhile is queued behind them.
    #[cold]
    pub(super) fn deliver_held<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        loop {
            let core = &mut self.core;
            let Some(conn) = core.conns.get_mut(id).filter(|conn| conn.held > 0) else { return };
            conn.held -= 1;
            let held = conn.sends.pop(core.sends);
            let Some(buf) = self.recv_pool.reclaim(held.wr_id.index(), held.wr_id) else { continue };
            conn.recv_posted -= 1;
            core.dirty.mark(id.slot());
            self.arrived(handler, id, buf, (held.len, held.imm));
        }
    }
}
