//! What a connection's socket tells: from the request to a connection that is up, and from a lost socket to its end.

use spinwire_core::cm::event::{CmEvent, CmEventKind, Peer, PrivateData, Target};
use spinwire_core::id::ConnId;
use spinwire_core::time::Instant;

use super::arenas::PeerArenas;
use super::closer::{Closer, Whose};
use super::conn::{Offer, Request, Stage};
use super::control::ShmControl;
use super::exposed::{self, PeerRegion};
use super::memory::{AttachError, PeerMemory};
use super::poller::READY_MAX;
use super::pulse::PeerPulse;
use super::socket::{Credentials, Received, Socket};
use super::token::Token;
use super::wire::{PACKET_MAX, Packet, PacketError, Terms};
use crate::sys::os::{CallError, Errno};

/// What was read from a socket.
#[expect(clippy::large_enum_variant, reason = "looked at and gone")]
pub(super) enum Read {
    Nothing,
    Packet(Result<Packet, PacketError>, Option<(Offer, PeerPulse)>),
    /// What the peer exposes.
    Regions(Vec<PeerRegion>),
    /// The descriptors that came along are unfit.
    Unfit(AttachError),
    End,
}

/// A packet came with more descriptors than this process may have open. The kernel closes what it has no room for.
const CUT: CallError = CallError {
    call: "recvmsg (descriptors that came with it are lost, for want of room)",
    errno: Errno(libc::EMFILE),
};

/// "No resources available": IBTA volume 1, 12.6.7.2.
pub(super) const NO_RESOURCES: i32 = 3;

