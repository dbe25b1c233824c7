//! Three members, one per zone, reading a backlog from the embedded cluster: every partition at its
//! leader against every partition at the replica in the reader's own zone.
//!
//! Between processes on one machine a zone costs nothing, so the two should be alike: what this
//! shows is that following hints is not paid for in time. `cargo run --example zones` counts the
//! bytes that it saves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Memory};
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nearside::embedded::listener::{Handle, Serving};
use nearside::embedded::{Record, Settings, encode_batch};
use nearside::ids::TopicPartition;
use nearside::prelude::*;
use tokio::sync::Notify;

/// A served cluster of three zones with a backlog of 100-byte records.
async fn backlog() -> Serving {
    let mut settings = Settings::default().on_loopback(None);
    settings.history_max = 0;
    let serving = Serving::listen(settings)
        .await
        .expect("loopback can be bound");
    let batch = encode_batch(&vec![Record::of(vec![b'x'; 90]); BATCH]);
    serving.handle().with(|cluster| {
        cluster
            .create_topic("backlog", PARTITIONS, 3)
            .expect("three brokers");
        for partition in 0..PARTITIONS {
            let at = TopicPartition::new("backlog", i32::try_from(partition).expect("small"));
            for _ in 0..BATCHES {
                cluster.preload(&at, batch.clone()).expect("leader is up");
            }
        }
    });
    serving
}

/// One member per zone, in a group of their own, read everything and stop.
async fn read_all(cluster: &Handle, group: u64, hints: &str) {
    let (seen, all) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
    let mut members = Vec::new();
    for zone in ["a", "b", "c"] {
        let (seen, all) = (Arc::clone(&seen), Arc::clone(&all));
        let count = batch_fn(move |batch: Batch<Raw>, _: Context| {
            let count = u64::try_from(batch.len()).unwrap_or(0);
            if seen.fetch_add(count, Memory::Relaxed) + count >= RECORDS {
                all.notify_one();
            }
            async { Ok(BatchOutcome::All(Outcome::Done)) }
        });
        let member = Fleet::builder(format!("zones-{hints}-{group}"))
            .bootstrap(&cluster.bootstrap())
            .property("client.rack", zone)
            .property("route.follow.hints", hints)
            .property("auto.offset.reset", "earliest")
            .subscribe(Subscription::topics(["backlog"]).handler(count))
            .start();
        members.push(member.await.expect("the fleet starts"));
    }
    all.notified().await;
    for member in members {
        member.stop(Duration::from_secs(10)).await;
    }
}

fn zones(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    let serving = runtime.block_on(backlog());
    let mut group = criterion.benchmark_group("zones");
    group.sample_size(10);
    group.throughput(Throughput::Elements(RECORDS));
    let mut number = 0;
    for (name, hints) in [("at_the_leader", "never"), ("at_the_nearest", "always")] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                number += 1;
                runtime.block_on(read_all(serving.handle(), number, hints));
            });
        });
    }
    group.finish();
}

const PARTITIONS: u32 = 12;
const BATCH: usize = 1_000;
const BATCHES: usize = 20;
const RECORDS: u64 = 240_000;

criterion_group!(benches, zones);
criterion_main!(benches);
