//! Batches that nobody can read, and a policy that lets reading go on behind them (wire.md 8.6).

use std::time::Duration;

use bytes::Bytes;
use nearside::embedded::{Record, encode_batch};
use nearside::fleet::{Event, FleetHandle};
use nearside::ids::{Offset, TopicPartition};
use nearside::records::{BatchWriter, Compression, HEADER_BYTES, NewRecord};

use crate::stage::{Seen, Stage, forged, run, start, until};

/// Five records `0` to `4`, eight bytes each.
fn five() -> Bytes {
    let records: Vec<_> = (0..5).map(|n| Record::of(n.to_string())).collect();
    encode_batch(&records)
}

/// A codec that does not exist: found while the row is indexed.
pub(crate) fn of_unknown_codec() -> Bytes {
    forged(&five(), |bytes| bytes[22] |= 5)
}

/// A record of length 0 behind two good ones: found by the handler's task.
pub(crate) fn with_a_broken_record() -> Bytes {
    forged(&five(), |bytes| bytes[HEADER_BYTES + 16] = 0)
}

/// What is no gzip at all: found here if it is small, on the compute pool if it is large.
pub(crate) fn of_garbage(size: usize) -> Bytes {
    forged(&five(), |bytes| {
        bytes[22] |= 1;
        bytes.resize(HEADER_BYTES + size, 0xab);
        let length = i32::try_from(bytes.len() - 12).expect("small");
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
    })
}

fn told(fleet: &FleetHandle) -> Vec<(Offset, Option<Offset>, bool)> {
    let told = |event: &Event| match event {
        Event::CorruptBatch {
            offset,
            next,
            skipped,
            ..
        } => Some((*offset, *next, *skipped)),
        _ => None,
    };
    let events = fleet.recent_events();
    events.iter().filter_map(|it| told(&it.event)).collect()
}

#[test]
fn skipping_passes_each_batch_that_cannot_be_read_and_nothing_else() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        let at = TopicPartition::new("orders", 0);
        let poison = [
            of_unknown_codec(),
            with_a_broken_record(),
            of_garbage(100),
            of_garbage(200_000),
        ];
        for batch in poison {
            stage.produce("orders", 0, 5);
            stage.append("orders", 0, batch);
        }
        stage.produce("orders", 0, 5);
        let seen = Seen::default();
        let fleet = stage
            .fleet("g", "b", seen.noting("orders"))
            .property("wire.batch.policy", "skip");
        let fleet = start(fleet).await;
        // Two records of the second bad batch are good.
        until("all but the bad ones are seen", || seen.len() == 27).await;
        assert_ne!(fleet.report().partitions[0].state, "failed");
        let mut skipped = told(&fleet);
        fleet.stop(Duration::from_secs(20)).await;
        let good = |offset: &i64| (offset / 5) % 2 == 0 || [15, 16].contains(offset);
        assert_eq!(seen.offsets(&at), (0..45).filter(good).collect::<Vec<_>>());
        assert_eq!(stage.committed("g", &at), Some(Offset(45)));
        skipped.sort();
        let expected = [(5, 10), (17, 20), (25, 30), (35, 40)]
            .map(|(from, to)| (Offset(from), Some(Offset(to)), true));
        assert_eq!(skipped, expected);
    });
}

#[test]
fn halting_stands_still_at_the_first_and_commits_nothing_behind_it() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        let at = TopicPartition::new("orders", 0);
        stage.produce("orders", 0, 5);
        stage.append("orders", 0, with_a_broken_record());
        stage.produce("orders", 0, 5);
        let seen = Seen::default();
        let fleet = stage.start("b", seen.noting("orders")).await;
        until("it is told", || !told(&fleet).is_empty()).await;
        let expected = [(Offset(7), Some(Offset(10)), false)];
        assert_eq!(told(&fleet), expected);
        assert_eq!(fleet.report().partitions[0].state, "failed");
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(seen.offsets(&at), (0..7).collect::<Vec<_>>());
        assert_eq!(stage.committed("g", &at), Some(Offset(7)));
    });
}

/// Two records that weigh nothing on the wire and `size` bytes each when inflated.
pub(crate) fn of_zeros(size: usize) -> Bytes {
    let mut writer = BatchWriter::new(Compression::Gzip);
    let value = vec![0; size];
    for _ in 0..2 {
        let record = NewRecord {
            value: Some(&value),
            ..NewRecord::default()
        };
        writer.push(&record).expect("fits");
    }
    writer.seal().expect("not empty")
}

#[test]
fn a_row_of_batches_that_inflate_to_far_more_than_a_fetch_is_read_to_its_end_in_order() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 1);
        let at = TopicPartition::new("orders", 0);
        for _ in 0..20 {
            stage.append("orders", 0, of_zeros(100_000));
            stage.produce("orders", 0, 1);
        }
        let seen = Seen::default();
        // At once at most 64 KiB are inflated, which none of the packed batches fits in.
        let fleet = stage
            .fleet("g", "b", seen.noting("orders"))
            .property("max.partition.fetch.bytes", "16384");
        let fleet = start(fleet).await;
        until("all are seen", || seen.len() == 60).await;
        fleet.stop(Duration::from_secs(20)).await;
        assert_eq!(seen.offsets(&at), (0..60).collect::<Vec<_>>());
        assert_eq!(stage.committed("g", &at), Some(Offset(60)));
    });
}
