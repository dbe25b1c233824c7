//! Kinds of handlers and subscriptions, and the batches they are fed with.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nearside::ids::{Offset, TopicPartition};
use nearside::prelude::*;
use nearside::records::{BatchWriter, Compression, NewRecord};

use crate::stage::{Seen, Stage, commit_marker, run, start, until};

const CODECS: [Compression; 4] = [
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

/// Small batches are inflated where they arrive, those above 64 KiB elsewhere; order holds across
/// both.
#[test]
fn batches_of_every_codec_and_size_reach_the_handler_in_order() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 4);
        for (partition, codec) in (0..).zip(CODECS) {
            for size in [10, 3_000, 20, 9_000, 10] {
                stage.append("orders", partition, noise(codec, size));
            }
            stage.produce("orders", partition, 10);
        }
        let lengths = Arc::new(Mutex::new(0_usize));
        let (seen, total) = (Seen::default(), Arc::clone(&lengths));
        let noted = seen.clone();
        let handler = handler_fn(move |message: Message<Raw>, _: Context| {
            noted.note(&message);
            *total.lock().expect("no panic") += message.payload().map_or(0, <[u8]>::len);
            async { Ok(Outcome::Done) }
        });
        let subscription = Subscription::topics(["orders"]).handler(handler);
        let fleet = start(stage.fleet("g", "b", subscription)).await;
        let each = 10 + 3_000 + 20 + 9_000 + 10 + 10;
        until("all is seen", || seen.len() == 4 * each).await;
        fleet.stop(Duration::from_secs(20)).await;
        let end = i64::try_from(each).expect("small");
        for partition in 0..4 {
            let at = TopicPartition::new("orders", partition);
            assert_eq!(seen.offsets(&at), (0..end).collect::<Vec<_>>());
            assert_eq!(stage.committed("g", &at), Some(Offset(end)));
        }
        assert!(*lengths.lock().expect("no panic") >= 4 * 12_040 * VALUE_BYTES);
    });
}

/// wire.md A35
#[test]
fn transaction_markers_are_passed_over_and_committed_past() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        for _ in 0..5 {
            stage.produce("orders", 0, 3);
            stage.append("orders", 0, commit_marker(9));
        }
        let seen = Seen::default();
        let builder = stage.fleet("g", "b", seen.noting("orders"));
        let fleet = start(builder.property("isolation.level", "read_committed")).await;
        let at = TopicPartition::new("orders", 0);
        until("the last marker is committed", || {
            stage.committed("g", &at) == Some(Offset(20))
        })
        .await;
        let row = fleet.report().partitions[0].clone();
        assert_eq!((row.position, row.lag), (Some(Offset(20)), Some(0)));
        fleet.stop(Duration::from_secs(20)).await;
        let records: Vec<_> = (0..20).filter(|offset| offset % 4 != 3).collect();
        assert_eq!(seen.offsets(&at), records);
    });
}

#[test]
fn a_batch_handler_gets_slices_of_one_partition_in_order() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 2);
        for partition in 0..2 {
            stage.produce("orders", partition, 500);
        }
        let seen = Seen::default();
        let noted = seen.clone();
        let handler = batch_fn(move |batch: Batch<Raw>, context: Context| {
            // The first attempt of each slice finishes half of it.
            let half = batch.len() / 2;
            let first = context.attempt() == 1 && half > 0;
            for message in batch
                .messages()
                .take(if first { half } else { batch.len() })
            {
                noted.note(&message);
            }
            async move {
                Ok(match first {
                    true => BatchOutcome::UpTo {
                        done: half,
                        then: Outcome::retry(),
                    },
                    false => BatchOutcome::All(Outcome::Done),
                })
            }
        });
        let subscription = Subscription::topics(["orders"]).handler(handler);
        let fleet = start(stage.fleet("g", "b", subscription)).await;
        until("all is seen", || seen.len() == 1_000).await;
        let stopped = fleet.stop(Duration::from_secs(20)).await;
        assert!(stopped.report.totals.attempts_retry > 0);
        for partition in 0..2 {
            let at = TopicPartition::new("orders", partition);
            assert_eq!(seen.offsets(&at), (0..500).collect::<Vec<_>>());
            assert_eq!(stage.committed("g", &at), Some(Offset(500)));
        }
    });
}

