//! The echo over shared memory: what the lab runs over RDMA, from the same source.

mod both;
mod common;

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
