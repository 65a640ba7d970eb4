//! One-sided operations over real RDMA. Run by `ci/vm`.

#[path = "both/one_sided/mod.rs"]
mod both;
mod common;

use common::fabric::Fabric;

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn each_operation_does_what_it_says() {
    both::each_operation_does_what_it_says(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn what_is_written_before_a_message_is_there_when_it_comes() {
    both::what_is_written_before_a_message_is_there_when_it_comes(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn what_the_token_does_not_allow_is_refused_at_once() {
    both::what_the_token_does_not_allow_is_refused_at_once(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn what_the_owner_does_not_allow_ends_the_connection_with_the_reason() {
    both::what_the_owner_does_not_allow_ends_the_connection_with_the_reason(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn two_programs_count_up_one_word_and_nothing_is_lost() {
    both::two_programs_count_up_one_word_and_nothing_is_lost(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn either_side_may_be_killed_in_the_middle() {
    both::either_side_may_be_killed_in_the_middle(Fabric::Rdma);
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn visits_leave_nothing_behind() {
    both::visits_leave_nothing_behind(Fabric::Rdma);
}
