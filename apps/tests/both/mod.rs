//! The echo, told once and run over either fabric: sizes, depths, many connections.
#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::time::Duration;

use serde_json::Value;

use super::common::fabric::Fabric;
use super::common::{PATIENCE, number, read_json, scratch};

/// Everything came back, once, in order, right.
#[track_caller]
pub fn expect_all(report: &Value, messages: u64) {
    assert_eq!(report["result"], "ok", "{report:#}");
    assert_eq!(report["schema"], "spinwire.echo.ping.v1");
    assert_eq!(report["verified"], true);
    assert_eq!(number(report, "messages"), messages);
    assert_eq!((number(report, "outstanding"), number(report, "queued")), (0, 0));
    assert_eq!(report["ended_in_warmup"], false);
    assert_eq!(report["latency_ns"]["count"], messages, "no sample is dropped");
    // Of the messages that count, and of those alone, however many of the warm-up were in flight.
    let bytes = messages * number(report, "message_bytes");
    assert_eq!((number(report, "bytes_sent"), number(report, "bytes_received")), (bytes, bytes));
    let latency = &report["latency_ns"];
    let order = ["min", "p50", "p90", "p99", "p99_9", "p99_99", "max"].map(|key| latency[key].as_u64().unwrap());
    assert!(order.is_sorted() && order[0] > 0, "{latency:#}");
}

pub fn every_size_comes_back_as_it_was_sent(on: Fabric) {
    let server = on.server("--message-max 64k --connections-max 4");
    for size in ["0", "1", "7", "8", "64", "1024", "4096", "64k"] {
        for depth in [1, 32] {
            let (ended, report) = on.ping(&server.url, &format!("--size {size} --depth {depth} --count 300 --verify"));
            ended.expect_code(0);
            expect_all(&report, 300);
        }
    }
    server.stop().expect("stopping").expect("16 served, 0 refused");
}

pub fn the_largest_message_there_is_comes_back(on: Fabric) {
    let server = on.server("--message-max 8m --depth 1 --connections-max 1 --pages thp,4k");
    let (ended, report) = on.ping(&server.url, "--size 8m --count 5 --verify --pages thp,4k");
    ended.expect_code(0);
    expect_all(&report, 5);
    server.stop();
}

pub fn a_message_longer_than_the_server_takes_is_refused_with_the_limit(on: Fabric) {
    let server = on.server("--message-max 1k");
    let (ended, _) = on.ping(&server.url, "--size 1025 --count 5");
    let ended = ended.expect_code(1).expect("at most 1,024 bytes, not 1,025");
    assert!(!ended.output.contains("measuring"), "{}", ended.output);
    server.stop();
}

pub fn a_client_may_be_deeper_than_its_server(on: Fabric) {
    let server = on.server("--depth 2");
    let (ended, report) = on.ping(&server.url, "--depth 64 --count 2000 --verify");
    // Its depth and what is kept for control messages, but for one.
    ended.expect_code(0).expect(
        "64 on each of 1 connection; the server has receives for 3 (its depth and spare ones), the rest waits at this side",
    );
    assert_eq!(report["server_window"], 3);
    expect_all(&report, 2_000);
    let (ended, report) = on.ping(&server.url, "--depth 3 --count 20");
    assert!(!ended.expect_code(0).output.contains("the server has"), "{report:#}");
    server.stop();
}

pub fn what_waits_at_this_side_is_told_from_what_has_no_reply(on: Fabric) {
    let server = on.server("--depth 2");
    let file = scratch("ping.json");
    let mut client =
        on.start_ping(&server.url, &format!("--depth 64 --seconds 60 --warmup 0 --json {}", file.display()));
    client.wait_for("connected", PATIENCE);
    std::thread::sleep(Duration::from_millis(100));
    client.signal("INT");
    client.finish(PATIENCE).expect_code(130).expect("still queued at this side");
    let report = read_json(&file);
    let (outstanding, queued) = (number(&report, "outstanding"), number(&report, "queued"));
    assert!(outstanding <= 3 && outstanding + queued == 64, "{report:#}");
    server.stop();
}

