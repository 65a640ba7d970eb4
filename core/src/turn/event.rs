//! Step 3: connection events.

use super::{Cx, EVENTS_PER_TURN, Engine, Handler, Request, Verdict};
use crate::cm::event::{CmEvent, CmEventKind, Target};
use crate::cm::hello::{Hello, Refusal};
use crate::cm::reason::CloseReason;
use crate::cm::table::{Input, State};
use crate::config::Mode;
use crate::conn::Origin;
use crate::fabric::Control;
use crate::id::{ConnId, ListenerId, RequestId};

impl<C: Control> Engine<'_, C> {
    /// A few connection events. When none waits, this is the control side's idle check and nothing else.
    #[inline]
    pub(super) fn connection_events<H: Handler>(&mut self, handler: &mut H) {
        if let Some(event) = self.control.poll_event(self.core.now) {
            self.worked = true;
            self.events(handler, event);
        }
    }

    #[inline(never)]
    fn events<H: Handler>(&mut self, handler: &mut H, first: CmEvent) {
        self.event(handler, &first);
        for _ in 1..EVENTS_PER_TURN {
            let Some(event) = self.control.poll_event(self.core.now) else { return };
            self.event(handler, &event);
        }
        self.behind = true;
    }

    fn event<H: Handler>(&mut self, handler: &mut H, event: &CmEvent) {
        match event.target {
            Target::Conn(id) => self.conn_event(handler, id, event),
            Target::Request(listener, request) => self.request(handler, listener, request, event),
            Target::Listener(listener) if event.kind == CmEventKind::DeviceRemoval => {
                handler.on_listener_lost(&mut Cx::new(&mut self.core), listener, event.kind);
            }
            // A hint, such as ADDR_CHANGE after a bond changed its port: the listener goes on.
            Target::Listener(_) => self.core.stats.events_ignored += 1,
            Target::Device => self.device_event(handler, event.kind),
        }
    }

    fn conn_event<H: Handler>(&mut self, handler: &mut H, link: ConnId, event: &CmEvent) {
        // The platform names the attempt. Of an attempt that was abandoned nothing is wanted any more.
        let named = |&id: &ConnId| self.core.conns.get(id).is_some_and(|conn| conn.link == link);
        let Some(id) = self.core.conns.id_at(link.slot()).filter(named) else {
            self.core.stats.events_stale += 1;
            return;
        };
        let input = match event.kind {
            CmEventKind::Established => match self.read_answer(id, event) {
                Ok(()) => Input::Established,
                Err(reason) => return self.feed(handler, id, Input::HelloBad, Some(reason)),
            },
            kind => input_of(kind),
        };
        let reason = self.reason_of(id, event);
        self.feed(handler, id, input, reason);
    }

    /// The active side reads what the peer accepted with.
    fn read_answer(&mut self, id: ConnId, event: &CmEvent) -> Result<(), CloseReason> {
        let core = &mut self.core;
        let Some(conn) = core.conns.get_mut(id) else { return Ok(()) };
        conn.peer = conn.peer.or(event.peer);
        if conn.state == State::Connecting {
            let hello = match core.config.mode {
                Mode::Spinwire => Some(Hello::decode(&event.private_data)?),
                Mode::Raw => None,
            };
            super::Core::set_peer(&core.config, &core.sizing, conn, hello);
        }
        Ok(())
    }

    /// What an event says about the connection's end; `None` for events that end nothing.
    fn reason_of(&self, id: ConnId, event: &CmEvent) -> Option<CloseReason> {
        let conn = self.core.conns.get(id)?;
        let generic = CloseReason::Event { step: conn.state, event: event.kind, status: event.status };
        Some(match event.kind {
            CmEventKind::Rejected => match Refusal::decode(&event.private_data) {
                Some(refusal) => CloseReason::Refused(refusal),
                None if event.status == REJECT_NOBODY_LISTENS => CloseReason::NobodyListens,
                None => CloseReason::Rejected { code: event.status },
            },
            CmEventKind::Disconnected if conn.goodbye => CloseReason::Peer,
            CmEventKind::Disconnected => CloseReason::PeerGone,
            CmEventKind::DeviceRemoval => CloseReason::DeviceRemoved,
            CmEventKind::DeviceFatal => CloseReason::DeviceFatal,
            CmEventKind::AddrError
            | CmEventKind::RouteError
            | CmEventKind::ConnectError
            | CmEventKind::ConnectResponse
            | CmEventKind::Unreachable => generic,
            _ => return None,
        })
    }

    fn request<H: Handler>(&mut self, handler: &mut H, listener: ListenerId, id: RequestId, event: &CmEvent) {
        let hello = match self.core.config.mode {
            Mode::Spinwire => Hello::decode(&event.private_data).map(Some),
            Mode::Raw => Ok(None),
        };
        let request = Request { listener, peer: event.peer, hello: hello.ok().flatten() };
        let (live, capacity) = (self.core.conns.live(), self.core.conns.capacity());
        let verdict = match hello {
            Err(error) => Verdict::Refuse(error.into()),
            Ok(_) if live == capacity => Verdict::Refuse(Refusal::TableFull { live, capacity }),
            Ok(_) => handler.on_request(&request),
        };
        if let Verdict::Refuse(refusal) = verdict {
            self.core.stats.refused += 1;
            self.control.reject(id, &refusal.encode());
            return handler.on_refused(&request, &refusal);
        }
        // There is a free slot: it was checked above, and the handler cannot have taken it.
        let Ok(conn_id) = self.core.begin(Origin::Request(id), event.peer) else { return };
        if let Some(conn) = self.core.conns.get_mut(conn_id) {
            super::Core::set_peer(&self.core.config, &self.core.sizing, conn, request.hello);
        }
        self.feed(handler, conn_id, Input::Start, None);
    }

    fn device_event<H: Handler>(&mut self, handler: &mut H, kind: CmEventKind) {
        let reason = match kind {
            CmEventKind::DeviceRemoval => CloseReason::DeviceRemoved,
            _ => CloseReason::DeviceFatal,
        };
        // From the last to the first, for a connection that ends leaves its place to the last.
        for place in (0..self.core.conns.live()).rev() {
            if let Some(id) = self.core.conns.live_at(place) {
                self.feed(handler, id, input_of(kind), Some(reason));
            }
        }
    }
}

/// "Invalid service id": IBTA volume 1, table 111.
const REJECT_NOBODY_LISTENS: i32 = 8;

fn input_of(kind: CmEventKind) -> Input {
    match kind {
        CmEventKind::AddrResolved => Input::AddrResolved,
        CmEventKind::AddrError => Input::AddrError,
        CmEventKind::RouteResolved => Input::RouteResolved,
        CmEventKind::RouteError => Input::RouteError,
        CmEventKind::ConnectResponse => Input::ConnectResponse,
        CmEventKind::ConnectError => Input::ConnectError,
        CmEventKind::Unreachable => Input::Unreachable,
        CmEventKind::Rejected => Input::Rejected,
        CmEventKind::Established => Input::Established,
        CmEventKind::Disconnected => Input::Disconnected,
        CmEventKind::DeviceRemoval => Input::DeviceRemoval,
        CmEventKind::MulticastJoin => Input::MulticastJoin,
        CmEventKind::MulticastError => Input::MulticastError,
        CmEventKind::AddrChange => Input::AddrChange,
        CmEventKind::TimewaitExit => Input::TimewaitExit,
        CmEventKind::DeviceFatal => Input::DeviceFatal,
        CmEventKind::ConnectRequest | CmEventKind::Unknown(_) => Input::Unknown,
    }
}
