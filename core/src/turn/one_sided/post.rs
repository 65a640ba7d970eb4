//! From the flush that posts operations to the completions that bring them back.

use super::{Done, IMM_BYTES, OneSidedFailure, OneSidedMemory, op_work};
use crate::cm::reason::ProtocolError;
use crate::cm::table::State;
use crate::conn::{Due, OpQueue};
use crate::fabric::{Completion, Control, Fabric, OneSidedOp, OneSidedWr, Outcome, WcStatus};
use crate::id::ConnId;
use crate::pool::Buf;
use crate::turn::{Core, Cx, Engine, Handler, SetupError};

impl<'m, C: Control> Engine<'m, C> {
    /// Gives the engine room for one-sided operations: before the first turn.
    ///
    /// # Errors
    /// Not one queue for each connection, not the same power of two of slots for each, or fewer send buffers than the
    /// sends and the slots together may hold; says which.
    pub fn with_one_sided(mut self, memory: OneSidedMemory<'m>) -> Result<Self, SetupError> {
        let core = &mut self.core;
        let conns = core.conns.capacity() as usize;
        let short = |what, given, needed| Err(SetupError::Short { what, given, needed });
        if memory.queues.len() != conns {
            return short("queues of one-sided operations", memory.queues.len(), conns);
        }
        let each = memory.slots.len() / conns.max(1);
        let needed = each.next_power_of_two() * conns;
        if memory.slots.len() != needed {
            return short(
                "slots of one-sided operations, a power of two for each connection",
                memory.slots.len(),
                needed,
            );
        }
        let buffers = conns * core.sizing.send_buffers as usize + OneSidedMemory::buffers(needed);
        if (core.send_pool.total() as usize) < buffers {
            return short("send buffers, one-sided operations included", core.send_pool.total() as usize, buffers);
        }
        memory.queues.fill(OpQueue::default());
        core.one_sided = memory;
        Ok(self)
    }

    /// The connection is up: what it may have in flight is known.
    pub(in crate::turn) fn open_operations(&mut self, id: ConnId) {
        let Some(conn) = self.core.conns.get(id) else { return };
        if let Some(queue) = self.core.one_sided.queues.get_mut(id.slot()) {
            queue.open(self.fabric.reads_max(conn.link));
        }
    }

    /// Posts what was asked for: in front of the messages of this turn.
    pub(in crate::turn) fn post_operations<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Core { conns, one_sided, stats, .. } = &mut self.core;
        let Some(conn) = conns.get_mut(id).filter(|conn| conn.due.has(Due::OPERATIONS)) else { return };
        if !matches!(conn.state, State::Established | State::Lingering) {
            return;
        }
        let Some((queue, ring)) = Core::operations_of(one_sided, id.slot()) else { return };
        let mut result = Ok(());
        // Once, or twice where the ring wraps.
        while result.is_ok() && queue.gathered() > 0 {
            let chain = queue.chain(ring);
            let len = chain.len() as u32;
            result = self.fabric.post_one_sided(conn.link, chain);
            let taken = result.as_ref().map_or_else(|error| error.taken.min(len), |()| len);
            queue.advance(taken);
            stats.doorbells += 1;
            stats.operations += u64::from(taken);
        }
        conn.due.remove(Due::OPERATIONS);
        if let Err(error) = result {
            self.post_failed(handler, id, "one-sided operation", error);
        }
    }

    /// A completion of an operation.
    #[inline(never)]
    pub(in crate::turn) fn operation_completed<H: Handler>(&mut self, handler: &mut H, completion: &Completion) {
        let Core { conns, stats, one_sided, send_pool, dirty, .. } = &mut self.core;
        let Some((id, conn)) = Core::owner(conns, stats, completion, op_work) else { return };
        let work = op_work(conn);
        let queue = Core::operations_of(one_sided, id.slot());
        let next = queue.filter(|(queue, _)| queue.is_next(completion.wr_id.index()));
        let Some(wr) = next.and_then(|(queue, ring)| queue.pop(ring)) else {
            stats.completions_stale += 1;
            return;
        };
        dirty.mark(id.slot());
        let buf = wr.buf.as_ref().and_then(|lease| send_pool.reclaim(lease.index(), work));
        match completion.outcome {
            Outcome::Done { .. } => self.report_operation(handler, id, &wr, buf, None),
            Outcome::Failed { status, vendor } => {
                let failure = match status {
                    WcStatus::WR_FLUSH_ERR => OneSidedFailure::Flushed,
                    _ => OneSidedFailure::Failed { status, vendor },
                };
                self.report_operation(handler, id, &wr, buf, Some(failure));
                self.work_failed(handler, id, wr.op.name(), status, vendor);
            }
        }
        self.check_sends_done(handler, id);
    }

    /// The queue pair is destroyed: what the device has not confirmed comes back now, in order.
    pub(in crate::turn) fn fail_operations<H: Handler>(&mut self, handler: &mut H, id: ConnId) {
        let Some(work) = self.core.conns.get(id).map(op_work) else { return };
        loop {
            let Core { one_sided, send_pool, .. } = &mut self.core;
            let oldest = Core::operations_of(one_sided, id.slot()).and_then(|(queue, ring)| queue.pop(ring));
            let Some(wr) = oldest else { return };
            let buf = wr.buf.as_ref().and_then(|lease| send_pool.reclaim(lease.index(), work));
            self.report_operation(handler, id, &wr, buf, Some(OneSidedFailure::Flushed));
        }
    }

    fn report_operation<H: Handler>(
        &mut self,
        handler: &mut H,
        id: ConnId,
        wr: &OneSidedWr,
        buf: Option<Buf<'m>>,
        failure: Option<OneSidedFailure>,
    ) {
        self.core.stats.operations_failed += u64::from(failure.is_some());
        let bytes = buf.as_ref().and_then(|buf| buf.get(..wr.len as usize)).unwrap_or_default();
        let outcome = match (failure, wr.op) {
            (Some(failure), _) => Err(failure),
            (None, OneSidedOp::Write) => Ok(Done::Written),
            (None, OneSidedOp::Read) => Ok(Done::Read(bytes)),
            (None, OneSidedOp::CompareSwap { .. } | OneSidedOp::FetchAdd { .. }) => {
                Ok(Done::Was(bytes.try_into().map_or(0, u64::from_ne_bytes)))
            }
        };
        handler.on_done(&mut Cx::new(&mut self.core), id, wr.user, outcome);
        if let Some(buf) = buf {
            self.core.send_pool.release(buf);
        }
    }

    /// The message behind a write with immediate.
    pub(in crate::turn) fn told_of_write<H: Handler>(&mut self, handler: &mut H, id: ConnId, buf: Buf<'m>, bytes: u32) {
        let imm = buf.get(..bytes as usize).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
        let Some(imm) = imm else {
            let fault = ProtocolError::WriteImm { got: bytes, expected: IMM_BYTES };
            return self.peer_fault(handler, id, buf, fault);
        };
        self.recv_pool.release(buf);
        if !self.core.conns.get(id).is_some_and(crate::conn::Conn::flows) && !self.is_wanted(handler, id) {
            self.core.stats.messages_after_close += 1;
            return;
        }
        handler.on_write_imm(&mut Cx::new(&mut self.core), id, imm);
    }
}
