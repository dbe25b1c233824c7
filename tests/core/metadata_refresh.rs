//! When the machine asks, whom, and what it does without an answer (metadata.md 8 and 9).

use std::collections::BTreeSet;

use nearside::cluster::{
    ClusterChange, Counted, Diff, Endpoint, Input, Interest, LinkState, Reason, RebootstrapReason,
    RecoveryStrategy, Settings, Target, Waiter, Want,
};
use nearside::ids::{BrokerId, TopicPartition};
use nearside::wire::ErrorCode;

use super::metadata_rig::{Reply, Rig, hint, names, t0};

#[test]
fn nobody_is_asked_before_anything_is_wanted() {
    let mut rig = Rig::asleep(Settings::default());
    assert_eq!(rig.machine.next_deadline(), None);
    rig.input(Input::Tick);
    assert!(rig.sent.is_empty());
    rig.input(Input::Subscribe(Interest::topics(["t"])));
    assert_eq!(rig.sent[0].to, Target::Bootstrap(0));
    assert_eq!(rig.sent[0].topics, Some(vec!["t".to_owned()]));
}

#[test]
fn everything_subscribed_is_asked_for_within_the_maximum_age() {
    let mut rig = Rig::standard();
    let start = rig.now;
    for _ in 0..20 {
        let before = rig.now;
        let sent = rig.round(&Reply::standard());
        let age = rig.now.since(before).as_millis();
        assert!((270_000..=300_000).contains(&age), "{age} ms");
        assert_eq!(sent.topics, Some(vec!["t".to_owned()]));
    }
    assert_eq!(rig.sent.len(), 20);
    assert!(rig.now > start);
}

#[test]
fn a_pattern_asks_for_all_topics_and_keeps_those_that_match() {
    let mut rig = Rig::asleep(Settings::default());
    let patterns = vec![regex::Regex::new("^t.*$").unwrap()];
    rig.input(Input::Subscribe(Interest {
        topics: BTreeSet::new(),
        patterns,
    }));
    assert_eq!(rig.sent[0].topics, None);
    rig.answer(
        &Reply::standard()
            .topic("t2", 2)
            .row(0, 1, 0)
            .topic("other", 3)
            .row(0, 1, 0),
    );
    let mut names: Vec<_> = rig
        .machine
        .snapshot()
        .topics()
        .map(|t| t.name.to_string())
        .collect();
    names.sort();
    assert_eq!(names, ["t", "t2"]);
}

/// metadata.md T15
#[test]
fn a_thousand_partitions_that_move_at_once_cost_one_request() {
    let rows = |leader: i32, epoch: i32| {
        let reply = Reply::brokers(1..=3).topic("t", 1);
        (0..1_000).fold(reply, |reply, index| reply.row(index, leader, epoch))
    };
    let mut rig = Rig::with(Settings::default(), &rows(1, 5));
    for index in 0..1_000 {
        let partition = TopicPartition::new("t", index);
        if index % 2 == 0 {
            let moved = nearside::cluster::Hint {
                partition,
                ..hint(2, 6)
            };
            rig.hint(1, vec![moved], vec![]);
        } else {
            let want = Want::Leader {
                partition,
                failed: Some(5.into()),
            };
            let (reason, wants) = (Reason::NotLeader, vec![want]);
            rig.input(Input::Refresh {
                reason,
                wants,
                prefer: None,
                waiter: None,
            });
        }
        if index % 25 == 0 {
            rig.advance_ms(1);
        }
    }
    rig.round(&rows(2, 6));
    rig.advance_ms(60_000);
    assert_eq!(rig.sent.len(), 1);
    let moved = |row: &nearside::cluster::Partition| row.leader() == Some(BrokerId(2));
    let snapshot = rig.machine.snapshot();
    assert!(
        snapshot
            .topic(&"t".into())
            .unwrap()
            .partitions
            .values()
            .all(moved)
    );
}

