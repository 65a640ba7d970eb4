//! The echo over real RDMA: sizes, depths, many connections. Run by `ci/vm`.

mod both;
mod common;

use both::expect_all;
use common::fabric::Fabric;
use common::{PATIENCE, Running, Server, lab_address, number, ping};
use serde_json::Value;

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn every_size_comes_back_as_it_was_sent() {
    both::every_size_comes_back_as_it_was_sent(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn the_largest_message_there_is_comes_back() {
    both::the_largest_message_there_is_comes_back(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_message_longer_than_the_server_takes_is_refused_with_the_limit() {
    both::a_message_longer_than_the_server_takes_is_refused_with_the_limit(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_client_may_be_deeper_than_its_server() {
    both::a_client_may_be_deeper_than_its_server(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn what_waits_at_this_side_is_told_from_what_has_no_reply() {
    both::what_waits_at_this_side_is_told_from_what_has_no_reply(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_run_that_ends_in_its_warm_up_says_so() {
    both::a_run_that_ends_in_its_warm_up_says_so(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn one_client_with_64_connections() {
    both::one_client_with_64_connections(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn several_clients_with_64_connections_in_all() {
    both::several_clients_with_64_connections_in_all(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn one_connection_too_many_is_told_how_full_the_table_is() {
    both::one_connection_too_many_is_told_how_full_the_table_is(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn at_a_rate_latency_counts_from_the_planned_time() {
    both::at_a_rate_latency_counts_from_the_planned_time(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_stopped_client_prints_what_it_has() {
    both::a_stopped_client_prints_what_it_has(Fabric::Rdma);
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
    server.stop().expect("200 served, 0 refused").expect("depth: using");
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn every_way_of_watching_and_resting_works() {
    both::every_way_of_watching_and_resting_works(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn sizes_the_device_does_not_take_are_errors_when_asked_for() {
    let server = Server::start("");
    for (extra, say) in [("--inline 8k", "inline 8192: "), ("--depth 4096 --connections 64", "depth 4096: ")] {
        let (ended, _) = ping(&server.url, extra);
        ended.expect_code(3).expect(say).expect("takes at most");
    }
    server.stop();
}
