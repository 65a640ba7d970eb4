//! How connections are made, refused and ended, told once and run over either fabric: the same events in the same order.

mod sides;

use std::time::Duration;

use spinwire_core::cm::hello::Refusal;
use spinwire_core::cm::reason::CloseReason;
use spinwire_core::id::ConnId;
use spinwire_core::turn::{Answer, Cx, Verdict};

use super::common::PATIENCE;
use super::common::fabric::Fabric;
use sides::{Event, Rules, ask_nobody, meet};

fn closed(reason: CloseReason) -> Event {
    Event::Closed { reason, was_open: true, unsent: 0 }
}

fn send(cx: &mut Cx<'_, '_>, conn: ConnId, byte: u8) {
    cx.send(conn, &[byte; 300]).unwrap();
}

fn nine_messages_between(first: Event, last: Event) -> Vec<Event> {
    [first].into_iter().chain((0..9).map(Event::Message)).chain([last]).collect()
}

fn send_nine_and_close(cx: &mut Cx<'_, '_>, conn: ConnId) {
    (0..9).for_each(|byte| send(cx, conn, byte));
    cx.close(conn);
}

pub fn both_sides_see_the_same_events_in_the_same_order(on: Fabric) {
    let server = Rules { message: |cx, conn, byte| send(cx, conn, byte + 1), ..Rules::default() };
    let client =
        Rules { open: |cx, conn| send(cx, conn, 1), message: |cx, conn, _| cx.close(conn), ..Rules::default() };
    let (served, asked) = meet(on, server, client, 1);
    assert_eq!(served.requests, [Event::Request(true)]);
    served.expect_each(1, &[Event::Open, Event::Message(1), closed(CloseReason::Peer)]);
    asked.expect_each(1, &[Event::Open, Event::Message(2), closed(CloseReason::Local)]);
}

pub fn the_application_refuses_with_a_number_of_its_own(on: Fabric) {
    const NO: Refusal = Refusal::Application(4_711);
    let (served, asked) = meet(on, Rules { request: || Verdict::Refuse(NO), ..Rules::default() }, Rules::default(), 3);
    assert_eq!(served.requests, [[Event::Request(true), Event::Refused(NO)]; 3].as_flattened());
    served.expect_each(0, &[]);
    asked.expect_each(3, &[Event::Closed { reason: CloseReason::Refused(NO), was_open: false, unsent: 0 }]);
}

pub fn nobody_listens_is_told_as_that(on: Fabric) {
    let nobody = CloseReason::NobodyListens;
    ask_nobody(on).expect_each(1, &[Event::Closed { reason: nobody, was_open: false, unsent: 0 }]);
}

pub fn what_is_sent_before_a_close_arrives_before_it(on: Fabric) {
    let (served, asked) = meet(on, Rules::default(), Rules { open: send_nine_and_close, ..Rules::default() }, 20);
    served.expect_each(20, &nine_messages_between(Event::Open, closed(CloseReason::Peer)));
    asked.expect_each(20, &[Event::Open, closed(CloseReason::Local)]);
}

pub fn the_server_may_be_the_one_that_closes(on: Fabric) {
    let (served, asked) = meet(on, Rules { open: send_nine_and_close, ..Rules::default() }, Rules::default(), 5);
    served.expect_each(5, &[Event::Open, closed(CloseReason::Local)]);
    asked.expect_each(5, &nine_messages_between(Event::Open, closed(CloseReason::Peer)));
}

pub fn both_may_close_at_once_and_each_is_told_once(on: Fabric) {
    let rules = Rules { open: |cx, conn| cx.close(conn), ..Rules::default() };
    let (served, asked) = meet(on, rules, rules, 20);
    // Either may hear the other's goodbye before its own is on the way.
    let is_end = |event: &Event| *event == closed(CloseReason::Local) || *event == closed(CloseReason::Peer);
    for seen in [served, asked] {
        assert_eq!(seen.visits.len(), 20, "{seen:?}");
        let went_well = |events: &[Event]| matches!(events, [Event::Open, end] if is_end(end));
        assert!(seen.visits.iter().all(|(_, events)| went_well(events)), "{seen:?}");
    }
}

pub fn an_answer_in_place_is_no_longer_than_its_message(on: Fabric) {
    // What is behind the message in its buffer is another one's.
    let server = Rules { answer: Answer::InPlace(300), ..Rules::default() };
    let client = Rules {
        open: |cx, conn| {
            cx.send(conn, &[1; 300]).unwrap();
            cx.send(conn, &[2; 5]).unwrap();
        },
        message: |cx, conn, byte| {
            if byte == 2 {
                cx.close(conn)
            }
        },
        ..Rules::default()
    };
    let (_, asked) = meet(on, server, client, 1);
    assert_eq!(asked.lengths, [300, 5]);
}

pub fn a_signal_stops_the_server_which_says_goodbye(on: Fabric) {
    for signal in ["TERM", "INT"] {
        let mut server = on.server("");
        let client = on.start_ping(&server.url, "--seconds 60 --depth 8 --connections 4");
        server.process.wait_for("(4 now)", PATIENCE);
        std::thread::sleep(Duration::from_millis(300));
        server.process.signal(signal);
        let ended = server.process.finish(Duration::from_secs(10)).expect_code(0);
        let ended = ended.expect(&format!("SIG{signal}: stopping; no new clients, closing 4 connections"));
        assert_eq!(ended.output.matches(" left: ").count(), 4, "{}", ended.output);
        client.finish(PATIENCE).expect_code(1).expect("closed by the peer");
    }
}

pub fn a_server_that_does_not_answer_is_given_up(on: Fabric) {
    // Before it accepts, and in the middle.
    for (connected, words) in [(false, "connect took longer than 2 s"), (true, "no progress for")] {
        let mut server = on.server("");
        if !connected {
            server.process.signal("STOP");
        }
        let client = on.start_ping(&server.url, "--seconds 60 --timeout 2s");
        if connected {
            server.process.wait_for("(1 now)", PATIENCE);
            server.process.signal("STOP");
        }
        client.finish(Duration::from_secs(20)).expect_code(1).expect(words);
        server.process.signal("KILL");
    }
}
