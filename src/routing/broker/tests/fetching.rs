//! Demands in, requests out, answers split.

use std::slice::from_ref;
use std::time::Duration;

use super::desk::{Desk, demand, indexes, partition, response, rows};
use crate::routing::broker::{Count, Input, Output, ProbeShare, Settings};
use crate::routing::{Class, Demand, Kind, Lane, ProbeId, Role, Stamp};

#[test]
fn a_lot_of_demands_leaves_in_one_request_and_one_fetch_flies() {
    let mut desk = Desk::new();
    for index in 0..5 {
        desk.want(index, 0);
    }
    let (_, request) = desk.sent();
    assert_eq!(indexes(&request), [0, 1, 2, 3, 4]);
    assert_eq!((request.session_id, request.session_epoch), (0, 0));
    desk.want(5, 0);
    assert_eq!(desk.outputs(), [], "one Fetch per lane");
}

#[test]
fn an_incremental_request_names_only_what_changed() {
    let mut desk = Desk::new();
    for index in 0..1_000 {
        desk.want(index, 0);
    }
    let (ticket, _) = desk.sent();
    let all: Vec<_> = (0..1_000).map(|index| (index, 0)).collect();
    desk.answer(ticket, 7, &all);
    for index in 0..1_000 {
        desk.want(index, 0);
    }
    let (ticket, request) = desk.sent();
    assert_eq!((request.session_id, request.session_epoch), (7, 1));
    assert!(request.partitions.is_empty(), "the session knows them all");
    let outputs = desk.answer(ticket, 7, &[(17, 10)]);
    assert_eq!(rows(&outputs).len(), 1);
    desk.want(17, 10);
    let (_, request) = desk.sent();
    assert_eq!(indexes(&request), [17]);
    assert!(request.forgotten.is_empty());
}

#[test]
fn the_next_fetch_waits_for_those_who_got_rows_and_then_forgets_them() {
    let mut desk = Desk::new();
    desk.want(0, 0);
    desk.want(1, 0);
    let (ticket, _) = desk.sent();
    desk.answer(ticket, 7, &[(0, 10), (1, 10)]);
    desk.want(0, 10);
    assert_eq!(desk.outputs(), [], "1 has no room yet");
    assert_eq!(desk.pass(499), []);
    let outputs = desk.pass(1);
    assert!(outputs.contains(&Output::Count(Count::HoldEnded)));
    let Some(Output::Send { request, .. }) = outputs.last() else {
        panic!("{outputs:?}");
    };
    assert_eq!(indexes(request), [0]);
    assert_eq!(request.forgotten[0].partition.0, 1);
}

#[test]
fn a_withdrawal_ends_the_hold_at_once() {
    let mut desk = Desk::new();
    desk.want(0, 0);
    desk.want(1, 0);
    let (ticket, _) = desk.sent();
    desk.answer(ticket, 7, &[(0, 10), (1, 10)]);
    desk.want(0, 10);
    desk.say(Input::Withdraw {
        partition: partition(1),
        lane: Lane::Rack,
    });
    let (_, request) = desk.sent();
    assert_eq!((indexes(&request), request.forgotten.len()), (vec![0], 1));
}

#[test]
fn a_row_carries_the_stamp_it_was_asked_with() {
    let mut desk = Desk::new();
    let old = desk.want(0, 0);
    let (ticket, _) = desk.sent();
    let new = desk.want(0, 500);
    let outputs = desk.answer(ticket, 7, &[(0, 10)]);
    assert_eq!(rows(&outputs), [(0, old)]);
    let Some(Output::Send { request, .. }) = outputs.last() else {
        panic!("the newer demand stands: {outputs:?}");
    };
    assert_eq!(request.partitions[0].fetch_offset, new.offset);
}

