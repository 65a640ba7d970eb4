//! The echo over shared memory: what the lab runs over RDMA, from the same source.

mod both;
mod common;

use both::expect_all;
use std::process::Command;

use common::fabric::{Fabric, alone, cpu, shm_name};
use common::{PATIENCE, Running, SPINWIRE, read_json, scratch};

#[test]
fn every_size_comes_back_as_it_was_sent() {
    both::every_size_comes_back_as_it_was_sent(Fabric::Shm);
}

#[test]
fn the_largest_message_there_is_comes_back() {
    both::the_largest_message_there_is_comes_back(Fabric::Shm);
}

#[test]
fn a_message_longer_than_the_server_takes_is_refused_with_the_limit() {
    both::a_message_longer_than_the_server_takes_is_refused_with_the_limit(Fabric::Shm);
}

#[test]
fn a_client_may_be_deeper_than_its_server() {
    both::a_client_may_be_deeper_than_its_server(Fabric::Shm);
}

#[test]
fn what_waits_at_this_side_is_told_from_what_has_no_reply() {
    both::what_waits_at_this_side_is_told_from_what_has_no_reply(Fabric::Shm);
}

#[test]
fn a_run_that_ends_in_its_warm_up_says_so() {
    both::a_run_that_ends_in_its_warm_up_says_so(Fabric::Shm);
}

#[test]
fn one_client_with_64_connections() {
    both::one_client_with_64_connections(Fabric::Shm);
}

#[test]
fn several_clients_with_64_connections_in_all() {
    both::several_clients_with_64_connections_in_all(Fabric::Shm);
}

#[test]
fn one_connection_too_many_is_told_how_full_the_table_is() {
    both::one_connection_too_many_is_told_how_full_the_table_is(Fabric::Shm);
}

#[test]
fn at_a_rate_latency_counts_from_the_planned_time() {
    both::at_a_rate_latency_counts_from_the_planned_time(Fabric::Shm);
}

#[test]
fn a_stopped_client_prints_what_it_has() {
    both::a_stopped_client_prints_what_it_has(Fabric::Shm);
}

#[test]
fn every_way_of_watching_and_resting_works() {
    both::every_way_of_watching_and_resting_works(Fabric::Shm);
}

/// Long messages lie in the sender's buffers if it lends them, and go through its segment if not.
#[test]
fn long_messages_come_back_whichever_side_lends_its_buffers() {
    for (serve, ping) in [("", ""), ("--private-buffers", ""), ("", "--private-buffers")] {
        let server =
            Fabric::Shm.server(&format!("--message-max 1m --depth 4 --connections-max 2 --pages thp,4k {serve}"));
        for size in ["121", "4097", "65537", "1m"] {
            let arguments = format!(
                "--size {size} --depth 4 --connections 2 --count 200 --verify --timeout 60s --pages thp,4k {ping}"
            );
            let (ended, report) = Fabric::Shm.ping(&server.url, &arguments);
            ended.expect_code(0);
            expect_all(&report, 200);
            let lends = report["lends_buffers"].as_bool().unwrap();
            assert_eq!(lends, ping.is_empty(), "{report:#}");
        }
        server.stop().expect("8 served");
    }
}

#[test]
fn a_picture_is_drawn_where_it_was_asked_for() {
    let server = Fabric::Shm.server("--connections-max 1");
    let file = std::env::temp_dir().join(format!("spinwire-picture-{}.svg", std::process::id()));
    let (ended, _) = Fabric::Shm.ping(&server.url, &format!("--count 500 --plot {}", file.display()));
    ended.expect_code(0);
    let picture = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(picture.contains("500 round trips: p50") && picture.trim_end().ends_with("</svg>"), "{picture}");
    let (ended, _) = Fabric::Shm.ping(&server.url, "--count 5 --plot /dev/full");
    ended.expect_code(3).expect("cannot write the picture to /dev/full");
    server.stop();
}

/// Starts the command with SIGHUP as `how` says, whatever this test was started with.
fn with_hangup(how: &str, arguments: &str) -> Running {
    let mut command = Command::new("env");
    command.arg(format!("--{how}-signal=HUP")).arg(SPINWIRE).args(arguments.split_whitespace());
    Running::command(command)
}

#[test]
fn a_terminal_that_closes_ends_both_sides_with_their_reports() {
    let _turn = alone();
    let (url, serve_file, ping_file) = (shm_name(), scratch("serve.json"), scratch("ping.json"));
    let serve = format!("echo serve --listen {url} --core {}", cpu(0));
    let mut server = with_hangup("default", &format!("{serve} --json {}", serve_file.display()));
    server.wait_for("listening on", PATIENCE);
    let ping = format!("echo ping {url} --core {} --seconds 100 --json {}", cpu(1), ping_file.display());
    let mut client = with_hangup("default", &ping);
    client.wait_for("connected", PATIENCE);
    client.signal("HUP");
    client.finish(PATIENCE).expect_code(129).expect("stopped by SIGHUP");
    let report = read_json(&ping_file);
    assert_eq!((&report["result"], &report["error"]), (&"interrupted".into(), &"SIGHUP".into()), "{report:#}");
    server.signal("HUP");
    server.finish(PATIENCE).expect_code(0);
    assert_eq!(read_json(&serve_file)["result"], "ok");

    // As under nohup.
    let mut kept = with_hangup("ignore", &serve);
    kept.wait_for("listening on", PATIENCE);
    kept.signal("HUP");
    Fabric::Shm.ping(&url, "--count 10").0.expect_code(0);
    kept.signal("INT");
    kept.finish(PATIENCE).expect_code(0);
}
