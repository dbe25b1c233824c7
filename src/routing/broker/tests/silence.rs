//! When a lane is silent, and when it is so no more.

use std::time::Duration;

use super::desk::{Desk, partition, rows};
use crate::routing::broker::{Input, Output};
use crate::routing::{Breaker, Class, Fault, Lane};

const SILENT: Output = Output::Silence {
    class: Class::Rack,
    silent: true,
};
const HEARD: Output = Output::Silence {
    class: Class::Rack,
    silent: false,
};

fn lost(class: Class) -> Input {
    Input::LinkLost { class, idle: false }
}

fn ready(class: Class) -> Input {
    Input::LinkReady {
        class,
        fetch_version: 12,
    }
}

/// A desk with one Fetch in flight.
fn waiting() -> Desk {
    let mut desk = Desk::new();
    desk.want(0, 0);
    desk.sent();
    desk
}

#[test]
fn an_unanswered_fetch_is_quiet_after_a_second_and_silent_at_its_hedge_deadline() {
    let mut desk = waiting();
    assert_eq!(desk.pass(999), []);
    assert_eq!(desk.pass(1), [Output::Quiet(Class::Rack)]);
    assert_eq!(desk.pass(1_499), []);
    assert_eq!(desk.pass(1), [SILENT]);
    assert_eq!(desk.pass(5_000), [], "silence is told once");
}

#[test]
fn deadlines_are_announced_to_the_host() {
    let mut desk = waiting();
    let begun = desk.now;
    for due in [1_000, 2_500] {
        let next = desk.broker.next_deadline().unwrap();
        assert_eq!(next.since(begun), Duration::from_millis(due));
        let wait = next.since(desk.now).as_millis();
        assert_eq!(desk.pass(u64::try_from(wait).unwrap()).len(), 1);
    }
}

#[test]
fn bytes_of_the_answer_move_the_hedge_deadline() {
    let mut desk = waiting();
    for _ in 0..4 {
        assert_eq!(desk.pass(900), []);
        desk.say(Input::Progress(Class::Rack));
    }
    assert_eq!(desk.pass(1_000), [Output::Quiet(Class::Rack)]);
    assert_eq!(desk.pass(999), []);
    assert_eq!(desk.pass(1), [SILENT], "two seconds after the last byte");
}

#[test]
fn bytes_on_another_connection_move_nothing() {
    let mut desk = waiting();
    desk.pass(2_400);
    desk.say(Input::Progress(Class::NoRack));
    desk.say(Input::Progress(Class::Control));
    assert_eq!(desk.pass(100), [SILENT]);
}

#[test]
fn a_late_answer_ends_the_silence_before_its_rows_are_told() {
    let mut desk = Desk::new();
    let stamp = desk.want(0, 0);
    let (ticket, _) = desk.sent();
    desk.pass(3_000);
    let outputs = desk.answer(ticket, 7, &[(0, 10)]);
    assert_eq!(outputs[0], HEARD);
    assert_eq!(rows(&outputs), [(0, stamp)]);
}

/// routing.md R40
#[test]
fn a_mute_moves_every_deadline_and_none_begins_while_it_lasts() {
    let mut desk = waiting();
    desk.pass(900);
    desk.say(Input::Muted(desk.now + Duration::from_secs(10)));
    assert_eq!(desk.pass(10_000), []);
    assert_eq!(desk.pass(100), [Output::Quiet(Class::Rack)]);
    assert_eq!(desk.pass(1_500), [SILENT]);

    let mut desk = Desk::new();
    desk.say(lost(Class::Rack));
    desk.say(Input::Muted(desk.now + Duration::from_secs(10)));
    desk.want(0, 0);
    assert_eq!(desk.outputs(), []);
    assert_eq!(desk.pass(9_999), []);
    assert_eq!(desk.pass(1), [Output::Dial(Class::Rack)]);
    assert_eq!(desk.pass(249), []);
    assert_eq!(desk.pass(1), [SILENT]);
}

