//! A provider without a device, and what a test needs around it.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use std::collections::VecDeque;

use spinwire_core::fabric::{BufferMap, Fabric, RecvWr, SendWr};
use spinwire_core::id::{ConnId, WorkId, WorkKind};
use spinwire_core::pool::{Direction, Layout, Pool, PoolSlot};

use crate::sys::rdmacm::{Id, rdma_cm_id};
use crate::sys::verbs::{ibv_context, ibv_cq, ibv_qp, ibv_recv_wr, ibv_send_wr, ibv_sge, ibv_wc};
use crate::verbs::{Cq, Device, Pd, Qp, Queues, RegionKey, VerbsFabric};

/// How a provider says that it did not take a work request.
#[derive(Clone, Copy)]
pub(super) enum Says {
    Errno,
    MinusOneAndErrno,
    NegativeErrno,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) wr_id: u64,
    pub(super) opcode: u32,
    pub(super) flags: u32,
    pub(super) imm: u32,
    pub(super) payload: Vec<u8>,
    pub(super) lkeys: Vec<u32>,
}

#[derive(Default)]
pub(super) struct Provider {
    pub(super) sent: Vec<Sent>,
    pub(super) received: Vec<(u64, u64, u32, u32)>,
    pub(super) calls: u32,
    /// Work requests it takes before it refuses.
    pub(super) refuse_after: Option<(usize, Says)>,
    pub(super) completions: VecDeque<ibv_wc>,
    pub(super) poll_error: Option<i32>,
}

impl Provider {
    pub(super) fn refuses(&self, taken: usize) -> Option<i32> {
        let (limit, says) = self.refuse_after?;
        if taken < limit {
            return None;
        }
        Some(match says {
            Says::Errno => libc::ENOMEM,
            Says::NegativeErrno => -libc::ENOMEM,
            Says::MinusOneAndErrno => {
                // SAFETY: errno of this thread.
                unsafe { *libc::__errno_location() = libc::ENOMEM };
                -1
            }
        })
    }
}

// SAFETY (all three): called by the posting and polling code with objects made by `Rig`, whose context pointers lead to
// its provider, alive for the test; work requests are chains that the code under test promises to be valid.
unsafe extern "C" fn post_send(qp: *mut ibv_qp, first: *mut ibv_send_wr, bad: *mut *mut ibv_send_wr) -> i32 {
    // SAFETY: see above.
    let provider = unsafe { &mut *(*qp).qp_context.cast::<Provider>() };
    provider.calls += 1;
    let (mut at, mut taken) = (first, 0);
    // SAFETY: see above.
    while let Some(wr) = unsafe { at.as_ref() } {
        if let Some(code) = provider.refuses(taken) {
            // SAFETY: see above.
            unsafe { *bad = at };
            return code;
        }
        // SAFETY: `num_sge` pieces are there, each within the region.
        let (sges, imm) = unsafe {
            let count = wr.num_sge as usize;
            let sges: &[ibv_sge] = if count == 0 { &[] } else { core::slice::from_raw_parts(wr.sg_list, count) };
            (sges, wr.imm_data_invalidated_rkey_union.imm_data)
        };
        // SAFETY: as above.
        let read = |sge: &ibv_sge| unsafe { core::slice::from_raw_parts(sge.addr as *const u8, sge.length as usize) };
        provider.sent.push(Sent {
            wr_id: wr.wr_id,
            opcode: wr.opcode,
            flags: wr.send_flags,
            imm,
            payload: sges.iter().flat_map(read).copied().collect(),
            lkeys: sges.iter().map(|sge| sge.lkey).collect(),
        });
        taken += 1;
        at = wr.next;
    }
    0
}

// SAFETY: see `post_send`.
unsafe extern "C" fn post_recv(qp: *mut ibv_qp, first: *mut ibv_recv_wr, bad: *mut *mut ibv_recv_wr) -> i32 {
    // SAFETY: see `post_send`.
    let provider = unsafe { &mut *(*qp).qp_context.cast::<Provider>() };
    provider.calls += 1;
    let (mut at, mut taken) = (first, 0);
    // SAFETY: see `post_send`.
    while let Some(wr) = unsafe { at.as_ref() } {
        if let Some(code) = provider.refuses(taken) {
            // SAFETY: see `post_send`.
            unsafe { *bad = at };
            return code;
        }
        assert_eq!(wr.num_sge, 1);
        // SAFETY: one piece is there.
        let sge = unsafe { &*wr.sg_list };
        provider.received.push((wr.wr_id, sge.addr, sge.length, sge.lkey));
        taken += 1;
        at = wr.next;
    }
    0
}

