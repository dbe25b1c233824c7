//! Memberships on the embedded cluster.

use std::time::Duration;

use nearside::embedded::{Api, Effect, Rule};
use nearside::group;
use nearside::ids::{BrokerId, Generation, GroupId, Offset};
use nearside::wire::ErrorCode;

use crate::group_rig::{Rig, partition};

const SECOND: Duration = Duration::from_secs(1);

fn lines<'a>(log: &'a [String], what: &str) -> Vec<&'a str> {
    log.iter()
        .map(String::as_str)
        .filter(|line| line.starts_with(what))
        .collect()
}

/// runtime.md 18, 31.
#[test]
fn the_first_join_takes_the_member_id_it_is_given_and_joins_without_a_backoff() {
    let mut rig = Rig::new(4);
    let node = rig.start(|settings| settings.join_jitter = Duration::ZERO);
    rig.run_for(Duration::from_millis(1));
    assert_eq!(
        lines(rig.log(node), "sent "),
        [
            "sent FindCoordinator",
            "sent JoinGroup",
            "sent JoinGroup",
            "sent SyncGroup"
        ]
    );
    assert_eq!(rig.owned(node), [0, 1, 2, 3]);
    let group = rig.cluster.group(&GroupId::from("billing")).unwrap();
    assert_eq!(Some(&group.members[0]), rig.nodes[node].member.member());
}

/// runtime.md 18, 30.
#[test]
fn a_cooperative_rebalance_moves_only_what_moves() {
    let mut rig = Rig::new(4);
    let first = rig.start(|_| {});
    rig.run_for(SECOND);
    rig.finish(first, &partition(3), 0, 9);
    rig.nodes[first].slow_drains = true;
    rig.nodes[first].log.clear();
    let second = rig.start(|_| {});
    rig.run_for(SECOND * 5);

    let kept: Vec<i32> = vec![0, 1];
    assert_eq!(lines(rig.log(first), "revoked "), ["revoked [2, 3]"]);
    assert_eq!(
        rig.owned(second),
        Vec::<i32>::new(),
        "nothing is given away before it is released"
    );
    let epochs = rig.nodes[first].member.owned().clone();
    rig.finish_drain(first);
    rig.run_for(SECOND * 5);

    assert_eq!(
        lines(rig.log(first), "committed "),
        ["committed orders-3 9"]
    );
    assert_eq!(
        lines(rig.log(first), "assigned "),
        ["assigned []", "assigned []"]
    );
    assert_eq!(lines(rig.log(first), "lost"), [""; 0]);
    assert_eq!((rig.owned(first), rig.owned(second)), (kept, vec![2, 3]));
    for (partition, epoch) in rig.nodes[first].member.owned() {
        assert_eq!(epochs[partition], *epoch, "{partition} never stopped");
    }
    let stored = rig
        .cluster
        .committed(&GroupId::from("billing"), &partition(3))
        .unwrap();
    assert_eq!(stored.offset, Offset(9));
}

/// runtime.md 18, 32.
#[test]
fn a_rebalance_order_that_arrives_while_joining_starts_no_second_join() {
    let mut rig = Rig::new(4);
    let first = rig.start(|_| {});
    rig.run_for(SECOND);
    // The heartbeat that is on its way when the join goes out is answered late, with the order to
    // join.
    let delayed = Effect::Delay(Duration::from_millis(800));
    rig.cluster
        .inject(Rule::new(delayed).on(Api::Heartbeat).times(1));
    rig.cluster
        .inject(Rule::error(27).on(Api::Heartbeat).times(1));
    rig.run_for(Duration::from_millis(2_600));
    rig.nodes[first].log.clear();
    let topics = ["orders".into(), "payments".into()];
    rig.tell_member(first, group::Input::Subscribe(topics.into()));
    rig.run_for(SECOND * 2);
    assert_eq!(
        lines(rig.log(first), "sent JoinGroup").len(),
        1,
        "{:#?}",
        rig.log(first)
    );
}

