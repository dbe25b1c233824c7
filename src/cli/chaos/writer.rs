//! The continuous writer: numbered records at a steady rate, acknowledged by all in-sync replicas.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::task::LocalSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::book::Book;
use crate::actors::unix_ms;
use crate::cli::kafka::KafkaError;
use crate::cli::produce::Client;
use crate::config::Config;
use crate::ids::{PartitionIndex, TopicName};
use crate::producer::{Record, RecordToken};

/// A thread that writes until it is told to stop.
#[derive(Debug)]
pub(super) struct Writer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), KafkaError>>>,
}

/// What to write.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) bootstrap: String,
    pub(super) topic: String,
    pub(super) partitions: i32,
    /// Time between two records of one partition.
    pub(super) every: Duration,
}

impl Writer {
    pub(super) fn start(load: Load, book: Arc<Book>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| KafkaError::Failed(format!("no thread to write: {error}")))?;
            // Connections run as tasks of this thread.
            LocalSet::new().block_on(&runtime, write(&load, &book, &told))
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }

    /// Stops writing, and waits until every record is acknowledged.
    pub(super) fn finish(mut self) -> Result<(), KafkaError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), KafkaError> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        let died = |_| Err(KafkaError::Failed("the writer died".to_owned()));
        thread.join().unwrap_or_else(died)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Whoever wants to know asks `finish`.
        drop(self.end());
    }
}

async fn write(load: &Load, book: &Arc<Book>, stop: &AtomicBool) -> Result<(), KafkaError> {
    let config = Config::from_pairs([
        ("bootstrap.servers", load.bootstrap.as_str()),
        ("client.id", "nearside-chaos-writer"),
        ("acks", "all"),
        // An election takes as long as it takes; a record is never given up.
        ("delivery.timeout.ms", "600000"),
    ])
    .map_err(|error| KafkaError::Failed(error.to_string()))?;
    let (mut client, mut io) = Client::new(&config, TopicName::from(load.topic.as_str()))
        .map_err(|error| KafkaError::Failed(error.to_string()))?;
    let acknowledged = Arc::clone(book);
    client.on_acked(move |token| {
        let (partition, number) = split(token);
        acknowledged.acked(partition, number);
    });
    let mut turns = interval(load.every);
    turns.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut number = 0;
    loop {
        let writing = !stop.load(Ordering::Relaxed);
        if !writing && client.is_idle() {
            return Ok(());
        }
        let due = client.next_deadline().unwrap_or(load.every);
        tokio::select! {
            Some(input) = io.recv() => client.io(input),
            () = sleep(due) => client.tick(),
            _ = turns.tick() => {
                if writing && client.room() > ROOM_BYTES {
                    append(&mut client, load, number);
                    number += 1;
                }
            }
        }
        if let Some((token, error)) = &client.findings.failed {
            let (partition, number) = split(*token);
            let text = format!("record {number} of partition {partition} was given up: {error}");
            return Err(KafkaError::Failed(text));
        }
    }
}

/// One record for every partition.
fn append(client: &mut Client, load: &Load, number: u64) {
    for partition in 0..load.partitions {
        let record = Record::new(load.topic.as_str(), number.to_string())
            .to_partition(PartitionIndex(partition))
            .at(unix_ms());
        client.append(token(partition, number), record);
    }
    client.flush();
}

fn token(partition: i32, number: u64) -> RecordToken {
    RecordToken(number * PARTITIONS_MAX + u64::from(partition.unsigned_abs()))
}

fn split(RecordToken(token): RecordToken) -> (usize, u64) {
    let partition = usize::try_from(token % PARTITIONS_MAX).unwrap_or(0);
    (partition, token / PARTITIONS_MAX)
}

const PARTITIONS_MAX: u64 = 1_000;
const ROOM_BYTES: usize = 1 << 20;
