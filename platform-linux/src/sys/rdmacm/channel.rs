//! The event channel, and what is fetched from it.

use core::cell::Cell;
use core::ptr::NonNull;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use super::{EventKind, Id, rdma_cm_id};
use crate::sys::code::Code;
use crate::sys::os::{CallError, check, check_ptr, check_waiting, note_destroy, set_nonblocking};

/// An event channel that never waits.
pub(crate) struct Channel {
    pub(super) raw: NonNull<rdma_sys::rdma_event_channel>,
    pub(super) fetched: Cell<u64>,
    pub(super) acked: Cell<u64>,
}

impl Channel {
    /// Opens a channel and makes it non-blocking.
    ///
    /// # Errors
    /// `ENODEV` without any RDMA device, `ENOENT` without `/dev/infiniband/rdma_cm`.
    pub(crate) fn open() -> Result<Rc<Channel>, CallError> {
        // SAFETY: no precondition.
        let raw = check_ptr("rdma_create_event_channel", || unsafe { rdma_sys::rdma_create_event_channel() })?;
        let channel = Channel { raw, fetched: Cell::new(0), acked: Cell::new(0) };
        set_nonblocking(channel.fd())?;
        Ok(Rc::new(channel))
    }

    /// Readable when an event waits.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: open until drop.
        unsafe { BorrowedFd::borrow_raw(self.raw.as_ref().fd) }
    }

    /// Events fetched and events given back: equal whenever no call is under way.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.fetched.get(), self.acked.get())
    }

    /// Takes the next event if one waits, copies it, gives it back to the library, and only then returns the copy.
    ///
    /// Costs a heap allocation and a `write`, also when nothing waits.
    pub(crate) fn next(self: &Rc<Self>) -> Result<Option<EventCopy>, CallError> {
        let mut raw = core::ptr::null_mut();
        // SAFETY: the channel is open.
        let got =
            check_waiting("rdma_get_cm_event", || unsafe { rdma_sys::rdma_get_cm_event(self.raw.as_ptr(), &mut raw) })?;
        let Some(raw) = NonNull::new(raw).filter(|_| got) else { return Ok(None) };
        self.fetched.set(self.fetched.get() + 1);
        let event = Event { raw, channel: self };
        let mut copy = event.copy();
        let new_id = event.new_id();
        drop(event);
        // The id of a request is ours from here on. Not before: destroying it would wait for the event above.
        copy.request = new_id.map(|id| Rc::new(Id { raw: id, _channel: Rc::clone(self) }));
        Ok(Some(copy))
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once. Every id on it holds the channel, so none is left.
        unsafe { rdma_sys::rdma_destroy_event_channel(self.raw.as_ptr()) }
    }
}

/// A fetched event. Acknowledged when dropped, on every path.
struct Event<'c> {
    raw: NonNull<rdma_sys::rdma_cm_event>,
    channel: &'c Channel,
}

impl Event<'_> {
    fn kind(&self) -> Code<EventKind> {
        // SAFETY: fetched and not yet acknowledged. An integer in rdma-sys too.
        EventKind::decode(unsafe { self.raw.as_ref().event })
    }

    /// The id that a connect request brings.
    fn new_id(&self) -> Option<NonNull<rdma_cm_id>> {
        // SAFETY: as in `kind`.
        let id = unsafe { self.raw.as_ref().id };
        if self.kind() == Code::Known(EventKind::ConnectRequest) { NonNull::new(id) } else { None }
    }

    fn copy(&self) -> EventCopy {
        // SAFETY: as in `kind`.
        let event = unsafe { self.raw.as_ref() };
        let kind = self.kind();
        let is_request = kind == Code::Known(EventKind::ConnectRequest);
        let about = if is_request { event.listen_id } else { event.id };
        // SAFETY: the id an event names is not freed before the event is acknowledged.
        let token = unsafe { (*about).context } as u64;
        let mut copy = EventCopy { token, kind, status: event.status, private_data: [0; 256], len: 0, request: None };
        if matches!(kind, Code::Known(known) if known.has_conn_params()) {
            // SAFETY: such an event of an RC id carries connection parameters; `private_data` is null, or points to
            // `private_data_len` bytes (at most 255) inside the event.
            unsafe {
                let conn = &event.param.conn;
                if !conn.private_data.is_null() {
                    copy.len = conn.private_data_len;
                    let to = copy.private_data.as_mut_ptr();
                    core::ptr::copy_nonoverlapping(conn.private_data.cast(), to, usize::from(copy.len));
                }
            }
        }
        copy
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        // SAFETY: fetched once, acknowledged once, here.
        let result = check("rdma_ack_cm_event", || unsafe { rdma_sys::rdma_ack_cm_event(self.raw.as_ptr()) });
        self.channel.acked.set(self.channel.acked.get() + 1);
        note_destroy(format_args!("a connection event"), result);
    }
}

/// An event as a value of its own.
pub(crate) struct EventCopy {
    /// The token of the id concerned; of the listener for a connect request.
    pub token: u64,
    pub kind: Code<EventKind>,
    /// See `rdma_get_cm_event(3)`: a negative error number, or a reason code for a rejection.
    pub status: i32,
    private_data: [u8; 256],
    len: u8,
    /// The id that a connect request brings. Dropping it refuses the request.
    pub request: Option<Rc<Id>>,
}

impl EventCopy {
    pub(crate) fn private_data(&self) -> &[u8] {
        &self.private_data[..usize::from(self.len)]
    }
}
