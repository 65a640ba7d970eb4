//! The connection state machine as a table: (state, input) -> (next state, steps). Nothing else is in this file.
//!
//! A combination that is not listed is of no consequence: the engine counts it and stays where it is. The whole table,
//! every state against every input, is rendered and kept as a snapshot by a test, and drawn in `STATES.md`.

use core::fmt;

pub use super::state::{Guard, Input, Limit, State, Step};

use Guard::{Again, Always};
use Step::{
    Abandon, Accept, Adopt, Ask, Connect, CreateQp, DeliverHeld, Disconnect, Goodbye, Open, PostRecvs, Release,
    ResolveAddr, ResolveRoute, Tune,
};
use {Input as I, State as S};

/// One row: from where it leads where, and what is done on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its place in [`ROWS`]. Changes with the table; what stays is the row's name, which it displays as.
    pub number: u16,
    /// The state it starts from.
    pub from: State,
    /// What happens.
    pub input: Input,
    /// On what it depends besides.
    pub guard: Guard,
    /// The next state.
    pub to: State,
    /// The steps, in order.
    pub steps: &'static [Step],
}

/// Several rows that lead to the same.
struct Rule {
    from: &'static [State],
    on: &'static [Input],
    guard: Guard,
    to: State,
    steps: &'static [Step],
}

/// The states of an attempt to connect, and what can make one fail.
const ATTEMPT: &[State] = &[S::AddrResolving, S::RouteResolving, S::Connecting];
const FAILURE: &[Input] =
    &[I::AddrError, I::RouteError, I::ConnectError, I::Unreachable, I::Rejected, I::Deadline, I::StepFailed];

/// What breaks a connection that is up, or was.
const BREAK: &[Input] = &[
    I::ConnectError,
    I::Unreachable,
    I::Rejected,
    I::Disconnected,
    I::DeviceRemoval,
    I::DeviceFatal,
    I::WorkFailed,
    I::PeerFault,
    I::Deadline,
];

#[rustfmt::skip]
const RULES: &[Rule] = &[
    // The active side.
    Rule { from: &[S::Opening], on: &[I::Start], guard: Always, to: S::AddrResolving, steps: &[ResolveAddr] },
    Rule { from: &[S::AddrResolving], on: &[I::AddrResolved], guard: Always, to: S::RouteResolving, steps: &[ResolveRoute] },
    Rule { from: &[S::RouteResolving], on: &[I::RouteResolved], guard: Always, to: S::Connecting, steps: &[CreateQp, PostRecvs, Connect] },
    Rule { from: &[S::Connecting], on: &[I::Established], guard: Always, to: S::Established, steps: &[Tune, Open, DeliverHeld] },
    // The peer believes it is connected: tell it otherwise.
    Rule { from: &[S::Connecting], on: &[I::HelloBad, I::PeerFault, I::WorkFailed], guard: Always, to: S::Draining, steps: &[Disconnect] },

    // Attempts that fail, and the pause before the next.
    Rule { from: ATTEMPT, on: FAILURE, guard: Again, to: S::BackingOff, steps: &[Abandon] },
    Rule { from: ATTEMPT, on: FAILURE, guard: Always, to: S::Closed, steps: &[Release] },
    Rule { from: &[S::BackingOff], on: &[I::Deadline], guard: Always, to: S::AddrResolving, steps: &[ResolveAddr] },
    Rule { from: ATTEMPT, on: &[I::ConnectResponse, I::Disconnected], guard: Always, to: S::Closed, steps: &[Release] },
    Rule {
        from: &[S::Opening, S::AddrResolving, S::RouteResolving, S::Connecting, S::BackingOff],
        on: &[I::DeviceRemoval, I::DeviceFatal, I::LocalClose],
        guard: Always, to: S::Closed, steps: &[Release],
    },

    // The passive side. A request is taken up within the call that brings it: nothing can come between.
    Rule { from: &[S::Requested], on: &[I::Start], guard: Always, to: S::Accepting, steps: &[Adopt, CreateQp, PostRecvs, Accept] },
    // A message proves that the peer is up, and can be seen before the event.
    Rule { from: &[S::Accepting], on: &[I::Established, I::Data], guard: Always, to: S::Established, steps: &[Tune, Open] },
    // Connected, sent and gone before its ESTABLISHED was seen: what it sent is still delivered.
    Rule {
        from: &[S::Accepting],
        on: &[I::Disconnected, I::WorkFailed, I::PeerFault, I::DeviceRemoval, I::DeviceFatal],
        guard: Always, to: S::Draining, steps: &[Disconnect],
    },
    Rule {
        from: &[S::Accepting],
        on: &[I::AddrError, I::RouteError, I::ConnectResponse, I::ConnectError, I::Unreachable, I::Rejected, I::LocalClose, I::Deadline, I::StepFailed],
        guard: Always, to: S::Closed, steps: &[Release],
    },

    // Up, and the end. A device that goes does not cut the drain short: what had arrived is delivered.
    Rule { from: &[S::Established], on: &[I::Quiet], guard: Always, to: S::Established, steps: &[Ask] },
    Rule { from: &[S::Established], on: &[I::LocalClose], guard: Always, to: S::Lingering, steps: &[Goodbye] },
    Rule { from: &[S::Established, S::Lingering], on: BREAK, guard: Always, to: S::Draining, steps: &[Disconnect] },
    Rule { from: &[S::Established], on: &[I::StepFailed], guard: Always, to: S::Draining, steps: &[Disconnect] },
    Rule { from: &[S::Lingering], on: &[I::SendsDone], guard: Always, to: S::Draining, steps: &[Disconnect] },
    // A disconnect that failed changes nothing: what has arrived is still delivered until the deadline.
    Rule { from: &[S::Draining], on: &[I::Drained, I::Deadline], guard: Always, to: S::Closed, steps: &[Release] },
];

