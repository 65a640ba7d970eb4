//! Timers: a hierarchical wheel over memory that is handed in.
//!
//! Each connection slot has one timer of each [`TimerKind`], named by connection and kind, so there is nothing to
//! allocate and no second handle to keep. A timer of its own for each kind costs 32 bytes and spares the engine what one
//! timer per connection would need: the least of the kinds after every change, and which of them it was when it fires.
//!
//! ```text
//!            64 lists each            one list of level n spans
//!  level 0   [ ][ ][x][ ] .. [ ]      1 tick                    131 us
//!  level 1   [ ][x][ ][ ] .. [ ]      64 ticks                  8.4 ms
//!  level 2   [ ][ ][ ][x] .. [ ]      4,096 ticks               537 ms
//!    ..
//!  level 7                            2^42 ticks                18 years
//! ```
//!
//! A timer stands in the level of the highest digit, base 64, in which its tick differs from the wheel's. When the wheel
//! reaches a list of a higher level it moves the timers in it to lower levels, each at most seven times. Which lists are
//! in use is a bit each, so the wheel steps from list in use to list in use, however much time passes between two calls.
//! Eight levels cover every stamp there is: nothing is beyond the horizon.

mod list;
mod place;

pub use list::TimerSlot;
use list::{Link, Lists, Timer};
pub use place::TICK;
use place::{Place, tick_after, tick_of};

use crate::id::ConnId;
use crate::time::Instant;

/// What a connection's timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimerKind {
    /// The connection's state gives up.
    Deadline,
    /// The peer is asked for a sign of life.
    Keepalive,
    /// A step that failed is tried again.
    Retry,
}

/// A timer that fired. It is no longer armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// The connection it was armed for. It may be gone by now: look it up before acting on it.
    pub conn: ConnId,
    /// Which of its timers.
    pub kind: TimerKind,
    /// When it was due.
    pub at: Instant,
}

/// A hierarchical timer wheel.
///
/// - A timer never fires before its deadline, and is due at most one [`TICK`] after it. Timers fire in the order of
///   their deadlines to within a tick; those of the same tick in no particular order.
/// - Arm, re-arm and cancel are O(1), arm and cancel together about 250 instructions. [`Wheel::is_due`] is one
///   comparison.
/// - Time is an argument and never goes backwards. Every stamp is accepted up to [`Instant::NEVER`]. (No stamp is a tick
///   later than a deadline within the last tick of the time line, 584 years from its origin: those never fire.)
///
/// ```
/// use spinwire_core::id::ConnId;
/// use spinwire_core::time::{Instant, Nanos};
/// use spinwire_core::timer::{TICK, TimerKind, TimerSlot, Wheel};
///
/// let mut slots = [TimerSlot::IDLE; 16];
/// let mut wheel = Wheel::new(&mut slots, Instant::ZERO);
/// let conn = ConnId::from_bits(0x1_0003).unwrap();
///
/// let now = Instant::ZERO;
/// wheel.arm(now, conn, TimerKind::Deadline, now + Nanos::from_millis(5));
///
/// let now = now + Nanos::from_millis(5) + TICK;
/// let mut budget = 32;
/// while wheel.is_due(now) && budget > 0 {
///     if let Some(timer) = wheel.expire(now, &mut budget) {
///         assert_eq!((timer.conn, timer.kind), (conn, TimerKind::Deadline));
///     }
/// }
/// assert_eq!(wheel.next_deadline(), Instant::NEVER);
/// ```
#[derive(Debug)]
pub struct Wheel<'m> {
    lists: Lists<'m>,
    /// The tick the wheel has come to. Every armed timer's tick is this or later.
    tick: u64,
    /// Not later than the first list in use.
    next: Instant,
    /// The latest stamp seen.
    now: Instant,
    /// A list of a higher level that the wheel has reached, and whose timers were not all moved for want of budget.
    unfinished: Option<Place>,
    armed: u32,
}

impl<'m> Wheel<'m> {
    /// A wheel at `now` without an armed timer, for as many connections as there are slots. What the slots held before
    /// is forgotten.
    pub fn new(slots: &'m mut [TimerSlot], now: Instant) -> Self {
        slots.fill(TimerSlot::IDLE);
        Self { lists: Lists::new(slots), tick: tick_of(now), next: Instant::NEVER, now, unfinished: None, armed: 0 }
    }