impl ShmControl<'_> {
    /// Looks at the sockets that are ready, and hands out the oldest event.
    #[cold]
    pub(super) fn drain(&mut self, now: Instant) -> Option<CmEvent> {
        self.now = now;
        if self.pending && self.events.is_empty() {
            let mut tokens = [0; READY_MAX];
            match self.poller.ready(&mut tokens) {
                // Until there is none: a change is told once.
                Ok(count) => {
                    self.pending = count > 0;
                    tokens[..count].iter().for_each(|&token| self.on_ready(Token::unpack(token)));
                }
                Err(error) => self.note_failure(error),
            }
        }
        let event = self.events.pop_front();
        if self.events.is_empty() {
            // Back to its first place: else one event after the other would touch all of the room there is.
            self.events.clear();
        }
        self.counters.events += u64::from(event.is_some());
        event
    }

    fn on_ready(&mut self, token: Token) {
        match token {
            Token::Listener(number) => self.on_listener(number),
            Token::Incoming(place, serial) => self.on_incoming(place, serial),
            Token::Conn(slot, generation) => self.on_conn(slot, generation),
        }
    }

    /// Sends the request of an active connection, or keeps it until there is room for it.
    pub(super) fn connect(&mut self, id: ConnId, request: Request) -> Result<(), CallError> {
        let socket = &self.conn(id, "connect")?.socket;
        match socket.connect(&request.name) {
            Ok(()) => {}
            Err(CallError { errno: Errno(libc::EAGAIN), .. }) => {
                self.conn(id, "connect")?.stage = Stage::Busy(Box::new(request));
                self.busy += 1;
                return Ok(());
            }
            Err(CallError { errno: Errno(libc::ECONNREFUSED | libc::ENOENT), .. }) => {
                self.conn(id, "connect")?.stage = Stage::Over;
                self.push_plain(id, CmEventKind::Rejected, NOBODY_LISTENS);
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let peer = socket.credentials()?;
        if !self.options.users.allow(peer.uid) {
            return Err(CallError {
                call: "the server is of a user who is not allowed: connect",
                errno: Errno(libc::EACCES),
            });
        }
        let (terms, arena) = self.terms(request.geometry, Some(peer));
        let conn = self.conns.get(id.slot()).and_then(Option::as_ref);
        let conn = conn.ok_or(CallError { call: "connect", errno: Errno(libc::ENOTCONN) })?;
        let packet = Packet::Request(terms, request.data).encode();
        self.pass_regions(&conn.socket)?;
        conn.socket.send(&packet, &self.descriptors(&request.segment, arena))?;
        self.poller.add(&conn.socket, Token::of(id).pack())?;
        let conn = self.conn(id, "connect")?;
        (conn.stage, conn.peer) = (Stage::Asked, Some(peer));
        Ok(())
    }

    fn on_conn(&mut self, slot: u16, generation: u32) {
        let Some(Some(conn)) = self.conns.get_mut(usize::from(slot)) else { return };
        let id = conn.id;
        if Token::of(id) != Token::Conn(slot, generation) {
            return;
        }
        let own = self.options.users.own();
        let read =
            read(&conn.socket, &mut self.peer_arenas, &self.closer, conn.peer.filter(|peer| peer.uid == own), self.now);
        let (kind, status, data) = match (&conn.stage, read) {
            (_, Ok(Read::Nothing)) => return,
            (Stage::Asked, Ok(Read::Regions(regions))) if conn.regions.is_empty() => {
                conn.regions = regions;
                return;
            }
            (Stage::Asked, Ok(Read::Packet(Ok(Packet::Accept(_, data)), Some((offer, pulse))))) => {
                (conn.offer, conn.pulse) = (Some(offer), Some(pulse));
                match conn.socket.send(&Packet::Ready.encode(), &[]) {
                    Ok(()) => {
                        conn.stage = Stage::Up;
                        let peer = conn.peer.map(process);
                        return self.push(Target::Conn(id), CmEventKind::Established, 0, data, peer);
                    }
                    Err(error) => (CmEventKind::ConnectError, -error.errno.0, PrivateData::new()),
                }
            }
            (Stage::Asked, Ok(Read::Packet(Ok(Packet::Reject(code, data)), _))) => (CmEventKind::Rejected, code, data),
            (Stage::Asked, Ok(Read::End)) => (CmEventKind::ConnectError, -libc::ECONNRESET, PrivateData::new()),
            (Stage::Asked, Ok(Read::Packet(..) | Read::Regions(_) | Read::Unfit(AttachError::Unfit(_)))) => {
                (CmEventKind::ConnectError, -libc::EPROTO, PrivateData::new())
            }
            (Stage::Asked, Ok(Read::Unfit(AttachError::Call(error))) | Err(error)) => {
                (CmEventKind::ConnectError, -error.errno.0, PrivateData::new())
            }
            (Stage::Accepted, Ok(Read::Packet(Ok(Packet::Ready), None))) => {
                conn.stage = Stage::Up;
                return self.push_plain(id, CmEventKind::Established, 0);
            }
            (_, Ok(Read::End) | Err(_)) => (CmEventKind::Disconnected, 0, PrivateData::new()),
            // Nothing is said on the socket of a connection that is up.
            (_, Ok(Read::Packet(..) | Read::Regions(_) | Read::Unfit(_))) => {
                (CmEventKind::Unreachable, -libc::EPROTO, PrivateData::new())
            }
        };
        self.poller.remove(&conn.socket);
        if !matches!(std::mem::replace(&mut conn.stage, Stage::Over), Stage::Over) {
            self.push(Target::Conn(id), kind, status, data, None);
        }
    }
}

/// "Invalid service id": IBTA volume 1, 12.6.7.2.
const NOBODY_LISTENS: i32 = 8;

pub(super) fn process(peer: Credentials) -> Peer {
    Peer::Process { pid: peer.pid, uid: peer.uid }
}

/// Takes the next packet from a socket; of one that carries memory, maps it. `lender` is the peer, if it may lend its arena:
/// if it is of the own user.
pub(super) fn read(
    socket: &Socket,
    arenas: &mut PeerArenas,
    closer: &Closer,
    lender: Option<Credentials>,
    now: Instant,
) -> Result<Read, CallError> {
    let mut bytes = [0; PACKET_MAX];
    let (len, fds) = match socket.recv(&mut bytes)? {
        Received::Nothing => return Ok(Read::Nothing),
        Received::End => return Ok(Read::End),
        Received::Cut(fds) => {
            closer.close_all(fds, Whose::Peers);
            return Err(CUT);
        }
        Received::Packet(len, fds) => (len, fds),
    };
    let fds = match closer.memfds(fds) {
        Ok(fds) => fds,
        Err(error) => return Ok(Read::Unfit(error)),
    };
    // A longer one is nonsense: its length does not match, and its end is not there.
    let packet = bytes.get(..len).map_or(Err(PacketError::Malformed), Packet::decode);
    let Terms { geometry, arena_bytes } = match &packet {
        Ok(Packet::Request(terms, _) | Packet::Accept(terms, _)) => *terms,
        Ok(Packet::Exposed(table)) => return Ok(exposed::attach(table, fds).map_or_else(Read::Unfit, Read::Regions)),
        // Whatever came along is not what it should come with.
        _ => {
            closer.close_all(fds, Whose::Peers);
            return Ok(Read::Packet(packet, None));
        }
    };
    let lends = arena_bytes > 0 && lender.is_some();
    if fds.len() != if lends { 3 } else { 2 } || (arena_bytes > 0 && !lends) {
        closer.close_all(fds, Whose::Peers);
        return Ok(Read::Packet(packet, None));
    }
    let mut fds = fds.into_iter();
    let (Some(segment), Some(pulse)) = (fds.next(), fds.next()) else { return Ok(Read::Packet(packet, None)) };
    let lent = fds.next().zip(lender);
    let map = || -> Result<(Offer, PeerPulse), AttachError> {
        let memory = PeerMemory::map(segment, geometry.bytes())?;
        let arena = lent.map(|(fd, lender)| arenas.map(fd, arena_bytes, lender)).transpose()?;
        Ok((Offer { memory, geometry, arena }, PeerPulse::attach(pulse, now)?))
    };
    Ok(match map() {
        Ok(mapped) => Read::Packet(packet, Some(mapped)),
        Err(error) => Read::Unfit(error),
    })
}