#[test]
fn a_request_in_flight_holds_back_the_next_one() {
    let mut rig = Rig::standard();
    rig.want(Reason::NotLeader, 5);
    let first = rig.next_request();
    let want = Want::Topic("u".into());
    let (reason, wants) = (Reason::Subscription, vec![want]);
    rig.input(Input::Refresh {
        reason,
        wants,
        prefer: None,
        waiter: None,
    });
    rig.advance_ms(1_900);
    assert_eq!(rig.sent.len(), 1);
    rig.answer_to(first.token, &Reply::row_of(2, 6));
    assert_eq!(rig.sent.len(), 2, "what came up meanwhile goes out at once");
    assert_eq!(rig.sent[1].topics, Some(vec!["u".to_owned()]));
}

#[test]
fn a_waiter_is_told_by_the_first_answer_to_a_request_sent_after_it_asked() {
    let mut rig = Rig::standard();
    let wait = |waiter| Input::Refresh {
        reason: Reason::OutsideIsr,
        wants: vec![Want::Topic("t".into())],
        prefer: None,
        waiter: Some(Waiter(waiter)),
    };
    rig.input(wait(1));
    rig.next_request();
    rig.input(wait(2));
    rig.answer(&Reply::standard());
    assert_eq!(rig.waiters, [Waiter(1)]);
    rig.round(&Reply::standard());
    assert_eq!(rig.waiters, [Waiter(1), Waiter(2)]);
}

#[test]
fn a_need_ends_when_the_leader_is_newer_than_the_one_that_failed() {
    let mut rig = Rig::standard();
    rig.want(Reason::NotLeader, 5);
    let mut gaps = Vec::new();
    for _ in 0..9 {
        let before = rig.now;
        rig.round(&Reply::standard());
        gaps.push(rig.now.since(before).as_millis());
    }
    assert_eq!(rig.count(Counted::NoProgress), 9);
    let doubles = [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000];
    for (gap, plain) in gaps.iter().zip(doubles).skip(1) {
        assert!((plain * 8 / 10..=plain * 12 / 10).contains(gap), "{gaps:?}");
    }
    let (one, two) = (&rig.sent[7], &rig.sent[8]);
    assert_ne!(one.to, two.to, "staleness is per broker");
    rig.round(&Reply::row_of(2, 6));
    rig.forget();
    rig.advance_ms(60_000);
    assert!(rig.sent.is_empty());
}

#[test]
fn a_need_nobody_repeats_ends_when_the_same_leader_is_reachable() {
    let mut rig = Rig::standard();
    rig.want(Reason::NotLeader, 5);
    let start = rig.now;
    while rig.now.since(start).as_secs() < 40 {
        rig.round(&Reply::standard());
    }
    rig.forget();
    rig.advance_ms(60_000);
    assert!(
        rig.sent.is_empty(),
        "not for ever after all leaders are known"
    );
}

#[test]
fn losing_the_link_to_a_leader_asks_for_a_new_one_until_the_link_is_back() {
    let mut rig = Rig::standard();
    rig.link(2, LinkState::Lost);
    rig.advance_ms(20_000);
    assert!(rig.sent.is_empty(), "2 leads nothing");
    rig.link(1, LinkState::Lost);
    let sent = rig.round(&Reply::standard());
    assert_ne!(sent.to, Target::Broker(BrokerId(1)));
    rig.round(&Reply::standard());
    rig.link(1, LinkState::Ready);
    rig.round(&Reply::standard());
    rig.forget();
    rig.advance_ms(60_000);
    assert!(rig.sent.is_empty());
}

#[test]
fn a_failed_request_goes_to_another_broker_at_once_twice() {
    let mut rig = Rig::standard();
    rig.want(Reason::NotLeader, 5);
    let first = rig.next_request();
    rig.fail();
    rig.fail();
    let [_, second, third] = &rig.sent[..] else {
        panic!("two retries: {:?}", rig.sent)
    };
    assert_eq!((second.at, third.at), (first.at, first.at));
    assert_ne!(first.to, second.to);
    assert_ne!(second.to, third.to);
    rig.fail();
    assert_eq!(rig.sent.len(), 3, "then along the curve");
    let fourth = rig.next_request();
    assert!((80..=120).contains(&fourth.at.since(first.at).as_millis()));
}

