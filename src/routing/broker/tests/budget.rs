//! Fetches wait for the byte budget.

use super::desk::{Desk, partition, response};
use crate::budget::Budget;
use crate::routing::broker::{Input, Output, Settings};
use crate::routing::{Class, Lane};

const MIB: usize = 1 << 20;
const AWAIT: Output = Output::AwaitBudget {
    class: Class::Rack,
    bytes: 2 * MIB,
};

fn desk(budget: &Budget) -> Desk {
    Desk::with(Settings {
        budget: budget.clone(),
        ..Settings::default()
    })
}

#[test]
fn a_fetch_asks_for_what_its_partitions_may_bring_and_as_much_is_charged() {
    let budget = Budget::new(64 * MIB);
    let mut desk = desk(&budget);
    desk.want(0, 10);
    desk.want(1, 10);
    let (ticket, request) = desk.sent();
    assert_eq!(request.max_bytes, 2 << 20);
    assert_eq!(budget.charged(), 2 * MIB);
    let outputs = desk.answer(ticket, 7, &[(0, 300), (1, 0)]);
    assert_eq!(budget.charged(), 300, "the records are on their way");
    drop(outputs);
    assert_eq!(budget.charged(), 0);
}

#[test]
fn one_request_asks_for_no_more_than_it_may_however_many_partitions_there_are() {
    let budget = Budget::new(64 * MIB);
    let mut desk = desk(&budget);
    for index in 0..40 {
        desk.want(index, 10);
    }
    assert_eq!(desk.sent().1.max_bytes, 16 << 20);
    assert_eq!(budget.charged(), 16 * MIB);
}

/// wire.md 4.2: no Fetch leaves until an overdraft is repaid.
#[test]
fn without_room_nothing_leaves_and_the_host_is_told_once() {
    let budget = Budget::new(8 * MIB);
    let taken = budget.charge(9 * MIB);
    let mut desk = desk(&budget);
    desk.want(0, 10);
    desk.want(1, 10);
    assert_eq!(desk.outputs(), [AWAIT]);
    assert_eq!(desk.pass(900), [], "waiting is no silence of the broker");
    taken.settle(7 * MIB);
    desk.say(Input::Budget(Class::Rack));
    assert_eq!(desk.sent().1.max_bytes, 1 << 20, "what is left");
}

/// Handlers that are stuck for good on all there may be do not stop the others for good.
#[test]
fn a_lane_that_waits_in_vain_takes_a_crumb_a_second_and_is_told_of_once() {
    let budget = Budget::new(8 * MIB);
    let _stuck = budget.charge(9 * MIB);
    let mut desk = desk(&budget);
    desk.want(0, 10);
    desk.want(1, 10);
    assert_eq!(desk.outputs(), [AWAIT]);
    for _ in 0..3 {
        assert_eq!(desk.pass(999), []);
        desk.now = desk.now + std::time::Duration::from_millis(1);
        desk.say(Input::Tick);
        let (ticket, request) = desk.sent();
        assert_eq!(request.max_bytes, 64 << 10);
        drop(desk.answer(ticket, 7, &[]));
        assert_eq!(budget.charged(), 9 * MIB);
    }
}

#[test]
fn a_lane_without_work_leaves_its_part_to_the_others() {
    let budget = Budget::new(8 * MIB);
    let mut desk = desk(&budget);
    for index in 0..20 {
        desk.want(index, 10);
    }
    desk.sent();
    let _other = budget.seat();
    assert!(budget.take(16 * MIB).is_none(), "all is taken");
    for index in 0..20 {
        desk.say(Input::Withdraw {
            partition: partition(index),
            lane: Lane::Rack,
        });
    }
    desk.say(Input::LinkLost {
        class: Class::Rack,
        idle: false,
    });
    drop(desk.outputs());
    assert_eq!(budget.take(16 * MIB).unwrap().bytes(), 8 * MIB);
}

#[test]
fn a_lost_connection_gives_back_what_its_fetch_was_granted() {
    let budget = Budget::new(8 * MIB);
    let mut desk = desk(&budget);
    desk.want(0, 10);
    desk.sent();
    assert_eq!(budget.charged(), MIB);
    desk.say(Input::LinkLost {
        class: Class::Rack,
        idle: false,
    });
    assert_eq!(budget.charged(), 0);
}

/// An answer as large as its grant says nothing about who is missing in it.
#[test]
fn an_answer_that_fills_a_small_grant_is_inconclusive() {
    let budget = Budget::new(8 * MIB);
    let taken = budget.charge(8 * MIB - (64 << 10));
    let mut desk = desk(&budget);
    desk.want(0, 10);
    assert_eq!(desk.outputs().len(), 1);
    taken.settle(7 * MIB + (512 << 10));
    desk.say(Input::Budget(Class::Rack));
    let (ticket, request) = desk.sent();
    assert_eq!(request.max_bytes, 512 << 10);
    let response = response(7, &[(0, 512 << 10)]);
    desk.say(Input::Answered { ticket, response });
    let full = |output: &Output| {
        matches!(
            output,
            Output::Row {
                inconclusive: true,
                ..
            }
        )
    };
    assert!(desk.outputs().iter().any(full));
}
