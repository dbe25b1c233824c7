//! Fetch answers that are no ordinary ones: empty by a quota, cut in a batch, damaged on one copy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nearside::embedded::{Api, Effect, Record, RowEdit, RowFacts, Rule, encode_batch};
use nearside::fleet::{Event, FleetHandle};
use nearside::ids::{BrokerId, Offset, TopicPartition};
use tokio::time::Instant;

use crate::stage::{Seen, Stage, pass, run, start, until, until_hashed};

const B1: BrokerId = BrokerId(1);
const B2: BrokerId = BrokerId(2);

fn orders() -> TopicPartition {
    TopicPartition::new("orders", 0)
}

/// `orders-0`, led by 1, with replicas 1, 2 and 3.
fn stage() -> Stage {
    let stage = Stage::new();
    let replicas = vec![B1, B2, BrokerId(3)];
    let created = stage
        .cluster()
        .with(|cluster| cluster.create_topic_on("orders", &[replicas]));
    created.expect("creatable");
    stage
}

/// Requests of one API that one broker received.
fn requests(stage: &Stage, broker: BrokerId, api: Api) -> u64 {
    stage
        .cluster()
        .with(|cluster| cluster.requests(broker, api))
}

fn read_from(fleet: &FleetHandle) -> Option<BrokerId> {
    fleet.report().partitions.first().and_then(|row| row.broker)
}

/// Reads `orders-0` from broker 2, its first ten records seen and committed.
async fn following(stage: &Stage, seen: &Seen) -> FleetHandle {
    let fleet = start(stage.fleet("g", "b", seen.noting("orders"))).await;
    stage.produce("orders", 0, 10);
    until("the first records are committed", || {
        stage.committed("g", &orders()) == Some(Offset(10))
    })
    .await;
    until("the near replica is read", || read_from(&fleet) == Some(B2)).await;
    fleet
}

/// wire.md A18 (a) and (b)
#[test]
fn a_quota_silences_the_requests_to_its_broker_and_neither_heartbeats_nor_positions() {
    // This broker means its 24 days and reads nothing more there: the Fetch has to time out, and
    // the broker to be trusted again.
    for (asked, heeded, ends) in [(2_000, 2_000, 6_000), (i32::MAX, 60_000, 180_000)] {
        run(async move {
            let stage = stage();
            let group = (0..100)
                .map(|n| format!("g{n}"))
                .find(|group| stage.coordinator(group) == 2)
                .expect("three brokers share a hundred groups");
            let seen = Seen::default();
            let fleet = start(stage.fleet(&group, "b", seen.noting("orders"))).await;
            stage.produce("orders", 0, 10);
            until("it is committed", || {
                stage.committed(&group, &orders()) == Some(Offset(10))
            })
            .await;
            until("the near replica is read", || read_from(&fleet) == Some(B2)).await;
            pass(Duration::from_secs(2)).await;

            let throttle = Duration::from_millis(asked.unsigned_abs().into());
            let rule = Rule::new(Effect::Throttle(throttle)).on(Api::Fetch);
            stage
                .cluster()
                .with(|cluster| cluster.inject(rule.at(2).times(1)));
            let caught_up = || {
                let report = fleet.report();
                let row = report.partitions.first().expect("assigned").clone();
                (row.position, row.end, row.lag, row.state)
            };
            let before = caught_up();
            let fetches = requests(&stage, B2, Api::Fetch);
            until("it is told", || requests(&stage, B2, Api::Fetch) > fetches).await;
            let told = Instant::now();
            let data = [Api::Fetch, Api::Metadata, Api::ListOffsets];
            let count = || {
                data.map(|api| requests(&stage, B2, api))
                    .iter()
                    .sum::<u64>()
            };
            let (asked_before, beats) = (count(), requests(&stage, B2, Api::Heartbeat));
            pass(Duration::from_millis(heeded - 100)).await;
            assert_eq!(count(), asked_before, "silence");
            let beaten = requests(&stage, B2, Api::Heartbeat) - beats;
            let expected = heeded / 3_000;
            assert!(beaten >= expected.saturating_sub(2), "{beaten} heartbeats");
            assert_eq!(caught_up(), before, "an empty answer says nothing");

            until_hashed("it asks again", || count() > asked_before).await;
            let silent = told.elapsed();
            assert!(silent <= Duration::from_millis(ends), "{silent:?}");
            stage.produce("orders", 0, 10);
            until("the rest is seen", || seen.len() == 20).await;
            fleet.stop(Duration::from_secs(20)).await;
            assert_eq!(seen.offsets(&orders()), (0..20).collect::<Vec<_>>());
        });
    }
}

