//! What has become of an application's connections.

use super::App;
use crate::cm::reason::CloseReason;
use crate::id::ConnId;
use crate::sim::plan::View;

impl App {
    /// A connection as this side sees it.
    ///
    /// # Panics
    /// It never had that connection.
    pub fn view(&self, conn: ConnId) -> &View {
        &self.conns[&conn.to_bits()]
    }

    /// Why a connection ended; `None` while it lasts.
    pub fn reason(&self, conn: ConnId) -> Option<CloseReason> {
        self.conns.get(&conn.to_bits())?.closed.map(|report| report.reason)
    }

    /// The first connection that was opened or ended here: the only one, in a test of two.
    ///
    /// # Panics
    /// There is none.
    pub fn only(&self) -> &View {
        self.conns.values().next().expect("a connection")
    }

    /// All that was planned has been done on the connections that are open.
    pub fn done(&self) -> bool {
        let open = self.conns.values().filter(|view| view.opened && view.closed.is_none() && !view.close_asked);
        let operated = |view: &View| view.operations.asked >= self.plan.operations && view.operations.is_idle();
        open.into_iter().all(|view| {
            view.sent >= self.plan.count && view.answered == view.asked && view.owed.is_empty() && operated(view)
        })
    }

    /// Connections that have ended.
    pub fn closed(&self) -> usize {
        self.conns.values().filter(|view| view.closed.is_some()).count()
    }

    /// Connections that are up and that nobody has closed on this side.
    pub fn settled(&self) -> u32 {
        let settled = |view: &&View| view.opened && view.closed.is_none() && !view.close_asked;
        self.conns.values().filter(settled).count() as u32
    }
}