#[test]
fn a_blocking_handler_that_panics_now_and_then_loses_nothing() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 3);
        for partition in 0..3 {
            stage.produce("orders", partition, 30);
        }
        let seen = Seen::default();
        let noted = seen.clone();
        let handler = blocking_fn(move |message: Message<Raw>, context: Context| {
            if message.offset().0 % 10 == 0 && context.attempt() == 1 {
                panic!("tenth record");
            }
            noted.note(&message);
            Ok(Outcome::Done)
        });
        let subscription = Subscription::topics(["orders"]).handler(handler);
        let fleet = start(stage.fleet("g", "b", subscription)).await;
        until("all is seen", || seen.len() == 90).await;
        fleet.stop(Duration::from_secs(20)).await;
        for partition in 0..3 {
            let at = TopicPartition::new("orders", partition);
            assert_eq!(seen.offsets(&at), (0..30).collect::<Vec<_>>());
        }
    });
}

#[test]
fn a_pattern_takes_what_matches_and_what_is_created_later() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders-1", 1);
        stage.topic("other", 1);
        stage.produce("orders-1", 0, 5);
        stage.produce("other", 0, 5);
        let seen = Seen::default();
        let noted = seen.clone();
        let handler = handler_fn(move |message: Message<Raw>, _| {
            noted.note(&message);
            async { Ok(Outcome::Done) }
        });
        let subscription = Subscription::pattern("orders-.*").handler(handler);
        let fleet = start(stage.fleet("g", "b", subscription)).await;
        until("the first topic is read", || seen.len() == 5).await;
        stage.topic("orders-2", 2);
        stage.produce("orders-2", 1, 5);
        until("the later topic is read", || seen.len() == 10).await;
        fleet.stop(Duration::from_secs(20)).await;
        let later = TopicPartition::new("orders-2", 1);
        assert_eq!(seen.offsets(&later), (0..5).collect::<Vec<_>>());
    });
}

#[test]
fn two_subscriptions_keep_their_handlers_apart() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 2);
        stage.topic("bills", 2);
        for partition in 0..2 {
            stage.produce("orders", partition, 20);
            stage.produce("bills", partition, 30);
        }
        let (orders, bills) = (Seen::default(), Seen::default());
        let builder = stage.fleet("g", "b", orders.noting("orders"));
        let fleet = start(builder.subscribe(bills.noting("bills"))).await;
        until("all is seen", || (orders.len(), bills.len()) == (40, 60)).await;
        fleet.stop(Duration::from_secs(20)).await;
        let mine = TopicPartition::new("orders", 1);
        let theirs = TopicPartition::new("bills", 1);
        assert_eq!(orders.offsets(&mine), (0..20).collect::<Vec<_>>());
        assert_eq!(bills.offsets(&theirs), (0..30).collect::<Vec<_>>());
        assert!(bills.offsets(&mine).is_empty());
    });
}

/// A batch of values that hardly compress, so that its size on the wire is about that of its
/// values.
fn noise(codec: Compression, count: usize) -> bytes::Bytes {
    let mut writer = BatchWriter::new(codec);
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..count {
        let mut value = Vec::with_capacity(VALUE_BYTES + 16);
        while value.len() < VALUE_BYTES {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            value.extend_from_slice(&state.to_le_bytes());
        }
        // A little that does compress, or the writer would leave the batch as it is.
        value.extend_from_slice(&[0; 16]);
        let record = NewRecord {
            timestamp: 0,
            key: None,
            value: Some(&value),
            headers: &[],
        };
        writer.push(&record).expect("fits");
    }
    writer.seal().expect("has records")
}

const VALUE_BYTES: usize = 48;
