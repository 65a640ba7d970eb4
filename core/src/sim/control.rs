//! One engine's connection side, which asserts that every call comes in its turn: a call on an id that is not ready
//! for it would be a crash inside the real library.

use std::format;

use super::MS;
use super::cm::bare;
use super::coverage::Fault;
use super::fabric::SimFabric;
use super::host::{Phase, call_of};
use super::net::{Net, Wire};
use super::qp::Qp;
use super::record;
use super::witness::{Cause, EVENTS};
use crate::cm::event::{CmEvent, CmEventKind, Target};
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
        let wire = &mut *self.net.wire();
        wire.hosts[self.node].step = EVENTS;
        let (event, end) = loop {
            let (event, end) = wire.hosts[self.node].events.pop_front()?;
            if end.is_some() || !wire.is_awaited(self.node, &event) {
                break (event, end);
            }
        };
        if let Some(end) = end.filter(|&end| !wire.ends[end].gone) {
            wire.ends[end].unacknowledged += 1;
            if !wire.faults.fetched_early {
                wire.fetched(event.kind, end);
            }
            // Copied, then acknowledged, and only then handed out: whatever is done about it cannot wait for it.
            wire.ends[end].unacknowledged -= 1;
        } else if end.is_some() {
            record::fault(Fault::EventStale);
        }
        record::note(|| format!("{:?}: {:?}, status {}", event.target, event.kind, event.status));
        match event.target {
            Target::Conn(conn) => wire.saw(self.node, conn, EVENTS, Cause::Event(event.kind, event.status)),
            Target::Device => wire.saw_device_event(self.node, event.kind),
            Target::Request(..) | Target::Listener(_) => {}
        }
        Some(event)
    }

    /// One for each host, and one that leads nowhere.
    fn endpoints(&self) -> u32 {
        self.net.wire().hosts.len() as u32 + 1
    }

    fn perform(&mut self, _: &mut SimFabric, conn: ConnId, action: Action<'_>) -> Result<(), ActionError> {
        let wire = &mut *self.net.wire();
        if let Action::ResolveAddr(_) | Action::Adopt(_) = action {
            wire.attempts(self.node, conn);
        }
        let result = wire.perform(self.node, conn, action);
        match result {
            Ok(()) => record::note(|| format!("{conn}: {}", call_of(action))),
            Err(ActionError { call, .. }) => {
                record::failed(conn, call);
                wire.saw(self.node, conn, EVENTS, Cause::Call(call));
            }
        }
        result
    }

    fn reject(&mut self, request: RequestId, private_data: &[u8]) {
        let wire = &mut *self.net.wire();
        let end = request.0 as usize;
        record::note(|| format!("request {end}: rdma_reject"));
        assert!(private_data.len() <= 148, "reject with {} bytes of private data is EINVAL", private_data.len());
        assert_eq!(wire.ends[end].phase, Phase::Requested, "a request was answered twice");
        wire.hosts[self.node].rejected += 1;
        let private_data = wire.private_data(end, private_data, 148);
        wire.tell_peer(end, CmEvent { private_data, ..bare(CmEventKind::Rejected, 28) });
        wire.ends[end].phase = Phase::Down;
        wire.ends[end].gone = true;
    }
}

impl Wire {
    /// Whether this action is one that fails.
    fn fails(&mut self, node: usize, call: &'static str) -> bool {
        let (host, permille) = (&mut self.hosts[node], self.faults.actions_fail);
        let planned = match &mut host.fail {
            Some((name, 1)) if *name == call => host.fail.take().is_some(),
            Some((name, left)) if *name == call => {
                *left -= 1;
                false
            }
            _ => false,
        };
        planned || self.random.chance(permille)
    }

    fn perform(&mut self, node: usize, conn: ConnId, action: Action<'_>) -> Result<(), ActionError> {
        let over = self.hosts[node].over.contains(&conn.to_bits());
        assert!(!over, "{action:?} on {conn}, whose id is destroyed");
        let (call, wire) = (call_of(action), self);
        let fails = wire.fails(node, call);
        let end = wire.end_of(node, conn);
        let result = if fails { Err(ActionError { call, errno: 12 }) } else { Ok(()) };
        match (action, end) {
            (Action::ResolveAddr(endpoint), None) if !fails => {
                let end = wire.new_end(node, Phase::AddrResolving, endpoint.0 as usize);
                wire.ends[end].conn = Some(conn);
                wire.hosts[node].conns.insert(conn.to_bits(), end);
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
                wire.hosts[node].conns.insert(conn.to_bits(), end);
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
                    wire.ends[end].qp = Some(Qp::new(wire.hosts[node].qp_number()));
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
                    if wire.random.chance(wire.faults.flushes_left) {
                        wire.flush(end);
                    }
                    let number = wire.ends[end].qp.take().map(|qp| qp.number);
                    wire.hosts[node].qp_numbers.0.extend(number);
                    if !wire.faults.stale_completions {
                        let host = &mut wire.hosts[node];
                        host.recv_cq.retain(|cqe| cqe.end != Some(end));
                        host.send_cq.retain(|cqe| cqe.end != Some(end));
                    }
                }
            }
            (Action::DestroyId, end) => {
                if let Some(end) = end {
                    assert!(wire.ends[end].qp.is_none(), "destroy_id before destroy_qp");
                    assert_eq!(wire.ends[end].unacknowledged, 0, "rdma_destroy_id would wait for ever");
                    wire.say_goodbye(end);
                    wire.ends[end].gone = true;
                }
                let keep = wire.faults.stale_events;
                wire.hosts[node].events.retain(|(_, whose)| keep || end.is_none() || *whose != end);
                wire.hosts[node].over.insert(conn.to_bits());
            }
            (Action::ResolveAddr(_), None) => {}
            (action, _) => panic!("{action:?} on {conn}, which is not ready for it"),
        }
        result
    }
}