#[test]
fn an_answer_that_comes_too_late_is_still_merged() {
    let mut rig = Rig::standard();
    rig.want(Reason::NotLeader, 5);
    let first = rig.next_request();
    rig.advance_ms(2_000);
    assert_eq!(rig.sent.len(), 2, "2 s without an answer is a failure");
    rig.answer_to(first.token, &Reply::row_of(2, 6));
    assert_eq!(rig.count(Counted::LateAnswer), 1);
    assert_eq!(rig.leader(), (Some(2), Some(6), true));
    rig.answer_to(first.token, &Reply::row_of(3, 7));
    assert_eq!(
        rig.leader(),
        (Some(2), Some(6), true),
        "a token serves once"
    );
}

/// metadata.md T19 (a) and (c)
#[test]
fn busy_connections_and_a_slow_refresh_are_no_reason_to_rebootstrap() {
    let mut rig = Rig::standard();
    for broker in 1..=3 {
        rig.link(broker, LinkState::Silent);
    }
    rig.link(2, LinkState::Throttled);
    let sent = rig.next_request();
    rig.advance_ms(1_000);
    rig.answer_to(sent.token, &Reply::standard());
    assert_eq!(rig.rebootstraps, 0);
}

/// metadata.md T19 (b)
#[test]
fn an_outage_of_everything_rebootstraps_once() {
    let mut rig = Rig::standard();
    for broker in 1..=3 {
        rig.link(broker, LinkState::Lost);
    }
    assert_eq!(rig.rebootstraps, 0, "lost is not refused");
    for broker in 1..=3 {
        rig.link(broker, LinkState::Failed);
        rig.link(broker, LinkState::Failed);
    }
    assert_eq!(rig.rebootstraps, 1);
    rig.forget();
    rig.advance_ms(10_000);
    assert!(
        rig.sent.is_empty(),
        "nobody is asked until the names are resolved"
    );

    rig.input(Input::Resolved(vec![
        Endpoint::new("kafka", 9092),
        Endpoint::new("spare", 9092),
    ]));
    assert_eq!(rig.sent[0].to, Target::Bootstrap(0));
    rig.fail();
    assert_eq!(rig.sent[1].to, Target::Bootstrap(1));
    rig.answer(&Reply::standard());
    assert_eq!(rig.diffs.last(), Some(&Diff::RebootstrapEnded));
    assert_eq!(rig.rebootstraps, 1);
    assert_eq!(
        rig.leader(),
        (Some(1), Some(5), true),
        "floors and ids are kept"
    );
}

#[test]
fn a_failure_before_the_last_good_refresh_does_not_count() {
    let mut rig = Rig::standard();
    rig.link(1, LinkState::Failed);
    rig.link(2, LinkState::Failed);
    rig.round(&Reply::row_of(3, 6));
    rig.link(3, LinkState::Failed);
    assert_eq!(rig.rebootstraps, 0);
    rig.link(1, LinkState::Failed);
    rig.link(2, LinkState::Failed);
    assert_eq!(rig.rebootstraps, 1);
}

/// metadata.md T20
#[test]
fn a_broker_may_order_a_rebootstrap_and_a_late_success_does_not_cancel_it() {
    let mut rig = Rig::standard();
    rig.want(Reason::NotLeader, 5);
    let first = rig.next_request();
    rig.advance_ms(2_000);
    let mut ordered = Reply::standard();
    ordered.0.error = ErrorCode::REBOOTSTRAP_REQUIRED;
    rig.answer(&ordered);
    let started = Diff::RebootstrapStarted {
        reason: RebootstrapReason::Asked,
    };
    assert!(rig.diffs.contains(&started));
    rig.answer_to(first.token, &Reply::row_of(2, 6));
    assert_eq!(
        rig.leader(),
        (Some(2), Some(6), true),
        "what it says is still true"
    );
    rig.forget();
    rig.input(Input::Resolved(vec![Endpoint::new("new", 9092)]));
    assert_eq!(rig.sent[0].to, Target::Bootstrap(0));
    assert_eq!(rig.machine.bootstrap()[0].to_string(), "new:9092");
}

