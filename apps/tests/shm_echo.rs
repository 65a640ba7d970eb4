//! The echo over shared memory: what the lab runs over RDMA, from the same source.

mod both;
mod common;

use both::expect_all;
use common::fabric::Fabric;

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
            let arguments =
                format!("--size {size} --depth 4 --connections 2 --count 200 --verify --pages thp,4k {ping}");
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
