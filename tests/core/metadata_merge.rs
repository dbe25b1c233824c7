//! Merging answers: epochs, existence of topics, order of ISR news (metadata.md 3, 6 and 7.2).

use nearside::cluster::{Counted, Diff, LinkState, Reason, Settings, Target, TopicState};
use nearside::ids::{BrokerId, LeaderEpoch, TopicPartition};
use nearside::wire::ErrorCode;

use super::metadata_rig::{Reply, Rig, hint, names, t0};

#[test]
fn the_first_answer_tells_every_row() {
    let rig = {
        let mut rig = Rig::asleep(Settings::default());
        rig.input(nearside::cluster::Input::Subscribe(
            nearside::cluster::Interest::topics(["t"]),
        ));
        rig.answer(&Reply::standard());
        rig
    };
    let told = names(&rig.diffs);
    let row = [
        "LeaderChanged",
        "ReplicasChanged",
        "IsrChanged",
        "PartitionsAdded",
    ];
    assert_eq!(told[..3], ["BrokerAdded"; 3]);
    assert_eq!(told[3..], row);
    assert_eq!(rig.machine.snapshot().version().0, 1);
}

#[test]
fn an_answer_that_changes_nothing_moves_the_version_alone() {
    let mut rig = Rig::standard();
    let revision = rig.machine.snapshot().revision();
    rig.want(Reason::NotLeader, 4);
    rig.round(&Reply::standard());
    assert!(names(&rig.diffs).is_empty());
    assert_eq!(rig.machine.snapshot().version().0, 2);
    assert_eq!(rig.machine.snapshot().revision(), revision);
}

/// metadata.md T4
#[test]
fn a_stale_row_does_not_spoil_the_fresh_rows_of_its_answer() {
    let both =
        |t: (i32, i32), u: (i32, i32)| Reply::row_of(t.0, t.1).topic("u", 9).row(0, u.0, u.1);
    let mut rig = Rig::with(Settings::default(), &both((1, 5), (1, 8)));
    rig.hint_bare(2, 6);
    rig.round(&both((1, 5), (3, 9)));
    assert_eq!(rig.leader(), (Some(2), Some(6), true));
    let other = rig
        .machine
        .snapshot()
        .partition(&TopicPartition::new("u", 0))
        .unwrap()
        .clone();
    assert_eq!(
        (other.leader(), other.floor),
        (Some(BrokerId(3)), Some(LeaderEpoch(9)))
    );
    assert_eq!(rig.count(Counted::StaleRow), 1);
}

#[test]
fn two_leaders_of_one_epoch_keep_the_first_and_ask_another_broker() {
    let mut rig = Rig::standard();
    rig.want(Reason::NotLeader, 4);
    let first = rig.round(&Reply::row_of(2, 5));
    assert_eq!(rig.leader(), (Some(1), Some(5), true));
    assert_eq!(rig.count(Counted::LeaderConflict), 1);
    assert_ne!(rig.next_request().to, first.to);
}

/// metadata.md T16
#[test]
fn rows_without_a_leader_lose_it_once_and_a_stale_row_does_not_bring_it_back() {
    let mut rig = Rig::standard();
    rig.want(Reason::NotLeader, 5);
    let end = rig.now.as_ms() + 10_000;
    let mut turn = 0;
    while rig.now.as_ms() < end {
        let reply = if turn % 2 == 0 {
            Reply::row_of(-1, -1)
        } else {
            Reply::row_of(1, 4)
        };
        rig.round(&reply);
        turn += 1;
    }
    assert_eq!(rig.leader(), (None, Some(5), false));
    assert_eq!(names(&rig.diffs), ["LeaderLost"]);
    assert!(
        turn > 3 && turn < 40,
        "the pace slows down: {turn} requests in 10 s"
    );
}

