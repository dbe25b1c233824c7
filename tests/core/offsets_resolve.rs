//! Leader-side resolution on the embedded cluster.

use std::time::Duration;

use nearside::embedded::{Api, Record, Rule};
use nearside::group::Input as MemberInput;
use nearside::ids::{BrokerId, Offset};
use nearside::offsets::resolve::{Outcome, Question, Reset, ResetCause};

use crate::group_rig::{Rig, partition};

const SECOND: Duration = Duration::from_secs(1);

fn records(count: usize) -> Vec<Record> {
    (0..count)
        .map(|index| Record::of(format!("record {index}")))
        .collect()
}

fn requests(rig: &Rig, api: Api) -> u64 {
    (1..=3)
        .map(|broker| rig.cluster.requests(BrokerId(broker), api))
        .sum()
}

/// runtime.md 18, 50.
#[test]
fn a_thousand_partitions_without_commits_take_one_question_per_leader() {
    let mut rig = Rig::new(1_000);
    let node = rig.start(|_| {});
    rig.run_for(SECOND);
    assert_eq!(rig.owned(node).len(), 1_000);
    rig.cluster.inject(
        Rule::error(78)
            .on(Api::ListOffsets)
            .of(partition(7))
            .times(1),
    );
    for index in 0..1_000 {
        rig.ask(node, &partition(index), 1, Question::Start);
    }
    rig.run_for(Duration::from_millis(20));
    assert_eq!(requests(&rig, Api::OffsetFetch), 1);
    assert_eq!(requests(&rig, Api::ListOffsets), 3);
    assert_eq!(rig.nodes[node].resolved.len(), 999);
    rig.run_for(SECOND);
    assert_eq!(
        requests(&rig, Api::ListOffsets),
        4,
        "the failing row is asked again alone"
    );
    let outcome = Outcome::Reset {
        offset: Offset(0),
        cause: ResetCause::NoCommit,
    };
    assert_eq!(
        rig.nodes[node].resolved.last(),
        Some(&(partition(7), outcome))
    );
}

/// runtime.md 18, 51.
#[test]
fn an_answer_of_a_former_assignment_is_dropped_and_the_new_question_decides() {
    let mut rig = Rig::new(4);
    rig.cluster.create_topic("other", 1, 3).unwrap();
    rig.refresh();
    let first = rig.start(|_| {});
    rig.run_for(SECOND);
    let delayed = nearside::embedded::Effect::Delay(SECOND * 2);
    rig.cluster
        .inject(Rule::new(delayed).on(Api::ListOffsets).times(1));
    rig.ask(first, &partition(2), 1, Question::Start);
    rig.run_for(Duration::from_millis(100));
    // The partition goes and comes back while the answer is on its way.
    rig.tell_member(first, MemberInput::Subscribe(["other".into()].into()));
    rig.run_for(Duration::from_millis(200));
    assert_eq!(rig.owned(first), [0], "of the other topic");
    rig.tell_member(first, MemberInput::Subscribe(["orders".into()].into()));
    rig.run_for(Duration::from_millis(200));
    rig.cluster.produce(&partition(2), &records(5)).unwrap();
    rig.ask(first, &partition(2), 1, Question::Start);
    rig.run_for(SECOND * 5);
    let stale = rig
        .log(first)
        .iter()
        .filter(|line| line.starts_with("StaleAnswer"))
        .count();
    assert_eq!(stale, 1, "{:#?}", rig.log(first));
    let outcome = Outcome::Reset {
        offset: Offset(5),
        cause: ResetCause::NoCommit,
    };
    assert_eq!(rig.nodes[first].resolved, [(partition(2), outcome)]);
}

#[test]
fn a_commit_is_found_with_its_epoch_and_asks_no_leader() {
    let mut rig = Rig::new(1);
    let node = rig.start(|_| {});
    rig.run_for(SECOND);
    rig.cluster.produce(&partition(0), &records(9)).unwrap();
    rig.finish(node, &partition(0), 0, 4);
    rig.run_for(SECOND * 6);
    rig.ask(node, &partition(0), 1, Question::Start);
    rig.run_for(SECOND);
    let epoch = rig.cluster.partition(&partition(0)).map(|view| view.epoch);
    let outcome = Outcome::Committed {
        offset: Offset(4),
        epoch,
    };
    assert_eq!(rig.nodes[node].resolved, [(partition(0), outcome)]);
    assert_eq!(requests(&rig, Api::ListOffsets), 0);
}

