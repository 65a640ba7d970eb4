//! One engine's connection side, which asserts that every call comes in its turn: a call on an id that is not ready
//! for it would be a crash inside the real library.

use super::MS;
use super::cm::{bare, padded};
use super::fabric::SimFabric;
use super::host::{Phase, call_of};
use super::net::Net;
use super::qp::Qp;
use crate::cm::event::{CmEvent, CmEventKind};
use crate::fabric::{Action, ActionError, Control};
use crate::id::{ConnId, RequestId};
use crate::time::Instant;

/// One engine's connection side.
#[derive(Debug)]
pub struct SimControl {
    pub(super) net: Net,
    pub(super) node: usize,
}

impl Control for SimControl {
    type Fabric = SimFabric;

    fn poll_event(&mut self, _now: Instant) -> Option<CmEvent> {
        let mut wire = self.net.wire();
        let (event, end) = wire.hosts[self.node].events.pop_front()?;
        if let Some(end) = end.filter(|&end| !wire.ends[end].gone) {
            wire.fetched(event.kind, end);
        }
        Some(event)
    }

    fn perform(&mut self, _: &mut SimFabric, conn: ConnId, action: Action<'_>) -> Result<(), ActionError> {
        let wire = &mut *self.net.wire();
        let host = &mut wire.hosts[self.node];
        assert!(!host.over.contains(&conn.to_bits()), "{action:?} on {conn}, whose id is destroyed");
        let (call, permille) = (call_of(action), wire.faults.actions_fail);
        let planned = match &mut host.fail {
            Some((name, 1)) if *name == call => host.fail.take().is_some(),
            Some((name, left)) if *name == call => {
                *left -= 1;
                false
            }
            _ => false,
        };
        let fails = planned || wire.random.chance(permille);
        let end = host.conns.get(&conn.to_bits()).copied();
        let result = if fails { Err(ActionError { call, errno: 12 }) } else { Ok(()) };
        match (action, end) {
            (Action::ResolveAddr(endpoint), None) if !fails => {
                let end = wire.new_end(self.node, Phase::AddrResolving, endpoint.0 as usize);
                wire.ends[end].conn = Some(conn);
                wire.hosts[self.node].conns.insert(conn.to_bits(), end);
                let delay = wire.hop();
                let found = (endpoint.0 as usize) < wire.hosts.len();
                let event = if found { bare(CmEventKind::AddrResolved, 0) } else { bare(CmEventKind::AddrError, -110) };
                wire.tell(end, if found { delay } else { 2_300 * MS }, event);
            }
            (Action::Adopt(request), None) => {
                let end = request.0 as usize;
                assert_eq!(wire.ends[end].phase, Phase::Requested, "a request was adopted twice");
                if fails {
                    wire.say_goodbye(end);
                    wire.ends[end].gone = true;
                    return result;
                }
                wire.ends[end].phase = Phase::Adopted;
                wire.ends[end].conn = Some(conn);
                wire.hosts[self.node].conns.insert(conn.to_bits(), end);
            }
            (Action::ResolveRoute, Some(end)) => {
                assert_eq!(wire.ends[end].phase, Phase::AddrResolved, "resolve_route before its time");
                if !fails {
                    wire.ends[end].phase = Phase::RouteResolving;
                    let delay = wire.hop();
                    wire.tell(end, delay, bare(CmEventKind::RouteResolved, 0));
                }
            }
            (Action::CreateQp, Some(end)) => {
                assert!(matches!(wire.ends[end].phase, Phase::RouteResolved | Phase::Adopted), "create_qp too early");
                assert!(wire.ends[end].qp.is_none());
                if !fails {
                    wire.serial += 1;
                    wire.ends[end].qp = Some(Qp::new(wire.serial as u32));
                }
            }
            (Action::Connect(data), Some(end)) => {
                assert!(wire.ends[end].phase == Phase::RouteResolved && wire.ends[end].qp.is_some());
                if !fails {
                    wire.ends[end].phase = Phase::Connecting;
                    wire.connect(end, data);
                }
            }
            (Action::Accept(data), Some(end)) => {
                assert!(wire.ends[end].phase == Phase::Adopted && wire.ends[end].qp.is_some());
                if !fails {
                    wire.accept(end, data);
                }
            }
            (Action::Tune, Some(end)) => {
                assert!(matches!(wire.ends[end].phase, Phase::Up | Phase::Accepted | Phase::Down));
                assert!(wire.ends[end].qp.is_some());
            }
            (Action::Disconnect, Some(end)) => {
                assert!(wire.ends[end].qp.is_some(), "disconnect without a queue pair");
                if !fails {
                    wire.disconnect(end);
                }
            }
            (Action::DestroyQp, end) => {
                if let Some(end) = end {
                    wire.ends[end].qp = None;
                    if !wire.faults.stale_completions {
                        let host = &mut wire.hosts[self.node];
                        host.recv_cq.retain(|cqe| cqe.end != end);
                        host.send_cq.retain(|cqe| cqe.end != end);
                    }
                }
            }
            (Action::DestroyId, end) => {
                if let Some(end) = end {
                    assert!(wire.ends[end].qp.is_none(), "destroy_id before destroy_qp");
                    wire.say_goodbye(end);
                    wire.ends[end].gone = true;
                }
                let keep = wire.faults.stale_events;
                wire.hosts[self.node].events.retain(|(_, whose)| keep || end.is_none() || *whose != end);
                wire.hosts[self.node].over.insert(conn.to_bits());
            }
            (Action::ResolveAddr(_), None) => {}
            (action, _) => panic!("{action:?} on {conn}, which is not ready for it"),
        }
        result
    }

    fn reject(&mut self, request: RequestId, private_data: &[u8]) {
        let wire = &mut *self.net.wire();
        let end = request.0 as usize;
        assert!(private_data.len() <= 148);
        assert_eq!(wire.ends[end].phase, Phase::Requested, "a request was answered twice");
        wire.hosts[self.node].rejected += 1;
        let event = CmEvent { private_data: padded(private_data, 148), ..bare(CmEventKind::Rejected, 28) };
        wire.tell_peer(end, event);
        wire.ends[end].phase = Phase::Down;
        wire.ends[end].gone = true;
    }
}