/// runtime.md 18, 33.
#[test]
fn a_silent_coordinator_ends_starts_one_interval_early_and_then_the_membership() {
    let mut rig = Rig::new(2);
    let node = rig.start(|settings| settings.join_jitter = Duration::ZERO);
    rig.run_for(SECOND);
    rig.finish(node, &partition(0), 0, 5);
    for broker in 1..=3 {
        rig.cluster.freeze(BrokerId(broker));
    }
    rig.nodes[node].log.clear();
    rig.run_for(Duration::from_millis(40_900));
    assert_eq!(lines(rig.log(node), "starts"), [""; 0]);
    rig.run_for(SECOND);
    assert_eq!(
        lines(rig.log(node), "starts"),
        ["starts false"],
        "at 42 s of 45 s"
    );
    assert_eq!(rig.owned(node), [0, 1], "still owned");
    rig.run_for(SECOND * 4);
    assert_eq!(lines(rig.log(node), "lost"), ["lost [0, 1]"]);
    assert_eq!(lines(rig.log(node), "revoked"), [""; 0]);
    assert_eq!(rig.nodes[node].member.generation(), None);
    assert_eq!(
        rig.nodes[node].committer.dirty(),
        0,
        "forgotten, not committed"
    );
    for broker in 1..=3 {
        rig.cluster.revive(BrokerId(broker));
    }
    rig.run_for(SECOND * 60);
    assert_eq!(rig.owned(node), [0, 1], "joined again");
    let after = rig
        .log(node)
        .iter()
        .skip_while(|line| !line.starts_with("lost"));
    let after: Vec<String> = after.cloned().collect();
    assert_eq!(
        lines(&after, "sent OffsetCommit"),
        [""; 0],
        "nothing of the lost assignment leaves"
    );
}

/// runtime.md 18, 34.
#[test]
fn a_static_member_that_bounces_within_its_session_moves_nothing() {
    let mut rig = Rig::new(4);
    let bouncing = rig.start(|settings| settings.instance = Some("i1".into()));
    let other = rig.start(|settings| settings.instance = Some("i2".into()));
    rig.run_for(SECOND * 30);
    let (before, others) = (rig.owned(bouncing), rig.owned(other));
    assert_eq!((before.len(), others.len()), (2, 2));
    rig.nodes[other].log.clear();
    rig.stop(bouncing, SECOND * 5);
    rig.run_for(SECOND * 5);
    assert!(rig.nodes[bouncing].left);
    let back = rig.start(|settings| settings.instance = Some("i1".into()));
    rig.run_for(SECOND * 10);
    assert_eq!(rig.owned(back), before);
    assert_eq!(rig.owned(other), others);
    assert_eq!(lines(rig.log(bouncing), "sent LeaveGroup"), [""; 0]);
    assert_eq!(
        lines(rig.log(other), "Rebalancing"),
        [""; 0],
        "{:#?}{:#?}",
        rig.log(back),
        rig.log(other)
    );
}

/// runtime.md 18, 35.
#[test]
fn a_fence_for_a_former_generation_costs_no_more_than_a_rejoin() {
    let mut rig = Rig::new(2);
    let node = rig.start(|settings| settings.instance = Some("i1".into()));
    rig.run_for(SECOND);
    let now = rig.nodes[node].member.generation().unwrap();
    let error = ErrorCode::FENCED_INSTANCE_ID;
    let refused = |generation| group::Input::Refused { generation, error };
    rig.tell_member(node, refused(Generation(now.0 - 1)));
    rig.run_for(SECOND * 5);
    assert_eq!(lines(rig.log(node), "lost"), [""; 0]);
    let now = rig.nodes[node].member.generation().unwrap();
    rig.tell_member(node, refused(now));
    assert_eq!(lines(rig.log(node), "lost"), ["lost [0, 1]"]);
    let fatal = rig.nodes[node].fatal.as_ref().unwrap();
    assert!(fatal.to_string().contains("group.instance.id"), "{fatal}");
    rig.run_for(SECOND * 60);
    assert_eq!(lines(rig.log(node), "sent LeaveGroup"), [""; 0]);
    assert_eq!(rig.nodes[node].member.generation(), None, "no rejoin");
}