/// What was wanted during a mute leaves when it ends, not when something else happens to fall due.
#[test]
fn the_end_of_a_mute_is_a_deadline_of_its_own() {
    let mut desk = waiting();
    let until = desk.now + Duration::from_secs(2);
    desk.say(Input::Muted(until));
    assert_eq!(desk.broker.next_deadline(), Some(until));
}

#[test]
fn a_connection_that_partitions_wait_for_is_silent_after_a_quarter_second() {
    let mut desk = Desk::new();
    desk.say(lost(Class::Rack));
    assert_eq!(desk.pass(60_000), [], "nobody waits for it");
    desk.want(0, 0);
    assert_eq!(desk.outputs(), [Output::Dial(Class::Rack)]);
    assert_eq!(desk.pass(200), []);
    desk.say(lost(Class::Rack));
    assert_eq!(desk.outputs(), [Output::Dial(Class::Rack)]);
    assert_eq!(desk.pass(49), []);
    assert_eq!(desk.pass(1), [SILENT], "a failed dial begins no new wait");
    desk.say(ready(Class::Rack));
    assert_eq!(desk.outputs()[0], HEARD);
}

#[test]
fn a_lost_connection_stays_silent_until_the_next_one_is_ready() {
    let mut desk = waiting();
    desk.pass(2_500);
    desk.say(lost(Class::Rack));
    assert_eq!(desk.outputs(), [Output::Dial(Class::Rack)]);
    assert_eq!(desk.pass(60_000), []);
    desk.say(ready(Class::Rack));
    let outputs = desk.outputs();
    assert_eq!(outputs[0], HEARD);
    assert!(matches!(outputs[1], Output::Send { .. }), "{outputs:?}");
    assert_eq!(desk.pass(2_500), [Output::Quiet(Class::Rack), SILENT]);
}

/// Whoever comes back to a broker finds out anew whether it answers.
#[test]
fn a_lane_nobody_waits_for_owes_nothing() {
    let mut desk = waiting();
    desk.pass(2_500);
    desk.say(Input::Withdraw {
        partition: partition(0),
        lane: Lane::Rack,
    });
    assert_eq!(desk.outputs(), [], "its Fetch is still out");
    desk.say(lost(Class::Rack));
    assert_eq!(desk.outputs(), [HEARD]);
    assert_eq!(desk.broker.next_deadline(), None);
}

#[test]
fn the_lanes_of_a_broker_are_silent_each_for_itself() {
    let mut desk = waiting();
    desk.say(lost(Class::NoRack));
    assert_eq!(desk.pass(2_500), [Output::Quiet(Class::Rack), SILENT]);
}

/// routing.md 9.2: a dial and one exchange, not a connection that merely stands.
#[test]
fn a_breaker_takes_no_silent_connection_for_a_broker_that_is_back() {
    let mut desk = Desk::new();
    for index in 0..3 {
        desk.want(index, 0);
    }
    desk.sent();
    desk.pass(2_500);
    for index in 0..3 {
        let (partition, lane) = (partition(index), Lane::Rack);
        desk.say(Input::Withdraw {
            partition: partition.clone(),
            lane,
        });
        let fault = Some(Fault::Slow);
        desk.say(Input::Cooling { partition, fault });
    }
    let opened = |outputs: &[Output]| {
        let open = |output: &Output| matches!(output, Output::Breaker(Breaker::Open(_)));
        outputs.iter().any(open)
    };
    assert!(opened(&desk.outputs()));
    assert_eq!(desk.pass(1_000), [Output::Hangup(Class::Rack)]);
    desk.say(lost(Class::Rack));
    assert!(opened(&desk.outputs()), "that was its first dial");
    assert_eq!(desk.pass(2_000), [Output::Dial(Class::Rack)]);
    desk.say(ready(Class::Rack));
    let outputs = desk.outputs();
    assert!(
        outputs.contains(&Output::Breaker(Breaker::Readmitting)),
        "{outputs:?}"
    );
    let permits = |output: &&Output| matches!(output, Output::Permit(_));
    assert_eq!(outputs.iter().filter(permits).count(), 1);
}