/// Every row there is.
pub static ROWS: [Row; COUNT] = rows();

/// Looks up what `input` means in `state`; `None`: nothing. `again`: the retry policy grants another attempt.
#[inline]
pub fn next(state: State, input: Input, again: bool) -> Option<&'static Row> {
    ROWS.get(INDEX[state as usize][input as usize][again as usize] as usize)
}

impl fmt::Display for Row {
    /// `Connecting + Rejected [again]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let guard = if self.guard == Again { " [again]" } else { "" };
        write!(f, "{:?} + {:?}{guard}", self.from, self.input)
    }
}

const COUNT: usize = {
    let (mut count, mut n) = (0, 0);
    while n < RULES.len() {
        count += RULES[n].from.len() * RULES[n].on.len();
        n += 1;
    }
    count
};

const fn rows() -> [Row; COUNT] {
    let none = Row { number: 0, from: S::Closed, input: I::Start, guard: Always, to: S::Closed, steps: &[] };
    let (mut rows, mut number, mut n) = ([none; COUNT], 0, 0);
    while n < RULES.len() {
        let Rule { from, on, guard, to, steps } = RULES[n];
        let mut pair = 0;
        while pair < from.len() * on.len() {
            let (from, input) = (from[pair / on.len()], on[pair % on.len()]);
            rows[number] = Row { number: number as u16, from, input, guard, to, steps };
            number += 1;
            pair += 1;
        }
        n += 1;
    }
    rows
}

/// Where no row is.
const NONE: u16 = u16::MAX;

/// The row for each state, input and `again`; a row without a guard stands for both.
static INDEX: [[[u16; 2]; Input::ALL.len()]; State::ALL.len() + 1] = {
    let rows = rows();
    let mut index = [[[NONE; 2]; Input::ALL.len()]; State::ALL.len() + 1];
    let mut number = 0;
    while number < COUNT {
        let Row { from, input, guard, .. } = rows[number];
        let entry = &mut index[from as usize][input as usize];
        match guard {
            Again => {
                assert!(entry[1] == NONE, "a guarded row comes before the one without, and once");
                entry[1] = number as u16;
            }
            Always => {
                assert!(entry[0] == NONE, "two rows for one state and input");
                entry[0] = number as u16;
                if entry[1] == NONE {
                    entry[1] = number as u16;
                }
            }
        }
        number += 1;
    }
    index
};
