//! Connection events as core names them.

use spinwire_core::cm::event::CmEventKind;

use crate::sys::code::Code;
use crate::sys::rdmacm::EventKind;

/// The library's event number in core's words.
pub(super) fn kind_for_core(kind: Code<EventKind>) -> CmEventKind {
    use EventKind as K;
    match kind {
        Code::Known(K::AddrResolved) => CmEventKind::AddrResolved,
        Code::Known(K::AddrError) => CmEventKind::AddrError,
        Code::Known(K::RouteResolved) => CmEventKind::RouteResolved,
        Code::Known(K::RouteError) => CmEventKind::RouteError,
        Code::Known(K::ConnectRequest) => CmEventKind::ConnectRequest,
        Code::Known(K::ConnectResponse) => CmEventKind::ConnectResponse,
        Code::Known(K::ConnectError) => CmEventKind::ConnectError,
        Code::Known(K::Unreachable) => CmEventKind::Unreachable,
        Code::Known(K::Rejected) => CmEventKind::Rejected,
        Code::Known(K::Established) => CmEventKind::Established,
        Code::Known(K::Disconnected) => CmEventKind::Disconnected,
        Code::Known(K::DeviceRemoval) => CmEventKind::DeviceRemoval,
        Code::Known(K::MulticastJoin) => CmEventKind::MulticastJoin,
        Code::Known(K::MulticastError) => CmEventKind::MulticastError,
        Code::Known(K::AddrChange) => CmEventKind::AddrChange,
        Code::Known(K::TimewaitExit) => CmEventKind::TimewaitExit,
        Code::Unknown(raw) => CmEventKind::Unknown(raw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_keeps_its_name_on_the_way_to_core() {
        for number in 0..16 {
            let kind = EventKind::decode(number);
            assert_eq!(format!("{kind:?}"), format!("Known({:?})", kind_for_core(kind)));
        }
        assert_eq!(kind_for_core(EventKind::decode(16)), CmEventKind::Unknown(16));
    }
}
