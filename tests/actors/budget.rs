//! The byte budget of a fleet: bounded whatever the handlers do, and nobody starves.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nearside::embedded::Record;
use nearside::ids::TopicPartition;
use nearside::prelude::*;

use crate::stage::{Stage, run, until};

/// A tenth of what a real deployment would see, everywhere alike.
const LARGE: usize = 100_000;
const PARTITIONS: u32 = 100;

/// runtime.md 53, wire.md A19.
#[test]
fn a_hundred_large_partitions_and_slow_handlers_stay_within_a_small_budget_and_all_get_on() {
    run(async {
        let stage = Stage::new();
        stage.topic("large", PARTITIONS);
        let large = vec![7; LARGE - 1_000];
        for partition in 0..PARTITIONS {
            let at = TopicPartition::new("large", i32::try_from(partition).expect("small"));
            let records = [Record::of(large.clone())];
            let appended = stage
                .cluster()
                .with(|cluster| cluster.produce(&at, &records));
            appended.expect("leader is up");
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
