//! Codes that concern the connection or the session (routing.md 10).

use super::desk::{Desk, demand, partition, refusal};
use crate::routing::broker::{Input, Output};
use crate::routing::{Class, Role};

/// A row that was asked for in this role comes with `code`.
fn refused(role: Role, code: i16) -> (Desk, Vec<Output>) {
    let mut desk = Desk::new();
    let mut demand = demand(0);
    demand.stamp.role = role;
    let partition = partition(0);
    desk.say(Input::Want { partition, demand });
    let (ticket, _) = desk.sent();
    let response = refusal(0, code);
    desk.say(Input::Answered { ticket, response });
    let outputs = desk.outputs();
    (desk, outputs)
}

#[test]
fn a_leader_that_was_rolled_back_is_asked_for_its_versions_anew() {
    let hangup = Output::Hangup(Class::Rack);
    let (_, outputs) = refused(Role::Leader, 35);
    assert!(outputs.contains(&hangup), "{outputs:?}");
    let (_, outputs) = refused(Role::Follower, 35);
    assert!(!outputs.contains(&hangup), "a follower cools instead");
}

#[test]
fn a_whole_answer_that_knows_no_version_ends_the_connection() {
    let mut desk = Desk::new();
    desk.want(0, 0);
    let (ticket, _) = desk.sent();
    let response = refusal(35, 0);
    desk.say(Input::Answered { ticket, response });
    assert!(desk.outputs().contains(&Output::Hangup(Class::Rack)));
    assert_eq!(desk.pass(900), [], "not at network speed");
}

#[test]
fn a_topic_id_the_broker_disagrees_with_starts_the_session_over() {
    let (mut desk, _) = refused(Role::Leader, 103);
    desk.want(0, 0);
    let (_, request) = desk.sent();
    assert_eq!((request.session_id, request.session_epoch), (7, 0));
}