pub fn a_run_that_ends_in_its_warm_up_says_so(on: Fabric) {
    let server = on.server("");
    let file = scratch("ping.json");
    let mut client = on.start_ping(&server.url, &format!("--rate 100 --warmup 1m --json {}", file.display()));
    client.wait_for("connected", PATIENCE);
    std::thread::sleep(Duration::from_millis(100));
    client.signal("INT");
    let ended = client.finish(PATIENCE).expect_code(130);
    ended.expect("it ended in its warm-up, after ").expect(" of 1,000,000 messages: nothing was measured");
    let report = read_json(&file);
    assert_eq!((&report["ended_in_warmup"], &report["messages"]), (&true.into(), &0.into()), "{report:#}");
    server.stop();
}

pub fn one_client_with_64_connections(on: Fabric) {
    let server = on.server("--connections-max 64");
    let (ended, report) = on.ping(&server.url, "--connections 64 --depth 4 --count 6400 --verify");
    ended.expect_code(0);
    expect_all(&report, 6_400);
    server.stop().expect("64 served, 0 refused");
}

pub fn several_clients_with_64_connections_in_all(on: Fabric) {
    let server = on.server("--connections-max 64");
    let clients: Vec<_> =
        (0..4).map(|_| on.start_ping(&server.url, "--connections 16 --count 800 --verify --timeout 60s")).collect();
    for client in clients {
        client.finish(PATIENCE).expect_code(0).expect("800 of 64 bytes, every byte verified");
    }
    server.stop().expect("64 served, 0 refused");
}

pub fn one_connection_too_many_is_told_how_full_the_table_is(on: Fabric) {
    let mut server = on.server("--connections-max 3");
    let (ended, report) = on.ping(&server.url, "--connections 4 --count 10");
    ended.expect_code(1).expect("table full, 3 of 3");
    assert_eq!(report["result"], "failed");
    // The refusal did not break it, and when the three have left there is room again.
    (0..3).for_each(|_| drop(server.process.wait_for(" left: ", PATIENCE)));
    let (ended, _) = on.ping(&server.url, "--connections 3 --count 10 --verify");
    ended.expect_code(0);
    server.stop().expect("1 refused");
}

pub fn at_a_rate_latency_counts_from_the_planned_time(on: Fabric) {
    let server = on.server("");
    let (ended, report) = on.ping(&server.url, "--rate 200 --count 200 --depth 8 --verify");
    ended.expect_code(0).expect("response time, from the planned time of sending");
    expect_all(&report, 200);
    assert_eq!(report["latency_from"], "planned send");
    let (elapsed, late) = (number(&report, "elapsed_ns"), number(&report, "sent_late"));
    assert!(elapsed >= 990_000_000, "200 messages at 200/s take a second, not {elapsed} ns");
    assert!(late <= 200);
    let (response, service) = (&report["latency_ns"], &report["service_ns"]);
    assert!(response["max"].as_u64() >= service["max"].as_u64(), "a wait before sending counts: {report:#}");
    server.stop();
}

pub fn a_stopped_client_prints_what_it_has(on: Fabric) {
    let server = on.server("");
    let mut client = on.start_ping(&server.url, "--seconds 60 --warmup 10");
    client.wait_for("connected", PATIENCE);
    std::thread::sleep(Duration::from_millis(300));
    client.signal("INT");
    client.finish(PATIENCE).expect_code(130).expect("stopped by SIGINT").expect("p99.99");
    server.stop();
}

pub fn every_way_of_watching_and_resting_works(on: Fabric) {
    let server = on.server("--readiness timed --idle pause");
    for extra in ["--readiness io-uring --idle spin", "--readiness timed --idle pause", "--idle block --pages 4k"] {
        let (ended, report) = on.ping(&server.url, &format!("{extra} --count 100 --depth 4 --verify"));
        ended.expect_code(0);
        expect_all(&report, 100);
    }
    server.stop().expect("poll every");
}
