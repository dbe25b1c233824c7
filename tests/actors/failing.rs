//! Handlers that fail, brokers that fail, leaders that move.

use std::collections::BTreeSet;
use std::time::Duration;

use nearside::embedded::{Cluster, Link};
use nearside::fleet::{Event as FleetEvent, StopReason};
use nearside::ids::{BrokerId, Offset, TopicPartition};
use nearside::prelude::*;

use crate::stage::{Seen, Stage, pass, run, start, until};

/// runtime.md 2, over whole partitions: a panic is an outcome, and nothing is skipped.
#[test]
fn a_handler_that_panics_at_the_first_attempt_of_every_tenth_record_loses_nothing() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 3);
        for partition in 0..3 {
            stage.produce("orders", partition, 200);
        }
        let seen = Seen::default();
        let noted = seen.clone();
        let handler = handler_fn(move |message: Message<Raw>, context: Context| {
            let noted = noted.clone();
            async move {
                if message.offset().0 % 10 == 0 && context.attempt() == 1 {
                    panic!("tenth record");
                }
                noted.note(&message);
                Ok(Outcome::Done)
            }
        });
        let subscription = Subscription::topics(["orders"]).handler(handler);
        let fleet = stage.start("b", subscription).await;
        until("all records are done", || seen.len() == 600).await;
        let stopped = fleet.stop(Duration::from_secs(20)).await;
        for partition in 0..3 {
            let at = TopicPartition::new("orders", partition);
            assert_eq!(seen.offsets(&at), (0..200).collect::<Vec<_>>());
            assert_eq!(stage.committed("g", &at), Some(Offset(200)));
        }
        assert_eq!(stopped.report.totals.attempts_panicked, 60);
        assert_eq!(stopped.report.totals.restarts, 0, "no actor died");
    });
}

/// runtime.md 9
#[test]
fn a_stop_on_record_five_drains_commits_five_leaves_and_names_the_place() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        stage.produce("orders", 0, 10);
        let seen = Seen::default();
        let noted = seen.clone();
        let handler = handler_fn(move |message: Message<Raw>, _: Context| {
            noted.note(&message);
            async move {
                Ok(match message.offset().0 {
                    5 => Outcome::stop("five is enough"),
                    _ => Outcome::Done,
                })
            }
        });
        let subscription = Subscription::topics(["orders"]).handler(handler);
        let fleet = stage.start("b", subscription).await;
        let stopped = fleet.stopped().await;
        let at = TopicPartition::new("orders", 0);
        match &stopped.reason {
            StopReason::Handler {
                partition,
                offset,
                reason,
            } => {
                assert_eq!((partition, *offset), (&at, Offset(5)));
                assert!(reason.contains("five is enough"), "{reason}");
            }
            other => panic!("stopped for another reason: {other}"),
        }
        assert_eq!(seen.offsets(&at), (0..=5).collect::<Vec<_>>());
        assert_eq!(stage.committed("g", &at), Some(Offset(5)));
        assert!(stage.is_empty_group("g"), "the member has left");
    });
}

#[test]
fn a_killed_follower_costs_no_record_and_is_read_again_once_it_is_back() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 3);
        let seen = Seen::default();
        let fleet = stage.start("b", seen.noting("orders")).await;
        produce_all(&stage, 100);
        until("the first records are seen", || seen.len() == 300).await;
        let served = stage.record_bytes(2);
        assert!(served > 0, "broker 2 serves its rack");

        stage.cluster().with(|cluster| cluster.kill(BrokerId(2)));
        until("others lead", || {
            (0..3).all(|partition| stage.leader("orders", partition) != Some(2))
        })
        .await;
        produce_all(&stage, 100);
        until("records flow from the leaders", || seen.len() == 600).await;
        assert_eq!(
            stage.record_bytes(2),
            served,
            "a dead broker serves nothing"
        );

        stage.cluster().with(|cluster| cluster.revive(BrokerId(2)));
        let mut rounds = 0;
        while stage.record_bytes(2) == served {
            rounds += 1;
            assert!(rounds < 200, "broker 2 is never read again");
            produce_all(&stage, 1);
            let goal = 600 + 3 * rounds;
            until("the round is seen", || seen.len() == goal).await;
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        fleet.stop(Duration::from_secs(20)).await;
        assert_in_order_without_gap(&seen, 3);
    });
}

#[test]
fn moving_every_leader_loses_nothing_and_resets_nothing() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 3);
        let seen = Seen::default();
        let fleet = stage.start("b", seen.noting("orders")).await;
        produce_all(&stage, 50);
        until("the first records are seen", || seen.len() == 150).await;
        for round in 1..=6_usize {
            for partition in 0..3 {
                let to = BrokerId(i32::try_from((round + partition) % 3).expect("small") + 1);
                let at = TopicPartition::new("orders", i32::try_from(partition).expect("small"));
                stage
                    .cluster()
                    .with(|cluster| cluster.move_leader(&at, to))
                    .expect("in sync");
            }
            produce_all(&stage, 50);
            let goal = 150 * (round + 1);
            until("records flow after the move", || seen.len() == goal).await;
        }
        let resets = fleet
            .recent_events()
            .iter()
            .filter(|event| is_later_reset(&event.event))
            .count();
        assert_eq!(resets, 0);
        fleet.stop(Duration::from_secs(20)).await;
        assert_in_order_without_gap(&seen, 3);
    });
}