/// runtime.md X2: only the answer "none" leads to the reset policy.
#[test]
fn an_unstable_or_loading_coordinator_never_leads_to_the_reset_policy() {
    let mut rig = Rig::new(1);
    let node = rig.start(|_| {});
    rig.run_for(SECOND);
    rig.finish(node, &partition(0), 0, 4);
    rig.run_for(SECOND * 6);
    for code in [14, 88, 25, 113, 99] {
        rig.cluster
            .inject(Rule::error(code).on(Api::OffsetFetch).times(2));
    }
    rig.ask(node, &partition(0), 1, Question::Start);
    rig.run_for(SECOND * 20);
    assert_eq!(requests(&rig, Api::ListOffsets), 0);
    let [
        (
            _,
            Outcome::Committed {
                offset: Offset(4), ..
            },
        ),
    ] = rig.nodes[node].resolved[..]
    else {
        panic!("{:?}", rig.nodes[node].resolved);
    };
}

/// runtime.md X8, 18, 38.
#[test]
fn a_partition_that_appears_later_starts_at_its_first_record_even_under_latest() {
    let mut rig = Rig::new(2);
    let node = rig.start(|_| {});
    rig.run_for(SECOND);
    rig.ask(node, &partition(0), 1, Question::Start);
    rig.run_for(SECOND);
    rig.cluster.delete_topic(&"orders".into()).unwrap();
    rig.cluster.create_topic("orders", 4, 3).unwrap();
    for index in 0..4 {
        rig.cluster.produce(&partition(index), &records(3)).unwrap();
    }
    rig.refresh();
    rig.run_for(SECOND * 2);
    rig.nodes[node].resolved.clear();
    rig.ask(node, &partition(1), 1, Question::Start);
    rig.ask(node, &partition(3), 1, Question::Start);
    rig.run_for(SECOND);
    let cause = ResetCause::NoCommit;
    let old = (
        partition(1),
        Outcome::Reset {
            offset: Offset(3),
            cause,
        },
    );
    let new = (
        partition(3),
        Outcome::Reset {
            offset: Offset(0),
            cause,
        },
    );
    let resolved = &rig.nodes[node].resolved;
    assert!(
        resolved.contains(&old) && resolved.contains(&new),
        "{resolved:?}"
    );
}

#[test]
fn a_moved_leader_is_asked_again_after_a_refresh() {
    let mut rig = Rig::new(1);
    let node = rig.start(|_| {});
    rig.run_for(SECOND);
    let view = rig.cluster.partition(&partition(0)).unwrap();
    let next = view
        .isr
        .iter()
        .copied()
        .find(|id| Some(*id) != view.leader)
        .unwrap();
    rig.cluster.move_leader(&partition(0), next).unwrap();
    rig.ask(node, &partition(0), 1, Question::End);
    rig.run_for(Duration::from_millis(20));
    assert!(rig.log(node).contains(&"refresh orders-0".to_owned()));
    assert!(rig.nodes[node].resolved.is_empty());
    rig.refresh();
    rig.run_for(Duration::from_millis(20));
    assert_eq!(
        rig.nodes[node].resolved,
        [(partition(0), Outcome::End(Offset(0)))]
    );
    assert_eq!(rig.cluster.requests(next, Api::ListOffsets), 1);
}

/// routing.md 11, right column.
#[test]
fn an_offset_out_of_range_is_judged_by_the_leaders_bounds() {
    let mut rig = Rig::new(3);
    let node = rig.start(|_| {});
    rig.run_for(SECOND);
    for index in 0..3 {
        rig.cluster
            .produce(&partition(index), &records(50))
            .unwrap();
    }
    rig.run_for(SECOND);
    for index in 0..3 {
        rig.cluster
            .delete_records(&partition(index), Offset(20))
            .unwrap();
    }
    let ask = |offset| Question::OutOfRange {
        offset: Offset(offset),
        epoch: None,
    };
    rig.ask(node, &partition(0), 1, ask(5));
    rig.ask(node, &partition(1), 1, ask(30));
    rig.ask(node, &partition(2), 1, ask(70));
    rig.run_for(SECOND * 5);
    let below = ResetCause::BelowStart {
        log_start: Offset(20),
    };
    let expected = [
        (partition(1), Outcome::Inside),
        (
            partition(0),
            Outcome::Reset {
                offset: Offset(50),
                cause: below,
            },
        ),
    ];
    let resolved = rig.nodes[node].resolved.clone();
    assert!(
        expected.iter().all(|row| resolved.contains(row)),
        "{resolved:?}"
    );
    assert_eq!(resolved.len(), 2, "above the end is held");
    rig.run_for(SECOND * 8);
    let above = ResetCause::AboveEnd {
        log_end: Offset(50),
    };
    let last = (
        partition(2),
        Outcome::Reset {
            offset: Offset(50),
            cause: above,
        },
    );
    assert_eq!(rig.nodes[node].resolved.last(), Some(&last));
    assert!(requests(&rig, Api::ListOffsets) < 30, "the hold backs off");
}

