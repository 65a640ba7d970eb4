//! Timers: a hierarchical wheel over memory that is handed in.
//!
//! Each connection slot has one timer of each [`TimerKind`], named by connection and kind, so there is nothing to
//! allocate and no second handle to keep. A timer of its own for each kind costs 24 bytes and spares the engine what one
//! timer per connection would need: the least of the kinds after every change, and which of them it was when it fires.
//!
//! ```text
//!            16 lists each        one list of level n spans
//!  level 0   [ ][ ][x][ ] ..      1 tick                    131 us
//!  level 1   [ ][x][ ][ ] ..      16 ticks                  2.1 ms
//!  level 2   [ ][ ][ ][x] ..      256 ticks                 34 ms
//!  level 3   [ ][ ][ ][ ] ..      4,096 ticks               537 ms
//!    ..
//!  level 11                       2^44 ticks                73 years
//! ```
//!
//! A timer stands in the level of the highest digit, base 16, in which its tick differs from the wheel's. When the wheel
//! reaches a list of a higher level it moves the timers in it to lower levels, each at most once for each level. Which
//! lists are in use is a bit each, so the wheel steps from list in use to list in use, however much time passes between
//! two calls. Twelve levels cover every stamp there is: nothing is beyond the horizon.
//!
//! Most timers never fire: they are put off or cancelled, and armed again. So that is cheap: such a timer stays in the
//! list in which it stands, which is too early for it, and only its deadline changes. When that list is reached, it is
//! moved to where it belongs, or taken out if it is not armed.

mod list;
mod place;

pub use list::{IDLE, Timer, TimerSlot};
use list::{Link, Lists};
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
/// - Arm, re-arm and cancel are O(1): arm and cancel together about 50 instructions, or 120 if the new deadline is earlier
///   than the one before. [`Wheel::is_due`] is one comparison.
/// - Time is an argument and never goes backwards. Every stamp is accepted up to [`Instant::NEVER`]. (No stamp is a tick
///   later than a deadline within the last tick of the time line, 584 years from its origin: those never fire.)
///
/// ```
/// use spinwire_core::id::ConnId;
/// use spinwire_core::time::{Instant, Nanos};
/// use spinwire_core::timer::{IDLE, TICK, TimerKind, Wheel};
///
/// let mut slots = [IDLE; 16];
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
    /// The tick the wheel has come to. No list in use is earlier.
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
        slots.fill(IDLE);
        Self { lists: Lists::new(slots), tick: tick_of(now), next: Instant::NEVER, now, unfinished: None, armed: 0 }
    }

    /// Arms a timer to fire at `at`, whether it was armed before or not. A deadline that has passed already counts as
    /// one at `now`; [`Instant::NEVER`] cancels. A timer left armed by an earlier life of the slot is replaced.
    ///
    /// O(1). What is put off with each message is cheaper still if it is put off when it fires: compare then with the last
    /// message.
    ///
    /// # Panics
    /// If `now` is earlier than a stamp seen before, or the connection's slot is not one of this wheel's.
    pub fn arm(&mut self, now: Instant, conn: ConnId, kind: TimerKind, at: Instant) {
        self.stamp(now);
        let at = at.max(now);
        let link = Link::new(conn, kind);
        let timer = self.lists.timer_mut(link);
        if at == Instant::NEVER {
            self.armed -= u32::from(timer.is_armed());
            return timer.disarm();
        }
        self.armed += u32::from(!timer.is_armed());
        // Put off, or cancelled and armed again: it is early where it stands, and is moved on when its list is reached.
        let stays = timer.is_listed() && at >= timer.at;
        timer.arm(conn, at);
        if !stays {
            self.list(link);
        }
    }

    /// Cancels a timer and says whether it was armed. A handle of another life of the slot changes nothing. O(1).
    ///
    /// # Panics
    /// If the connection's slot is not one of this wheel's.
    pub fn cancel(&mut self, conn: ConnId, kind: TimerKind) -> bool {
        let timer = self.lists.timer_mut(Link::new(conn, kind));
        let armed = timer.is_armed_for(conn);
        if armed {
            timer.disarm();
            self.armed -= 1;
        }
        armed
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
        if timer.is_armed_for(conn) { timer.at } else { Instant::NEVER }
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
    /// to be moved, at most once for each level, or that the one it was for was put off or cancelled.
    /// [`Wheel::expire`] then moves the bound on. O(1).
    pub fn next_deadline(&self) -> Instant {
        self.next
    }

    /// Takes out the next timer that is due at `now`.
    ///
    /// Each timer that fires, is moved, or is taken out because it was cancelled takes one from `budget`. `None` means that nothing is due any
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
            self.lists.remove(link);
            let timer = self.lists.timer_mut(link);
            if timer.is_armed() {
                let (conn, at, tick) = (timer.conn(link), timer.at, tick_after(timer.at));
                if tick == self.tick && place.is_lowest() {
                    timer.disarm();
                    self.armed -= 1;
                    return Some(Expired { conn, kind: link.kind(), at });
                }
                self.lists.push(Place::of(self.tick, tick), link);
            }
            self.unfinished = Some(place).filter(|&place| !place.is_lowest() && !self.lists.is_empty(place));
        }
        None
    }

    /// Puts a timer, whose deadline is set, into the list for it.
    fn list(&mut self, link: Link) {
        if self.lists.timer(link).is_listed() {
            self.lists.remove(link);
            self.unfinished = self.unfinished.filter(|&unfinished| !self.lists.is_empty(unfinished));
        }
        // While nothing is due the wheel may follow the clock for nothing, and short timers then start in a low level.
        if self.now < self.next {
            self.tick = tick_of(self.now);
        }
        let tick = tick_after(self.lists.timer(link).at);
        let place = Place::of(self.tick, tick);
        self.next = self.next.min(place.start_of(tick));
        self.lists.push(place, link);
    }

    #[inline]
    fn stamp(&mut self, now: Instant) {
        if now < self.now {
            went_backwards(now, self.now);
        }
        self.now = now;
    }
}

#[cold]
#[inline(never)]
fn went_backwards(now: Instant, before: Instant) -> ! {
    panic!("time went backwards: {now:?} after {before:?}");
}

impl TimerKind {
    /// All kinds.
    pub const ALL: [TimerKind; 3] = [TimerKind::Deadline, TimerKind::Keepalive, TimerKind::Retry];
}
