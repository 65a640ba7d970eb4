//! Sending as the plan says: on each connection as long as it has room, or one message after the other at a rate.

use spinwire_core::turn::{Cx, SendError};
use spinwire_linux::clock;

use super::{Phase, Pinger};
use crate::outcome::{Outcome, Trouble};
use crate::pattern;

impl Pinger {
    pub(super) fn fill_all(&mut self, cx: &mut Cx<'_, '_>) {
        for slot in 0..self.conns.len() {
            self.fill(cx, slot);
        }
    }

    /// Sends on one connection as long as there is something to send and room for it.
    pub(super) fn fill(&mut self, cx: &mut Cx<'_, '_>, slot: usize) {
        while self.phase == Phase::Running && self.conns[slot].window.has_room() && self.send(cx, slot) {}
    }

    /// Sends what is due, each message on the next connection that has room.
    pub(super) fn send_planned(&mut self, cx: &mut Cx<'_, '_>) {
        let room = self.conns.len() as u64 * u64::from(self.plan.depth);
        while self.phase == Phase::Running && self.outstanding < room && self.load.due(cx.now()).is_some() {
            let slots = self.conns.len();
            let mut tried = (0..slots).map(|n| (self.turn_of + n) % slots);
            let Some(slot) = tried.find(|&slot| self.conns[slot].window.has_room()) else { return };
            self.turn_of = (slot + 1) % slots;
            if !self.send(cx, slot) {
                return;
            }
        }
    }

    /// Sends the next message on a connection with room; `false` when none is due or the queue is full.
    fn send(&mut self, cx: &mut Cx<'_, '_>, slot: usize) -> bool {
        let now = cx.now();
        let peer = &mut self.conns[slot];
        let (Some(conn), true) = (peer.conn, self.load.due(now).is_some()) else { return false };
        // The warm-up ends with its last reply: see `on_turn`. What is counted from there is of the messages that count.
        if self.load.is_before_first() && self.outstanding > 0 {
            return false;
        }
        let (sequence, verify) = (peer.window.next_sequence(), self.plan.verify);
        if self.measure.is_waiting() {
            self.measure.begin(cx.stats());
        }
        let sent = cx.send_with(conn, self.plan.message_bytes, |message| {
            if verify {
                pattern::fill(slot as u32, sequence, message);
            } else {
                pattern::fill_unverified(sequence, message);
            }
        });
        match sent {
            Ok(()) => {}
            // There will be a call of on_writable.
            Err(SendError::WouldBlock) => return false,
            Err(SendError::TooLong { asked, max }) => {
                self.end(cx, Outcome::Failed(Trouble::TooLong { asked, max }));
                return false;
            }
            // Its on_close is on the way.
            Err(SendError::NotOpen) => return false,
        }
        // What checking and filling took is not the message's. For few bytes it is less than a look at the clock.
        let took_time = verify || self.plan.message_bytes > 256;
        let sent = self.load.sent(if took_time { clock::now() } else { now });
        if sent.measured {
            self.measure.sent(&sent, self.load.is_late(&sent));
        }
        if self.outstanding == 0 {
            self.last_progress = now;
        }
        self.outstanding += 1;
        peer.window.push(sent);
        true
    }
}
