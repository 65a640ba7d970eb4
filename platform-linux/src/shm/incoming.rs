//! From a client in the backlog to a request that the engine answers.

use spinwire_core::cm::event::{CmEventKind, PrivateData, Target};
use spinwire_core::cm::hello::Refusal;
use spinwire_core::id::{ConnId, ListenerId, RequestId};
use spinwire_core::time::{Instant, Nanos};

use super::closer::{FULL, Whose};
use super::conn::{Conn, Incoming, Stage};
use super::control::{REFUSED_BY_PROGRAM, ShmControl};
use super::dropped::DropReason;
use super::handshake::{NO_RESOURCES, Read, process, read};
use super::memory::AttachError;
use super::socket::Socket;
use super::token::Token;
use super::wire::{Packet, PacketError, VERSION};
use crate::sys::os::{CallError, Errno};

/// A client sends its request right after it connects.
pub(super) const REQUEST_LIMIT: Nanos = Nanos::from_secs(2);
/// Clients taken from one listener in one go.
const ACCEPTS_PER_DRAIN: usize = 16;

impl ShmControl<'_> {
    pub(super) fn on_listener(&mut self, number: u32) {
        for _ in 0..ACCEPTS_PER_DRAIN {
            let Some(listener) = self.listeners.get(number as usize) else { return };
            let accepted = if self.closer.is_full(self.conns.len()) { Err(FULL) } else { listener.socket.accept() };
            let admitted = match accepted {
                Ok(Some(socket)) => self.admit(socket, number),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            if let Err(error) = admitted {
                // Out of descriptors, most likely: the client waits in the backlog, and the next tick tries again.
                self.note_failure(error);
                (self.starved, self.pending) = (true, false);
                return;
            }
        }
    }

    /// Lets a client in, if its user may and there is a place.
    fn admit(&mut self, socket: Socket, listener: u32) -> Result<(), CallError> {
        let peer = socket.credentials()?;
        if !self.options.users.allow(peer.uid) {
            let refusal = Refusal::User { uid: peer.uid };
            self.note_dropped(peer, DropReason::Refused(refusal));
            self.refuse(&socket, REFUSED_BY_PROGRAM, refusal.encode().iter().copied().collect());
            // With it goes what it sent, whatever that is.
            self.part_with(socket, Whose::Strangers);
            return Ok(());
        }
        let is_full = self.waiting_clients == self.incoming.len();
        let place = if is_full { self.make_room() } else { self.incoming.iter().position(Option::is_none) };
        let Some(place) = place else {
            self.note_dropped(peer, DropReason::Crowded(self.waiting_clients));
            self.refuse(&socket, NO_RESOURCES, PrivateData::new());
            self.part_with(socket, Whose::Peers);
            return Ok(());
        };
        self.last_serial = self.last_serial.wrapping_add(1);
        let serial = self.last_serial;
        if let Err(error) = self.poller.add(&socket, Token::Incoming(place as u16, serial).pack()) {
            self.part_with(socket, Whose::Peers);
            return Err(error);
        }
        let deadline = self.now + REQUEST_LIMIT;
        self.incoming[place] =
            Some(Incoming { socket, serial, listener, peer, deadline, regions: Vec::new(), offer: None });
        self.waiting_clients += 1;
        Ok(())
    }

    /// Turns away the client that has waited longest and has sent nothing, not even by now, and gives its place. So those that
    /// say nothing keep no places from those that ask, which do so as soon as they have connected.
    pub(super) fn make_room(&mut self) -> Option<usize> {
        while let Some((place, serial)) = self.longest_silent() {
            // What it may have sent meanwhile: its regions, and the request.
            for _ in 0..2 {
                self.on_incoming(place, serial);
            }
            let place = usize::from(place);
            match &self.incoming[place] {
                Some(incoming) if incoming.offer.is_some() => continue,
                Some(_) => self.turn_away(place),
                // What it sent was no request.
                None => {}
            }
            return Some(place);
        }
        None
    }

    fn turn_away(&mut self, place: usize) {
        let crowded = DropReason::Crowded(self.waiting_clients);
        if let Some(incoming) = self.take_incoming(place as u32) {
            self.note_dropped(incoming.peer, crowded);
            self.refuse(&incoming.socket, NO_RESOURCES, PrivateData::new());
            self.part_with(incoming.socket, Whose::Peers);
        }
    }

    /// Place and serial of the client that came first of those without a request.
    fn longest_silent(&self) -> Option<(u16, u32)> {
        let silent = self.incoming.iter().enumerate().filter_map(|(place, incoming)| {
            let incoming = incoming.as_ref().filter(|incoming| incoming.offer.is_none())?;
            Some((incoming.deadline, place as u16, incoming.serial))
        });
        silent.min_by_key(|&(deadline, ..)| deadline).map(|(_, place, serial)| (place, serial))
    }

    pub(super) fn on_incoming(&mut self, place: u16, serial: u32) {
        let Some(Some(incoming)) = self.incoming.get(usize::from(place)) else { return };
        if incoming.serial != serial {
            return;
        }
        let asked_before = incoming.offer.is_some();
        let (peer, listener) = (incoming.peer, incoming.listener);
        let from = Some(peer).filter(|_| self.is_own(Some(peer)));
        let why = match read(&incoming.socket, &mut self.peer_arenas, &self.closer, from, self.now) {
            Ok(Read::Nothing) => return,
            Ok(Read::Regions(regions)) if !asked_before && incoming.regions.is_empty() => {
                if let Some(Some(incoming)) = self.incoming.get_mut(usize::from(place)) {
                    incoming.regions = regions;
                }
                return;
            }
            Ok(Read::Packet(Ok(Packet::Request(_, data)), Some(offer))) if !asked_before => {
                if let Some(Some(incoming)) = self.incoming.get_mut(usize::from(place)) {
                    incoming.offer = Some(offer);
                    // The engine answers it in this turn or one of the next.
                    incoming.deadline = Instant::NEVER;
                }
                let target = Target::Request(ListenerId(listener), RequestId(place.into()));
                return self.push(target, CmEventKind::ConnectRequest, 0, data, Some(process(peer)));
            }
            Ok(Read::Packet(Err(PacketError::Version(caller)), _)) => {
                DropReason::Refused(Refusal::Version { listener: VERSION, caller })
            }
            Ok(Read::Packet(Err(PacketError::NotSpinwire), _)) => DropReason::Refused(Refusal::NotSpinwire),
            Ok(Read::Packet(..) | Read::Regions(_)) => DropReason::Refused(Refusal::Malformed),
            Ok(Read::Unfit(error)) => DropReason::Unfit(error),
            Ok(Read::End) => DropReason::Left,
            Err(error) => DropReason::Call(error),
        };
        if asked_before {
            // The engine still has to answer: it finds nobody there.
            if let Some(Some(incoming)) = self.incoming.get(usize::from(place)) {
                self.poller.remove(&incoming.socket);
            }
            return;
        }
        self.note_dropped(peer, why);
        if let Some(incoming) = self.take_incoming(place.into()) {
            if let Some((code, data)) = answer_to(why) {
                self.refuse(&incoming.socket, code, data);
            }
            self.part_with(incoming.socket, Whose::Peers);
        }
    }

    pub(super) fn take_incoming(&mut self, number: u32) -> Option<Incoming> {
        let incoming = self.incoming.get_mut(number as usize)?.take();
        self.waiting_clients -= usize::from(incoming.is_some());
        incoming
    }

    /// Tells a client no. If that cannot be sent, the closed socket says so all the same.
    pub(super) fn refuse(&mut self, socket: &Socket, code: i32, data: PrivateData) {
        match socket.send(&Packet::Reject(code, data).encode(), &[]) {
            // It did not wait for the answer.
            Ok(()) | Err(CallError { errno: Errno(libc::EPIPE | libc::ECONNRESET), .. }) => {}
            Err(error) => self.note_failure(error),
        }
    }

    /// The request in place `number` becomes connection `id`.
    pub(super) fn adopt(&mut self, id: ConnId, number: u32) -> Result<(), CallError> {
        let gone = CallError { call: "accept4", errno: Errno(libc::ECONNABORTED) };
        let Incoming { socket, peer, offer, regions, .. } = self.take_incoming(number).ok_or(gone)?;
        let (Some((offer, pulse)), Ok(())) = (offer, self.poller.rename(&socket, Token::of(id).pack())) else {
            self.part_with(socket, Whose::Peers);
            return Err(gone);
        };
        let (offer, pulse) = (Some(offer), Some(pulse));
        self.place(Conn { id, socket, stage: Stage::Adopted, peer: Some(peer), offer, pulse, regions })
    }
}

/// What a client is told that is turned away; `None` where it is no longer there.
fn answer_to(why: DropReason) -> Option<(i32, PrivateData)> {
    let refusal = match why {
        DropReason::Refused(refusal) => refusal,
        DropReason::Unfit(AttachError::Unfit(_)) => Refusal::Malformed,
        DropReason::Left => return None,
        _ => return Some((NO_RESOURCES, PrivateData::new())),
    };
    Some((REFUSED_BY_PROGRAM, refusal.encode().iter().copied().collect()))
}
