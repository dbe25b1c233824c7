//! Batches that nobody can read become dead letters before anything is committed behind them
//! (wire.md 8.6, runtime.md 10).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use nearside::embedded::{Api, Effect, Rule};
use nearside::fleet::{Event, FleetHandle};
use nearside::ids::{Offset, TopicPartition};
use nearside::prelude::*;

use crate::damaged::{of_garbage, of_unknown_codec, with_a_broken_record};
use crate::stage::{Builder, Seen, Stage, pass, run, start, until};

/// A letter as a consumer of its topic gets it.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) key: Option<Bytes>,
    pub(crate) value: Option<Bytes>,
    headers: BTreeMap<String, String>,
}

impl Letter {
    fn header(&self, name: &str) -> &str {
        &self.headers[&format!("nearside.{name}")]
    }
}

/// What lies in a dead letter topic.
#[derive(Clone, Default)]
pub(crate) struct Letters(Arc<Mutex<Vec<Letter>>>);

impl Letters {
    /// Reads `topic` to its end and says what is in it.
    pub(crate) async fn of(stage: &Stage, topic: &str) -> Vec<Letter> {
        let letters = Self::default();
        let noting = letters.clone();
        let handler = handler_fn(move |message: Message<Raw>, _| {
            noting.note(&message);
            async { Ok(Outcome::Done) }
        });
        let all: i64 = (0..).map_while(|n| stage.end_if(topic, n)).sum();
        let subscription = Subscription::topics([topic]).handler(handler);
        let fleet = start(stage.fleet("reader", "b", subscription)).await;
        let all = usize::try_from(all).expect("not negative");
        until("all letters are read", || letters.all().len() >= all).await;
        fleet.stop(Duration::from_secs(20)).await;
        letters.all()
    }

    fn all(&self) -> Vec<Letter> {
        self.0.lock().expect("no panic while noting").clone()
    }

    fn note(&self, message: &Message<Raw>) {
        let header = |header: Result<nearside::records::Header<'_>, _>| {
            let header = header.expect("readable");
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
            (text(header.key), text(header.value.unwrap_or_default()))
        };
        self.0.lock().expect("no panic while noting").push(Letter {
            key: message.key_bytes(),
            value: message.value_bytes(),
            headers: message.headers().map(header).collect(),
        });
    }
}

impl Stage {
    /// The high watermark of a partition, if there is one of that number.
    fn end_if(&self, topic: &str, partition: i32) -> Option<i64> {
        let at = TopicPartition::new(topic, partition);
        let view = self.cluster().with(|cluster| cluster.partition(&at));
        view.map(|view| view.high_watermark.0)
    }

    /// Topics `orders` and `orders.dead-letter`, with `partitions` each.
    pub(crate) fn orders(&self, partitions: u32) {
        self.topic("orders", partitions);
        self.topic(DEAD, partitions);
    }
}

/// A member of group `g` that keeps what it cannot read.
pub(crate) fn keeping(stage: &Stage, subscription: Subscription) -> Builder {
    stage
        .fleet("g", "b", subscription)
        .property("wire.batch.policy", "dead_letter_raw")
}

/// `batch` as it lies in the log of a topic that never changed its leader.
pub(crate) fn placed(batch: &Bytes, base: i64) -> Bytes {
    let mut bytes = batch.to_vec();
    bytes[..8].copy_from_slice(&base.to_be_bytes());
    bytes[12..16].copy_from_slice(&0_i32.to_be_bytes());
    bytes.into()
}

pub(crate) const DEAD: &str = "orders.dead-letter";