#[test]
fn a_drain_hands_in_the_row_in_flight_or_says_that_there_is_none() {
    let drain = Input::Drain {
        partition: partition(0),
        lane: Lane::Rack,
    };
    let mut desk = Desk::new();
    let stamp = desk.want(0, 0);
    desk.say(drain.clone());
    let drained = Output::Drained {
        partition: partition(0),
        stamp,
    };
    assert_eq!(desk.outputs(), from_ref(&drained), "nothing was sent");

    desk.want(0, 0);
    let (ticket, _) = desk.sent();
    desk.say(drain.clone());
    assert_eq!(desk.outputs(), []);
    let outputs = desk.answer(ticket, 7, &[(0, 10)]);
    assert_eq!(rows(&outputs), [(0, stamp)]);
    assert!(!outputs.contains(&drained));

    desk.want(0, 0);
    let (ticket, _) = desk.sent();
    desk.say(drain.clone());
    assert_eq!(
        desk.answer(ticket, 7, &[]),
        from_ref(&drained),
        "the row was omitted"
    );

    desk.want(0, 0);
    desk.sent();
    desk.say(drain);
    desk.say(Input::LinkLost {
        class: Class::Rack,
        idle: false,
    });
    assert!(desk.outputs().contains(&drained), "no answer will come");
}

#[test]
fn a_drain_taken_back_keeps_the_fetch_in_flight() {
    let mut desk = Desk::new();
    let stamp = desk.want(0, 0);
    let (ticket, _) = desk.sent();
    desk.say(Input::Drain {
        partition: partition(0),
        lane: Lane::Rack,
    });
    desk.want(0, 0);
    let outputs = desk.answer(ticket, 7, &[(0, 10)]);
    assert_eq!(rows(&outputs), [(0, stamp)]);
    assert_eq!(desk.broker.demands(), (0, 0), "the row consumed the demand");
}

#[test]
fn rows_nobody_waits_for_are_counted_as_wasted() {
    let mut desk = Desk::new();
    desk.want(0, 0);
    let (ticket, _) = desk.sent();
    desk.say(Input::Withdraw {
        partition: partition(0),
        lane: Lane::Rack,
    });
    let outputs = desk.answer(ticket, 7, &[(0, 33)]);
    assert_eq!(rows(&outputs), []);
    let wasted = |output: &Output| matches!(output, Output::Count(Count::Wasted { bytes: 33, .. }));
    assert!(outputs.iter().any(wasted));
}

#[test]
fn a_row_of_a_stranger_resets_the_session() {
    let mut desk = Desk::new();
    desk.want(0, 0);
    let (ticket, _) = desk.sent();
    let outputs = desk.answer(ticket, 7, &[(0, 10), (44, 10)]);
    assert!(outputs.contains(&Output::Count(Count::UnaskedRow)));
    desk.want(0, 10);
    let (_, request) = desk.sent();
    assert_eq!((request.session_id, request.session_epoch), (7, 0));
}

/// wire.md 7 D7
#[test]
fn of_two_rows_of_one_partition_the_first_counts_and_the_session_starts_over() {
    let mut desk = Desk::new();
    let stamp = desk.want(0, 0);
    let (ticket, _) = desk.sent();
    let outputs = desk.answer(ticket, 7, &[(0, 10), (0, 20)]);
    assert_eq!(rows(&outputs), [(0, stamp)]);
    assert!(outputs.contains(&Output::Count(Count::UnaskedRow)));
    desk.want(0, 10);
    let (_, request) = desk.sent();
    assert_eq!((request.session_id, request.session_epoch), (7, 0));
}

#[test]
fn a_lost_connection_starts_the_session_over_with_every_demand() {
    let mut desk = Desk::new();
    desk.want(0, 0);
    desk.want(1, 0);
    let (ticket, _) = desk.sent();
    desk.answer(ticket, 7, &[(0, 0), (1, 0)]);
    desk.want(0, 0);
    desk.want(1, 0);
    desk.sent();
    desk.say(Input::LinkLost {
        class: Class::Rack,
        idle: false,
    });
    assert_eq!(desk.outputs(), [Output::Dial(Class::Rack)]);
    desk.say(Input::LinkReady {
        class: Class::Rack,
        fetch_version: 12,
    });
    let (_, request) = desk.sent();
    assert_eq!((request.session_id, request.session_epoch), (7, 0));
    assert_eq!(indexes(&request), [0, 1]);
}

