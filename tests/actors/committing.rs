//! What is committed, when, and what a refused commit costs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nearside::embedded::{Api, Effect, Rule};
use nearside::ids::{Offset, TopicPartition};
use nearside::prelude::*;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::stage::{Seen, Stage, emptied, pass, run, until};

/// runtime.md 6
#[test]
fn retry_after_five_seconds_is_attempt_two_and_not_before() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        stage.produce("orders", 0, 2);
        let attempts = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&attempts);
        let handler = handler_fn(move |message: Message<Raw>, context: Context| {
            let attempt = (message.offset().0, context.attempt(), Instant::now());
            noted.lock().expect("no panic").push(attempt);
            async move {
                Ok(match attempt {
                    (0, 1, _) => Outcome::retry_after(Duration::from_secs(5)),
                    _ => Outcome::Done,
                })
            }
        });
        let subscription = Subscription::topics(["orders"]).handler(handler);
        let fleet = stage.start("b", subscription).await;
        until("three attempts ran", || attempts.lock().unwrap().len() == 3).await;
        fleet.stop(Duration::from_secs(20)).await;
        let attempts = attempts.lock().unwrap().clone();
        let numbers: Vec<_> = attempts.iter().map(|one| (one.0, one.1)).collect();
        assert_eq!(numbers, vec![(0, 1), (0, 2), (1, 1)]);
        let pause = attempts[1].2 - attempts[0].2;
        assert!(pause >= Duration::from_secs(5), "{pause:?}");
        assert!(pause < Duration::from_secs(6), "{pause:?}");
    });
}

/// runtime.md 23
#[test]
fn an_empty_compacted_batch_moves_the_watermark_past_all_it_covers() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        stage.produce("orders", 0, 100);
        stage.append("orders", 0, emptied(42));
        let seen = Seen::default();
        let fleet = stage.start("b", seen.noting("orders")).await;
        until("the watermark passes the batch", || {
            let report = fleet.report();
            let row = report.partitions.first();
            row.is_some_and(|row| row.watermark == Some(Offset(142)))
        })
        .await;
        until("it is committed", || {
            stage.committed("g", &orders(0)) == Some(Offset(142))
        })
        .await;
        assert_eq!(fleet.report().partitions[0].position, Some(Offset(142)));
        stage.produce("orders", 0, 1);
        until("the next record is seen", || seen.len() == 101).await;
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(seen.offsets(&orders(0)).last(), Some(&142));
        assert_eq!(stage.committed("g", &orders(0)), Some(Offset(143)));
    });
}

/// runtime.md 25
#[test]
fn watermarks_reached_while_a_commit_is_in_flight_cost_exactly_one_more_commit() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        stage.produce("orders", 0, 30);
        let (seen, permits) = (Seen::default(), Arc::new(Semaphore::new(0)));
        let fleet = stage.start("b", gated(&seen, &permits)).await;
        until("the first record is in hand", || seen.len() == 1).await;
        pass(Duration::from_secs(20)).await;
        let before = stage.requests(Api::OffsetCommit);
        let slow = Rule::new(Effect::Delay(Duration::from_secs(8)));
        let slow = slow.on(Api::OffsetCommit).times(1);
        stage.cluster().with(|cluster| cluster.inject(slow));
        release(&permits, 10).await;
        until("a commit is in flight", || {
            stage.requests(Api::OffsetCommit) == before + 1
        })
        .await;
        release(&permits, 2).await;
        release(&permits, 3).await;
        assert_eq!(fleet.report().partitions[0].watermark, Some(Offset(15)));
        assert_eq!(stage.requests(Api::OffsetCommit), before + 1);
        until("the rest is committed", || {
            stage.committed("g", &orders(0)) == Some(Offset(15))
        })
        .await;
        pass(Duration::from_secs(60)).await;
        assert_eq!(stage.requests(Api::OffsetCommit), before + 2);
        permits.add_permits(100);
        fleet.stop(Duration::from_secs(20)).await;
    });
}

/// runtime.md 24
#[test]
fn a_row_refused_in_a_commit_is_retried_and_costs_no_record() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 2);
        let unknown = Rule::error(3).on(Api::OffsetCommit).of(orders(1)).times(3);
        stage.cluster().with(|cluster| cluster.inject(unknown));
        for partition in 0..2 {
            stage.produce("orders", partition, 10);
        }
        let seen = Seen::default();
        let fleet = stage.start("b", seen.noting("orders")).await;
        until("both are committed", || {
            (0..2).all(|one| stage.committed("g", &orders(one)) == Some(Offset(10)))
        })
        .await;
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(seen.len(), 20);
    });
}

/// The coordinator takes no commit for half a minute; records go on, and the offsets follow later.
#[test]
fn refused_commits_hold_nobody_up_and_are_made_good() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        let seen = Seen::default();
        let fleet = stage.start("b", seen.noting("orders")).await;
        stage.produce("orders", 0, 10);
        until("it is committed", || {
            stage.committed("g", &orders(0)) == Some(Offset(10))
        })
        .await;
        let loading = Rule::error(14).on(Api::OffsetCommit);
        let rule = stage.cluster().with(|cluster| cluster.inject(loading));
        for round in 1..=30 {
            stage.produce("orders", 0, 1);
            until("the record is seen", || seen.len() == 10 + round).await;
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(stage.committed("g", &orders(0)), Some(Offset(10)));
        assert!(stage.cluster().with(|cluster| cluster.withdraw(rule)));
        until("it is made good", || {
            stage.committed("g", &orders(0)) == Some(Offset(40))
        })
        .await;
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(seen.offsets(&orders(0)), (0..40).collect::<Vec<_>>());
    });
}

/// runtime.md 31
#[test]
fn the_first_join_takes_the_member_id_it_is_given_at_once() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        let seen = Seen::default();
        let fleet = stage.start("b", seen.noting("orders")).await;
        until("it is a member", || fleet.report().member.is_some()).await;
        let joins: Vec<_> = stage.cluster().with(|cluster| {
            let joins = cluster.history().filter(|seen| seen.api == Api::JoinGroup);
            joins.map(|seen| seen.at).collect()
        });
        assert_eq!(joins.len(), 2, "{joins:?}");
        let pause = joins[1].since(joins[0]);
        assert!(pause < Duration::from_millis(50), "{pause:?}");
        let (member, _) = fleet.report().member.expect("a member");
        let view = stage.cluster().with(|cluster| cluster.group(&"g".into()));
        assert_eq!(view.expect("a group").members, vec![member]);
        fleet.stop(Duration::from_secs(20)).await;
    });
}

/// Lets `count` records end, one after the other.
async fn release(permits: &Semaphore, count: usize) {
    for _ in 0..count {
        permits.add_permits(1);
        pass(Duration::from_millis(200)).await;
    }
}

/// Notes each record, then waits for a permit.
pub(crate) fn gated(seen: &Seen, permits: &Arc<Semaphore>) -> Subscription {
    let (seen, permits) = (seen.clone(), Arc::clone(permits));
    let handler = handler_fn(move |message: Message<Raw>, _: Context| {
        seen.note(&message);
        let permits = Arc::clone(&permits);
        async move {
            permits.acquire().await.expect("never closed").forget();
            Ok(Outcome::Done)
        }
    });
    Subscription::topics(["orders"])
        .deadline(Duration::ZERO)
        .handler(handler)
}

fn orders(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}
