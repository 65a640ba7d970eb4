//! [`Fabric`] over verbs: the data path of one core on one device.

mod convert;

use std::rc::Rc;

use spinwire_core::config::{BATCH_MAX, Sizing};
use spinwire_core::fabric::{Batch, BufferMap, Fabric, OneSidedWr, Outcome, PostError, RecvWr, SendWr};
use spinwire_core::id::ConnId;

use super::device::Device;
use super::one_sided;
use super::qp::Qp;
use super::queues::Queues;
use super::region::RegionKey;
use super::wr::Chain;
use crate::sys::os::{CallError, Errno};
use crate::sys::rdmacm::Id;
use crate::sys::verbs as ffi;
use convert::{fill_send, poll, received};

/// Connections' queue pairs on one device, and the two completion queues they share.
///
/// Posts and polls allocate nothing and make no system call of their own; on Soft-RoCE the provider makes one `write`
/// per doorbell.
pub struct VerbsFabric<'m> {
    // Queue pairs before what they hang on: see the order of release in the module's description.
    conns: Vec<Option<Conn>>,
    live: u32,
    queues: Queues,
    region: RegionKey<'m>,
    buffers: BufferMap,
    sends: Chain<ffi::ibv_send_wr>,
    operations: Chain<ffi::ibv_send_wr>,
    recvs: Chain<ffi::ibv_recv_wr>,
    polled: [ffi::ibv_wc; BATCH_MAX],
    counters: Counters,
    poll_failure: Option<CallError>,
}

struct Conn {
    id: ConnId,
    qp: Qp,
}

/// What the fabric did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Posts of sends or of one-sided operations: one doorbell each, which on Soft-RoCE is one `write`.
    pub doorbells: u64,
    /// Sends and one-sided operations in them.
    pub sends: u64,
    /// Posts of receives. They ring no doorbell that costs a call.
    pub recv_chains: u64,
    /// Receives in them.
    pub recvs: u64,
    /// Calls that polled a completion queue.
    pub polls: u64,
    /// Completions they found.
    pub completions: u64,
    /// Polls that failed: the queue is broken, see [`VerbsFabric::poll_failure`].
    pub failed_polls: u64,
}

impl<'m> VerbsFabric<'m> {
    /// Puts a fabric together. `slots` is the length of the engine's connection table.
    ///
    /// # Safety
    /// Whatever is posted on this fabric, then and later: its leases, and the buffers of its receives, come only from pools over
    /// the bytes of the same [`Region::split`](super::Region::split) as the key, made with the offsets that their bytes really
    /// have there, and these are the pools that [`Fabric::prepare`] is told of. And no pool reclaims one before its completion
    /// was polled or its connection's queue pair is destroyed. An [`Engine`](spinwire_core::turn::Engine) that owns both pools
    /// and the fabric keeps the second.
    pub unsafe fn new(queues: Queues, region: RegionKey<'m>, slots: usize) -> Self {
        let sizing = Sizing::of(queues.depth());
        VerbsFabric {
            conns: core::iter::repeat_with(|| None).take(slots).collect(),
            live: 0,
            region,
            buffers: BufferMap::default(),
            sends: Chain::new(sizing.send_slots),
            operations: Chain::new(queues.one_sided()),
            recvs: Chain::new(sizing.recv_posted),
            polled: core::array::from_fn(|_| ffi::empty_wc()),
            counters: Counters::default(),
            poll_failure: None,
            queues,
        }
    }

    /// Takes a queue pair that no library knows. The fabric must then be forgotten, not dropped.
    #[cfg(test)]
    pub(super) fn open_fake(&mut self, conn: ConnId, qp: Qp) {
        self.conns[conn.slot()] = Some(Conn { id: conn, qp });
        self.live += 1;
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.queues.device()
    }

    /// The queues that the connections share.
    pub fn queues(&self) -> &Queues {
        &self.queues
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The first failure of a poll. Anything here means that a completion queue is broken and its connections with it.
    pub fn poll_failure(&self) -> Option<CallError> {
        self.poll_failure
    }

    /// The queue pair of a connection, while it has one.
    pub fn qp(&self, conn: ConnId) -> Option<&Qp> {
        self.conns.get(conn.slot())?.as_ref().filter(|entry| entry.id == conn).map(|entry| &entry.qp)
    }

    /// Makes the queue pair of `conn` on its id. Refused when the completion queues would not hold its work: an
    /// overrun would take every connection down.
    pub(crate) fn open(&mut self, conn: ConnId, id: &Rc<Id>) -> Result<(), CallError> {
        let refuse = |errno| Err(CallError { call: "rdma_create_qp", errno: Errno(errno) });
        if self.live >= self.queues.connections() {
            return refuse(libc::ENOSPC);
        }
        match self.conns.get_mut(conn.slot()) {
            Some(slot @ None) => {
                let Queues { pd, send_cq, recv_cq, caps, .. } = &self.queues;
                let qp = Qp::on_id(id, pd, (send_cq, recv_cq), caps)?;
                *slot = Some(Conn { id: conn, qp });
                self.live += 1;
                Ok(())
            }
            Some(Some(_)) => refuse(libc::EBUSY),
            None => refuse(libc::ENOSPC),
        }
    }

    /// Destroys the queue pair of `conn`, if it has one.
    pub(crate) fn close(&mut self, conn: ConnId) -> Result<(), CallError> {
        let entry = self.conns.get_mut(conn.slot()).and_then(|slot| slot.take_if(|entry| entry.id == conn));
        self.live -= u32::from(entry.is_some());
        entry.map_or(Ok(()), |entry| entry.qp.destroy())
    }

    #[inline]
    fn raw_qp(&self, conn: ConnId) -> Result<core::ptr::NonNull<ffi::ibv_qp>, PostError> {
        self.qp(conn).map(Qp::raw).ok_or(PostError { taken: 0, errno: libc::ENOTCONN })
    }
}

impl Fabric for VerbsFabric<'_> {
    fn prepare(&mut self, buffers: &BufferMap) {
        self.buffers = *buffers;
    }