#[test]
fn a_time_and_the_policies_are_looked_up_at_the_leader() {
    let mut rig = Rig::new(4);
    let node = rig.start(|_| {});
    rig.run_for(SECOND);
    let at = |ms: i64| Record {
        timestamp_ms: ms,
        ..Record::of("x")
    };
    for index in 0..4 {
        // A batch each: the embedded cluster answers times by batch.
        for ms in [1_000, 2_000, 1_699_999_990_000] {
            rig.cluster.produce(&partition(index), &[at(ms)]).unwrap();
        }
    }
    rig.run_for(SECOND);
    let age = Duration::from_secs(60);
    let questions = [
        (Question::Timestamp(1_500), Outcome::At(Offset(1))),
        (
            Question::Timestamp(1_800_000_000_000),
            Outcome::At(Offset(3)),
        ),
        (
            Question::Reset(Reset::ByDuration(age)),
            Outcome::At(Offset(2)),
        ),
        (Question::Reset(Reset::None), Outcome::Halt),
    ];
    for (index, (question, _)) in (0..).zip(questions) {
        rig.ask(node, &partition(index), 1, question);
    }
    rig.run_for(SECOND);
    for (index, (question, outcome)) in (0..).zip(questions) {
        let row = (partition(index), outcome);
        assert!(
            rig.nodes[node].resolved.contains(&row),
            "{question:?}: {:?}",
            rig.nodes[node].resolved
        );
    }
}

/// runtime.md X5.
#[test]
fn a_silent_leader_is_told_as_late_and_asked_on() {
    let mut rig = Rig::new(1);
    let node = rig.start(|_| {});
    rig.run_for(SECOND);
    let rule = rig
        .cluster
        .inject(Rule::new(nearside::embedded::Effect::Swallow).on(Api::ListOffsets));
    rig.ask(node, &partition(0), 1, Question::End);
    rig.run_for(SECOND * 61);
    let late = rig
        .log(node)
        .iter()
        .filter(|line| line.starts_with("ResolveLate"))
        .count();
    assert_eq!(late, 1);
    rig.cluster.withdraw(rule);
    rig.refresh();
    rig.run_for(SECOND * 45);
    assert_eq!(
        rig.nodes[node].resolved,
        [(partition(0), Outcome::End(Offset(0)))]
    );
}

#[test]
fn a_leader_that_does_not_know_a_topic_for_minutes_is_asked_until_it_does() {
    let mut rig = Rig::new(1);
    let node = rig.start(|_| {});
    rig.run_for(SECOND);
    let rule = rig.cluster.inject(Rule::error(3).on(Api::ListOffsets));
    rig.ask(node, &partition(0), 1, Question::End);
    rig.run_for(SECOND * 120);
    assert!(rig.nodes[node].resolved.is_empty(), "metadata lists it");
    rig.cluster.withdraw(rule);
    rig.run_for(SECOND * 11);
    assert_eq!(
        rig.nodes[node].resolved,
        [(partition(0), Outcome::End(Offset(0)))]
    );
}

/// routing.md 18: `leader_unreachable` is about leaders.
#[test]
fn a_slow_coordinator_is_no_leader_that_owes_an_answer() {
    let mut rig = Rig::new(1);
    let node = rig.start(|_| {});
    rig.run_for(SECOND);
    let loading = rig.cluster.inject(Rule::error(14).on(Api::OffsetFetch));
    rig.ask(node, &partition(0), 1, Question::Start);
    rig.run_for(SECOND * 20);
    assert!(rig.nodes[node].resolved.is_empty());
    rig.cluster.withdraw(loading);
    rig.run_for(SECOND * 2);
    assert_eq!(rig.nodes[node].resolved.len(), 1);
    assert_eq!(rig.nodes[node].unanswered, []);
}

/// routing.md 18
#[test]
fn a_leader_that_owes_an_answer_is_told_at_the_hedge_deadline_and_once() {
    let mut rig = Rig::new(1);
    let node = rig.start(|_| {});
    rig.run_for(SECOND);
    rig.cluster
        .inject(Rule::new(nearside::embedded::Effect::Swallow).on(Api::ListOffsets));
    let asked = rig.now;
    rig.ask(node, &partition(0), 1, Question::Start);
    rig.run_for(SECOND * 20);
    let [(of, at)] = &rig.nodes[node].unanswered[..] else {
        panic!("{:?}", rig.nodes[node].unanswered);
    };
    assert_eq!(*of, partition(0));
    let after = at.since(asked).as_millis();
    assert!((2_500..=2_600).contains(&after), "told after {after} ms");
}

/// routing.md 11, step 5: held above the end, which the leader tells all the while.
#[test]
fn a_leader_that_answers_without_an_end_to_it_owes_nothing() {
    let mut rig = Rig::new(1);
    let node = rig.start(|_| {});
    rig.run_for(SECOND);
    let question = Question::OutOfRange {
        offset: Offset(900),
        epoch: None,
    };
    rig.ask(node, &partition(0), 1, question);
    rig.run_for(SECOND * 9);
    assert!(rig.nodes[node].resolved.is_empty(), "held");
    assert!(requests(&rig, Api::ListOffsets) > 5);
    assert_eq!(rig.nodes[node].unanswered, []);
}
