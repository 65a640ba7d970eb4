//! One thing at a time that happens to a machine or to a connection.

use super::MS;
use super::story::Story;
use crate::cm::event::CmEventKind;
use crate::fabric::WcStatus;
use crate::id::ConnId;

/// Something happens, to one of the connections that were begun, on either side.
pub(super) fn trouble(story: &mut Story<'_, '_>) {
    let Story { world, random, began } = story;
    if began.is_empty() {
        return;
    }
    let (node, conn) = began[random.below(began.len() as u64) as usize];
    let peer = world.net.peer_of(node, conn).and_then(|(node, bits)| Some((node, ConnId::from_bits(bits)?)));
    let Some((node, conn)) = [Some((node, conn)), peer][random.below(2) as usize] else { return };
    // What happens to a connection happens to its present attempt.
    let link = world.net.wire().link_of(node, conn);
    match random.below(15) {
        0 if random.below(2) == 0 => world.kill(node, random.below(2) == 0),
        1 => world.net.device_event(node, CmEventKind::DeviceFatal),
        2 => world.net.device_event(node, CmEventKind::DeviceRemoval),
        3 => world.net.event(node, link, CmEventKind::DeviceRemoval, 0),
        4 | 5 => {
            world.with(node, |cx, app| {
                // It may not have been told of this one yet.
                if app.conns.contains_key(&conn.to_bits()) {
                    app.close(cx, conn);
                }
            });
            if random.below(2) == 0 {
                // And something happens while it closes.
                let latency = world.net.wire().faults.latency;
                world.run_for(random.below(2 * latency));
                match random.below(2) {
                    0 => world.net.event(node, link, random.pick(&ANY_KIND), -110),
                    _ => world.net.break_qp(node, link, random.pick(&ANY_STATUS)),
                }
            }
        }
        6..=9 => world.net.event(node, link, random.pick(&ANY_KIND), random.pick(&[-110, 0, 3, 8, 10])),
        10 => world.net.break_qp(node, link, random.pick(&ANY_STATUS)),
        11 => world.net.listener_event(node, random.pick(&[CmEventKind::DeviceRemoval, CmEventKind::AddrChange])),
        12 => world.nodes[node].away_until = world.now + random.below(1_000 * MS),
        _ => {
            let imm = random.pick(&[None, Some(random.0 as u32), Some(0), Some(1 << 16 | 40), Some(1 << 17)]);
            world.forge(node, link, random.pick(&[0, 1, 64, 65, u32::MAX]), imm);
        }
    }
}

/// The attempt that was begun last fails, on one of its sides, if it is still one.
pub(super) fn attempt_fails(story: &mut Story<'_, '_>) {
    let Story { world, random, began } = story;
    let Some(&(node, conn)) = began.last() else { return };
    let link = world.net.wire().link_of(node, conn);
    let far = world.net.peer_of(node, link).and_then(|(node, bits)| Some((node, ConnId::from_bits(bits)?)));
    let (node, link) = far.filter(|_| random.below(2) == 0).unwrap_or((node, link));
    world.net.event(node, link, random.pick(&ATTEMPT_FAILS), random.pick(&[-110, -110, 10, -19]));
}

/// The loop is away while the peer's answer comes, and a message that makes no sense right behind it.
pub(super) fn message_overtakes_hello(story: &mut Story<'_, '_>) {
    let Story { world, random, began } = story;
    let Some(&(node, conn)) = began.last() else { return };
    let latency = world.net.wire().faults.latency;
    world.nodes[node].away_until = world.now + 6 * latency;
    world.run_for(random.below(6 * latency));
    let link = world.net.wire().link_of(node, conn);
    world.forge(node, link, random.pick(&[1, 65]), Some(0));
}

const ATTEMPT_FAILS: [CmEventKind; 7] = [
    CmEventKind::Disconnected,
    CmEventKind::AddrError,
    CmEventKind::RouteError,
    CmEventKind::ConnectResponse,
    CmEventKind::ConnectError,
    CmEventKind::Unreachable,
    CmEventKind::Rejected,
];

const ANY_STATUS: [WcStatus; 5] =
    [WcStatus::RETRY_EXC_ERR, WcStatus::RNR_RETRY_EXC_ERR, WcStatus::WR_FLUSH_ERR, WcStatus(10), WcStatus(4_242)];

const ANY_KIND: [CmEventKind; 18] = [
    CmEventKind::AddrResolved,
    CmEventKind::AddrError,
    CmEventKind::RouteResolved,
    CmEventKind::RouteError,
    CmEventKind::ConnectRequest,
    CmEventKind::ConnectResponse,
    CmEventKind::ConnectError,
    CmEventKind::Unreachable,
    CmEventKind::Rejected,
    CmEventKind::Established,
    CmEventKind::Disconnected,
    CmEventKind::DeviceRemoval,
    CmEventKind::MulticastJoin,
    CmEventKind::MulticastError,
    CmEventKind::AddrChange,
    CmEventKind::TimewaitExit,
    CmEventKind::DeviceFatal,
    CmEventKind::Unknown(99),
];