#[test]
fn brokers_that_contradict_each_other_do_not_make_a_leader_flicker() {
    let mut rig = Rig::standard();
    rig.want(Reason::NotLeader, 5);
    let start = rig.now;
    for turn in 0..10 {
        let leader = if turn % 2 == 0 { -1 } else { 1 };
        rig.round(&Reply::row_of(leader, 5));
    }
    let losses = names(&rig.diffs)
        .iter()
        .filter(|name| **name == "LeaderLost")
        .count();
    let allowed = 1 + rig.now.since(start).as_secs() / 10;
    assert!(
        losses as u64 <= allowed,
        "{losses} losses told, {allowed} allowed"
    );
}

#[test]
fn a_leader_known_again_at_its_epoch_is_told_again() {
    let mut rig = Rig::standard();
    rig.want(Reason::NotLeader, 5);
    rig.round(&Reply::row_of(-1, 5));
    rig.round(&Reply::row_of(1, 5));
    assert_eq!(names(&rig.diffs), ["LeaderLost", "LeaderChanged"]);
    assert_eq!(rig.leader(), (Some(1), Some(5), true));
}

#[test]
fn a_row_error_spoils_the_leader_but_code_9_does_not() {
    let with = |code| Reply::row_of(2, 6).edit(|row| row.error = code);
    let mut rig = Rig::standard();
    rig.want(Reason::NotLeader, 5);
    rig.round(&with(ErrorCode::LEADER_NOT_AVAILABLE));
    assert_eq!(rig.leader(), (None, Some(6), false));
    rig.round(&with(ErrorCode::REPLICA_NOT_AVAILABLE));
    assert_eq!(rig.leader(), (Some(2), Some(6), true));
}

#[test]
fn a_leader_without_an_epoch_is_a_guess_that_the_fence_checks() {
    let mut rig = Rig::standard();
    rig.want(Reason::NotLeader, 5);
    rig.round(&Reply::row_of(2, -1));
    assert_eq!(
        rig.leader(),
        (Some(1), Some(5), true),
        "ours is known: unknown is not newer"
    );
    rig.round(&Reply::row_of(-1, 6));
    rig.round(&Reply::row_of(2, -1));
    assert_eq!(rig.leader(), (Some(2), Some(6), true));
    rig.round(&Reply::row_of(3, 6));
    assert_eq!(
        rig.leader(),
        (Some(3), Some(6), true),
        "a guess gives way at its own epoch"
    );
}

#[test]
fn a_cluster_without_epochs_is_taken_at_its_last_word() {
    let mut rig = Rig::with(Settings::default(), &Reply::row_of(1, -1));
    assert_eq!(rig.leader(), (Some(1), None, true));
    rig.link(1, LinkState::Lost);
    rig.round(&Reply::row_of(2, -1).isr([2, 3]));
    assert_eq!(rig.leader(), (Some(2), None, true));
    let row = rig.machine.snapshot().partition(&t0()).unwrap().clone();
    assert_eq!(row.isr_view(), Some(&[BrokerId(2), BrokerId(3)][..]));
}

/// metadata.md T17 (a)
#[test]
fn a_retired_topic_id_is_refused() {
    let mut rig = Rig::standard();
    rig.want(Reason::NotHosted, 5);
    let second = Reply::brokers(1..=3).topic("t", 2).row(0, 1, 0);
    rig.round(&second);
    let Some(Diff::TopicRecreated { incarnation, .. }) = rig
        .diffs
        .iter()
        .find(|diff| matches!(diff, Diff::TopicRecreated { .. }))
    else {
        panic!("the topic was recreated")
    };
    assert_eq!(incarnation.0, 1);
    rig.forget();
    rig.want(Reason::NotLeader, 0);
    rig.round(&Reply::standard());
    assert_eq!(rig.count(Counted::RetiredTopicId), 1);
    assert_eq!(rig.leader(), (Some(1), Some(0), true));
    assert!(names(&rig.diffs).is_empty());
}

