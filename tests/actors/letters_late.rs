//! Dead letters that cannot be written at once: refused, lost, cut short by a stop, a rebalance or
//! a crash. Nothing is finished but by an acknowledgement, and nothing is lost.

use std::time::Duration;

use nearside::embedded::{Api, Effect, Rule, RuleId};
use nearside::fleet::{Event, FleetHandle, Victim};
use nearside::ids::{BrokerId, Offset, TopicPartition};
use nearside::prelude::*;

use crate::damaged::{of_garbage, of_unknown_codec, of_zeros};
use crate::letters::{DEAD, Letters, keeping, kept, placed, with_poison_in_the_middle};
use crate::stage::{Seen, Stage, pass, run, start, until, until_hashed};

fn is_down(fleet: &FleetHandle) -> bool {
    let diagnostics = fleet.report().diagnostics;
    diagnostics.iter().any(|one| one.name == "dead_letter_down")
}

/// All is seen but the bad batch, which lies in its topic once.
async fn finishes(stage: &Stage, fleet: &FleetHandle, seen: &Seen) {
    until("the rest is seen", || seen.len() == 10).await;
    until("all is committed", || {
        stage.committed("g", &orders(0)) == Some(Offset(15))
    })
    .await;
    assert!(!is_down(fleet));
    fleet.stop(Duration::from_secs(20)).await;
    let good = (0..5).chain(10..15).collect::<Vec<_>>();
    assert_eq!(seen.offsets(&orders(0)), good);
    let letters = Letters::of(stage, DEAD).await;
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].value, Some(placed(&of_unknown_codec(), 5)));
}

/// A fleet that is to keep the poison batch in the middle of a partition, and what its requests to
/// write meet.
async fn meeting(rule: Rule) -> (Stage, Seen, FleetHandle, RuleId) {
    let stage = Stage::new();
    stage.orders(1);
    with_poison_in_the_middle(&stage, 0);
    let rule = stage.cluster().with(|cluster| cluster.inject(rule));
    let seen = Seen::default();
    let fleet = start(keeping(&stage, seen.noting("orders"))).await;
    (stage, seen, fleet, rule)
}

#[test]
fn a_refused_letter_raises_a_diagnostic_and_is_written_once_the_topic_takes_it() {
    run(async {
        let refuse = Rule::error(TOPIC_AUTHORIZATION_FAILED).on(Api::Produce);
        let (stage, seen, fleet, rule) = meeting(refuse).await;
        until("it is told", || is_down(&fleet)).await;
        pass(Duration::from_secs(300)).await;
        let tries = stage.requests(Api::Produce);
        assert!((8..=20).contains(&tries), "{tries} in five minutes");
        assert_eq!(stage.committed("g", &orders(0)), Some(Offset(5)));
        assert_ne!(fleet.report().partitions[0].state, "failed");
        stage.cluster().with(|cluster| cluster.withdraw(rule));
        finishes(&stage, &fleet, &seen).await;
    });
}

#[test]
fn a_connection_lost_after_the_write_does_not_write_it_twice() {
    run(async {
        let late = Rule::new(Effect::Delay(Duration::from_secs(5))).on(Api::Produce);
        let late = late.times(1);
        let (stage, seen, fleet, _) = meeting(late).await;
        until("the letter is written", || stage.end(DEAD, 0) == 1).await;
        stage.cluster().with(|cluster| {
            for broker in 1..=3 {
                cluster.drop_connections(BrokerId(broker));
            }
        });
        finishes(&stage, &fleet, &seen).await;
        assert_eq!(
            stage.requests(Api::Produce),
            2,
            "the first one got no answer"
        );
    });
}

#[test]
fn a_letter_follows_the_leader_of_its_topic() {
    run(async {
        let stage = Stage::new();
        stage.orders(1);
        with_poison_in_the_middle(&stage, 0);
        let former = stage.leader(DEAD, 0).expect("has a leader");
        let stuck = Rule::new(Effect::Swallow).on(Api::Produce).at(former);
        stage.cluster().with(|cluster| cluster.inject(stuck));
        let seen = Seen::default();
        let fleet = start(keeping(&stage, seen.noting("orders"))).await;
        until("the letter is out", || stage.requests(Api::Produce) == 1).await;
        let dead = TopicPartition::new(DEAD, 0);
        let next = BrokerId(former % 3 + 1);
        stage
            .cluster()
            .with(|cluster| cluster.move_leader(&dead, next))
            .expect("in sync");
        let moved = tokio::time::Instant::now();
        until("the letter is written", || stage.end(DEAD, 0) == 1).await;
        // Far below the 30 s that an answer may take.
        assert!(
            moved.elapsed() < Duration::from_secs(8),
            "{:?}",
            moved.elapsed()
        );
        finishes(&stage, &fleet, &seen).await;
    });
}

