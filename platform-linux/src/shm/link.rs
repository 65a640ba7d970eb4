//! One connection's data path: its own segment, the peer's, and the posted work of both directions.

mod prefetch;
mod receive;

use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::OwnedFd;

use spinwire_core::config::Sizing;
use spinwire_core::fabric::{Batch, OneSidedWr, PostError, RecvWr, SendWr};

use super::conn::Offer;
use super::exposed::PeerRegion;
use super::layout::Geometry;
use super::local::LocalMemory;
use super::memory::{OwnMemory, ShareError};
use super::operations::Operations;
use super::posted::Posted;
use super::receiver::{Lie, Receiver};
use super::sender::Sender;
use super::watch::Next;

/// One connection. What a message touches comes first, in as few lines as it takes: see `prefetch`.
#[repr(C, align(64))]
pub(super) struct Link {
    receiver: Receiver,
    recvs: Posted,
    qp_num: u32,
    /// Of the peer's descriptors, so many are known to it as taken.
    told: u64,
    end: End,
    /// On the fabric's list of links with sends under way whose peers are asked.
    pub(super) is_sending: bool,
    /// On the fabric's list of links with sends under way whose peers tell by answers.
    pub(super) is_answered: bool,
    /// On the fabric's list of links that were visited lately.
    pub(super) is_visited: bool,
    /// What was received last was answered before the next poll: the next is likely to be.
    answers: bool,
    /// What was last heard of sends that are done came with an answer.
    told_by_answer: bool,
    // Before the memory it writes.
    sender: Sender,
    own: OwnMemory,
    geometry: Geometry,
    operations: Operations,
}

/// How far a link is on its way out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Not at all.
    No,
    /// Disconnected: what has arrived is still taken, then posted work is flushed.
    Draining,
    /// The peer lied; the next receive says how.
    Fault(Lie),
    /// Nothing is taken any more; posted work is flushed.
    Flushing,
}

impl Link {
    /// Makes the own segment: all its memory is taken now.
    pub(super) fn new(
        geometry: Geometry,
        (sizing, operations): (&Sizing, usize),
        hugepages: bool,
        qp_num: u32,
    ) -> Result<Self, ShareError> {
        let own = OwnMemory::new(geometry.bytes(), hugepages)?;
        Ok(Self {
            sender: Sender::new(geometry, own.base(), sizing.send_slots),
            own,
            geometry,
            recvs: Posted::new(sizing.recv_posted),
            operations: Operations::new(operations),
            receiver: Receiver::new(geometry),
            qp_num,
            told: 0,
            end: End::No,
            is_sending: false,
            is_answered: false,
            is_visited: false,
            answers: false,
            told_by_answer: false,
        })
    }

    pub(super) fn qp_num(&self) -> u32 {
        self.qp_num
    }

    /// The own segment's descriptor, once, to be passed to the peer.
    pub(super) fn take_fd(&mut self) -> Option<OwnedFd> {
        self.own.take_fd()
    }

    /// How the own segment is laid out.
    pub(super) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The peer's segment is known: messages can come. `lends` says that the peer has our arena.
    pub(super) fn attach(&mut self, offer: Offer, lends: bool) {
        self.receiver.attach(offer.memory, offer.geometry, offer.arena);
        if lends {
            self.sender.lend();
        }
    }

    /// The peer has exposed these.
    pub(super) fn attach_regions(&mut self, regions: Vec<PeerRegion>) {
        self.operations.attach(regions);
    }

    /// Carries out operations on the peer's regions, or flushes them. The first that is refused ends the connection.
    pub(super) fn post_one_sided(&mut self, chain: &[OneSidedWr], local: &LocalMemory<'_>) -> Result<(), PostError> {
        for (taken, wr) in chain.iter().enumerate() {
            let is_over = self.end != End::No;
            match self.operations.post(wr, local, is_over) {
                Ok(true) => {}
                Ok(false) => self.end = if is_over { self.end } else { End::Flushing },
                Err(errno) => return Err(PostError { taken: taken as u32, errno }),
            }
        }
        Ok(())
    }

    /// The connection is down: see [`End::Draining`].
    pub(super) fn disconnect(&mut self) {
        if self.end == End::No {
            self.end = End::Draining;
        }
    }

