//! A log that loses its tail, under a handler that is slow (KIP-320).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nearside::embedded::{Record, encode_batch};
use nearside::fleet::{Event as FleetEvent, FleetHandle};
use nearside::ids::{BrokerId, LeaderEpoch, Offset, TopicPartition};
use nearside::prelude::*;
use tokio::sync::Semaphore;

use crate::stage::{Stage, run, until};

/// What a handler was given: offsets and the records' text, in order.
type Given = Arc<Mutex<Vec<(i64, String)>>>;

/// routing.md S29 (a)
#[test]
fn records_that_wait_when_the_log_is_truncated_below_them_reach_no_handler() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        let heir = with_a_tail(&stage);
        let (given, permits) = (Given::default(), Arc::new(Semaphore::new(5)));
        let fleet = stage.start("elsewhere", gated(&given, &permits)).await;
        until("all is fetched", || position(&fleet) == Some(Offset(850))).await;
        assert_eq!(given.lock().expect("no panic").len(), 6, "the rest waits");

        let elected = stage
            .cluster()
            .with(|cluster| cluster.elect_unclean(&orders(), heir));
        elected.expect("alive");
        until("it is told", || truncation(&fleet).is_some()).await;
        let (from, to, before, after) = truncation(&fleet).expect("just seen");
        assert_eq!((from, to), (Offset(850), Offset(800)));
        assert!(before.is_some() && before == after, "{before:?}, {after:?}");

        append(&stage, "new", 10);
        permits.add_permits(10_000);
        let has_last = || {
            given
                .lock()
                .expect("no panic")
                .iter()
                .any(|(n, _)| *n == 809)
        };
        until("the new tail is seen", has_last).await;
        fleet.stop(Duration::from_secs(20)).await;

        let given = given.lock().expect("no panic").clone();
        // What was in hand when the log changed is fenced and handled again, nothing else is.
        let (first, again) = given.split_at(6);
        let kept = (0..800).map(|n| (n, format!("kept {n}")));
        let new = (0..10).map(|n| (800 + n, format!("new {n}")));
        let log: Vec<_> = kept.chain(new).collect();
        assert_eq!(first, &log[..6]);
        let resumed = log.len() - again.len();
        assert!(resumed <= 6, "resumed at {resumed}");
        assert_eq!(again, &log[resumed..]);
        assert_eq!(stage.committed("g", &orders()), Some(Offset(810)));
    });
}

/// Writes 800 records that all replicas have and 50 that one of them, which is returned, has not.
fn with_a_tail(stage: &Stage) -> BrokerId {
    append(stage, "kept", 800);
    let leader = stage.leader("orders", 0).expect("led");
    let heir = BrokerId(leader % 3 + 1);
    let cluster = stage.cluster();
    let held = cluster.with(|cluster| cluster.hold_replica(&orders(), heir, true));
    held.expect("a replica");
    let shrunk = cluster.with(|cluster| cluster.shrink_isr(&orders(), heir));
    shrunk.expect("a follower");
    append(stage, "lost", 50);
    heir
}

fn append(stage: &Stage, name: &str, count: usize) {
    let records: Vec<_> = (0..count)
        .map(|n| Record::of(format!("{name} {n}")))
        .collect();
    for batch in records.chunks(100) {
        let done = stage
            .cluster()
            .with(|cluster| cluster.preload(&orders(), encode_batch(batch)));
        done.expect("leader is up");
    }
}

/// Notes each record, then waits for a permit.
fn gated(given: &Given, permits: &Arc<Semaphore>) -> Subscription {
    let (given, permits) = (Arc::clone(given), Arc::clone(permits));
    let handler = handler_fn(move |message: Message<Raw>, _: Context| {
        let text = message
            .payload()
            .map(|text| String::from_utf8_lossy(text).into_owned());
        let entry = (message.offset().0, text.unwrap_or_default());
        given.lock().expect("no panic while noting").push(entry);
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

fn position(fleet: &FleetHandle) -> Option<Offset> {
    fleet.report().partitions.first()?.position
}

/// From, to and the epochs of the first truncation told.
type Told = (Offset, Offset, Option<LeaderEpoch>, Option<LeaderEpoch>);

fn truncation(fleet: &FleetHandle) -> Option<Told> {
    fleet
        .recent_events()
        .iter()
        .find_map(|event| match &event.event {
            FleetEvent::Truncated {
                from,
                to,
                epoch_before,
                epoch,
                ..
            } => Some((*from, *to, *epoch_before, *epoch)),
            _ => None,
        })
}

fn orders() -> TopicPartition {
    TopicPartition::new("orders", 0)
}