/// wire.md A30
#[test]
fn a_batch_cut_by_the_limit_is_asked_for_whole_and_delivered() {
    run(async {
        let stage = stage();
        let large = encode_batch(&[Record::of(vec![7; 3 << 20])]);
        stage.append("orders", 0, large.clone());
        stage.produce("orders", 0, 5);
        // Brokers of today send the first batch whole (KIP-74); those of old cut at the limit.
        let cut = cutting(large.slice(..1 << 20));
        stage.cluster().with(|cluster| cluster.inject(cut));
        let seen = Seen::default();
        let fleet = start(stage.fleet("g", "a", seen.noting("orders"))).await;
        until("all is seen", || seen.len() == 6).await;
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(seen.offsets(&orders()), (0..6).collect::<Vec<_>>());
        let history = stage
            .cluster()
            .with(nearside::embedded::Cluster::take_history);
        let rows = history.iter().filter_map(|one| one.fetch.as_ref());
        let rows = rows.flat_map(|fetch| &fetch.rows);
        let rows = rows.filter(|row| row.offset == Offset(0));
        let limits: Vec<_> = rows.map(|row| row.bytes_max).collect();
        let first = limits.first().copied().expect("asked");
        assert!(first < 3 << 20, "{limits:?}");
        let large = i32::try_from(large.len()).expect("3 MiB");
        assert_eq!(limits.last(), Some(&large), "{limits:?}");
        assert!(limits.len() <= 4, "no spin: {limits:?}");
    });
}

/// Answers at the beginning of the partition, in the first reads, with `part` of its batch.
fn cutting(part: Bytes) -> Rule {
    let edit = RowEdit {
        records: Some(part),
        ..RowEdit::default()
    };
    Rule::rows_by(move |facts: &RowFacts<'_>| {
        (facts.leader && facts.offset == Offset(0)).then(|| edit.clone())
    })
    .times(1)
}

/// Damages what `broker` sends from `offset` on, and counts how often.
fn damaging(broker: BrokerId, offset: i64) -> (Rule, Arc<AtomicUsize>) {
    let count: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&count);
    let edit = RowEdit {
        corrupt: true,
        ..RowEdit::default()
    };
    let rule = Rule::rows_by(move |facts: &RowFacts<'_>| {
        let concerned = facts.broker == broker && facts.offset == Offset(offset);
        concerned.then(|| {
            counted.fetch_add(1, Ordering::Relaxed);
            edit.clone()
        })
    });
    (rule, count)
}

fn told(fleet: &FleetHandle) -> usize {
    let events = fleet.recent_events();
    let damage = |event: &&Event| matches!(event, Event::CorruptBatch { .. });
    events.iter().map(|one| &one.event).filter(damage).count()
}

/// wire.md A37 (a)
#[test]
fn a_copy_damaged_on_a_follower_is_read_from_the_leader_once() {
    run(async {
        let stage = stage();
        let seen = Seen::default();
        let fleet = following(&stage, &seen).await;
        let (rule, damaged) = damaging(B2, 10);
        stage.cluster().with(|cluster| cluster.inject(rule));
        stage.produce("orders", 0, 10);
        until("the rest is seen", || seen.len() == 20).await;
        assert_eq!(read_from(&fleet), Some(B1));
        pass(Duration::from_secs(5)).await;
        fleet.stop(Duration::from_secs(20)).await;
        assert!(damaged.load(Ordering::Relaxed) >= 1);
        assert_eq!(seen.offsets(&orders()), (0..20).collect::<Vec<_>>());
        assert_eq!(stage.committed("g", &orders()), Some(Offset(20)));
        assert_eq!(told(&fleet), 0, "nobody has to look");
    });
}

/// wire.md A37 (b)
#[test]
fn a_batch_damaged_at_its_leader_is_fetched_once_more_and_then_halts() {
    run(async {
        let stage = stage();
        let seen = Seen::default();
        let fleet = start(stage.fleet("g", "a", seen.noting("orders"))).await;
        stage.produce("orders", 0, 10);
        until("the first records are committed", || {
            stage.committed("g", &orders()) == Some(Offset(10))
        })
        .await;
        until("the leader is read", || read_from(&fleet) == Some(B1)).await;
        pass(Duration::from_secs(2)).await;
        let (rule, _empty_polls) = damaging(B1, 10);
        let fetched = stage.record_bytes(1);
        stage.cluster().with(|cluster| cluster.inject(rule));
        stage.produce("orders", 0, 10);
        until("it halts", || told(&fleet) == 1).await;
        let twice = stage.record_bytes(1) - fetched;
        pass(Duration::from_secs(60)).await;
        assert_eq!(stage.record_bytes(1) - fetched, twice, "nobody asks on");
        let batch = u64::try_from(encode_batch(&ten()).len()).expect("small");
        assert_eq!(twice, 2 * batch, "one refetch");
        assert_eq!(fleet.report().partitions[0].state, "failed");
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(seen.len(), 10);
        assert_eq!(stage.committed("g", &orders()), Some(Offset(10)));
    });
}

/// What [`Stage::produce`] writes.
fn ten() -> Vec<Record> {
    (0..10).map(|n| Record::of(format!("0:{n}"))).collect()
}
