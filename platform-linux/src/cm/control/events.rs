//! What is drained from the event channel and the device, in the engine's words.

use spinwire_core::cm::event::{CmEvent, CmEventKind, Peer, PrivateData, Target};
use spinwire_core::id::{ListenerId, RequestId};

use super::super::channel::Event;
use super::super::id::CmId;
use super::super::kind::kind_for_core;
use super::super::token::Token;
use super::VerbsControl;
use crate::sys::code::Code;
use crate::verbs::{AsyncEvent, AsyncKind, AsyncPlace, CqId};

impl VerbsControl<'_> {
    /// Turns an event of the library into the engine's. `None` when nobody is left whom it concerns.
    fn translate(&mut self, event: Event) -> Option<CmEvent> {
        let mut peer = None;
        let target = match Token::unpack(event.token)? {
            Token::Conn(conn) => {
                let id = self.id(conn, "").ok()?;
                id.on_event(event.kind);
                if kind_for_core(event.kind) == CmEventKind::Established {
                    peer = id.peer_address().map(Peer::Address);
                }
                Target::Conn(conn)
            }
            Token::Listener(number) => match event.request {
                Some(ref id) => {
                    peer = id.peer_address().map(Peer::Address);
                    Target::Request(ListenerId(number), RequestId(0))
                }
                None => {
                    self.listeners.get_mut(number as usize)?.on_event(event.kind);
                    Target::Listener(ListenerId(number))
                }
            },
            Token::Request(number) => {
                // The far side went away before it was answered: adopting the request will fail.
                self.requests.get_mut(number as usize)?.as_mut()?.on_event(event.kind);
                return None;
            }
        };
        let mut private_data = PrivateData::new();
        let bytes = event.private_data();
        let kept = bytes.len().min(private_data.capacity());
        let fits = private_data.extend_from_slice(&bytes[..kept]).is_ok();
        debug_assert!(fits, "cut to the capacity above");
        let (kind, status) = (kind_for_core(event.kind), event.status);
        let target = match (target, event.request) {
            (Target::Request(listener, _), Some(id)) => Target::Request(listener, self.keep_request(id)?),
            (target, _) => target,
        };
        Some(CmEvent { target, kind, status, private_data, peer })
    }

    /// Finds a place for a request. `None` refuses it, by dropping its id.
    fn keep_request(&mut self, mut id: CmId) -> Option<RequestId> {
        let index = self.requests.iter().position(Option::is_none)?;
        let number = u32::try_from(index).ok()?;
        id.set_token(Token::Request(number).pack());
        self.requests[index] = Some(id);
        Some(RequestId(number))
    }

    fn next_connection_event(&mut self) -> Option<CmEvent> {
        loop {
            match self.channel.next() {
                Ok(Some(event)) => match self.translate(event) {
                    Some(event) => {
                        self.counters.events += 1;
                        return Some(event);
                    }
                    None => self.counters.dropped += 1,
                },
                Ok(None) => {
                    self.pending &= !self.channel_bit;
                    return None;
                }
                Err(error) => {
                    // Still pending: the next turn tries again, this one does not wait for it.
                    self.note_failure(error);
                    return None;
                }
            }
        }
    }

    fn next_device_event(&mut self) -> Option<CmEvent> {
        loop {
            match self.device.next_async_event() {
                Ok(Some(event)) => {
                    self.counters.device_events += 1;
                    self.last_device_event = Some(event);
                    let cq_failed = is_failure_of(event, self.cqs);
                    self.cq_failed |= cq_failed;
                    if cq_failed || event.kind == Code::Known(AsyncKind::DeviceFatal) {
                        return Some(CmEvent {
                            target: Target::Device,
                            kind: CmEventKind::DeviceFatal,
                            status: 0,
                            private_data: PrivateData::new(),
                            peer: None,
                        });
                    }
                }
                Ok(None) => {
                    self.pending &= !self.device_bit;
                    return None;
                }
                Err(error) => {
                    self.pending &= !self.device_bit;
                    self.note_failure(error);
                    return None;
                }
            }
        }
    }

    #[cold]
    pub(super) fn drain(&mut self) -> Option<CmEvent> {
        if self.pending & self.device_bit != 0 {
            let event = self.next_device_event();
            if event.is_some() {
                return event;
            }
        }
        if self.pending & self.channel_bit != 0 { self.next_connection_event() } else { None }
    }
}

/// Whether one of `cqs` broke. All loops on a device see the same events, so it may be another's.
fn is_failure_of(event: AsyncEvent, cqs: Option<[CqId; 2]>) -> bool {
    match (event.kind, event.place) {
        (Code::Known(AsyncKind::CqError), AsyncPlace::Cq(cq)) => cqs.is_some_and(|cqs| cqs.contains(&cq)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_failure_of_an_own_completion_queue_is_ours() {
        let [send, recv, other] = [1, 2, 3].map(CqId::from_fake);
        let event = |cq| AsyncEvent { kind: Code::Known(AsyncKind::CqError), place: AsyncPlace::Cq(cq) };
        assert!(is_failure_of(event(send), Some([send, recv])));
        assert!(is_failure_of(event(recv), Some([send, recv])));
        assert!(!is_failure_of(event(other), Some([send, recv])), "another loop's");
        assert!(!is_failure_of(event(send), None));
        let other_kind = AsyncEvent { kind: Code::Known(AsyncKind::DeviceFatal), ..event(send) };
        assert!(!is_failure_of(other_kind, Some([send, recv])));
    }
}
