//! The transition table as text, every state against every input, compared with `cm_table.txt`, and as a diagram, compared
//! with `STATES.md`: a change of the machine is a change one can read.
//! `UPDATE_SNAPSHOTS=1 cargo test -p spinwire-core --test cm_table` writes both anew.
#![cfg(not(loom))]

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;

use spinwire_core::cm::table::{Guard, Input, Limit, ROWS, Row, State, Step, next};

/// Each state against each input; where a row has a guard, it and what is done without.
fn render() -> String {
    let mut text = String::from("state            input                    next             steps\n");
    for state in State::ALL {
        writeln!(text, "\n{state:?}, {}:", words(state.limit())).unwrap();
        for input in Input::ALL {
            let [always, again] = [false, true].map(|again| next(state, input, again));
            let guarded = again.filter(|row| row.guard == Guard::Again);
            for row in guarded.map(Some).into_iter().chain([always]) {
                let input = row.map_or_else(|| format!("{input:?}"), input_of);
                let (to, steps) =
                    row.map_or(("-".into(), String::new()), |row| (format!("{:?}", row.to), steps_of(row)));
                let state = format!("{state:?}");
                writeln!(text, "{}", format!("{state:<16} {input:<24} {to:<16} {steps}").trim_end()).unwrap();
            }
        }
    }
    text
}

const AGAIN: &str = " [again]";

fn input_of(row: &Row) -> String {
    format!("{:?}{}", row.input, if row.guard == Guard::Again { AGAIN } else { "" })
}

fn steps_of(row: &Row) -> String {
    row.steps.iter().map(|step| format!("{step:?}")).collect::<Vec<_>>().join(", ")
}

fn words(limit: Limit) -> &'static str {
    match limit {
        Limit::Turn => "until the end of the turn",
        Limit::Resolve => "at most the resolve time, and the rest of the time for all attempts",
        Limit::Connect => "at most the connect time, and on the active side the rest of the time for all attempts",
        Limit::Backoff => "for the pause",
        Limit::Keepalive => {
            "while the peer, when it is quiet, answers the keepalive; after its goodbye at most the linger time"
        }
        Limit::Linger => "at most the linger time",
        Limit::Drain => "at most the drain time",
    }
}

const INTRO: &str = "\
# The states of a connection

Drawn from the transition table (`src/cm/table.rs`) by a test, which fails when the two differ;
`UPDATE_SNAPSHOTS=1 cargo test -p spinwire-core --test cm_table` draws it anew. `tests/cm_table.txt` has every state against
every input.

An arrow says: on any of these inputs / do these steps, in this order. What is not drawn is of no consequence. `[again]`: if
the retry policy grants another attempt after this failure. An arrow from `Attempt` leads from each state inside.

";

/// The whole of `STATES.md`.
fn draw() -> String {
    let mut text = format!("{INTRO}```mermaid\nstateDiagram-v2\n    [*] --> Opening\n    [*] --> Requested\n");
    text.push_str("    state Attempt {\n        direction LR\n");
    let (inside, outside): (Vec<_>, Vec<_>) = edges().into_iter().partition(|(from, to, ..)| {
        let attempt = |name: &str| State::ALL.iter().any(|state| state.is_attempt() && format!("{state:?}") == name);
        attempt(from) && attempt(to)
    });
    let draw = |text: &mut String, indent, edges: Vec<Edge>| {
        for (from, to, inputs, steps) in edges {
            let again = inputs.iter().all(|input| input.ends_with(AGAIN));
            let guard = if again { AGAIN } else { "" };
            let inputs: Vec<_> = inputs.iter().map(|input| input.strip_suffix(guard).unwrap_or(input)).collect();
            let inputs = inputs.chunks(3).map(|line| line.join(", ")).collect::<Vec<_>>().join(",<br/>");
            writeln!(text, "{indent}{from} --> {to}: {inputs}{guard}<br/>/ {steps}").unwrap();
        }
    };
    draw(&mut text, "        ", inside);
    text.push_str("    }\n");
    draw(&mut text, "    ", outside);
    text.push_str("    Closed --> [*]\n```\n\n| state | how long |\n|---|---|\n");
    for state in State::ALL {
        writeln!(text, "| {state:?} | {} |", words(state.limit())).unwrap();
    }
    text.push_str(
        "\nThe keepalive is between two Spinwires. Without it (raw mode, or switched off) an idle connection has no deadline, for \
         nothing is waited\nfor: a peer that vanished is noticed by the kernel's DISCONNECTED, or by the next send, whose retries \
         run out.\n",
    );
    text
}

/// From, to, inputs, steps.
type Edge = (String, String, Vec<String>, String);

/// One for all inputs that lead the same way, and one for all states of an attempt where they agree.
fn edges() -> Vec<Edge> {
    let attempts = State::ALL.iter().filter(|state| state.is_attempt()).count();
    let mut edges: Vec<Edge> = Vec::new();
    for row in &ROWS {
        let alike = |other: &&Row| {
            other.from.is_attempt() && (other.to, other.steps, input_of(other)) == (row.to, row.steps, input_of(row))
        };
        let all_attempts = row.from.is_attempt() && ROWS.iter().filter(alike).count() == attempts;
        let from = if all_attempts { "Attempt".into() } else { format!("{:?}", row.from) };
        let (to, input, steps) = (format!("{:?}", row.to), input_of(row), steps_of(row));
        match edges.iter_mut().find(|edge| (&edge.0, &edge.1, &edge.3) == (&from, &to, &steps)) {
            Some(edge) if edge.2.contains(&input) => {}
            Some(edge) => edge.2.push(input),
            None => edges.push((from, to, vec![input], steps)),
        }
    }
    edges
}

