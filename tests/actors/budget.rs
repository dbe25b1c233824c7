//! The byte budget of a fleet: bounded whatever the handlers do, and nobody starves.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nearside::embedded::Record;
use nearside::ids::TopicPartition;
use nearside::prelude::*;

use crate::stage::{Seen, Stage, run, until};

/// A tenth of what a real deployment would see, everywhere alike.
const LARGE: usize = 100_000;
const PARTITIONS: u32 = 100;

fn append(stage: &Stage, topic: &str, partition: u32, records: usize) {
    let at = TopicPartition::new(topic, i32::try_from(partition).expect("small"));
    let large = vec![7; LARGE - 1_000];
    for _ in 0..records {
        let records = [Record::of(large.clone())];
        let appended = stage
            .cluster()
            .with(|cluster| cluster.produce(&at, &records));
        appended.expect("leader is up");
    }
}

/// runtime.md 53, wire.md A19.
#[test]
fn a_hundred_large_partitions_and_slow_handlers_stay_within_a_small_budget_and_all_get_on() {
    run(async {
        let stage = Stage::new();
        stage.topic("large", PARTITIONS);
        for partition in 0..PARTITIONS {
            append(&stage, "large", partition, 1);
        }
        let seen: Arc<Mutex<BTreeSet<i32>>> = Arc::default();
        let noting = Arc::clone(&seen);
        let slow = handler_fn(move |message: Message<Raw>, _: Context| {
            let noting = Arc::clone(&noting);
            async move {
                tokio::time::sleep(Duration::from_millis(200)).await;
                let mut seen = noting.lock().unwrap_or_else(PoisonError::into_inner);
                seen.insert(message.partition().0);
                Ok(Outcome::Done)
            }
        });
        let fleet = stage
            .fleet("g", "b", Subscription::topics(["large"]).handler(slow))
            .property("memory.budget.bytes", &(16 * LARGE).to_string())
            .property("fetch.max.bytes", &(4 * LARGE).to_string())
            .property("max.partition.fetch.bytes", &LARGE.to_string())
            .start_on_this_thread()
            .await
            .expect("starts");
        let mut highest = 0;
        until("a record of every partition is handled", || {
            let budget = fleet.report().budget;
            highest = highest.max(budget.charged);
            assert!(budget.charged <= budget.limit + LARGE, "{budget:?}");
            seen.lock().unwrap_or_else(PoisonError::into_inner).len() == 100
        })
        .await;
        let limit = fleet.report().budget.limit;
        assert_eq!(limit, 8 * LARGE, "half is kept for inflation and producing");
        assert!(
            highest > limit / 2,
            "the budget was never needed: {highest}"
        );
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(fleet.report().budget.charged, 0);
    });
}

/// Rows of both kinds come in the same frames.
#[test]
fn partitions_whose_handlers_are_stuck_keep_their_own_rows_and_not_those_that_came_along() {
    run(async {
        const STUCK: u32 = 4;
        const OTHERS: u32 = 28;
        const RECORDS: usize = 10;
        let stage = Stage::new();
        for (topic, partitions) in [("stuck", STUCK), ("orders", OTHERS)] {
            stage.topic(topic, partitions);
            for partition in 0..partitions {
                append(&stage, topic, partition, RECORDS);
            }
        }
        let stuck = handler_fn(|_: Message<Raw>, _: Context| std::future::pending());
        let seen = Seen::default();
        let fleet = stage
            .fleet("g", "b", Subscription::topics(["stuck"]).handler(stuck))
            .subscribe(seen.noting("orders"))
            .property("memory.budget.bytes", &(128 * LARGE).to_string())
            .property("fetch.max.bytes", &(16 * LARGE).to_string())
            .property("max.partition.fetch.bytes", &LARGE.to_string())
            .start_on_this_thread()
            .await
            .expect("starts");
        until("reading begins", || seen.len() > 0).await;
        let since = tokio::time::Instant::now();
        let all = usize::try_from(OTHERS).expect("small") * RECORDS;
        until("all others are handled", || seen.len() == all).await;
        let waited = since.elapsed();
        // With the budget used up, three lanes would bring a record a second each.
        assert!(waited < Duration::from_secs(5), "{waited:?}");
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(fleet.report().budget.charged, 0);
    });
}
