//! A whole fleet and a whole cluster on one thread, under paused time: waiting costs nothing and a
//! run repeats.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use nearside::embedded::listener::{Handle, Serving};
use nearside::embedded::{Api, Cluster, Record, Settings, encode_batch};
use nearside::fleet::{BoxFuture, Stream, Transport};
use nearside::ids::{BrokerId, Offset, TopicPartition};
use nearside::prelude::*;

/// Runs `play` inside an actix system whose clock is paused: time jumps to the next deadline when
/// nobody works.
pub(crate) fn run<F>(play: F)
where
    F: Future<Output = ()>,
{
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime can be built")
    };
    actix::System::with_tokio_rt(runtime).block_on(play);
}

/// A served cluster of three brokers in racks a, b and c.
pub(crate) struct Stage {
    serving: Serving,
}

impl Stage {
    /// A cluster without topics.
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// The same with other properties.
    pub(crate) fn with(edit: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        edit(&mut settings);
        Self {
            serving: Serving::in_memory(Cluster::new(settings)),
        }
    }

    /// The cluster's remote control.
    pub(crate) fn cluster(&self) -> &Handle {
        self.serving.handle()
    }

    /// A topic with replicas on all brokers.
    pub(crate) fn topic(&self, name: &str, partitions: u32) {
        self.cluster()
            .with(|cluster| cluster.create_topic(name, partitions, 3))
            .expect("creatable");
    }

    /// Appends `count` records, named by number, in batches of at most 100.
    pub(crate) fn produce(&self, topic: &str, partition: i32, count: usize) {
        let at = TopicPartition::new(topic, partition);
        let records: Vec<_> = (0..count)
            .map(|n| Record::of(format!("{partition}:{n}")))
            .collect();
        for batch in records.chunks(100) {
            self.cluster()
                .with(|cluster| cluster.produce(&at, batch))
                .expect("leader is up");
        }
    }

    /// Appends raw batches, made by one of the functions below.
    pub(crate) fn append(&self, topic: &str, partition: i32, batches: Bytes) {
        let at = TopicPartition::new(topic, partition);
        self.cluster()
            .with(|cluster| cluster.append(&at, batches))
            .expect("leader is up");
    }

    /// A fleet builder that reaches this cluster. Bound to rack `rack`, reading from the beginning.
    pub(crate) fn fleet(&self, group: &str, rack: &str, subscription: Subscription) -> Builder {
        Fleet::builder(group)
            .bootstrap(&self.cluster().bootstrap())
            .transport(self.transport())
            .property("client.rack", rack)
            .property("auto.offset.reset", "earliest")
            .subscribe(subscription)
    }

    /// A running fleet of group `g` in rack `rack`.
    pub(crate) async fn start(&self, rack: &str, subscription: Subscription) -> FleetHandle {
        start(self.fleet("g", rack, subscription)).await
    }

    /// The way to this cluster without sockets.
    pub(crate) fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(InMemory(self.cluster().clone()))
    }

    /// Requests of one API that all brokers received since the start.
    pub(crate) fn requests(&self, api: Api) -> u64 {
        self.cluster()
            .with(|cluster| (1..=3).map(|id| cluster.requests(BrokerId(id), api)).sum())
    }

    /// The broker that leads a partition.
    pub(crate) fn leader(&self, topic: &str, partition: i32) -> Option<i32> {
        let at = TopicPartition::new(topic, partition);
        let view = self.cluster().with(|cluster| cluster.partition(&at));
        view.and_then(|view| view.leader).map(|leader| leader.0)
    }

    /// The leader's high watermark.
    pub(crate) fn end(&self, topic: &str, partition: i32) -> i64 {
        let at = TopicPartition::new(topic, partition);
        let view = self.cluster().with(|cluster| cluster.partition(&at));
        view.expect("partition exists").high_watermark.0
    }

    /// The broker that coordinates a group.
    pub(crate) fn coordinator(&self, group: &str) -> i32 {
        let broker = self
            .cluster()
            .with(|cluster| cluster.coordinator(&group.into()));
        broker.expect("some broker lives").0
    }

    /// Record bytes a broker has served to consumers.
    pub(crate) fn record_bytes(&self, broker: i32) -> u64 {
        self.cluster()
            .with(|cluster| cluster.record_bytes(BrokerId(broker)))
    }

    /// Whether the group has no member.
    pub(crate) fn is_empty_group(&self, group: &str) -> bool {
        let view = self.cluster().with(|cluster| cluster.group(&group.into()));
        view.is_none_or(|view| view.members.is_empty())
    }

    /// The committed offset of a partition.
    pub(crate) fn committed(&self, group: &str, at: &TopicPartition) -> Option<Offset> {
        self.cluster()
            .with(|cluster| cluster.committed(&group.into(), at).map(|one| one.offset))
    }
}