// SAFETY: see `post_send`.
unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, room: i32, out: *mut ibv_wc) -> i32 {
    // SAFETY: see `post_send`.
    let provider = unsafe { &mut *(*cq).cq_context.cast::<Provider>() };
    if let Some(code) = provider.poll_error {
        return code;
    }
    let count = provider.completions.len().min(room as usize);
    for (i, wc) in provider.completions.drain(..count).enumerate() {
        // SAFETY: `room` entries may be written.
        unsafe { out.add(i).write(wc) };
    }
    count as i32
}

pub(super) fn zeroed<T>() -> &'static mut T {
    // SAFETY: used for C structs of pointers, integers and optional functions, for which zeroes are valid.
    Box::leak(Box::new(unsafe { core::mem::zeroed() }))
}

/// A fabric on a provider of our own. Leaked at the end: no library knows the objects, so none can release them.
pub(super) struct Rig {
    pub(super) provider: *mut Provider,
    pub(super) fabric: ManuallyDrop<VerbsFabric<'static>>,
    pub(super) pool: Pool<'static>,
    pub(super) memory: usize,
}

pub(super) const LKEY: u32 = 0x1234;
pub(super) const BUFFER: u32 = 64;

impl Rig {
    pub(super) fn new() -> Rig {
        let provider: *mut Provider = Box::leak(Box::default());
        let context: &mut ibv_context = zeroed();
        context.ops.post_send = Some(post_send);
        context.ops.post_recv = Some(post_recv);
        context.ops.poll_cq = Some(poll_cq);
        let context: *mut ibv_context = context;
        let cq: &mut ibv_cq = zeroed();
        (cq.context, cq.cq_context) = (context, provider.cast());
        let qp: &mut ibv_qp = zeroed();
        (qp.context, qp.qp_context, qp.qp_num) = (context, provider.cast(), 17);

        let device = Device::from_fake(NonNull::new(context).unwrap());
        let pd = Pd::from_fake(device.clone());
        let cq = Cq::from_fake(NonNull::from(cq), device, 64);
        let id = Id::from_fake(NonNull::from(zeroed::<rdma_cm_id>()));
        let qp = Qp::from_fake(NonNull::from(qp), pd.clone(), &cq, id);
        let memory = vec![0_u8; 16 * BUFFER as usize].leak();
        let base = memory.as_mut_ptr();
        // SAFETY: stands for a region's key, which makes no reference: the pool has the only one.
        let key = RegionKey::from_fake(unsafe { core::slice::from_raw_parts_mut(base, memory.len()) }, LKEY);
        let slots = vec![PoolSlot::default(); 16].leak();
        let pool = Pool::new(Direction::Recv, memory, 0, (BUFFER, BUFFER), slots).unwrap();
        // SAFETY: `pool` is over the region's bytes from offset 0; what else is posted is refused. No device writes.
        let mut fabric = unsafe { VerbsFabric::new(Queues::from_fake(pd, cq.clone(), cq, 4, 2), key, 4) };
        fabric.open_fake(conn(1), qp);
        let mut rig = Rig { provider, fabric: ManuallyDrop::new(fabric), pool, memory: base as usize };
        // Of two sends of one and two bytes the first is copied.
        rig.prepare(rig.pool.layout(), 1);
        rig
    }

    /// Tells the fabric where the buffers are, and how long a payload is copied.
    pub(super) fn prepare(&mut self, layout: Layout, inline_bytes_max: u32) {
        self.fabric.prepare(&BufferMap { recv: layout, send: layout, inline_bytes_max });
    }

    pub(super) fn provider(&mut self) -> &mut Provider {
        // SAFETY: leaked, and used by one call at a time.
        unsafe { &mut *self.provider }
    }

    /// A send of `payload`, which may be empty: then without a buffer.
    pub(super) fn send(&mut self, index: u32, payload: &[u8]) -> SendWr {
        let buf = (!payload.is_empty()).then(|| {
            let mut buf = self.pool.take().unwrap();
            buf[..payload.len()].copy_from_slice(payload);
            self.pool.lend(buf, WorkId::new(conn(1), WorkKind::Send, 0))
        });
        let wr_id = WorkId::new(conn(1), WorkKind::Send, index);
        SendWr { wr_id, buf, len: payload.len() as u32, imm: None, signaled: false }
    }

    pub(super) fn recv(&mut self) -> RecvWr {
        let buf = self.pool.take().unwrap();
        let work = WorkId::new(conn(1), WorkKind::Recv, buf.index());
        RecvWr::new(work, self.pool.lend(buf, work))
    }
}

pub(super) fn conn(generation: u64) -> ConnId {
    ConnId::from_bits(generation << 16 | 2).unwrap()
}

pub(super) fn completion(wr_id: u64, status: u32) -> ibv_wc {
    // SAFETY: integers only.
    let mut wc: ibv_wc = unsafe { core::mem::zeroed() };
    (wc.wr_id, wc.status, wc.qp_num) = (wr_id, status, 17);
    wc
}
