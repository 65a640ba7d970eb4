//! One-sided operations over shared memory: what the lab runs over RDMA, from the same source.

#[path = "both/one_sided/mod.rs"]
mod both;
mod common;

use common::fabric::Fabric;

#[test]
fn each_operation_does_what_it_says() {
    both::each_operation_does_what_it_says(Fabric::Shm);
}

#[test]
fn what_is_written_before_a_message_is_there_when_it_comes() {
    both::what_is_written_before_a_message_is_there_when_it_comes(Fabric::Shm);
}

#[test]
fn what_the_token_does_not_allow_is_refused_at_once() {
    both::what_the_token_does_not_allow_is_refused_at_once(Fabric::Shm);
}

#[test]
fn what_the_owner_does_not_allow_ends_the_connection_with_the_reason() {
    both::what_the_owner_does_not_allow_ends_the_connection_with_the_reason(Fabric::Shm);
}

#[test]
fn two_programs_count_up_one_word_and_nothing_is_lost() {
    both::two_programs_count_up_one_word_and_nothing_is_lost(Fabric::Shm);
}

#[test]
fn either_side_may_be_killed_in_the_middle() {
    both::either_side_may_be_killed_in_the_middle(Fabric::Shm);
}

#[test]
fn visits_leave_nothing_behind() {
    both::visits_leave_nothing_behind(Fabric::Shm);
}