#[test]
fn each_batch_that_cannot_be_read_becomes_a_letter_with_its_bytes_and_is_passed() {
    run(async {
        let stage = Stage::new();
        stage.orders(1);
        let at = TopicPartition::new("orders", 0);
        let poison = [
            of_unknown_codec(),
            with_a_broken_record(),
            of_garbage(100),
            of_garbage(200_000),
        ];
        for batch in &poison {
            stage.produce("orders", 0, 5);
            stage.append("orders", 0, batch.clone());
        }
        stage.produce("orders", 0, 5);
        let seen = Seen::default();
        let fleet = start(keeping(&stage, seen.noting("orders"))).await;
        until("all but the bad ones are seen", || seen.len() == 27).await;
        assert_ne!(fleet.report().partitions[0].state, "failed");
        fleet.stop(Duration::from_secs(20)).await;
        let good = |offset: &i64| (offset / 5) % 2 == 0 || [15, 16].contains(offset);
        assert_eq!(seen.offsets(&at), (0..45).filter(good).collect::<Vec<_>>());
        assert_eq!(stage.committed("g", &at), Some(Offset(45)));
        let letters = Letters::of(&stage, DEAD).await;
        assert_eq!(letters.len(), 4);
        let spans = [(5, 5, 10), (15, 17, 20), (25, 25, 30), (35, 35, 40)];
        for ((letter, batch), (base, first, next)) in letters.iter().zip(&poison).zip(spans) {
            assert_eq!(letter.key, None);
            assert_eq!(letter.value, Some(placed(batch, base)), "at {base}");
            assert_eq!(letter.header("origin.offset"), base.to_string());
            let undelivered = letter.header("origin.first_undelivered");
            assert_eq!(undelivered, first.to_string());
            assert_eq!(letter.header("origin.next_offset"), next.to_string());
            assert_eq!(letter.header("origin.topic"), "orders");
            assert_eq!(letter.header("reason"), "poison");
            assert_eq!(letter.header("group"), "g");
            assert!(letter.header("error").contains("cannot be read"));
            assert!(letter.headers.contains_key("nearside.origin.topic_id"));
        }
    });
}

/// One partition of five good records, a batch that nobody can read, and five more.
pub(crate) fn with_poison_in_the_middle(stage: &Stage, partition: i32) {
    stage.produce("orders", partition, 5);
    stage.append("orders", partition, of_unknown_codec());
    stage.produce("orders", partition, 5);
}

pub(crate) fn kept(fleet: &FleetHandle) -> usize {
    let kept = |event: &Event| matches!(event, Event::CorruptBatch { kept: true, .. });
    let events = fleet.recent_events();
    events.iter().filter(|it| kept(&it.event)).count()
}

#[test]
fn nothing_behind_a_batch_is_read_or_committed_before_its_letter_is_acknowledged() {
    run(async {
        let stage = Stage::new();
        stage.orders(1);
        let at = TopicPartition::new("orders", 0);
        with_poison_in_the_middle(&stage, 0);
        let late = Rule::new(Effect::Delay(Duration::from_secs(20))).on(Api::Produce);
        stage.cluster().with(|cluster| cluster.inject(late));
        let seen = Seen::default();
        let fleet = start(keeping(&stage, seen.noting("orders"))).await;
        until("the letter is written", || stage.end(DEAD, 0) == 1).await;
        pass(Duration::from_secs(12)).await;
        assert_eq!(
            stage.committed("g", &at),
            Some(Offset(5)),
            "a commit passed by"
        );
        assert_eq!(seen.len(), 5);
        until("the rest is seen", || seen.len() == 10).await;
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(stage.committed("g", &at), Some(Offset(15)));
        assert_eq!(stage.end(DEAD, 0), 1);
    });
}

#[test]
fn a_batch_whose_checksum_fails_halts_its_partition_and_is_not_kept() {
    run(async {
        let stage = Stage::new();
        stage.orders(1);
        let at = TopicPartition::new("orders", 0);
        stage.produce("orders", 0, 5);
        let mut damaged = of_unknown_codec().to_vec();
        damaged[17] ^= 1;
        stage.append("orders", 0, damaged.into());
        stage.produce("orders", 0, 5);
        let seen = Seen::default();
        let fleet = start(keeping(&stage, seen.noting("orders"))).await;
        until("it fails", || {
            fleet
                .report()
                .partitions
                .iter()
                .any(|it| it.state == "failed")
        })
        .await;
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!((seen.len(), kept(&fleet)), (5, 0));
        assert_eq!(stage.committed("g", &at), Some(Offset(5)));
        assert_eq!(
            stage.requests(Api::Produce),
            0,
            "nothing was even connected for it"
        );
        assert_eq!(stage.requests(Api::InitProducerId), 0);
    });
}