fn compare(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some((number, (now, then))) = text.lines().zip(kept.lines()).enumerate().find(|(_, (a, b))| a != b) {
        panic!("{file} line {}\n  was {then}\n  is  {now}\nUPDATE_SNAPSHOTS=1 accepts it", number + 1);
    }
    assert_eq!(text.lines().count(), kept.lines().count(), "{file}: UPDATE_SNAPSHOTS=1 accepts it");
}

#[test]
fn the_table_is_what_the_snapshot_shows() {
    compare("tests/cm_table.txt", &render());
}

#[test]
fn the_diagram_is_of_this_table() {
    let text = draw();
    compare("STATES.md", &text);
    for row in &ROWS {
        assert!(
            text.contains(&format!("{:?}", row.input)) && text.contains(&format!("{:?} -->", row.to)),
            "{row} is not drawn"
        );
    }
}

#[test]
fn each_row_is_found_by_what_it_says() {
    let mut names = HashSet::new();
    for (number, row) in ROWS.iter().enumerate() {
        assert_eq!(row.number as usize, number);
        assert_eq!(next(row.from, row.input, row.guard == Guard::Again), Some(row), "{row}");
        assert!(names.insert(row.to_string()), "two rows are called {row}");
        // Without the guard's word there is a row too: a failure that is not tried again has an end.
        assert!(next(row.from, row.input, false).is_some_and(|row| row.guard == Guard::Always), "{row}");
    }
}

/// No state can be waited in for ever, and a device that goes ends every one.
#[test]
fn every_state_has_a_way_out() {
    for state in State::ALL {
        let left = |input| next(state, input, false).is_some_and(|row| row.to != state);
        match state.limit() {
            Limit::Turn => assert!(left(Input::Start), "{state:?} is not taken up"),
            _ => assert!(left(Input::Deadline), "{state:?} has no deadline"),
        }
        // A request is taken up within a call; one that drains is on its way out.
        let ends = matches!(state, State::Requested | State::Draining);
        assert!(ends || left(Input::DeviceRemoval), "{state:?} stays when the device goes");
        assert!(ends || left(Input::LocalClose) || state == State::Lingering, "{state:?} cannot be closed");
    }
}

#[test]
fn deadlines_alone_end_every_connection() {
    for mut state in State::ALL {
        let mut steps = 0;
        while state != State::Closed {
            let input = if state.limit() == Limit::Turn { Input::Start } else { Input::Deadline };
            state = next(state, input, false).expect("a way on").to;
            steps += 1;
            assert!(steps <= 4);
        }
    }
}

#[test]
fn every_state_can_be_reached_and_the_lists_are_complete() {
    let mut reached = HashSet::from([State::Opening, State::Requested]);
    for _ in State::ALL {
        reached.extend(ROWS.iter().filter(|row| reached.contains(&row.from)).map(|row| row.to).collect::<Vec<_>>());
    }
    assert!(State::ALL.iter().all(|state| reached.contains(state)));
    assert!(reached.iter().all(|state| *state == State::Closed || State::ALL.contains(state)));
    // One for each variant, in their order: their numbers are 0 to n - 1 without a gap, and the last is the last.
    assert!(State::ALL.iter().enumerate().all(|(n, &state)| state as usize == n));
    assert!(Input::ALL.iter().enumerate().all(|(n, &input)| input as usize == n));
    assert_eq!(State::ALL.len(), State::Closed as usize);
    assert_eq!(Input::ALL.len(), Input::StepFailed as usize + 1);
}

/// What the fabric relies on: the order of steps inside a row.
#[test]
fn steps_come_in_the_order_the_library_needs() {
    let before = |steps: &[Step], first, second| {
        let place = |step| steps.iter().position(|&other| other == step);
        place(second).is_none_or(|second| place(first).is_some_and(|first| first < second))
    };
    for row in &ROWS {
        assert!(before(row.steps, Step::CreateQp, Step::PostRecvs));
        assert!(before(row.steps, Step::PostRecvs, Step::Connect) && before(row.steps, Step::PostRecvs, Step::Accept));
        assert_eq!(row.to == State::Closed, row.steps.contains(&Step::Release), "{row}");
        assert_eq!(row.to == State::Draining, row.steps.contains(&Step::Disconnect), "{row}");
        // An attempt's id and queue pair are gone before the next one's are made, and each attempt starts from its id.
        assert_eq!(row.to == State::BackingOff, row.steps.contains(&Step::Abandon), "{row}");
        assert_eq!(row.to == State::AddrResolving, row.steps == [Step::ResolveAddr], "{row}");
    }
    assert!(ROWS.iter().all(|row| row.from != State::Closed));
}