#[test]
fn an_eager_group_gives_everything_up_before_it_joins() {
    let mut rig = Rig::new(4);
    let eager = |settings: &mut group::Settings| {
        settings.assignors = vec![nearside::assign::Assignor::Range];
    };
    let first = rig.start(eager);
    rig.run_for(SECOND);
    rig.nodes[first].log.clear();
    rig.nodes[first].slow_drains = true;
    let second = rig.start(eager);
    rig.run_for(SECOND * 5);
    rig.finish(first, &partition(0), 0, 3);
    rig.finish_drain(first);
    rig.run_for(SECOND * 5);
    assert_eq!(
        (rig.owned(first), rig.owned(second)),
        (vec![0, 1], vec![2, 3])
    );
    let told = rig.log(first).join("; ");
    let order = [
        "revoked [0, 1, 2, 3]",
        "committed orders-0 3",
        "sent JoinGroup",
        "assigned [0, 1]",
    ];
    let places: Vec<_> = order
        .iter()
        .map(|line| told.find(line).expect(line))
        .collect();
    assert!(places.is_sorted(), "{told}");
}

#[test]
fn a_killed_members_partitions_go_to_the_others_when_its_session_ends() {
    let mut rig = Rig::new(4);
    let short = |settings: &mut group::Settings| {
        settings.session_timeout = SECOND * 10;
    };
    let first = rig.start(short);
    let second = rig.start(short);
    rig.run_for(SECOND * 10);
    assert_eq!(rig.owned(second).len(), 2);
    rig.kill(first);
    rig.run_for(SECOND * 20);
    assert_eq!(rig.owned(second), [0, 1, 2, 3]);
}

#[test]
fn a_leaving_member_drains_commits_and_says_good_bye() {
    let mut rig = Rig::new(2);
    let node = rig.start(|_| {});
    rig.run_for(SECOND);
    rig.finish(node, &partition(1), 0, 4);
    rig.nodes[node].log.clear();
    rig.stop(node, SECOND * 20);
    rig.run_for(SECOND);
    assert!(rig.nodes[node].left);
    let told = rig.log(node).join("; ");
    let order = [
        "revoked [0, 1]",
        "committed orders-1 4",
        "sent LeaveGroup",
        "Left",
    ];
    let places: Vec<_> = order
        .iter()
        .map(|line| told.find(line).expect(line))
        .collect();
    assert!(places.is_sorted(), "{told}");
    assert!(
        rig.cluster
            .group(&GroupId::from("billing"))
            .is_none_or(|group| group.members.is_empty())
    );
}

#[test]
fn a_group_without_permission_is_fatal_with_one_clear_line() {
    let mut rig = Rig::new(2);
    rig.cluster.deny_group("billing");
    let node = rig.start(|_| {});
    rig.run_for(SECOND * 5);
    let error = rig.nodes[node].fatal.as_ref().unwrap();
    assert_eq!(error.kind(), nearside::ErrorKind::Authorization);
    assert!(
        error
            .to_string()
            .starts_with("group 'billing': no permission"),
        "{error}"
    );
}

/// runtime.md 17, 18.
#[test]
fn heartbeats_leave_on_time_through_a_long_drain() {
    let mut rig = Rig::new(4);
    let first = rig.start(|_| {});
    rig.run_for(SECOND);
    rig.nodes[first].slow_drains = true;
    rig.start(|_| {});
    rig.run_for(SECOND * 5);
    assert!(rig.nodes[first].draining.is_some());
    rig.nodes[first].log.clear();
    rig.run_for(SECOND * 30);
    assert!(
        lines(rig.log(first), "sent Heartbeat").len() >= 9,
        "{:?}",
        rig.log(first)
    );
    assert!(rig.nodes[first].draining.is_some());
}

