//! Sums over more than one engine, and over an engine and its network.

use super::app::App;
use super::qp::QpState;
use super::world::World;
use crate::conn::Imm;
use crate::fabric::{Completion, Outcome};
use crate::time::Instant;

impl World<'_, App> {
    /// Whatever holds between two turns, of the engine of `node`.
    ///
    /// # Panics
    /// It does not hold.
    pub(super) fn check(&self, node: usize) {
        self.check_deadline(node);
        self.check_credits(node);
    }

    /// Whoever waits for something has a deadline: an engine may only be without one when each of its connections is up
    /// and nobody closes it.
    fn check_deadline(&self, node: usize) {
        let (engine, app) = (&self.nodes[node].engine, &self.nodes[node].app);
        if engine.next_deadline() == Instant::NEVER && engine.live() > 0 {
            let settled = app.settled();
            assert_eq!(engine.live(), settled, "node {node}: a connection waits without a deadline");
        }
    }

    /// Every credit is a posted receive of the peer's that no message is on its way to: those a side has, those on their
    /// way to it, those the peer has not given yet, and the messages under way add up to the receives posted.
    fn check_credits(&self, node: usize) {
        let wire = self.net.wire();
        for (number, end) in wire.ends.iter().enumerate().filter(|(_, end)| end.node == node && !end.gone) {
            let Some(peer) = end.peer.map(|peer| &wire.ends[peer]).filter(|peer| !peer.gone) else { continue };
            let (Some(conn), Some(peer_conn)) = (end.conn, peer.conn) else { continue };
            let (Some(qp), Some(peer_qp)) = (&end.qp, &peer.qp) else { continue };
            let up = qp.state == QpState::Rts && peer_qp.state == QpState::Rts && !end.hostile && !peer.hostile;
            let engines = (&self.nodes[node].engine, &self.nodes[peer.node].engine);
            let (Some((has, _)), Some((_, owed))) = (engines.0.credits(conn), engines.1.credits(peer_conn)) else {
                continue;
            };
            if !up {
                continue;
            }
            // An operation takes no receive.
            let messages = qp.sends.iter().skip(qp.arrived).filter(|flight| flight.operation.is_none());
            let under_way = messages.count() as u32;
            let sent = peer_qp.sends.iter().skip(peer_qp.arrived).filter_map(|flight| flight.imm);
            let queued = wire.hosts[node].recv_cq.iter().filter(|cqe| cqe.end == Some(number));
            let arrived = queued.filter_map(|cqe| match cqe.completion {
                Completion { outcome: Outcome::Done { imm, .. }, .. } => imm,
                _ => None,
            });
            let given: u32 = sent.chain(arrived).filter_map(Imm::from_bits).map(|imm| u32::from(imm.credits)).sum();
            assert_eq!(
                has + given + owed + under_way,
                peer_qp.recvs.len() as u32,
                "node {node}, {conn}: credits it has ({has}), is sent ({given}) and is owed ({owed}), and messages under \
                 way ({under_way}) against receives posted"
            );
        }
    }
}