/// The end of a transaction of `producer`, as a coordinator writes it (KIP-98).
pub(crate) fn commit_marker(producer: i64) -> Bytes {
    const COMMIT: [u8; 4] = [0, 0, 0, 1];
    let marker = Record::of(vec![0; 6]).keyed(COMMIT.to_vec());
    let batch = encode_batch(&[marker]);
    forged(&batch, |bytes| {
        // Transactional and control.
        bytes[21..23].copy_from_slice(&0x30_i16.to_be_bytes());
        bytes[43..51].copy_from_slice(&producer.to_be_bytes());
        bytes[51..53].copy_from_slice(&0_i16.to_be_bytes());
    })
}

/// What compaction leaves of a batch whose records are all gone: its header, with the last offset
/// it covered.
pub(crate) fn emptied(records: usize) -> Bytes {
    let records: Vec<_> = (0..records).map(|n| Record::of(n.to_string())).collect();
    forged(&encode_batch(&records), |bytes| {
        bytes.truncate(HEADER_BYTES);
        let length = i32::try_from(HEADER_BYTES - 12).expect("small");
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        bytes[57..61].copy_from_slice(&0_i32.to_be_bytes());
    })
}

/// A batch with its bytes changed by `edit` and its checksum made right again.
pub(crate) fn forged(batch: &Bytes, edit: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut bytes = batch.to_vec();
    edit(&mut bytes);
    let checksum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes[21..]);
    let checksum = u32::try_from(checksum).expect("32 bits");
    bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
    bytes.into()
}

/// A complete builder.
pub(crate) type Builder =
    nearside::fleet::FleetBuilder<nearside::fleet::Present, nearside::fleet::Present>;

/// A fleet that runs on the thread of the test.
pub(crate) async fn start(builder: Builder) -> FleetHandle {
    builder.start_on_this_thread().await.expect("starts")
}

/// Waits, in paused time, until `condition` holds; fails after an hour of it.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..HOUR_IN_STEPS {
        if condition() {
            return;
        }
        tokio::time::advance(STEP).await;
    }
    panic!("never happened: {what}");
}

/// The same where passwords are hashed on threads that take real time: the paused clock waits for
/// them.
pub(crate) async fn until_hashed(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..HOUR_IN_STEPS {
        if condition() {
            return;
        }
        tokio::time::sleep(STEP).await;
    }
    panic!("never happened: {what}");
}

/// Lets time pass in steps, so that what is due on the way happens when it is due.
pub(crate) async fn pass(time: Duration) {
    let end = tokio::time::Instant::now() + time;
    while tokio::time::Instant::now() < end {
        tokio::time::advance(STEP).await;
    }
}

/// What handlers saw, in order.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<(TopicPartition, i64)>>>);

impl Seen {
    /// A subscription whose handler notes every record and is done with it.
    pub(crate) fn noting(&self, topic: &str) -> Subscription {
        let seen = self.clone();
        Subscription::topics([topic]).handler(handler_fn(move |message: Message<Raw>, _| {
            seen.note(&message);
            async { Ok(Outcome::Done) }
        }))
    }

    /// Notes one record.
    pub(crate) fn note<T>(&self, message: &Message<T>) {
        let at = TopicPartition::new(message.topic().clone(), message.partition());
        self.0
            .lock()
            .expect("no panic while noting")
            .push((at, message.offset().0));
    }

    /// Number of records noted.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().expect("no panic while noting").len()
    }

    /// Offsets of one partition, in the order they were noted.
    pub(crate) fn offsets(&self, at: &TopicPartition) -> Vec<i64> {
        let seen = self.0.lock().expect("no panic while noting");
        seen.iter()
            .filter(|one| one.0 == *at)
            .map(|one| one.1)
            .collect()
    }
}

/// Dials an embedded cluster without sockets.
#[derive(Debug)]
struct InMemory(Handle);

impl Transport for InMemory {
    fn resolve(&self, host: String, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        let known = self
            .0
            .addresses()
            .into_iter()
            .position(|at| at == (host.clone(), port));
        Box::pin(async move {
            let index = known.and_then(|index| u8::try_from(index).ok());
            let index = index.ok_or_else(|| io::Error::other(format!("unknown host {host}")))?;
            Ok(vec![SocketAddr::from(([127, 0, 0, index], port))])
        })
    }

    fn dial(&self, address: SocketAddr) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let handle = self.0.clone();
        Box::pin(async move {
            let SocketAddr::V4(v4) = address else {
                return Err(io::Error::other("no such address"));
            };
            let index = usize::from(v4.ip().octets()[3]);
            let (host, port) = handle.addresses()[index].clone();
            let stream: Box<dyn Stream> = Box::new(handle.dial(&host, port).await?);
            Ok(stream)
        })
    }
}

const HEADER_BYTES: usize = 61;
const STEP: Duration = Duration::from_millis(20);
const HOUR_IN_STEPS: usize = 180_000;
