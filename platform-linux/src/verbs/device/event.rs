//! What a device tells outside of its completion queues.

use super::super::cq::CqId;
use super::AsyncKind;
use crate::sys::code::Code;
use crate::sys::verbs as ffi;

/// Something that happened on a device outside of its completion queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsyncEvent {
    /// What happened.
    pub kind: Code<AsyncKind>,
    /// Where: known for completion queues, queue pairs and ports.
    pub place: AsyncPlace,
}

/// The object that an [`AsyncEvent`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsyncPlace {
    /// This completion queue.
    Cq(CqId),
    /// The queue pair with this number.
    Qp(u32),
    /// The port with this number.
    Port(i32),
    /// The device as a whole, or an object that has no number.
    Device,
}

/// Reads an event without making a Rust enum of its type, which may be one that rdma-sys does not know.
///
/// # Safety
/// `raw` was filled by `ibv_get_async_event` and not yet acknowledged.
pub(super) unsafe fn decode(raw: *const ffi::ibv_async_event) -> AsyncEvent {
    // SAFETY: the type is an integer in C; it is read by address as one.
    let kind = AsyncKind::decode(unsafe { (&raw const (*raw).event_type).cast::<u32>().read() });
    let place = match kind {
        Code::Known(known) => match known.subject() {
            // SAFETY: for this type the union holds a pointer to a completion queue, which is not followed.
            ffi::AsyncSubject::Cq => AsyncPlace::Cq(CqId::of(unsafe { (*raw).element.cq })),
            // SAFETY: for this type the union names a queue pair, alive until the event is acknowledged.
            ffi::AsyncSubject::Qp => AsyncPlace::Qp(unsafe { (*(*raw).element.qp).qp_num }),
            // SAFETY: for this type the union holds a port number.
            ffi::AsyncSubject::Port => AsyncPlace::Port(unsafe { (*raw).element.port_num }),
            ffi::AsyncSubject::Other => AsyncPlace::Device,
        },
        Code::Unknown(_) => AsyncPlace::Device,
    };
    AsyncEvent { kind, place }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use super::*;

    #[test]
    fn an_event_type_from_the_future_is_carried_as_a_number() {
        let mut raw = MaybeUninit::<ffi::ibv_async_event>::zeroed();
        // SAFETY: written as the integer it is in C.
        unsafe { (&raw mut (*raw.as_mut_ptr()).event_type).cast::<u32>().write(4_000_000_000) };
        // SAFETY: an unknown type makes no use of the union.
        let event = unsafe { decode(raw.as_ptr()) };
        assert_eq!(event, AsyncEvent { kind: Code::Unknown(4_000_000_000), place: AsyncPlace::Device });
    }

    #[test]
    fn the_port_of_an_event_is_read() {
        let mut raw = MaybeUninit::<ffi::ibv_async_event>::zeroed();
        // SAFETY: written as the integers they are in C.
        unsafe {
            (&raw mut (*raw.as_mut_ptr()).event_type).cast::<u32>().write(10);
            (*raw.as_mut_ptr()).element.port_num = 1;
        }
        // SAFETY: the union holds a port number, as the type says.
        let event = unsafe { decode(raw.as_ptr()) };
        assert_eq!(event, AsyncEvent { kind: Code::Known(AsyncKind::PortError), place: AsyncPlace::Port(1) });
    }

    #[test]
    fn the_completion_queue_of_an_event_is_told_and_not_followed() {
        let mut raw = MaybeUninit::<ffi::ibv_async_event>::zeroed();
        // SAFETY: written as the integer and the pointer they are in C.
        unsafe {
            (&raw mut (*raw.as_mut_ptr()).event_type).cast::<u32>().write(0);
            (*raw.as_mut_ptr()).element.cq = core::ptr::without_provenance_mut(0x1000);
        }
        // SAFETY: the union holds a completion queue, as the type says; the pointer is only compared.
        let event = unsafe { decode(raw.as_ptr()) };
        let place = AsyncPlace::Cq(CqId::from_fake(0x1000));
        assert_eq!(event, AsyncEvent { kind: Code::Known(AsyncKind::CqError), place });
    }
}
