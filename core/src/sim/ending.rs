//! What an application checks when it is told of an end.

use super::app::App;
use crate::cm::reason::{CloseReason, CloseReport};
use crate::id::ConnId;

impl App {
    /// Checks a reported end against what arrived, what was sent, and what the engine was shown.
    ///
    /// # Panics
    /// Something arrived and was not delivered, something was sent before a goodbye and did not arrive, or the reason does
    /// not follow from what happened.
    pub(super) fn check_end(&mut self, conn: ConnId, report: &CloseReport) {
        let (node, reason) = (self.node, report.reason);
        let arrived = self.net.with_end(node, conn, |end| end.arrived).unwrap_or(0);
        let hostile = self.net.was_lied_to(node, conn);
        let view = &self.conns[&conn.to_bits()];
        let own_choice = matches!(reason, CloseReason::Local | CloseReason::Protocol(_) | CloseReason::Hello(_));
        // A forged message that is refused arrived too, but is nobody's; and so does a message with credits that are not true.
        if report.was_open && !own_choice && !view.close_asked && !self.closes_all && !hostile {
            assert_eq!(view.received, arrived, "{conn} ended ({reason}) before all was delivered");
            if reason == CloseReason::Peer
                && let Some(from) = self.net.peer_of(node, conn)
            {
                assert_eq!(self.book.left(from), 0, "{conn}: messages sent before the peer's goodbye did not arrive");
            }
        }
        if !self.strict {
            return;
        }
        if let Err(fault) = self.net.wire().judge(node, conn, report) {
            panic!("node {node}: {fault}");
        }
        self.check_goodbye(conn, report, hostile);
    }

    /// A close that says that everything was confirmed: then the goodbye, which comes last, has arrived.
    fn check_goodbye(&self, conn: ConnId, report: &CloseReport, hostile: bool) {
        let wire = self.net.wire();
        let confirmed = report.was_open && report.reason == CloseReason::Local && report.unconfirmed_after.is_none();
        if !confirmed || hostile || wire.raw {
            return;
        }
        let peer = wire.end_of(self.node, conn).and_then(|end| wire.ends[end].peer).expect("it was open");
        assert!(wire.ends[peer].goodbye, "{conn} was closed and confirmed, but its goodbye did not arrive");
        assert_eq!(report.unsent, 0, "{conn} was closed and confirmed, but something was never sent");
    }
}