#[test]
fn a_drain_over_its_budget_is_told_and_the_group_goes_on() {
    let mut rig = Rig::new(4);
    let first = rig.start(|settings| settings.revoke_budget = SECOND * 20);
    rig.run_for(SECOND);
    rig.nodes[first].slow_drains = true;
    let second = rig.start(|_| {});
    rig.run_for(SECOND * 40);
    assert_eq!(lines(rig.log(first), "DrainOverrun").len(), 1);
    assert_eq!(rig.owned(second), [2, 3]);
}

#[test]
fn a_moved_coordinator_is_found_again_without_a_rebalance() {
    let mut rig = Rig::new(2);
    let node = rig.start(|_| {});
    rig.run_for(SECOND);
    rig.nodes[node].log.clear();
    rig.cluster
        .inject(Rule::error(16).on(Api::Heartbeat).times(1));
    rig.run_for(SECOND * 30);
    assert_eq!(lines(rig.log(node), "sent FindCoordinator").len(), 1);
    assert_eq!(lines(rig.log(node), "sent JoinGroup"), [""; 0]);
    assert_eq!(lines(rig.log(node), "lost"), [""; 0]);
}

#[test]
fn a_lost_coordinator_is_looked_for_at_once_and_then_with_patience() {
    let mut rig = Rig::new(2);
    let node = rig.start(|_| {});
    rig.run_for(SECOND);
    rig.nodes[node].log.clear();
    rig.tell_member(node, group::Input::CoordinatorLost);
    rig.run_for(SECOND / 5);
    assert_eq!(lines(rig.log(node), "sent FindCoordinator").len(), 1);
    // The others go on naming the broker that cannot be reached.
    for _ in 0..400 {
        rig.tell_member(node, group::Input::CoordinatorLost);
        rig.run_for(SECOND / 100);
    }
    let asked = lines(rig.log(node), "sent FindCoordinator").len();
    assert!((5..=9).contains(&asked), "asked {asked} times in 4 s");
    assert_eq!(lines(rig.log(node), "lost"), [""; 0]);
    // A coordinator that answers ends the patience.
    rig.run_for(SECOND * 5);
    rig.nodes[node].log.clear();
    rig.tell_member(node, group::Input::CoordinatorLost);
    rig.run_for(SECOND / 5);
    assert_eq!(lines(rig.log(node), "sent FindCoordinator").len(), 1);
}

/// A broker that dies with the question would keep it as long as a request may take: longer than
/// the session.
#[test]
fn a_broker_that_does_not_say_who_coordinates_is_not_waited_for() {
    let mut rig = Rig::new(2);
    let node = rig.start(|settings| settings.session_timeout = SECOND * 10);
    rig.run_for(SECOND);
    rig.nodes[node].log.clear();
    rig.cluster
        .inject(Rule::new(Effect::Swallow).on(Api::FindCoordinator).times(1));
    rig.tell_member(node, group::Input::CoordinatorLost);
    rig.run_for(SECOND * 4);
    assert_eq!(lines(rig.log(node), "sent FindCoordinator").len(), 2);
    assert!(!lines(rig.log(node), "sent Heartbeat").is_empty());
    rig.run_for(SECOND * 20);
    assert_eq!(lines(rig.log(node), "lost"), [""; 0]);
}

/// runtime.md 18, 38 (the rejoin).
#[test]
fn new_partitions_of_a_topic_are_noticed_by_the_leader() {
    let mut rig = Rig::new(2);
    let node = rig.start(|_| {});
    rig.run_for(SECOND);
    rig.cluster.delete_topic(&"orders".into()).unwrap();
    rig.cluster.create_topic("orders", 5, 3).unwrap();
    rig.refresh();
    rig.run_for(SECOND * 5);
    assert_eq!(rig.owned(node), [0, 1, 2, 3, 4]);
    assert_eq!(lines(rig.log(node), "Rebalancing(Partitions)").len(), 1);
}
