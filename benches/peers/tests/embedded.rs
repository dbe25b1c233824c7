//! librdkafka against the embedded cluster over TCP: an independent client must find nothing odd
//! in it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nearside::embedded::listener::{Handle, Serving};
use nearside::embedded::{Api, Settings};
use nearside::ids::{BrokerId, GroupId, Offset, TopicPartition};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// A served three-rack cluster and the runtime that drives it.
struct Rig {
    serving: Serving,
    _runtime: tokio::runtime::Runtime,
}

impl Rig {
    fn new(partitions: u32) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let settings = Settings::default().on_loopback(None);
        let serving = runtime
            .block_on(Serving::listen(settings))
            .expect("free ports");
        let created = serving
            .handle()
            .with(|cluster| cluster.create_topic("t", partitions, 3));
        created.expect("three brokers carry three replicas");
        Self {
            serving,
            _runtime: runtime,
        }
    }

    fn handle(&self) -> &Handle {
        self.serving.handle()
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.handle().bootstrap());
        config
    }

    /// Produces values `from..to`, spread over the partitions by key, with idempotence.
    fn produce(&self, from: u32, to: u32) {
        let producer: BaseProducer = self
            .client()
            .set("enable.idempotence", "true")
            .set("linger.ms", "5")
            .create()
            .expect("a producer");
        for n in from..to {
            let (key, value) = (format!("k{}", n % 97), n.to_string());
            let record = BaseRecord::to("t").key(&key).payload(&value);
            producer
                .send(record)
                .map_err(|(error, _)| error)
                .expect("queue has room");
            if n % 1_000 == 0 {
                producer.poll(Duration::ZERO);
            }
        }
        producer.flush(PATIENCE).expect("everything acknowledged");
    }

    fn member(&self, group: &str, strategy: &str) -> BaseConsumer {
        let consumer: BaseConsumer = self
            .client()
            .set("group.id", group)
            .set("partition.assignment.strategy", strategy)
            .set("auto.offset.reset", "earliest")
            .set("enable.auto.commit", "false")
            .set("session.timeout.ms", "6000")
            .create()
            .expect("a consumer");
        consumer.subscribe(&["t"]).expect("subscribed");
        consumer
    }
}

/// Polls all members until `done` says so.
fn poll_until(
    members: &[&BaseConsumer],
    mut take: impl FnMut(usize, u32),
    mut done: impl FnMut() -> bool,
) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(
            Instant::now() < deadline,
            "librdkafka did not get there in {PATIENCE:?}"
        );
        for (at, member) in members.iter().enumerate() {
            let Some(polled) = member.poll(POLL) else {
                continue;
            };
            let message = polled.expect("no consumer error");
            let text = message
                .payload_view::<str>()
                .expect("a value")
                .expect("text");
            take(at, text.parse().expect("a number"));
        }
    }
}

fn assigned(member: &BaseConsumer) -> BTreeSet<i32> {
    let list = member.assignment().expect("an assignment");
    list.elements()
        .iter()
        .map(|element| element.partition())
        .collect()
}

/// Two members share the partitions, read everything once, commit, and hand over.
fn share_and_hand_over(strategy: &str) {
    let rig = Rig::new(6);
    rig.produce(0, 3_000);
    let (first, second) = (rig.member("g", strategy), rig.member("g", strategy));
    let mut seen = Vec::new();
    poll_until(
        &[&first, &second],
        |_, n| seen.push(n),
        || assigned(&first).len() == 3 && assigned(&second).len() == 3,
    );
    let expected: BTreeSet<u32> = (0..3_000).collect();
    let distinct = std::cell::RefCell::new(seen.iter().copied().collect::<BTreeSet<_>>());
    poll_until(
        &[&first, &second],
        |_, n| {
            distinct.borrow_mut().insert(n);
        },
        || distinct.borrow().len() == expected.len(),
    );
    assert_eq!(distinct.into_inner(), expected);
    let group = GroupId::from("g");
    let behind = |&partition: &i32| {
        let at = TopicPartition::new("t", partition);
        rig.handle().with(|cluster| {
            let end = cluster.partition(&at).map(|view| view.log_end);
            cluster
                .committed(&group, &at)
                .map(|committed| committed.offset)
                != end
        })
    };
    // A partition that changed hands is read again from where it was committed: at the start.
    poll_until(
        &[&first, &second],
        |_, _| (),
        || {
            for member in [&first, &second] {
                // Nothing new to commit is an error to librdkafka.
                let _nothing_new = member.commit_consumer_state(CommitMode::Async);
            }
            (0..6).filter(behind).count() == 0
        },
    );
    drop(second);
    poll_until(&[&first], |_, _| (), || assigned(&first).len() == 6);
}

#[test]
fn a_range_group_shares_commits_and_hands_over() {
    share_and_hand_over("range");
}

#[test]
fn a_cooperative_group_shares_commits_and_hands_over() {
    share_and_hand_over("cooperative-sticky");
}

#[test]
fn an_idempotent_producer_writes_everything_once_across_a_leader_move() {
    let rig = Rig::new(1);
    let at = TopicPartition::new("t", 0);
    rig.produce(0, 2_000);
    rig.handle()
        .with(|cluster| cluster.move_leader(&at, BrokerId(2)))
        .expect("2 is in sync");
    rig.produce(2_000, 4_000);
    let view = rig
        .handle()
        .with(|cluster| cluster.partition(&at))
        .expect("t-0");
    assert_eq!(view.log_end, Offset(4_000));
    let member = rig.member("g", "range");
    let read = std::cell::RefCell::new(Vec::new());
    poll_until(
        &[&member],
        |_, n| read.borrow_mut().push(n),
        || read.borrow().len() == 4_000,
    );
    assert_eq!(read.into_inner(), (0..4_000).collect::<Vec<_>>());
}

#[test]
fn a_client_with_a_rack_reads_from_the_follower_in_it() {
    let rig = Rig::new(1);
    rig.produce(0, 20_000);
    let member: BaseConsumer = rig
        .client()
        .set("group.id", "g")
        .set("client.rack", "b")
        .set("auto.offset.reset", "earliest")
        .create()
        .expect("a consumer");
    member.subscribe(&["t"]).expect("subscribed");
    let read = std::cell::Cell::new(0_u32);
    poll_until(
        &[&member],
        |_, _| read.set(read.get() + 1),
        || read.get() == 20_000,
    );
    let served = |broker| {
        rig.handle()
            .with(|cluster| cluster.record_bytes(BrokerId(broker)))
    };
    assert_eq!((served(1), served(3)), (0, 0));
    assert!(served(2) > 20_000);
    let asked = rig
        .handle()
        .with(|cluster| cluster.requests(BrokerId(1), Api::Fetch));
    assert!(asked > 0, "the leader gave the hint");
}