    #[inline]
    fn poll_recv(&mut self, out: &mut Batch) {
        let result = poll(&self.queues.recv_cq, &mut self.polled, out, received);
        self.counters.note_poll(result, &mut self.poll_failure);
    }

    #[inline]
    fn poll_send(&mut self, out: &mut Batch) {
        let result = poll(&self.queues.send_cq, &mut self.polled, out, |_| Outcome::Done { bytes: 0, imm: None });
        self.counters.note_poll(result, &mut self.poll_failure);
    }

    #[inline]
    fn post_recv(&mut self, conn: ConnId, chain: &[RecvWr]) -> Result<(), PostError> {
        if chain.is_empty() {
            return Ok(());
        }
        let qp = self.raw_qp(conn)?;
        for (index, work) in chain.iter().enumerate() {
            let (wr, sge) = self.recvs.entry(index);
            let (offset, len) = (self.buffers.recv_offset(work), self.buffers.recv.len);
            wr.wr_id = work.wr_id().to_bits();
            *sge = ffi::ibv_sge { addr: self.region.address(offset, len), length: len, lkey: self.region.lkey() };
        }
        // SAFETY: the queue pair is alive, in `conns`, and this thread's; the memory is the region's, lent to the device
        // by the pool until the completion or the end of the queue pair (the leases, by the promise made to `new`).
        let result = self.recvs.post(chain.len(), |first| unsafe { ffi::post_recv(qp, first) });
        self.counters.recv_chains += 1;
        self.counters.recvs += taken(&result, chain.len());
        result
    }

    #[inline]
    fn post_send(&mut self, conn: ConnId, (head, tail): (&[SendWr], &[SendWr])) -> Result<(), PostError> {
        let count = head.len() + tail.len();
        if count == 0 {
            return Ok(());
        }
        let qp = self.raw_qp(conn)?;
        for (index, work) in head.iter().chain(tail).enumerate() {
            let (wr, sge) = self.sends.entry(index);
            fill_send(&self.region, &self.buffers, work, wr, sge);
        }
        // SAFETY: as for receives; inline payloads are read during the call only, while the leases are borrowed.
        let result = self.sends.post(count, |first| unsafe { ffi::post_send(qp, first) });
        self.counters.doorbells += 1;
        self.counters.sends += taken(&result, count);
        result
    }

    fn post_one_sided(&mut self, conn: ConnId, chain: &[OneSidedWr]) -> Result<(), PostError> {
        if chain.is_empty() {
            return Ok(());
        }
        let qp = self.raw_qp(conn)?;
        for (index, work) in chain.iter().enumerate() {
            let (wr, sge) = self.operations.entry(index);
            one_sided::fill(&self.region, &self.buffers, work, wr, sge);
        }
        // SAFETY: as for sends.
        let result = self.operations.post(chain.len(), |first| unsafe { ffi::post_send(qp, first) });
        self.counters.doorbells += 1;
        self.counters.sends += taken(&result, chain.len());
        result
    }

    /// What the two devices agreed on; 0 as well if the own one does not tell.
    fn reads_max(&self, conn: ConnId) -> u32 {
        self.qp(conn).and_then(|qp| qp.reads_max().ok()).map_or(0, u32::from)
    }

    fn qp_num(&self, conn: ConnId) -> Option<u32> {
        self.qp(conn).map(Qp::number)
    }
}

#[inline]
fn taken(result: &Result<(), PostError>, count: usize) -> u64 {
    match result {
        Ok(()) => count as u64,
        Err(error) => u64::from(error.taken),
    }
}

impl Counters {
    #[inline]
    fn note_poll(&mut self, result: Result<usize, CallError>, failure: &mut Option<CallError>) {
        self.polls += 1;
        match result {
            Ok(count) => self.completions += count as u64,
            Err(error) => {
                self.failed_polls += 1;
                failure.get_or_insert(error);
            }
        }
    }
}
