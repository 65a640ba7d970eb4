//! Which peers are asked how far they are with what was sent to them, and how often.
//!
//! A look at a peer's counter is a line that it may be writing, and in a list of many links it is in no near cache. Where
//! messages go to and fro the answers carry the same number, so of those links a few are asked in a while: one may
//! have stopped to answer. Where they go one way, nothing else tells, and the sender waits for it: those are asked in every poll.

use spinwire_core::fabric::Batch;

use super::ShmFabric;

/// Links asked in one poll.
const VISITS_MAX: usize = 16;
/// Links that answers tell are asked in one of so many polls, so that the others find what comes the sooner,
const POLLS: u32 = 16;
/// and in every poll after so many in a row that found nothing: then nobody is in a hurry, and the loop may sleep between them.
const QUIET_POLLS: u32 = 1_000;
/// While messages come, it is one of them, and one more for each so many that there are: all have been asked after some
/// 4,000 polls.
const LINKS_PER_VISIT: usize = 256;

impl ShmFabric<'_> {
    /// Asks some of the peers that something was sent to.
    #[inline]
    pub(super) fn ask_peers(&mut self, out: &mut Batch) {
        if !self.sending.is_empty() {
            self.ask_sending(out);
        }
        self.polls = self.polls.wrapping_add(1);
        if (self.polls.is_multiple_of(POLLS) || self.quiet_polls > QUIET_POLLS) && !self.answered.is_empty() {
            let visits = if self.quiet_polls == 0 { 1 + self.answered.len() / LINKS_PER_VISIT } else { VISITS_MAX };
            self.ask_answered(visits, out);
        }
    }

    /// Asks the peers of links with sends under way how far they are.
    #[inline(never)]
    fn ask_sending(&mut self, out: &mut Batch) {
        for _ in 0..self.sending.len().min(VISITS_MAX) {
            if out.is_full() {
                return;
            }
            self.send_cursor = if self.send_cursor < self.sending.len() { self.send_cursor } else { 0 };
            let slot = self.sending[self.send_cursor];
            let Some((_, link)) = &mut self.links[slot as usize] else { continue };
            let (is_busy, is_asked) = (link.progress(&self.local, out), link.is_asked());
            if is_busy && is_asked {
                self.send_cursor += 1;
            } else {
                link.is_sending = false;
                self.sending.swap_remove(self.send_cursor);
                if is_busy && !std::mem::replace(&mut link.is_answered, true) {
                    self.answered.push(slot);
                }
            }
            if link.is_ending() {
                self.say(slot.into());
            }
        }
    }

    /// The same of up to `visits` links whose peers tell it by answers, to find those that have stopped to.
    #[inline(never)]
    fn ask_answered(&mut self, visits: usize, out: &mut Batch) {
        for _ in 0..self.answered.len().min(visits) {
            if out.is_full() {
                return;
            }
            self.answered_cursor = if self.answered_cursor < self.answered.len() { self.answered_cursor } else { 0 };
            let slot = self.answered[self.answered_cursor];
            let Some((_, link)) = &mut self.links[slot as usize] else { continue };
            let (is_busy, is_asked) = (link.progress(&self.local, out), link.is_asked());
            if is_busy && !is_asked {
                self.answered_cursor += 1;
            } else {
                link.is_answered = false;
                self.answered.swap_remove(self.answered_cursor);
                if is_busy && !std::mem::replace(&mut link.is_sending, true) {
                    self.sending.push(slot);
                }
            }
            if link.is_ending() {
                self.say(slot.into());
            }
        }
    }
}