#[test]
fn a_stop_waits_for_a_letter_that_is_out_and_commits_it() {
    run(async {
        let late = Rule::new(Effect::Delay(Duration::from_secs(5))).on(Api::Produce);
        let (stage, seen, fleet, _) = meeting(late).await;
        until("the letter is written", || stage.end(DEAD, 0) == 1).await;
        let stopped = fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(stopped.unfinished, []);
        assert_eq!(stage.committed("g", &orders(0)), Some(Offset(10)));
        assert_eq!(seen.len(), 5, "nothing new begins in a drain");
    });
}

#[test]
fn a_stop_ends_without_a_letter_that_does_not_come_back_and_commits_nothing_of_it() {
    run(async {
        let lost = Rule::new(Effect::Swallow).on(Api::Produce);
        let (stage, _, fleet, rule) = meeting(lost).await;
        until("the letter is out", || stage.requests(Api::Produce) == 1).await;
        let asked = tokio::time::Instant::now();
        let stopped = fleet.stop(Duration::from_secs(20)).await;
        assert!(
            asked.elapsed() < Duration::from_secs(28),
            "{:?}",
            asked.elapsed()
        );
        assert_eq!(stopped.unfinished.len(), 1);
        assert_eq!(stage.committed("g", &orders(0)), Some(Offset(5)));
        stage.cluster().with(|cluster| cluster.withdraw(rule));
        let seen = Seen::default();
        let fleet = start(keeping(&stage, seen.noting("orders"))).await;
        until("the next member writes it", || seen.len() == 5).await;
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(seen.offsets(&orders(0)), (10..15).collect::<Vec<_>>());
        assert_eq!(stage.committed("g", &orders(0)), Some(Offset(15)));
        assert_eq!(stage.end(DEAD, 0), 1);
    });
}

#[test]
fn a_partition_that_is_handed_over_without_its_letter_gets_one_from_its_next_owner() {
    run(async {
        let stage = Stage::new();
        stage.orders(2);
        for partition in 0..2 {
            with_poison_in_the_middle(&stage, partition);
        }
        let lost = Rule::new(Effect::Swallow).on(Api::Produce);
        let rule = stage.cluster().with(|cluster| cluster.inject(lost));
        let seen = Seen::default();
        let first = start(keeping(&stage, seen.noting("orders"))).await;
        until("both letters are out", || kept(&first) == 2).await;
        let second = start(keeping(&stage, seen.noting("orders"))).await;
        until("one is handed over", || {
            second.report().partitions.len() == 1
        })
        .await;
        assert_eq!(first.report().partitions.len(), 1);
        until("it is met again", || kept(&second) == 1).await;
        for partition in 0..2 {
            let committed = stage.committed("g", &orders(partition));
            assert_eq!(committed, Some(Offset(5)), "partition {partition}");
        }
        stage.cluster().with(|cluster| cluster.withdraw(rule));
        let all = |partition| stage.committed("g", &orders(partition)) == Some(Offset(15));
        until("all is committed", || all(0) && all(1)).await;
        first.stop(Duration::from_secs(20)).await;
        second.stop(Duration::from_secs(20)).await;
        for partition in 0..2 {
            let good = (0..5).chain(10..15).collect::<Vec<_>>();
            assert_eq!(seen.offsets(&orders(partition)), good);
            assert!(stage.end(DEAD, partition) >= 1);
        }
    });
}

#[test]
fn a_producer_that_dies_has_its_letters_sent_again() {
    run(async {
        let lost = Rule::new(Effect::Swallow).on(Api::Produce);
        let (stage, seen, fleet, rule) = meeting(lost).await;
        until("the letter is out", || stage.requests(Api::Produce) == 1).await;
        stage.cluster().with(|cluster| cluster.withdraw(rule));
        fleet.crash(Victim::Producer);
        finishes(&stage, &fleet, &seen).await;
        let restarted = |event: &Event| matches!(event, Event::ActorRestarted { .. });
        let events = fleet.recent_events();
        assert_eq!(events.iter().filter(|it| restarted(&it.event)).count(), 1);
    });
}

#[test]
fn a_producer_that_dies_leaves_no_diagnostic_behind() {
    run(async {
        let refuse = Rule::error(TOPIC_AUTHORIZATION_FAILED).on(Api::Produce);
        let (stage, seen, fleet, rule) = meeting(refuse).await;
        until("it is told", || is_down(&fleet)).await;
        stage.cluster().with(|cluster| cluster.withdraw(rule));
        fleet.crash(Victim::Producer);
        finishes(&stage, &fleet, &seen).await;
    });
}

