//! Hedges: one sessionless request to the leader, beside everything else (routing.md 8.5).

use std::time::Duration;

use super::desk::{Desk, demand, indexes, partition};
use crate::routing::broker::{Count, Input, Output, Settings, Traffic};
use crate::routing::{Class, Demand, HedgeId, Kind, Role, Stamp};

fn hedge(desk: &mut Desk, index: i32, id: u32) -> Stamp {
    let stamp = Stamp {
        kind: Kind::Hedge(HedgeId(id)),
        role: Role::Leader,
        ..demand(40).stamp
    };
    let question = Demand {
        stamp,
        ..demand(40)
    };
    desk.say(Input::Hedge {
        partition: partition(index),
        question,
    });
    stamp
}

fn hedged(outputs: &[Output]) -> Vec<(i32, Stamp)> {
    let rows = outputs.iter().filter_map(|output| {
        let Output::HedgeRow {
            partition, stamp, ..
        } = output
        else {
            return None;
        };
        Some((partition.partition.0, *stamp))
    });
    rows.collect()
}

fn failed(outputs: &[Output]) -> Vec<i32> {
    let failed = outputs.iter().filter_map(|output| {
        let Output::HedgeFailed { partition, .. } = output else {
            return None;
        };
        Some(partition.partition.0)
    });
    failed.collect()
}

#[test]
fn all_due_hedges_leave_in_one_request_without_session_rack_or_wait() {
    let settings = Settings {
        rack: Some("b".into()),
        ..Settings::default()
    };
    let mut desk = Desk::with(settings);
    for index in 0..500 {
        hedge(&mut desk, index, 1);
    }
    let outputs = desk.outputs();
    let [Output::Send { class, request, .. }] = &outputs[..] else {
        panic!("{outputs:?}");
    };
    assert_eq!(*class, Class::Control);
    assert_eq!(request.partitions.len(), 500);
    assert_eq!((request.session_id, request.session_epoch), (0, -1));
    assert_eq!((request.max_wait, request.min_bytes), (Duration::ZERO, 1));
    assert_eq!(request.max_bytes, 16 << 20);
    assert_eq!((request.rack.clone(), request.version_limit), (None, None));
    let row = &request.partitions[0];
    assert_eq!((row.fetch_offset.0, row.max_bytes), (40, 1 << 20));
}

#[test]
fn rows_go_to_their_hedges_and_their_bytes_are_counted_as_such() {
    let mut desk = Desk::new();
    let stamps = [0, 1].map(|index| hedge(&mut desk, index, 9));
    let (ticket, _) = desk.sent();
    hedge(&mut desk, 2, 9);
    assert_eq!(desk.outputs(), [], "one hedge request per leader");
    let outputs = desk.answer(ticket, 0, &[(0, 100), (1, 0)]);
    assert_eq!(hedged(&outputs), [(0, stamps[0]), (1, stamps[1])]);
    let bytes = Count::Bytes {
        traffic: Traffic::Hedge,
        bytes: 100,
    };
    assert!(outputs.contains(&Output::Count(bytes)));
    let Some(Output::Send { request, .. }) = outputs.last() else {
        panic!("the one that waited is due: {outputs:?}");
    };
    assert_eq!(indexes(request), [2]);
}

#[test]
fn a_hedge_taken_back_gets_no_row_and_its_bytes_are_wasted() {
    let mut desk = Desk::new();
    hedge(&mut desk, 0, 1);
    let kept = hedge(&mut desk, 1, 1);
    let (ticket, _) = desk.sent();
    desk.say(Input::CancelHedge {
        partition: partition(0),
    });
    let outputs = desk.answer(ticket, 0, &[(0, 33), (1, 10)]);
    assert_eq!(hedged(&outputs), [(1, kept)]);
    let wasted = |output: &Output| matches!(output, Output::Count(Count::Wasted { bytes: 33, .. }));
    assert!(outputs.iter().any(wasted), "{outputs:?}");
}

#[test]
fn a_hedge_without_a_row_has_failed() {
    let mut desk = Desk::new();
    for index in [0, 1] {
        hedge(&mut desk, index, 1);
    }
    let (ticket, _) = desk.sent();
    assert_eq!(failed(&desk.answer(ticket, 0, &[(1, 10)])), [0]);
}

#[test]
fn an_unanswered_hedge_fails_and_ends_the_connection() {
    let mut desk = Desk::new();
    hedge(&mut desk, 0, 1);
    desk.sent();
    assert_eq!(desk.pass(1_999), []);
    let outputs = desk.pass(1);
    assert_eq!(failed(&outputs), [0]);
    assert_eq!(outputs.last(), Some(&Output::Hangup(Class::Control)));
}

#[test]
fn a_hedge_whose_bytes_arrive_is_given_time() {
    let mut desk = Desk::new();
    let stamp = hedge(&mut desk, 0, 1);
    let (ticket, _) = desk.sent();
    for _ in 0..5 {
        assert_eq!(desk.pass(1_500), []);
        desk.say(Input::Progress(Class::Control));
    }
    let outputs = desk.answer(ticket, 0, &[(0, 1_000)]);
    assert_eq!(hedged(&outputs), [(0, stamp)]);
}

#[test]
fn hedges_dial_the_control_connection_and_do_not_wait_for_it_for_ever() {
    let mut desk = Desk::new();
    desk.say(Input::LinkLost {
        class: Class::Control,
        idle: true,
    });
    hedge(&mut desk, 0, 1);
    assert_eq!(desk.outputs(), [Output::Dial(Class::Control)]);
    assert_eq!(desk.pass(1_999), []);
    assert_eq!(failed(&desk.pass(1)), [0]);
    assert_eq!(desk.broker.next_deadline(), None);
}

#[test]
fn a_hedge_taken_back_before_it_left_leaves_no_deadline_behind() {
    let mut desk = Desk::new();
    desk.say(Input::LinkLost {
        class: Class::Control,
        idle: true,
    });
    hedge(&mut desk, 0, 1);
    desk.outputs();
    let partition = partition(0);
    desk.say(Input::CancelHedge { partition });
    assert_eq!(desk.broker.next_deadline(), None);
    desk.pass(1_500);
    hedge(&mut desk, 1, 2);
    assert_eq!(
        failed(&desk.pass(1_500)),
        [] as [i32; 0],
        "it waits its own time"
    );
}

#[test]
fn hedges_fail_with_their_connection() {
    let mut desk = Desk::new();
    hedge(&mut desk, 0, 1);
    desk.sent();
    hedge(&mut desk, 1, 1);
    desk.say(Input::LinkLost {
        class: Class::Control,
        idle: false,
    });
    assert_eq!(failed(&desk.outputs()), [0, 1]);
}

/// routing.md 6: a leader that hints although it was told no rack is asked in a version without
/// hints.
#[test]
fn hedges_speak_v10_where_the_no_rack_lane_does() {
    let mut desk = Desk::new();
    desk.say(Input::DropLane);
    hedge(&mut desk, 0, 1);
    let (_, request) = desk.sent_beside(&Output::V10(true));
    assert_eq!(request.version_limit, Some(10));
}