/// runtime.md 57 in its first half: what finished is not run again, what was not is.
#[test]
fn a_second_start_goes_on_behind_the_commit_of_the_first() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 3);
        produce_all(&stage, 100);
        let first = Seen::default();
        let fleet = stage.start("b", first.noting("orders")).await;
        until("some records are seen", || first.len() >= 120).await;
        fleet.stop(Duration::from_secs(20)).await;

        produce_all(&stage, 100);
        let second = Seen::default();
        let fleet = stage.start("c", second.noting("orders")).await;
        until("the rest is seen", || first.len() + second.len() >= 600).await;
        fleet.stop(Duration::from_secs(20)).await;
        for partition in 0..3 {
            let at = TopicPartition::new("orders", partition);
            let both = [first.offsets(&at), second.offsets(&at)].concat();
            assert_eq!(both, (0..200).collect::<Vec<_>>(), "{at}");
        }
    });
}

/// runtime.md 30
#[test]
fn a_second_member_takes_half_of_the_partitions_and_the_others_never_stop() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 4);
        let first = Seen::default();
        let one = stage.start("a", first.noting("orders")).await;
        until("all four are assigned", || {
            one.report().partitions.len() == 4
        })
        .await;
        let second = Seen::default();
        let two = stage.start("b", second.noting("orders")).await;
        until("they share", || {
            one.report().partitions.len() == 2 && two.report().partitions.len() == 2
        })
        .await;
        let revoked: BTreeSet<TopicPartition> = one
            .recent_events()
            .iter()
            .filter_map(|event| match &event.event {
                FleetEvent::Revoked { partitions } => Some(partitions.clone()),
                _ => None,
            })
            .flatten()
            .collect();
        assert_eq!(revoked.len(), 2, "only what moved was revoked");
        for partition in 0..4 {
            stage.produce("orders", partition, 25);
        }
        until("all is seen", || first.len() + second.len() == 100).await;
        one.stop(Duration::from_secs(20)).await;
        until("the other takes over", || {
            two.report().partitions.len() == 4
        })
        .await;
        two.stop(Duration::from_secs(20)).await;
        for partition in 0..4 {
            let at = TopicPartition::new("orders", partition);
            let both = [first.offsets(&at), second.offsets(&at)].concat();
            assert_eq!(both, (0..25).collect::<Vec<_>>(), "{at}");
        }
    });
}

fn produce_all(stage: &Stage, count: usize) {
    for partition in 0..3 {
        stage.produce("orders", partition, count);
    }
}

fn assert_in_order_without_gap(seen: &Seen, partitions: i32) {
    for partition in 0..partitions {
        let offsets = seen.offsets(&TopicPartition::new("orders", partition));
        let count = i64::try_from(offsets.len()).expect("small");
        assert_eq!(offsets, (0..count).collect::<Vec<_>>());
    }
}

fn is_later_reset(event: &FleetEvent) -> bool {
    matches!(event, FleetEvent::PositionReset { from: Some(_), .. })
}

/// metadata.md 5: a broker that nobody reaches while its address changes is dialled at the new one.
#[test]
fn a_broker_that_comes_back_under_another_address_is_read_again() {
    run(async {
        let stage = Stage::new();
        let created = |cluster: &mut Cluster| {
            cluster.create_topic("orders", 3, 1).expect("creatable");
        };
        stage.cluster().with(created);
        for partition in 0..3 {
            stage.produce("orders", partition, 10);
        }
        let seen = Seen::default();
        let fleet = stage.start("b", seen.noting("orders")).await;
        until("all records are done", || seen.len() == 30).await;

        let leader = BrokerId(stage.leader("orders", 0).expect("led"));
        stage
            .cluster()
            .with(|cluster| cluster.set_link(leader, Link::Refused));
        pass(Duration::from_secs(20)).await;
        stage.cluster().with(|cluster| {
            cluster.readdress(leader, "elsewhere.embedded", 9_093);
            cluster.set_link(leader, Link::Open);
        });
        stage.produce("orders", 0, 10);
        let back = tokio::time::Instant::now();
        until("the new records are done", || seen.len() == 40).await;
        assert!(
            back.elapsed() < Duration::from_secs(60),
            "{:?}",
            back.elapsed()
        );
        fleet.stop(Duration::from_secs(20)).await;
    });
}

/// Sums with it must not overflow.
#[test]
fn a_stop_without_end_to_its_deadline_ends_like_any_other() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        stage.produce("orders", 0, 5);
        let seen = Seen::default();
        let fleet = start(stage.fleet("g", "b", seen.noting("orders"))).await;
        until("all is handled", || seen.len() == 5).await;
        let stopped = fleet.stop(Duration::MAX).await;
        assert!(
            matches!(stopped.reason, StopReason::Requested),
            "{stopped:?}"
        );
        let at = TopicPartition::new("orders", 0);
        assert_eq!(stage.committed("g", &at), Some(Offset(5)));
    });
}

#[test]
fn names_that_no_broker_takes_are_refused_before_anything_is_dialled() {
    run(async {
        let stage = Stage::new();
        let seen = Seen::default();
        for (group, topic, told) in [
            ("", "orders", "`group.id` has 0 bytes"),
            ("g", "two words", "\"two words\" (9 bytes) names no topic"),
            ("g", &"x".repeat(250), "(250 bytes) names no topic"),
        ] {
            let builder = stage.fleet(group, "b", seen.noting(topic));
            let refused = builder.start_on_this_thread().await.err();
            let text = refused.map(|error| error.to_string()).unwrap_or_default();
            assert!(text.contains(told), "{text}");
        }
    });
}
