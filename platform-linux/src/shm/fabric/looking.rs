//! Looking at the links for what has come, and telling their peers what was taken.

use spinwire_core::fabric::Batch;

use super::super::watch::{Part, Ready};
use super::ShmFabric;

/// Links looked at in one poll, hot or cold: with more of a kind than that, each is looked at every few turns, and a turn
/// stays short.
const VISITS_MAX: usize = 64;
/// Cold links looked at in every poll, also if the hot ones are busy: a thousand are through within some hundred turns.
const COLD_VISITS_MAX: usize = 8;

impl ShmFabric<'_> {
    /// Visits links of a part that have something, looking at up to `visits_max`, each once.
    #[inline]
    fn visit(&mut self, part: Part, visits_max: usize, out: &mut Batch) {
        let mut visits = self.watch.count(part).min(visits_max);
        let mut ready = Ready::new();
        while visits > 0 && !out.is_full() {
            let looked = self.watch.look(part, visits, out.capacity() - out.len(), &mut ready);
            if looked == 0 {
                return;
            }
            visits -= looked;
            if let [_, others @ ..] = &ready[..] {
                self.prefetch(others);
            }
            for &(at, slot) in &ready {
                if out.is_full() {
                    // It would get nothing, in each poll again, if the links before it can fill the batch each time.
                    self.watch.go_on_at(part, at);
                    return;
                }
                self.visit_link(at, slot, out);
            }
        }
    }

    /// Visits the only hot link there is, if it has something: as [`visit`](Self::visit), in fewer instructions.
    #[inline(always)]
    pub(super) fn visit_only(&mut self, out: &mut Batch) {
        let Some(slot) = self.watch.look_at_only() else { return };
        let Some((_, link)) = &mut self.links[slot as usize] else { return };
        link.receive(&self.local, out);
        link.is_visited = true;
        self.visited.push(slot);
        // Somebody waits for the answer: what to look for next is said before the next look.
        self.is_said_late = true;
    }

    /// Takes what a link has, which the watch found `at` a place of its list.
    #[inline]
    fn visit_link(&mut self, at: u32, slot: u16, out: &mut Batch) {
        let Some((_, link)) = &mut self.links[slot as usize] else { return };
        link.receive(&self.local, out);
        if !std::mem::replace(&mut link.is_visited, true) {
            self.visited.push(slot);
        }
        // SAFETY: as in `say`.
        unsafe { self.watch.was_visited(at, link.next()) };
    }

    /// Asks for what the visits of these links will touch, step by step: each step needs the lines of the one before, and all
    /// of a step are under way at once.
    #[inline]
    fn prefetch(&self, ready: &[(u32, u16)]) {
        let links = || ready.iter().filter_map(|(_, slot)| self.links[*slot as usize].as_ref());
        links().for_each(|(_, link)| link.prefetch());
        links().for_each(|(_, link)| link.prefetch_work());
        links().for_each(|(_, link)| link.prefetch_buffer());
    }

    /// Tells peers what was taken in the last poll, where no answer has told it.
    #[inline(always)]
    pub(super) fn acknowledge(&mut self) {
        while let Some(slot) = self.visited.pop() {
            if let Some((_, link)) = &mut self.links[slot as usize] {
                link.is_visited = false;
                link.tell();
                if self.is_said_late {
                    // SAFETY: as in `say`.
                    unsafe { self.watch.say(slot, link.next()) };
                }
            }
        }
        self.is_said_late = false;
    }

    /// Looks at all hot links and some cold ones, or more of those.
    #[inline(never)]
    pub(super) fn look_around(&mut self, out: &mut Batch) {
        let before = out.len();
        // Those that become hot in this poll have had their visit.
        let hot = self.watch.count(Part::Hot).min(VISITS_MAX);
        // A few cold ones first: hot ones that fill every batch must not keep the others out.
        if self.watch.count(Part::Cold) > 0 {
            self.visit(Part::Cold, COLD_VISITS_MAX, out);
        }
        if hot == 1 && self.watch.count(Part::Hot) == 1 && !out.is_full() {
            self.visit_only(out);
        } else {
            self.visit(Part::Hot, hot, out);
        }
        if out.len() == before && self.watch.count(Part::Cold) > COLD_VISITS_MAX {
            self.visit(Part::Cold, VISITS_MAX - COLD_VISITS_MAX, out);
        }
    }
}
