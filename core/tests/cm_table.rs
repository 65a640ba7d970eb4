//! The transition table as text, every state against every input, compared with `cm_table.txt`: a change of the machine
//! is a change one can read. `UPDATE_SNAPSHOTS=1 cargo test -p spinwire-core --test cm_table` writes it anew.
#![cfg(not(loom))]

use std::collections::HashSet;
use std::fmt::Write;

use spinwire_core::cm::table::{Input, Row, State, Step, next};

fn render() -> String {
    let mut text = String::from("state            input            next             steps\n");
    for state in State::ALL {
        text.push('\n');
        for input in Input::ALL {
            let (state, input, row) = (format!("{state:?}"), format!("{input:?}"), next(state, input));
            let (to, steps) = match row {
                Some(Row { to, steps }) => {
                    (format!("{to:?}"), steps.iter().map(|step| format!("{step:?}")).collect::<Vec<_>>().join(", "))
                }
                None => ("-".into(), String::new()),
            };
            writeln!(text, "{}", format!("{state:<16} {input:<16} {to:<16} {steps}").trim_end()).unwrap();
        }
    }
    text
}

#[test]
fn the_table_is_what_the_snapshot_shows() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cm_table.txt");
    let text = render();
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    if let Some((number, (now, then))) = text.lines().zip(kept.lines()).enumerate().find(|(_, (a, b))| a != b) {
        panic!("line {}\n  was {then}\n  is  {now}\nUPDATE_SNAPSHOTS=1 accepts it", number + 1);
    }
    assert_eq!(text.lines().count(), kept.lines().count(), "UPDATE_SNAPSHOTS=1 accepts it");
}

/// No state can be waited in for ever, and a device that goes ends every one.
#[test]
fn every_state_has_a_way_out() {
    for state in State::ALL {
        let left = |input| next(state, input).is_some_and(|row| row.to != state);
        assert!(left(Input::DeviceRemoval), "{state:?} stays when the device goes");
        // The two first ones last until the end of the turn they begin in.
        let at_once = matches!(state, State::Opening | State::Requested);
        assert!(if at_once { left(Input::Start) } else { left(Input::Deadline) }, "{state:?} has no deadline");
        let closes = left(Input::LocalClose) || matches!(state, State::Lingering | State::Draining);
        assert!(closes, "{state:?} cannot be closed");
    }
}

#[test]
fn deadlines_alone_end_every_connection() {
    for mut state in State::ALL {
        let mut steps = 0;
        while state != State::Closed {
            let input = if matches!(state, State::Opening | State::Requested) { Input::Start } else { Input::Deadline };
            state = next(state, input).expect("a way on").to;
            steps += 1;
            assert!(steps <= 4);
        }
    }
}

#[test]
fn every_state_can_be_reached_and_the_lists_are_complete() {
    let mut reached = HashSet::from([State::Opening, State::Requested]);
    for _ in State::ALL {
        for state in reached.clone() {
            reached.extend(Input::ALL.iter().filter_map(|&input| next(state, input)).map(|row| row.to));
        }
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
    for state in State::ALL {
        for row in Input::ALL.iter().filter_map(|&input| next(state, input)) {
            assert!(before(row.steps, Step::CreateQp, Step::PostRecvs));
            assert!(
                before(row.steps, Step::PostRecvs, Step::Connect) && before(row.steps, Step::PostRecvs, Step::Accept)
            );
            assert_eq!(row.to == State::Closed, row.steps.contains(&Step::Release), "{state:?}");
            assert_eq!(row.to == State::Draining, row.steps.contains(&Step::Disconnect), "{state:?}");
        }
        assert!(next(State::Closed, Input::Start).is_none());
    }
}