#[test]
fn two_empty_broker_lists_in_a_row_rebootstrap() {
    let mut rig = Rig::standard();
    rig.want(Reason::NotLeader, 5);
    rig.round(&Reply::brokers([]));
    assert_eq!(
        (rig.rebootstraps, rig.machine.snapshot().brokers().count()),
        (0, 3)
    );
    rig.answer(&Reply::brokers([]));
    assert_eq!(rig.rebootstraps, 1);
}

#[test]
fn no_refresh_for_too_long_after_one_was_due_rebootstraps() {
    let mut rig = Rig::standard();
    rig.want(Reason::NotLeader, 5);
    let due = rig.next_request().at;
    while rig.rebootstraps == 0 {
        let deadline = rig.machine.next_deadline().expect("a deadline");
        rig.now = rig.now.max(deadline);
        rig.input(Input::Tick);
    }
    assert_eq!(rig.now.since(due).as_secs(), 300);
}

#[test]
fn without_a_recovery_strategy_nothing_rebootstraps() {
    let settings = Settings {
        recovery: RecoveryStrategy::None,
        ..Settings::default()
    };
    let mut rig = Rig::with(settings, &Reply::standard());
    for broker in 1..=3 {
        rig.link(broker, LinkState::Failed);
    }
    rig.next_request();
    rig.answer(&Reply::brokers([]));
    rig.answer(&Reply::brokers([]));
    rig.advance_ms(400_000);
    assert_eq!(rig.rebootstraps, 0);
}

/// metadata.md T21
#[test]
fn another_cluster_is_refused_for_good() {
    let mut rig = Rig::standard();
    let before = rig.machine.snapshot().clone();
    rig.want(Reason::NotLeader, 5);
    let mut foreign = Reply::row_of(2, 9);
    foreign.0.cluster_id = Some("d".into());
    rig.round(&foreign);
    assert_eq!(names(&rig.diffs), ["ClusterChanged"]);
    assert!(rig.machine.is_fatal());
    rig.hint_bare(3, 10);
    assert_eq!(
        rig.machine.snapshot().partition(&t0()),
        before.partition(&t0())
    );
    assert_eq!(rig.machine.next_deadline(), None);
}

/// metadata.md T21, `follow`
#[test]
fn another_cluster_is_followed_as_a_new_one() {
    let settings = Settings {
        cluster_change: ClusterChange::Follow,
        ..Settings::default()
    };
    let mut rig = Rig::with(settings, &Reply::standard());
    rig.want(Reason::NotLeader, 5);
    let mut foreign = Reply::row_of(2, 0);
    foreign.0.cluster_id = Some("d".into());
    rig.round(&foreign);
    assert_eq!(names(&rig.diffs)[0], "ClusterChanged");
    assert_eq!(rig.leader(), (Some(2), Some(0), true));
    let topic = rig.machine.snapshot().topic(&"t".into()).unwrap().clone();
    assert_eq!(
        topic.incarnation.0, 1,
        "nothing of the old cluster is taken for the new one"
    );
}

#[test]
fn a_topic_no_longer_subscribed_is_forgotten() {
    let mut rig = Rig::standard();
    rig.input(Input::Subscribe(Interest::topics(["u"])));
    rig.round(&Reply::brokers(1..=3).topic("u", 2).row(0, 2, 0));
    assert!(rig.machine.snapshot().topic(&"t".into()).is_none());
    assert!(rig.machine.snapshot().topic(&"u".into()).is_some());
}