#[test]
fn full_requests_ask_last_for_whom_was_served_last() {
    let mut desk = Desk::new();
    for index in 0..3 {
        desk.want(index, 0);
    }
    let (ticket, _) = desk.sent();
    // Session id 0: the broker has no slot, so every request is full.
    desk.answer(ticket, 0, &[(0, 10), (1, 0), (2, 0)]);
    for index in 0..3 {
        desk.want(index, 10);
    }
    let (_, request) = desk.sent();
    assert_eq!(request.session_epoch, -1);
    assert_eq!(indexes(&request), [1, 2, 0]);
}

#[test]
fn a_muted_broker_is_asked_nothing() {
    let mut desk = Desk::new();
    desk.say(Input::Muted(desk.now + Duration::from_secs(2)));
    desk.want(0, 0);
    assert_eq!(desk.outputs(), []);
    assert_eq!(
        desk.broker.next_deadline(),
        Some(desk.now + Duration::from_secs(2))
    );
    assert_eq!(desk.pass(2_000).len(), 1);
}

#[test]
fn an_unused_session_is_closed_after_a_minute() {
    let mut desk = Desk::new();
    desk.want(0, 0);
    let (ticket, _) = desk.sent();
    desk.answer(ticket, 7, &[(0, 10)]);
    desk.say(Input::Withdraw {
        partition: partition(0),
        lane: Lane::Rack,
    });
    assert_eq!(desk.outputs(), []);
    let due = desk.broker.next_deadline().unwrap();
    assert_eq!(due.since(desk.now), Duration::from_secs(60));
    let outputs = desk.pass(60_000);
    let [Output::Send { request, .. }] = &outputs[..] else {
        panic!("{outputs:?}");
    };
    assert_eq!((request.session_id, request.session_epoch), (7, -1));
    assert_eq!(desk.broker.next_deadline(), None);
}

#[test]
fn eight_probes_leave_in_one_request_and_the_rest_wait_for_its_answer() {
    let mut desk = Desk::new();
    for index in 0..10 {
        let kind = Kind::Probe(ProbeId(1));
        let stamp = Stamp {
            kind,
            role: Role::Leader,
            ..demand(0).stamp
        };
        let question = Demand { stamp, ..demand(0) };
        desk.say(Input::Probe {
            partition: partition(index),
            question,
        });
    }
    let (ticket, request) = desk.sent();
    assert_eq!((request.partitions.len(), request.max_bytes), (8, 1));
    assert_eq!((request.session_id, request.session_epoch), (0, -1));
    assert_eq!(request.max_wait, Duration::ZERO);
    let answered: Vec<_> = (0..7).map(|index| (index, 0)).collect();
    let outputs = desk.answer(ticket, 0, &answered);
    let probed = |output: &&Output| matches!(output, Output::ProbeRow { .. });
    assert_eq!(outputs.iter().filter(probed).count(), 7);
    let failed = |output: &&Output| matches!(output, Output::ProbeFailed { .. });
    assert_eq!(
        outputs.iter().filter(failed).count(),
        1,
        "no row came for it"
    );
    let Some(Output::Send { request, .. }) = outputs.last() else {
        panic!("{outputs:?}");
    };
    assert_eq!(indexes(request), [8, 9]);
    let outputs = desk.pass(2_000);
    assert_eq!(outputs.iter().filter(failed).count(), 2);
    assert!(outputs.contains(&Output::Hangup(Class::Control)));
}

#[test]
fn probes_keep_to_their_share_of_the_rate() {
    let mut desk = Desk::new();
    desk.say(Input::ProbeShare(ProbeShare {
        per_second: 10.0,
        tokens: 0.0,
    }));
    let mut asked = 0;
    for round in 0..600 {
        let kind = Kind::Probe(ProbeId(round));
        let stamp = Stamp {
            kind,
            ..demand(0).stamp
        };
        let question = Demand { stamp, ..demand(0) };
        desk.say(Input::Probe {
            partition: partition(0),
            question,
        });
        for output in desk.pass(10) {
            if let Output::Send { ticket, .. } = output {
                asked += 1;
                desk.answer(ticket, 0, &[(0, 0)]);
            }
        }
    }
    // Six seconds at ten a second, and one second's worth at once.
    assert!((60..=71).contains(&asked), "{asked}");
}

