//! Numbers that the library's header gives names to.

use rdma_sys::rdma_cm_event_type as c;

use super::EventKind::{self, *};
use crate::sys::code::Code;

#[test]
fn every_event_of_the_header_is_known_by_its_name_and_others_are_carried() {
    let all = [
        (c::RDMA_CM_EVENT_ADDR_RESOLVED, AddrResolved),
        (c::RDMA_CM_EVENT_ADDR_ERROR, AddrError),
        (c::RDMA_CM_EVENT_ROUTE_RESOLVED, RouteResolved),
        (c::RDMA_CM_EVENT_ROUTE_ERROR, RouteError),
        (c::RDMA_CM_EVENT_CONNECT_REQUEST, ConnectRequest),
        (c::RDMA_CM_EVENT_CONNECT_RESPONSE, ConnectResponse),
        (c::RDMA_CM_EVENT_CONNECT_ERROR, ConnectError),
        (c::RDMA_CM_EVENT_UNREACHABLE, Unreachable),
        (c::RDMA_CM_EVENT_REJECTED, Rejected),
        (c::RDMA_CM_EVENT_ESTABLISHED, Established),
        (c::RDMA_CM_EVENT_DISCONNECTED, Disconnected),
        (c::RDMA_CM_EVENT_DEVICE_REMOVAL, DeviceRemoval),
        (c::RDMA_CM_EVENT_MULTICAST_JOIN, MulticastJoin),
        (c::RDMA_CM_EVENT_MULTICAST_ERROR, MulticastError),
        (c::RDMA_CM_EVENT_ADDR_CHANGE, AddrChange),
        (c::RDMA_CM_EVENT_TIMEWAIT_EXIT, TimewaitExit),
    ];
    for (number, kind) in all {
        assert_eq!(EventKind::decode(number), Code::Known(kind));
    }
    for number in [16, 99, u32::MAX] {
        assert_eq!(EventKind::decode(number), Code::Unknown(number));
    }
}
