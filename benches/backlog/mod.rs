//! A backlog to be read, and the count of what was.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Memory};

use nearside::embedded::listener::Serving;
use nearside::embedded::{Record, Settings, encode_batch};
use nearside::ids::TopicPartition;
use nearside::prelude::*;
use tokio::sync::Notify;

/// What the topic `backlog` holds: records of 100 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backlog {
    pub(crate) partitions: u32,
    /// Of each partition.
    pub(crate) batches: u64,
    /// Records of a batch.
    pub(crate) batch: u32,
}

impl Backlog {
    /// Records in all.
    pub(crate) fn records(self) -> u64 {
        u64::from(self.partitions) * self.batches * u64::from(self.batch)
    }

    /// A served cluster of three zones that holds it.
    pub(crate) async fn serve(self) -> Serving {
        let mut settings = Settings::default().on_loopback(None);
        settings.history_max = 0;
        let serving = Serving::listen(settings)
            .await
            .expect("loopback can be bound");
        let records = usize::try_from(self.batch).expect("small");
        let batch = encode_batch(&vec![Record::of(vec![b'x'; 90]); records]);
        serving.handle().with(|cluster| {
            cluster
                .create_topic("backlog", self.partitions, 3)
                .expect("three brokers");
            for partition in 0..self.partitions {
                let at = TopicPartition::new("backlog", i32::try_from(partition).expect("small"));
                for _ in 0..self.batches {
                    cluster.preload(&at, batch.clone()).expect("leader is up");
                }
            }
        });
        serving
    }
}

/// Counts what handlers saw and wakes the bench when all is seen.
#[derive(Debug)]
pub(crate) struct Tally {
    seen: AtomicU64,
    wanted: u64,
    all: Notify,
}

impl Tally {
    /// Done with everything `backlog` holds.
    pub(crate) fn of(backlog: Backlog) -> Arc<Self> {
        Arc::new(Self {
            seen: AtomicU64::new(0),
            wanted: backlog.records(),
            all: Notify::new(),
        })
    }

    /// So many records were seen.
    pub(crate) fn add(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(0);
        if self.seen.fetch_add(count, Memory::Relaxed) + count >= self.wanted {
            self.all.notify_one();
        }
    }

    /// Waits until all is seen.
    pub(crate) async fn complete(&self) {
        self.all.notified().await;
    }
}

/// A subscription that counts by the batch.
pub(crate) fn by_batch(tally: &Arc<Tally>) -> Subscription {
    let tally = Arc::clone(tally);
    Subscription::topics(["backlog"]).handler(batch_fn(move |batch: Batch<Raw>, _: Context| {
        tally.add(batch.len());
        async { Ok(BatchOutcome::All(Outcome::Done)) }
    }))
}
