//! The echo over real RDMA: sizes, depths, many connections. Run by `ci/vm`.

mod common;

use common::{PATIENCE, Running, Server, lab_address, number, ping, start_ping};
use serde_json::Value;

/// Everything came back, once, in order, right.
#[track_caller]
fn expect_all(report: &Value, messages: u64) {
    assert_eq!(report["result"], "ok", "{report:#}");
    assert_eq!(report["schema"], "spinwire.echo.ping.v1");
    assert_eq!(report["verified"], true);
    assert_eq!(number(report, "messages"), messages);
    assert_eq!(number(report, "outstanding"), 0);
    assert_eq!(report["latency_ns"]["count"], messages, "no sample is dropped");
    let latency = &report["latency_ns"];
    let order = ["min", "p50", "p90", "p99", "p99_9", "p99_99", "max"].map(|key| latency[key].as_u64().unwrap());
    assert!(order.is_sorted() && order[0] > 0, "{latency:#}");
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn every_size_comes_back_as_it_was_sent() {
    let server = Server::start("--message-max 64k --connections-max 4");
    for size in ["0", "1", "7", "8", "64", "1024", "4096", "64k"] {
        for depth in [1, 32] {
            let (ended, report) = ping(&server.url, &format!("--size {size} --depth {depth} --count 300 --verify"));
            ended.expect_code(0);
            expect_all(&report, 300);
        }
    }
    server.stop().expect("stopping").expect("16 served, 0 refused");
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn the_largest_message_there_is_comes_back() {
    let server = Server::start("--message-max 8m --depth 1 --connections-max 1 --pages thp,4k");
    let (ended, report) = ping(&server.url, "--size 8m --count 5 --verify --pages thp,4k");
    ended.expect_code(0);
    expect_all(&report, 5);
    server.stop();
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_message_longer_than_the_server_takes_is_refused_with_the_limit() {
    let server = Server::start("--message-max 1k");
    let (ended, _) = ping(&server.url, "--size 1025 --count 5");
    ended.expect_code(1).expect("at most 1024 bytes, not 1025");
    server.stop();
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_client_may_be_deeper_than_its_server() {
    let server = Server::start("--depth 2");
    let (ended, report) = ping(&server.url, "--depth 64 --count 2000 --verify");
    ended.expect_code(0);
    expect_all(&report, 2_000);
    server.stop();
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn one_client_with_64_connections() {
    let server = Server::start("--connections-max 64");
    let (ended, report) = ping(&server.url, "--connections 64 --depth 4 --count 6400 --verify");
    ended.expect_code(0);
    expect_all(&report, 6_400);
    server.stop().expect("64 served, 0 refused");
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn several_clients_with_64_connections_in_all() {
    let server = Server::start("--connections-max 64");
    let clients: Vec<_> =
        (0..4).map(|_| start_ping(&server.url, "--connections 16 --count 800 --verify --timeout 60s")).collect();
    for client in clients {
        client.finish(PATIENCE).expect_code(0).expect("800 of 64 bytes, every byte verified");
    }
    server.stop().expect("64 served, 0 refused");
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn one_connection_too_many_is_told_how_full_the_table_is() {
    let server = Server::start("--connections-max 3");
    let (ended, report) = ping(&server.url, "--connections 4 --count 10");
    ended.expect_code(1).expect("table full, 3 of 3");
    assert_eq!(report["result"], "failed");
    // The refusal did not break it.
    let (ended, _) = ping(&server.url, "--connections 3 --count 10 --verify");
    ended.expect_code(0);
    server.stop().expect("1 refused");
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn at_a_rate_latency_counts_from_the_planned_time() {
    let server = Server::start("");
    let (ended, report) = ping(&server.url, "--rate 200 --count 200 --depth 8 --verify");
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

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_stopped_client_prints_what_it_has() {
    let server = Server::start("");
    let mut client = start_ping(&server.url, "--seconds 60 --warmup 10");
    client.wait_for("connected", PATIENCE);
    client.signal("INT");
    client.finish(PATIENCE).expect_code(130).expect("stopped by SIGINT").expect("p99.99");
    server.stop();
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn over_ipv6() {
    let server = Server::start_at(lab_address("LAB_ADDR0_V6"), "");
    let bind = lab_address("LAB_ADDR1_V6");
    let client = format!("echo ping {} --bind {bind} --core 1 --count 200 --verify", server.url);
    Running::spinwire(&client).finish(PATIENCE).expect_code(0).expect("200 of 64 bytes, every byte verified");
    server.stop();
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn raw_mode_on_both_sides_adds_nothing_to_the_payload() {
    let server = Server::start("--raw");
    let (ended, report) = ping(&server.url, "--raw --size 0 --depth 8 --count 400 --verify");
    ended.expect_code(0);
    expect_all(&report, 400);
    let (ended, report) = ping(&server.url, "--raw --size 256 --depth 8 --count 400 --verify");
    ended.expect_code(0);
    expect_all(&report, 400);
    assert_eq!((&report["mode"], number(&report, "credit_messages")), (&Value::from("raw"), 0));
    server.stop();
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn more_connections_than_a_queue_pair_can_be_made_for_at_once() {
    // The default depth is lowered until the completion queues hold all of them, and that is said.
    let server = Server::start("--connections-max 200");
    let (ended, report) = ping(&server.url, "--connections 200 --count 2000 --verify --timeout 20s");
    ended.expect_code(0);
    expect_all(&report, 2_000);
    server.stop().expect("200 served, 0 refused").expect("--depth: using");
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn every_way_of_watching_and_resting_works() {
    let server = Server::start("--readiness timed --idle pause");
    for extra in ["--readiness io-uring --idle spin", "--readiness timed --idle pause", "--idle block --pages 4k"] {
        let (ended, report) = ping(&server.url, &format!("{extra} --count 100 --depth 4 --verify"));
        ended.expect_code(0);
        expect_all(&report, 100);
    }
    server.stop().expect("poll every");
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn sizes_the_device_does_not_take_are_errors_when_asked_for() {
    let server = Server::start("");
    for (extra, say) in [("--inline 8k", "--inline 8192: "), ("--depth 4096 --connections 64", "--depth 4096: ")] {
        let (ended, _) = ping(&server.url, extra);
        ended.expect_code(3).expect(say).expect("takes at most");
    }
    server.stop();
}
