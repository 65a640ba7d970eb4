//! How connections are made, refused and ended over real RDMA. Run by `ci/vm`.

#[path = "both/connections/mod.rs"]
mod both;
mod common;

use common::fabric::Fabric;

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn both_sides_see_the_same_events_in_the_same_order() {
    both::both_sides_see_the_same_events_in_the_same_order(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn the_application_refuses_with_a_number_of_its_own() {
    both::the_application_refuses_with_a_number_of_its_own(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn nobody_listens_is_told_as_that() {
    both::nobody_listens_is_told_as_that(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn what_is_sent_before_a_close_arrives_before_it() {
    both::what_is_sent_before_a_close_arrives_before_it(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn the_server_may_be_the_one_that_closes() {
    both::the_server_may_be_the_one_that_closes(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn both_may_close_at_once_and_each_is_told_once() {
    both::both_may_close_at_once_and_each_is_told_once(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_signal_stops_the_server_which_says_goodbye() {
    both::a_signal_stops_the_server_which_says_goodbye(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_server_that_does_not_answer_is_given_up() {
    both::a_server_that_does_not_answer_is_given_up(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn an_answer_in_place_is_no_longer_than_its_message() {
    both::an_answer_in_place_is_no_longer_than_its_message(Fabric::Rdma);
}