#[test]
fn a_partition_that_dies_while_its_letter_is_out_goes_on_all_the_same() {
    run(async {
        let late = Rule::new(Effect::Delay(Duration::from_secs(5))).on(Api::Produce);
        let (stage, seen, fleet, _) = meeting(late).await;
        until("the letter is out", || stage.requests(Api::Produce) == 1).await;
        fleet.crash(Victim::Partition(orders(0)));
        until("the rest is seen", || seen.len() == 10).await;
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(stage.committed("g", &orders(0)), Some(Offset(15)));
        // The next life does not know of the first letter.
        assert!((1..=2).contains(&stage.end(DEAD, 0)));
    });
}

#[test]
fn a_letter_waits_for_a_topic_that_was_deleted_until_it_is_there_again() {
    run(async {
        let stage = Stage::new();
        stage.orders(1);
        let seen = Seen::default();
        stage.produce("orders", 0, 5);
        let fleet = start(keeping(&stage, seen.noting("orders"))).await;
        until("the first are seen", || seen.len() == 5).await;
        stage
            .cluster()
            .with(|cluster| cluster.delete_topic(&DEAD.into()))
            .expect("exists");
        stage.append("orders", 0, of_unknown_codec());
        stage.produce("orders", 0, 5);
        until("it is told", || is_down(&fleet)).await;
        pass(Duration::from_secs(200)).await;
        assert_eq!(stage.committed("g", &orders(0)), Some(Offset(5)));
        stage.topic(DEAD, 1);
        finishes(&stage, &fleet, &seen).await;
    });
}

#[test]
fn what_lies_before_a_kept_batch_is_handled_although_its_letter_is_faster() {
    // What is inflated elsewhere takes real time, as hashing does.
    run(async {
        let stage = Stage::new();
        stage.orders(1);
        for _ in 0..20 {
            stage.append("orders", 0, of_zeros(100_000));
        }
        stage.append("orders", 0, of_unknown_codec());
        stage.produce("orders", 0, 5);
        let seen = Seen::default();
        let slow = seen.clone();
        let handler = handler_fn(move |message: Message<Raw>, _| {
            slow.note(&message);
            async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(Outcome::Done)
            }
        });
        let fleet = keeping(&stage, Subscription::topics(["orders"]).handler(handler));
        let fleet = start(fleet.property("max.partition.fetch.bytes", "16384")).await;
        until_hashed("the letter is written", || stage.end(DEAD, 0) == 1).await;
        pass(Duration::from_secs(1)).await;
        assert!(
            seen.len() < 20,
            "the letter was to be faster: {}",
            seen.len()
        );
        let all = || stage.committed("g", &orders(0)) == Some(Offset(50));
        until_hashed("all is committed", all).await;
        fleet.stop(Duration::from_secs(20)).await;
        let good = (0..40).chain(45..50).collect::<Vec<_>>();
        assert_eq!(seen.offsets(&orders(0)), good);
    });
}

#[test]
fn a_batch_too_large_for_a_request_halts_its_partition_and_says_why() {
    run(async {
        let stage = Stage::new();
        stage.orders(1);
        stage.produce("orders", 0, 5);
        stage.append("orders", 0, of_garbage(30_000));
        stage.produce("orders", 0, 5);
        let seen = Seen::default();
        let fleet = keeping(&stage, seen.noting("orders")).property("max.request.size", "20000");
        let fleet = start(fleet.property("batch.size", "16384")).await;
        let reason = || {
            let failed = |event: &Event| match event {
                Event::PartitionFailed { reason, .. } => Some(reason.clone()),
                _ => None,
            };
            let events = fleet.recent_events();
            events.iter().find_map(|it| failed(&it.event))
        };
        until("it fails", || reason().is_some()).await;
        let reason = reason().expect("just seen");
        assert!(reason.contains("max.request.size"), "{reason}");
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(stage.committed("g", &orders(0)), Some(Offset(5)));
        assert_eq!((seen.len(), stage.end(DEAD, 0)), (5, 0));
    });
}

#[test]
fn a_fleet_without_its_dead_letter_topic_stops_soon_after_the_start_and_says_so() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        let fleet = start(keeping(&stage, Seen::default().noting("orders"))).await;
        let stopped = fleet.stopped().await;
        let reason = stopped.reason.to_string();
        assert!(reason.contains("`orders.dead-letter`"), "{reason}");
        assert!(reason.contains("create it"), "{reason}");
    });
}

#[test]
fn a_fleet_that_would_read_its_own_dead_letters_does_not_start() {
    run(async {
        let stage = Stage::new();
        stage.orders(1);
        let handler = || handler_fn(|_: Message<Raw>, _| async { Ok(Outcome::Done) });
        let both = Subscription::topics(["orders", DEAD]).handler(handler());
        let pattern = Subscription::pattern("orders.*").handler(handler());
        for subscription in [both, pattern] {
            let refused = keeping(&stage, subscription).start_on_this_thread().await;
            let error = refused.expect_err("it reads what it writes").to_string();
            assert!(error.contains("which is subscribed"), "{error}");
        }
    });
}

fn orders(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

const TOPIC_AUTHORIZATION_FAILED: i16 = 29;