    /// Arms a timer to fire at `at`, whether it was armed before or not. A deadline that has passed already counts as
    /// one at `now`; [`Instant::NEVER`] cancels. A timer left armed by an earlier life of the slot is replaced.
    ///
    /// O(1). What is put off with each message is cheaper put off when it fires: compare then with the last message.
    ///
    /// # Panics
    /// If `now` is earlier than a stamp seen before, or the connection's slot is not one of this wheel's.
    pub fn arm(&mut self, now: Instant, conn: ConnId, kind: TimerKind, at: Instant) {
        self.stamp(now);
        let link = Link::new(conn, kind);
        let at = at.max(now);
        if at == Instant::NEVER {
            return self.disarm(self.lists.timer(link).place, link);
        }
        // While nothing is due the wheel may follow the clock for nothing, and short timers then start in a low level.
        if now < self.next {
            self.tick = tick_of(now);
        }
        let place = Place::of(self.tick, tick_after(at));
        self.next = self.next.min(place.start(self.tick));
        let timer = match self.lists.timer(link).place {
            Some(old) if old == place => self.lists.timer_mut(link),
            old => {
                self.disarm(old, link);
                self.armed += 1;
                self.lists.push(place, link)
            }
        };
        (timer.conn, timer.at) = (conn, at);
    }

    /// Cancels a timer and says whether it was armed. A handle of another life of the slot changes nothing. O(1).
    ///
    /// # Panics
    /// If the connection's slot is not one of this wheel's.
    pub fn cancel(&mut self, conn: ConnId, kind: TimerKind) -> bool {
        let link = Link::new(conn, kind);
        let timer = self.lists.timer(link);
        let armed = timer.place.filter(|_| timer.conn == conn);
        self.disarm(armed, link);
        armed.is_some()
    }

    /// Cancels all timers of a connection, as its release does. O(1).
    ///
    /// # Panics
    /// If the connection's slot is not one of this wheel's.
    pub fn cancel_all(&mut self, conn: ConnId) {
        for kind in TimerKind::ALL {
            self.cancel(conn, kind);
        }
    }

    /// When a timer is due; [`Instant::NEVER`] when it is not armed, or for another life of the slot. O(1).
    ///
    /// # Panics
    /// If the connection's slot is not one of this wheel's.
    pub fn deadline(&self, conn: ConnId, kind: TimerKind) -> Instant {
        let timer = self.lists.timer(Link::new(conn, kind));
        if timer.place.is_some() && timer.conn == conn { timer.at } else { Instant::NEVER }
    }

    /// Timers armed now.
    pub fn armed(&self) -> u32 {
        self.armed
    }

    /// Whether [`Wheel::expire`] has anything to do at `now`: one comparison.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// No timer fires before this point; [`Instant::NEVER`] when none is armed.
    ///
    /// It is a lower bound: who sleeps until then never sleeps past a timer, but may find on waking that timers only had
    /// to be moved, at most seven times for each, or that the one it was for has been cancelled. [`Wheel::expire`]
    /// then moves the bound on. O(1).
    pub fn next_deadline(&self) -> Instant {
        self.next
    }

    /// Takes out the next timer that is due at `now`.
    ///
    /// Each timer that fires or is moved to a lower level takes one from `budget`. `None` means that nothing is due any
    /// more, or that the budget is used up: then [`Wheel::is_due`] still holds, and the next call goes on from there
    /// without losing a timer. Cost: O(1) for each unit of budget, however much time has passed.
    ///
    /// # Panics
    /// If `now` is earlier than a stamp seen before.
    pub fn expire(&mut self, now: Instant, budget: &mut u32) -> Option<Expired> {
        self.stamp(now);
        while *budget > 0 {
            let Some(place) = self.unfinished.or_else(|| self.lists.first()) else {
                (self.tick, self.next) = (tick_of(now), Instant::NEVER);
                return None;
            };
            let start = place.start(self.tick);
            if start > now || start == Instant::NEVER {
                (self.tick, self.next) = (tick_of(now), start);
                return None;
            }
            self.tick = tick_of(start);
            *budget -= 1;
            let link = self.lists.head(place);
            let Timer { conn, at, .. } = *self.lists.timer(link);
            self.lists.remove(place, link);
            if place.is_lowest() {
                self.armed -= 1;
                return Some(Expired { conn, kind: link.kind(), at });
            }
            self.lists.push(Place::of(self.tick, tick_after(at)), link);
            self.unfinished = Some(place).filter(|&place| !self.lists.is_empty(place));
        }
        None
    }

    fn disarm(&mut self, place: Option<Place>, link: Link) {
        let Some(place) = place else { return };
        self.lists.remove(place, link);
        self.armed -= 1;
        self.unfinished = self.unfinished.filter(|&unfinished| !self.lists.is_empty(unfinished));
    }

    fn stamp(&mut self, now: Instant) {
        assert!(now >= self.now, "time went backwards: {now:?} after {:?}", self.now);
        self.now = now;
    }
}

impl TimerKind {
    /// All kinds.
    pub const ALL: [TimerKind; 3] = [TimerKind::Deadline, TimerKind::Keepalive, TimerKind::Retry];
}
