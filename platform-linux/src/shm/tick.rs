//! What a clock drives on the connection path: every 10 ms, not every turn.

use spinwire_core::cm::event::CmEventKind;
use spinwire_core::id::ConnId;
use spinwire_core::time::{Instant, Nanos};

use super::closer::Whose;
use super::conn::Stage;
use super::control::{REFUSED_BY_PROGRAM, ShmControl, TICK};
use super::dropped::DropReason;
use super::handshake::NO_RESOURCES;
use super::incoming::REQUEST_LIMIT;
use super::socket::Socket;

/// Between two looks at the peers' pulses.
const LOOK: Nanos = Nanos::from_millis(250);

impl ShmControl<'_> {
    /// Shows peers that this loop turns, asks busy servers again, gives up clients that say nothing and peers that
    /// stand still.
    #[cold]
    pub(super) fn tick(&mut self, now: Instant) {
        self.now = now;
        self.next_tick = now + TICK;
        self.pulse.beat(now);
        // Clients that could not be let in wait in a listener, which tells its change only once.
        self.pending |= std::mem::take(&mut self.starved);
        if self.waiting_clients > 0 {
            self.expire_clients();
        }
        if self.busy > 0 {
            self.ask_again();
        }
        if now >= self.next_look {
            self.next_look = now + LOOK;
            self.look_at_peers();
        }
    }

    fn expire_clients(&mut self) {
        for place in 0..self.incoming.len() {
            if self.incoming[place].as_ref().is_some_and(|incoming| incoming.deadline <= self.now)
                && let Some(incoming) = self.take_incoming(place as u32)
            {
                self.note_dropped(incoming.peer, DropReason::Silent(REQUEST_LIMIT));
                self.refuse(&incoming.socket, REFUSED_BY_PROGRAM, Default::default());
                self.part_with(incoming.socket, Whose::Peers);
            }
        }
    }

    fn ask_again(&mut self) {
        for slot in 0..self.conns.len() {
            let Some(Some(conn)) = self.conns.get_mut(slot) else { continue };
            let id = conn.id;
            if !matches!(conn.stage, Stage::Busy(_)) {
                continue;
            }
            let Stage::Busy(request) = std::mem::replace(&mut conn.stage, Stage::Over) else {
                continue;
            };
            self.busy -= 1;
            if let Err(error) = self.connect(id, *request) {
                self.note_failure(error);
                self.push_plain(id, CmEventKind::ConnectError, -error.errno.0);
            }
        }
    }

    fn look_at_peers(&mut self) {
        let limit = Nanos::from(self.options.silence);
        for slot in 0..self.conns.len() {
            let Some(Some(conn)) = self.conns.get_mut(slot) else { continue };
            let (Stage::Up, Some(pulse)) = (&conn.stage, &mut conn.pulse) else { continue };
            if pulse.look(self.now) >= limit {
                conn.stage = Stage::Over;
                let id = conn.id;
                self.poller.remove(&conn.socket);
                self.push_plain(id, CmEventKind::Unreachable, -libc::ETIMEDOUT);
            }
        }
    }

    /// Lets go of a connection's socket. A client that was adopted and got no answer is told that there is none.
    pub(super) fn destroy(&mut self, id: ConnId) {
        let Some(slot) = self.conns.get_mut(id.slot()) else { return };
        let Some(conn) = slot.take_if(|conn| conn.id == id) else { return };
        match conn.stage {
            Stage::Busy(_) => self.busy -= 1,
            Stage::Adopted => self.refuse(&conn.socket, NO_RESOURCES, Default::default()),
            _ => {}
        }
        self.part_with(conn.socket, Whose::Peers);
    }

    /// Ends the connection of `socket` now, and has it closed some time: its peer may have sent what takes long to close.
    pub(super) fn part_with(&mut self, socket: Socket, whose: Whose) {
        // One that was never connected has nothing to end.
        let _ = socket.shutdown();
        self.poller.remove(&socket);
        self.closer.close(socket.into_fd(), whose);
    }
}