/// metadata.md T17 (b)
#[test]
fn a_topic_absent_for_20_seconds_is_not_gone() {
    let mut rig = Rig::standard();
    let absent = Reply::brokers(1..=3)
        .topic("t", 1)
        .topic_error(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    rig.want(Reason::NotHosted, 5);
    let start = rig.now;
    while rig.now.since(start).as_secs() < 20 {
        rig.round(&absent);
    }
    assert_eq!(
        rig.leader(),
        (Some(1), Some(5), true),
        "its rows stay in use"
    );
    rig.round(&Reply::row_of(1, 6));
    assert_eq!(
        rig.machine.snapshot().topic(&"t".into()).unwrap().state,
        TopicState::Known
    );
    assert_eq!(names(&rig.diffs)[0], "TopicUnconfirmed");
    assert!(!names(&rig.diffs).contains(&"TopicGone"));
}

#[test]
fn a_topic_absent_for_30_seconds_on_two_brokers_is_gone_until_it_is_listed_again() {
    let mut rig = Rig::standard();
    let absent = Reply::brokers(1..=3);
    rig.want(Reason::NotHosted, 5);
    let start = rig.now;
    while !names(&rig.diffs).contains(&"TopicGone") {
        rig.round(&absent);
    }
    assert!(rig.now.since(start).as_secs() >= 30);
    assert_eq!(names(&rig.diffs), ["TopicUnconfirmed", "TopicGone"]);
    rig.forget();
    rig.advance_ms(60_000);
    assert!(
        rig.sent.is_empty(),
        "nobody is asked about a topic that is gone, before the period"
    );
    rig.round(&Reply::standard());
    assert_eq!(
        rig.leaders_told(),
        [(Some(1), Some(5))],
        "whoever gave up hears of it"
    );
}

#[test]
fn a_topic_never_seen_is_surfaced_once_when_two_answers_lack_it() {
    let absent = Reply::brokers(1..=3)
        .topic("t", 1)
        .topic_error(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    let mut rig = Rig::with(Settings::default(), &absent);
    assert!(
        rig.diffs.is_empty(),
        "one answer is not enough: {:?}",
        rig.diffs
    );
    for _ in 0..3 {
        rig.round(&absent);
    }
    assert_eq!(names(&rig.diffs), ["TopicError"]);
}

#[test]
fn a_refused_topic_is_surfaced_once() {
    let mut rig = Rig::standard();
    let refused = Reply::brokers(1..=3)
        .topic("t", 1)
        .topic_error(ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    for _ in 0..2 {
        rig.want(Reason::NotLeader, 5);
        rig.round(&refused);
    }
    assert_eq!(names(&rig.diffs), ["TopicError"]);
    rig.advance_ms(60_000);
    assert_eq!(
        rig.sent.len(),
        2,
        "it is asked again at the period, not before"
    );
}

#[test]
fn more_partitions_are_told_and_fewer_are_not_believed() {
    let mut rig = Rig::standard();
    let three = Reply::standard().row(1, 2, 0).row(2, 3, 0);
    rig.want(Reason::NotLeader, 4);
    rig.round(&three);
    assert!(rig.diffs.contains(&Diff::PartitionsAdded {
        topic: "t".into(),
        from: 1,
        to: 3
    }));
    rig.forget();
    rig.want(Reason::NotLeader, 4);
    rig.round(&Reply::standard());
    assert_eq!(rig.count(Counted::FewerPartitions), 1);
    assert_eq!(
        rig.machine
            .snapshot()
            .topic(&"t".into())
            .unwrap()
            .partition_count(),
        3
    );
}

/// metadata.md T18
#[test]
fn an_epoch_that_really_regressed_is_believed_after_30_seconds() {
    let mut rig = Rig::standard();
    let start = rig.now;
    while !names(&rig.diffs).contains(&"EpochRegressed") {
        rig.want(Reason::UnknownLeaderEpoch, 5);
        rig.round(&Reply::row_of(2, 3));
        assert!(rig.now.since(start).as_secs() < 60, "believed in the end");
    }
    assert!(rig.now.since(start).as_secs() >= 30);
    assert_eq!(rig.leader(), (Some(2), Some(3), true));
    assert_eq!(names(&rig.diffs)[..2], ["EpochRegressed", "LeaderChanged"]);
}

/// metadata.md T18, control
#[test]
fn one_lagging_broker_never_turns_the_fence_back() {
    let mut rig = Rig::standard();
    let start = rig.now;
    while rig.now.since(start).as_secs() < 120 {
        rig.want(Reason::UnknownLeaderEpoch, 5);
        let lagging = rig.next_request().to == Target::Broker(BrokerId(3));
        rig.answer(&if lagging {
            Reply::row_of(2, 3)
        } else {
            Reply::standard()
        });
    }
    assert!(rig.count(Counted::StaleRow) > 1);
    assert_eq!(rig.leader(), (Some(1), Some(5), true));
}

#[test]
fn a_regression_is_not_believed_while_the_leader_holds_its_epoch() {
    let mut rig = Rig::standard();
    let start = rig.now;
    while rig.now.since(start).as_secs() < 60 {
        rig.want(Reason::NotLeader, 5);
        rig.round(&Reply::row_of(2, 3));
    }
    assert_eq!(rig.leader(), (Some(1), Some(5), true));
    rig.hint(1, vec![hint(2, 3)], vec![]);
    rig.want(Reason::NotLeader, 5);
    rig.round(&Reply::row_of(2, 3));
    assert_eq!(
        rig.leader(),
        (Some(2), Some(3), true),
        "the leader itself said so"
    );
}

/// metadata.md T22 (a)
#[test]
fn an_isr_that_reverts_on_another_broker_is_held() {
    let mut rig = shrunk();
    assert_eq!(rig.isrs_told(), [[1, 3]]);
    rig.want(Reason::OutsideIsr, 4);
    let other = rig.next_request();
    assert_ne!(other.to, Target::Broker(BrokerId(1)));
    rig.answer(&Reply::standard());
    assert_eq!(rig.isrs_told(), [[1, 3]]);
    assert_eq!(rig.count(Counted::IsrHeld), 1);
    let confirming = rig.next_request();
    assert_eq!(
        confirming.to,
        Target::Broker(BrokerId(1)),
        "the leader knows best"
    );
    rig.answer(&Reply::standard().isr([1, 3]));
    assert_eq!(rig.isrs_told(), [[1, 3]]);
}

/// metadata.md T22 (b)
#[test]
fn an_isr_that_reverts_is_published_once_the_leader_confirms() {
    let mut rig = shrunk();
    rig.want(Reason::OutsideIsr, 4);
    rig.round(&Reply::standard());
    rig.round(&Reply::standard());
    assert_eq!(rig.isrs_told(), [vec![1, 3], vec![1, 2, 3]]);
}

#[test]
fn an_isr_that_changes_forward_is_published_whoever_tells_it() {
    let mut rig = shrunk();
    rig.want(Reason::OutsideIsr, 4);
    rig.round(&Reply::standard().isr([1]));
    assert_eq!(rig.isrs_told(), [vec![1, 3], vec![1]]);
}

#[test]
fn the_order_of_an_isr_list_is_no_news() {
    let mut rig = Rig::standard();
    rig.want(Reason::OutsideIsr, 4);
    rig.round(&Reply::standard().isr([3, 1, 2]));
    assert!(names(&rig.diffs).is_empty());
}

#[test]
fn replicas_that_go_offline_are_told_with_their_racks() {
    let mut rig = Rig::standard();
    rig.want(Reason::OutsideIsr, 4);
    rig.round(&Reply::standard().edit(|row| row.offline = vec![BrokerId(3)]));
    let [Diff::ReplicasChanged { offline, racks, .. }, _] = &rig.diffs[..] else {
        panic!("one change: {:?}", rig.diffs)
    };
    assert_eq!(offline[..], [BrokerId(3)]);
    assert_eq!(racks.iter().flatten().count(), 3);
}

/// A cluster in which the leader, broker 1, told that 2 left the in-sync list.
fn shrunk() -> Rig {
    let mut rig = Rig::standard();
    let want = nearside::cluster::Want::Topic("t".into());
    rig.input(nearside::cluster::Input::Refresh {
        reason: Reason::OutsideIsr,
        wants: vec![want],
        prefer: Some(BrokerId(1)),
        waiter: None,
    });
    let sent = rig.round(&Reply::standard().isr([1, 3]));
    assert_eq!(
        sent.to,
        Target::Broker(BrokerId(1)),
        "the leader is asked about its in-sync list"
    );
    rig
}
