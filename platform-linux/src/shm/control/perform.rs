//! The engine's actions, carried out.

use std::os::fd::OwnedFd;

use spinwire_core::cm::event::CmEventKind;
use spinwire_core::fabric::Action;
use spinwire_core::id::{ConnId, EndpointId, RequestId};

use super::super::conn::{Conn, Request, Stage};
use super::super::fabric::ShmFabric;
use super::super::layout::Geometry;
use super::super::socket::Socket;
use super::super::wire::Packet;
use super::{ShmControl, private_data};
use crate::sys::os::{CallError, Errno};

impl ShmControl<'_> {
    pub(super) fn try_perform(
        &mut self,
        fabric: &mut ShmFabric<'_>,
        id: ConnId,
        action: Action<'_>,
    ) -> Result<(), CallError> {
        match action {
            Action::ResolveAddr(EndpointId(number)) => {
                let missing = CallError { call: "shm name", errno: Errno(libc::EDESTADDRREQ) };
                let name = self.endpoints.get(number as usize).ok_or(missing)?.clone();
                let socket = Socket::new()?;
                self.place(Conn {
                    id,
                    socket,
                    stage: Stage::New(name),
                    peer: None,
                    offer: None,
                    pulse: None,
                    regions: Vec::new(),
                })?;
                self.push_plain(id, CmEventKind::AddrResolved, 0);
                Ok(())
            }
            Action::ResolveRoute => {
                self.push_plain(id, CmEventKind::RouteResolved, 0);
                Ok(())
            }
            Action::Adopt(RequestId(number)) => self.adopt(id, number),
            Action::CreateQp => {
                if let Err(error) = fabric.open(id) {
                    let cause = error.cause();
                    self.note_failure(cause);
                    return Err(cause);
                }
                self.attach(fabric, id)
            }
            Action::Connect(data) => {
                let segment = segment_of(fabric, id)?;
                let (geometry, data) = (geometry_of(fabric, id)?, private_data(data));
                let conn = self.conn(id, "connect")?;
                match core::mem::replace(&mut conn.stage, Stage::Over) {
                    Stage::New(name) => self.connect(id, Request { name, geometry, data, segment }),
                    _ => Err(CallError { call: "connect", errno: Errno(libc::EISCONN) }),
                }
            }
            Action::Accept(data) => {
                let segment = segment_of(fabric, id)?;
                let geometry = geometry_of(fabric, id)?;
                let conn = self.conns.get(id.slot()).and_then(Option::as_ref).filter(|conn| conn.id == id);
                let conn = conn.ok_or(CallError { call: "sendmsg", errno: Errno(libc::ENOTCONN) })?;
                let (terms, arena) = self.terms(geometry, conn.peer);
                let packet = Packet::Accept(terms, private_data(data)).encode();
                self.pass_regions(&conn.socket)?;
                conn.socket.send(&packet, &self.descriptors(&segment, arena))?;
                self.conn(id, "sendmsg")?.stage = Stage::Accepted;
                Ok(())
            }
            Action::Tune => self.attach(fabric, id),
            Action::Disconnect => {
                fabric.disconnect(id);
                let conn = self.conn(id, "shutdown")?;
                match conn.socket.shutdown() {
                    // Already down.
                    Err(CallError { errno: Errno(libc::ENOTCONN), .. }) => Ok(()),
                    result => result,
                }
            }
            Action::DestroyQp => {
                fabric.close(id);
                Ok(())
            }
            Action::DestroyId => {
                self.destroy(id);
                Ok(())
            }
        }
    }

    /// Gives the fabric the peer's segment, once it is known: on the passive side when the queues are made, on the
    /// active side when the connection is up.
    fn attach(&mut self, fabric: &mut ShmFabric<'_>, id: ConnId) -> Result<(), CallError> {
        let conn = self.conn(id, "mmap")?;
        let (offer, peer, regions) = (conn.offer.take(), conn.peer, core::mem::take(&mut conn.regions));
        if !regions.is_empty() {
            fabric.attach_regions(id, regions);
        }
        let lends = self.arena.is_some() && self.is_own(peer);
        offer.map_or(Ok(()), |offer| fabric.attach(id, offer, lends))
    }
}
fn geometry_of(fabric: &ShmFabric<'_>, id: ConnId) -> Result<Geometry, CallError> {
    fabric.geometry(id).ok_or(CallError { call: "shm segment", errno: Errno(libc::EBADF) })
}

fn segment_of(fabric: &mut ShmFabric<'_>, id: ConnId) -> Result<OwnedFd, CallError> {
    fabric.take_fd(id).ok_or(CallError { call: "shm segment", errno: Errno(libc::EBADF) })
}
