//! A whole fleet reading a backlog from the embedded cluster over TCP: join, resolve, fetch,
//! handle, commit, leave.
//!
//! The cluster runs in the same process, so the figure holds both sides. Its use is to be compared
//! with itself; `benches/peers` compares with other clients on a real cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Memory};
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nearside::embedded::listener::{Handle, Serving};
use nearside::embedded::{Record, Settings, encode_batch};
use nearside::ids::TopicPartition;
use nearside::prelude::*;
use tokio::sync::Notify;

/// Counts what handlers saw and wakes the bench when all is seen.
#[derive(Debug, Default)]
struct Tally {
    seen: AtomicU64,
    all: Notify,
}

impl Tally {
    fn add(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(0);
        if self.seen.fetch_add(count, Memory::Relaxed) + count >= RECORDS {
            self.all.notify_one();
        }
    }
}

/// A served cluster with a backlog of 100-byte records.
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

/// One fleet of a group of its own reads everything, then stops.
async fn read_all(cluster: &Handle, group: u64, subscription: Subscription, tally: &Tally) {
    let fleet = Fleet::builder(format!("bench-{group}"))
        .bootstrap(&cluster.bootstrap())
        .property("client.rack", "b")
        .property("auto.offset.reset", "earliest")
        .property("join.jitter.ms", "0")
        .subscribe(subscription)
        .start()
        .await
        .expect("the configuration is sound");
    tally.all.notified().await;
    fleet.stop(Duration::from_secs(10)).await;
}

fn by_batch(tally: &Arc<Tally>) -> Subscription {
    let tally = Arc::clone(tally);
    Subscription::topics(["backlog"]).handler(batch_fn(move |batch: Batch<Raw>, _: Context| {
        tally.add(batch.len());
        async { Ok(BatchOutcome::All(Outcome::Done)) }
    }))
}

fn by_message(tally: &Arc<Tally>) -> Subscription {
    let tally = Arc::clone(tally);
    Subscription::topics(["backlog"]).handler(handler_fn(move |_: Message<Raw>, _: Context| {
        tally.add(1);
        async { Ok(Outcome::Done) }
    }))
}

type MakeSubscription = fn(&Arc<Tally>) -> Subscription;

fn end_to_end(c: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    let serving = runtime.block_on(backlog());
    let mut group_number = 0;
    let mut bench = c.benchmark_group("end to end, 6 partitions, 100 B");
    bench
        .throughput(Throughput::Elements(RECORDS))
        .sample_size(10);
    let kinds: [(&str, MakeSubscription); 2] =
        [("batch handler", by_batch), ("message handler", by_message)];
    for (name, subscription) in kinds {
        bench.bench_function(name, |b| {
            b.iter(|| {
                group_number += 1;
                let tally = Arc::new(Tally::default());
                let subscription = subscription(&tally);
                runtime.block_on(read_all(
                    serving.handle(),
                    group_number,
                    subscription,
                    &tally,
                ));
            });
        });
    }
    bench.finish();
}

const PARTITIONS: u32 = 6;
const BATCHES: u64 = 500;
const BATCH: usize = 150;
const RECORDS: u64 = 6 * BATCHES * 150;

criterion_group!(benches, end_to_end);
criterion_main!(benches);