#[test]
fn an_answer_about_every_member_is_told_at_most_every_quarter_second() {
    let told = |outputs: Vec<Output>| outputs.contains(&Output::Answered(Class::Rack));
    let mut desk = Desk::new();
    let mut times = Vec::new();
    for round in 0..20 {
        desk.want(0, round);
        let (ticket, _) = desk.sent();
        desk.pass(50);
        let response = response(7, &[(0, 0)]);
        desk.say(Input::Answered { ticket, response });
        if told(desk.outputs()) {
            times.push(round);
        }
    }
    assert_eq!(times, [0, 5, 10, 15]);

    let mut desk = Desk::with(Settings {
        max_bytes: 10,
        ..Settings::default()
    });
    desk.want(0, 0);
    let (ticket, _) = desk.sent();
    let response = response(7, &[(0, 10)]);
    desk.say(Input::Answered { ticket, response });
    assert!(!told(desk.outputs()), "others may have found no room");
}

#[test]
fn a_probe_taken_back_before_it_left_leaves_no_deadline_behind() {
    let mut desk = Desk::new();
    desk.say(Input::LinkLost {
        class: Class::Control,
        idle: true,
    });
    let question = demand(0);
    let partition = partition(0);
    desk.say(Input::Probe {
        partition: partition.clone(),
        question,
    });
    desk.outputs();
    desk.say(Input::CancelProbe { partition });
    for _ in 0..10 {
        desk.pass(1_000);
    }
    assert_nothing_is_past(&desk);
}

#[test]
fn a_probe_that_waits_for_its_connection_is_not_due_for_a_token() {
    let mut desk = Desk::new();
    desk.say(Input::ProbeShare(ProbeShare {
        per_second: 1.0,
        tokens: 0.0,
    }));
    desk.say(Input::LinkLost {
        class: Class::Control,
        idle: true,
    });
    desk.say(Input::Probe {
        partition: partition(0),
        question: demand(0),
    });
    for _ in 0..15 {
        desk.pass(100);
        assert_nothing_is_past(&desk);
    }
}

#[test]
fn a_request_that_is_refused_is_not_repeated_at_once() {
    let mut desk = Desk::new();
    desk.want(0, 0);
    let (ticket, _) = desk.sent();
    desk.say(Input::Failed { ticket });
    assert_eq!(desk.outputs(), [], "the same would be refused again");
    assert_eq!(desk.pass(99), []);
    assert_eq!(desk.pass(1).len(), 1);
}

#[test]
fn a_mute_puts_off_what_a_refusal_put_off_already() {
    let mut desk = Desk::new();
    desk.want(0, 0);
    let (ticket, _) = desk.sent();
    desk.say(Input::Failed { ticket });
    let until = desk.now + Duration::from_secs(1);
    desk.say(Input::Muted(until));
    assert_eq!(desk.pass(500), []);
    assert_nothing_is_past(&desk);
    assert_eq!(desk.pass(600).len(), 1);
}

#[test]
fn a_question_that_waits_for_its_connection_falls_not_due_during_a_mute() {
    let mut desk = Desk::new();
    let idle = true;
    let class = Class::Control;
    desk.say(Input::LinkLost { class, idle });
    desk.say(Input::Probe {
        partition: partition(0),
        question: demand(0),
    });
    desk.outputs();
    desk.say(Input::Muted(desk.now + Duration::from_secs(10)));
    for _ in 0..9 {
        desk.pass(1_000);
        assert_nothing_is_past(&desk);
    }
}

/// A deadline in the past would wake its host without end.
fn assert_nothing_is_past(desk: &Desk) {
    let due = desk.broker.next_deadline();
    assert!(due.is_none_or(|due| due > desk.now), "{due:?} is past");
}
