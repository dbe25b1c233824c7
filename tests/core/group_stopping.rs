//! Members that stop, or commit, while their group rebalances: nothing finished is lost.

use std::time::Duration;

use nearside::embedded::{Api, Effect, GroupPhase, Rule};
use nearside::ids::GroupId;

use crate::group_rig::{Rig, partition};

const SECOND: Duration = Duration::from_secs(1);
/// `auto.commit.interval.ms`.
const INTERVAL: Duration = Duration::from_secs(5);

/// The member that leads the group has joined anew because of a second one, and the coordinator has
/// begun the next generation; the answer that says so comes `late`.
fn between_join_and_answer(late: Duration) -> (Rig, usize) {
    let mut rig = Rig::new(4);
    let first = rig.start(|_| {});
    rig.run_for(SECOND);
    rig.nodes[first].log.clear();
    let late = Rule::new(Effect::Delay(late)).on(Api::JoinGroup);
    let rule = rig.cluster.inject(late);
    rig.start(|_| {});
    let is_completing = |rig: &Rig| {
        let group = rig.cluster.group(&GroupId::from("billing"));
        group.is_some_and(|group| group.phase == GroupPhase::CompletingRebalance)
    };
    let soon = rig.now + SECOND * 60;
    while !is_completing(&rig) && rig.now < soon {
        rig.run_for(SECOND / 100);
    }
    assert!(is_completing(&rig), "{:?}", rig.log(first));
    assert!(has(&rig, first, "sent JoinGroup"), "{:?}", rig.log(first));
    assert!(!has(&rig, first, "sent SyncGroup"), "{:?}", rig.log(first));
    rig.cluster.withdraw(rule);
    (rig, first)
}

fn has(rig: &Rig, node: usize, what: &str) -> bool {
    rig.log(node).iter().any(|line| line.starts_with(what))
}

fn committed(rig: &Rig, index: i32) -> Option<i64> {
    let group = GroupId::from("billing");
    let commit = rig.cluster.committed(&group, &partition(index))?;
    Some(commit.offset.0)
}

/// runtime.md D4: stop works in every state.
#[test]
fn a_stop_while_a_join_is_out_ends_the_round_and_commits_in_its_generation() {
    let (mut rig, first) = between_join_and_answer(SECOND);
    rig.finish(first, &partition(0), 0, 7);
    rig.stop(first, SECOND * 20);
    rig.run_for(SECOND * 10);
    assert!(rig.nodes[first].left, "{:?}", rig.log(first));
    assert!(!has(&rig, first, "lost"), "{:?}", rig.log(first));
    assert_eq!(committed(&rig, 0), Some(7));
}

/// What the member had at that time goes to the others, whole.
#[test]
fn a_leader_that_stops_in_the_middle_of_a_round_leaves_a_group_that_works() {
    let (mut rig, first) = between_join_and_answer(SECOND);
    rig.stop(first, SECOND * 20);
    rig.run_for(SECOND * 20);
    assert!(rig.nodes[first].left);
    assert_eq!(rig.owned(first), [0; 0]);
    assert_eq!(rig.owned(first + 1), [0, 1, 2, 3]);
}

/// A commit on its way while the coordinator begins the next generation is refused: that is no
/// news of the membership, the answer to the join is.
#[test]
fn a_commit_refused_while_a_join_is_out_loses_nothing() {
    let (mut rig, first) = between_join_and_answer(INTERVAL * 2);
    rig.finish(first, &partition(0), 0, 7);
    rig.run_for(INTERVAL);
    assert!(has(&rig, first, "sent OffsetCommit"));
    assert!(!has(&rig, first, "sent SyncGroup"));
    rig.run_for(SECOND * 20);
    assert!(!has(&rig, first, "lost"), "{:?}", rig.log(first));
    assert_eq!(committed(&rig, 0), Some(7));
}

#[test]
fn a_stop_whose_join_was_cut_off_joins_once_more_to_commit() {
    let (mut rig, first) = between_join_and_answer(SECOND);
    rig.finish(first, &partition(0), 0, 7);
    rig.stop(first, SECOND * 20);
    rig.cut_off(first);
    rig.run_for(SECOND * 20);
    assert!(rig.nodes[first].left, "{:?}", rig.log(first));
    assert!(!has(&rig, first, "lost"), "{:?}", rig.log(first));
    assert_eq!(committed(&rig, 0), Some(7));
}