    /// What to look for; a look at it is a look at the link.
    #[inline]
    pub(super) fn next(&self) -> Next {
        let (slot, phase) = self.receiver.next();
        Next { slot, phase, wide: self.receiver.is_wide(), always: self.end != End::No }
    }

    /// Whether the peer is to be asked how far it is, and not left to tell.
    #[inline]
    pub(super) fn is_asked(&self) -> bool {
        !self.told_by_answer || self.sender.is_waiting() || self.end != End::No || !self.operations.is_idle()
    }

    /// Whether it has ended, or is about to: then it is to be visited whatever comes.
    pub(super) fn is_ending(&self) -> bool {
        self.end != End::No
    }

    #[inline(always)]
    pub(super) fn post_recv(&mut self, chain: &[RecvWr], local: &LocalMemory<'_>) -> Result<(), PostError> {
        for (taken, wr) in chain.iter().enumerate() {
            if !self.recvs.post(wr, local) {
                return Err(PostError { taken: taken as u32, errno: libc::ENOMEM });
            }
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn post_send(
        &mut self,
        chain: (&[SendWr], &[SendWr]),
        local: &LocalMemory<'_>,
    ) -> Result<(), PostError> {
        match chain {
            ([wr], []) => self.post_one(wr, local).map_err(|errno| PostError { taken: 0, errno }),
            _ => self.post_chain(chain, local),
        }
    }

    #[inline(never)]
    fn post_chain(&mut self, chain: (&[SendWr], &[SendWr]), local: &LocalMemory<'_>) -> Result<(), PostError> {
        for (taken, wr) in chain.0.iter().chain(chain.1).enumerate() {
            self.post_one(wr, local).map_err(|errno| PostError { taken: taken as u32, errno })?;
        }
        Ok(())
    }

    // Always, as what it calls: in both places, or the one that is in a hurry has to call it too.
    #[inline(always)]
    fn post_one(&mut self, wr: &SendWr, local: &LocalMemory<'_>) -> Result<(), i32> {
        let consumed = self.consumed();
        let may_launch = self.end == End::No;
        match self.sender.post(wr, local, may_launch.then_some(consumed))? {
            true => self.told = consumed,
            false => self.launch(local),
        }
        Ok(())
    }

    /// Sends what waits, as far as there is room.
    #[inline(never)]
    fn launch(&mut self, local: &LocalMemory<'_>) {
        let (consumed, sent) = (self.consumed(), self.sender.sent());
        if self.end == End::No {
            self.sender.launch(local, consumed);
        }
        if self.sender.sent() != sent {
            self.told = consumed;
        }
    }

    /// Reports what is known to be done.
    #[inline]
    pub(super) fn complete(&mut self, out: &mut Batch) {
        self.sender.complete(out, self.qp_num);
    }

    /// Looks how far the peer is with what was sent, sends on, and reports what is done. Tells whether there is more.
    #[inline]
    pub(super) fn progress(&mut self, local: &LocalMemory<'_>, out: &mut Batch) -> bool {
        if self.end == End::No && self.sender.waits_for_ack() && self.receiver.is_attached() {
            match self.sender.on_counter(self.receiver.peer_counter()) {
                Ok(more) => self.told_by_answer &= !more,
                Err(lie) => self.end = End::Fault(lie),
            }
        }
        if self.sender.is_waiting() {
            self.launch(local);
        }
        self.sender.complete(out, self.qp_num);
        if self.end != End::No {
            self.sender.flush(out, self.qp_num);
        }
        if !self.operations.is_idle() {
            self.operations.complete(out, self.qp_num);
        }
        self.sender.is_busy() || !self.operations.is_idle()
    }

    /// Tells the peer what was taken, unless an answer has, or there was nothing.
    #[inline]
    pub(super) fn tell(&mut self) {
        let consumed = self.consumed();
        self.answers = self.told == consumed;
        if self.answers {
            return;
        }
        self.told = consumed;
        // SAFETY: inside our own segment and aligned; the peer only reads it.
        let counter = unsafe { AtomicU64::from_ptr(self.own.base().as_ptr().add(self.geometry.consumed()).cast()) };
        // C1, pairs with C2: the slots were read before they are given back.
        counter.store(consumed, Ordering::Release);
    }

    #[inline]
    fn consumed(&self) -> u64 {
        self.receiver.consumed()
    }
}
