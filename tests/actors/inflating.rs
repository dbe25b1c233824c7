//! Compressed batches and the share of the budget that they are inflated in.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nearside::embedded::{Record, encode_batch};
use nearside::fleet::{Event, FleetHandle};
use nearside::ids::{Offset, TopicPartition};
use nearside::prelude::*;
use nearside::records::{BatchWriter, Compression, HEADER_BYTES, NewRecord};
use tokio::sync::Semaphore;

use crate::stage::{Builder, Seen, Stage, forged, run, start, until_hashed};

/// What a batch comes to, nearly.
const BATCH: usize = 100_000;
const PARTITIONS: i32 = 6;
const BATCHES: i64 = 5;
const BUDGET: usize = 16 * BATCH;

/// A batch of one record that weighs nothing on the wire.
fn packed(codec: Compression) -> Bytes {
    let mut writer = BatchWriter::new(codec);
    let value = vec![0; BATCH - 1_000];
    let record = NewRecord {
        value: Some(&value),
        ..NewRecord::default()
    };
    writer.push(&record).expect("fits");
    writer.seal().expect("not empty")
}

fn filled(stage: &Stage, topic: &str, partitions: i32, codec: Compression) {
    stage.topic(topic, u32::try_from(partitions).expect("small"));
    for partition in 0..partitions {
        for _ in 0..BATCHES {
            stage.append(topic, partition, packed(codec));
        }
    }
}

/// A subscription whose handler notes each record, once `gate` lets it.
fn gated(seen: &Seen, gate: &Arc<Semaphore>, topic: &str) -> Subscription {
    let (seen, gate) = (seen.clone(), Arc::clone(gate));
    let handler = handler_fn(move |message: Message<Raw>, _: Context| {
        let (seen, gate) = (seen.clone(), Arc::clone(&gate));
        async move {
            gate.acquire().await.expect("never closed").forget();
            seen.note(&message);
            Ok(Outcome::Done)
        }
    });
    Subscription::topics([topic]).handler(handler)
}

/// A share of four batches.
fn small(builder: Builder) -> Builder {
    builder
        .property("memory.budget.bytes", &BUDGET.to_string())
        .property("max.partition.fetch.bytes", &BATCH.to_string())
        .property("fetch.max.bytes", &(2 * BATCH).to_string())
}

fn inflated(fleet: &FleetHandle) -> usize {
    usize::try_from(fleet.report().totals.inflated_bytes).expect("small")
}

/// Waits a minute of the fleet's time at most. What is inflated elsewhere takes real time, as
/// hashing does.
async fn until(what: &str, condition: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(MINUTE, until_hashed(what, condition)).await;
    assert!(waited.is_ok(), "not within a minute: {what}");
}

/// The share holds, and beyond it there is one batch at most, of `batch` bytes.
fn one_is_beyond(fleet: &FleetHandle, batch: usize) {
    let report = fleet.report();
    let share = report.inflation;
    assert!(share.charged <= share.limit, "{report:?}");
    assert!(share.overdrawn <= batch, "{report:?}");
    let fetched = report.budget.charged - share.overdrawn;
    assert!(fetched <= report.budget.limit, "{report:?}");
}

fn nothing_is_held(fleet: &FleetHandle) -> bool {
    let report = fleet.report();
    report.inflation.charged == 0 && report.budget.charged == 0
}

/// wire.md A20.
#[test]
fn with_the_share_used_up_and_handlers_that_stand_still_one_batch_opens_and_all_goes_on() {
    for codec in [Compression::Gzip, Compression::Zstd] {
        run(async {
            let stage = Stage::new();
            filled(&stage, "orders", PARTITIONS, codec);
            let (seen, gate) = (Seen::default(), Arc::new(Semaphore::new(0)));
            let builder = stage.fleet("g", "b", gated(&seen, &gate, "orders"));
            let fleet = start(small(builder)).await;
            let limit = fleet.report().inflation.limit;
            assert_eq!(limit, BUDGET / 4);
            until("the share is used up", || inflated(&fleet) > limit - BATCH).await;
            let since = tokio::time::Instant::now();
            until("one batch more is open", || {
                one_is_beyond(&fleet, BATCH);
                inflated(&fleet) > limit
            })
            .await;
            // A second later any partition that holds nothing would open one.
            assert!(since.elapsed() < Duration::from_millis(500));
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert!(inflated(&fleet) < limit + BATCH, "one at a time");
            let share = fleet.report().inflation;
            let charged = share.charged + share.overdrawn;
            assert!(charged >= inflated(&fleet), "what is open is charged");
            assert_eq!(seen.len(), 0);

            gate.add_permits(1_000_000);
            let all = usize::try_from(i64::from(PARTITIONS) * BATCHES).expect("small");
            until("all is handled", || {
                one_is_beyond(&fleet, BATCH);
                seen.len() == all
            })
            .await;
            until("all is inflated once", || {
                inflated(&fleet) > all * (BATCH - 1_000)
            })
            .await;
            assert!(inflated(&fleet) < all * BATCH, "and only once");
            until("nothing is inflated any more", || {
                fleet.report().inflation.charged == 0
            })
            .await;
            fleet.stop(Duration::from_secs(20)).await;
            assert!(nothing_is_held(&fleet));
            for partition in 0..PARTITIONS {
                let at = TopicPartition::new("orders", partition);
                assert_eq!(seen.offsets(&at), (0..BATCHES).collect::<Vec<_>>());
                assert_eq!(stage.committed("g", &at), Some(Offset(BATCHES)));
            }
        });
    }
}

#[test]
fn partitions_whose_handlers_are_stuck_on_the_whole_share_do_not_stop_the_others() {
    run(async {
        let stage = Stage::new();
        filled(&stage, "stuck", PARTITIONS, Compression::Gzip);
        let (seen, gate) = (Seen::default(), Arc::new(Semaphore::new(0)));
        stage.topic("orders", 2);
        let builder = stage
            .fleet("g", "b", gated(&Seen::default(), &gate, "stuck"))
            .subscribe(seen.noting("orders"));
        let fleet = start(small(builder)).await;
        until("the share is used up, and more", || {
            inflated(&fleet) > BUDGET / 4
        })
        .await;
        for partition in [0, 1] {
            for _ in 0..BATCHES {
                stage.append("orders", partition, packed(Compression::Gzip));
            }
        }
        let all = usize::try_from(2 * BATCHES).expect("small");
        until("the others are handled", || seen.len() == all).await;
        gate.add_permits(1_000_000);
        fleet.stop(Duration::from_secs(20)).await;
        assert!(nothing_is_held(&fleet));
    });
}

/// A batch of one record that takes nearly the whole share, and too much of the wire to be inflated
/// on the way.
fn heavy() -> Bytes {
    let mut value = vec![0; 4 * BATCH - 2_000];
    let mut noise = 1_u32;
    for byte in &mut value[..BATCH] {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = noise.to_be_bytes()[0];
    }
    let mut writer = BatchWriter::new(Compression::Lz4);
    let record = NewRecord {
        value: Some(&value),
        ..NewRecord::default()
    };
    writer.push(&record).expect("fits");
    writer.seal().expect("not empty")
}

/// Ten stuck partitions hold the share, the one batch beyond it, and more than half of what those
/// who are overdue may hold.
#[test]
fn a_large_batch_behind_stuck_handlers_waits_for_them_while_others_go_on() {
    run(async {
        const STUCK: i32 = 10;
        let stage = Stage::new();
        filled(&stage, "stuck", STUCK, Compression::Gzip);
        stage.topic("orders", 2);
        let (seen, gate) = (Seen::default(), Arc::new(Semaphore::new(0)));
        let builder = stage
            .fleet("g", "b", gated(&Seen::default(), &gate, "stuck"))
            .subscribe(seen.noting("orders"));
        let fleet = start(small(builder)).await;
        let stuck_on = usize::try_from(STUCK).expect("small") * (BATCH - 1_000);
        until("all are stuck", || inflated(&fleet) >= stuck_on).await;

        let [large, plain] = [0, 1].map(|index| TopicPartition::new("orders", index));
        let batch = heavy();
        assert!(batch.len() > 64 << 10, "{}", batch.len());
        stage.append("orders", 0, batch);
        for round in 1..=3 {
            stage.produce("orders", 1, 5);
            until("the others are read on", || {
                seen.offsets(&plain).len() == 5 * round
            })
            .await;
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        assert!(seen.offsets(&large).is_empty(), "there is no room for it");
        gate.add_permits(1_000_000);
        until("it is opened and handled", || seen.offsets(&large) == [0]).await;
        fleet.stop(Duration::from_secs(20)).await;
        assert!(nothing_is_held(&fleet));
        assert_eq!(stage.committed("g", &large), Some(Offset(1)));
    });
}

const MINUTE: Duration = Duration::from_secs(60);

/// A batch of five records, by its header, whose body is a bomb.
fn bomb(codec: i16, body: &[u8]) -> Bytes {
    let records: Vec<_> = (0..5).map(|n| Record::of(n.to_string())).collect();
    forged(&encode_batch(&records), |bytes| {
        bytes.truncate(HEADER_BYTES);
        bytes.extend_from_slice(body);
        bytes[21..23].copy_from_slice(&codec.to_be_bytes());
        let length = i32::try_from(bytes.len() - 12).expect("small");
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
    })
}

/// Bodies of at most 70 KB that come to 16 MiB and more, or claim to.
fn bombs() -> [(i16, Vec<u8>); 4] {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    let zeros = vec![0; 16 << 20];
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&zeros).expect("into memory");
    let info = FrameInfo::new()
        .block_mode(BlockMode::Independent)
        .block_size(BlockSize::Max4MB);
    let mut lz4 = FrameEncoder::with_frame_info(info, Vec::new());
    lz4.write_all(&zeros).expect("into memory");
    let zstd = zstd::bulk::compress(&zeros, 3).expect("compressible");
    [
        (1, gzip.finish().expect("into memory")),
        (2, vec![0xff, 0xff, 0xff, 0xff, 0x0f, 0]),
        (3, lz4.finish().expect("into memory")),
        (4, zstd.repeat(64)),
    ]
}

/// wire.md A38.
#[test]
fn a_bomb_of_any_codec_stops_its_own_partition_at_the_cap_and_no_other() {
    run(async {
        let stage = Stage::new();
        stage.topic("orders", 5);
        for ((codec, body), partition) in bombs().into_iter().zip(0..) {
            assert!(body.len() < 70_000, "codec {codec}: {}", body.len());
            stage.produce("orders", partition, 5);
            stage.append("orders", partition, bomb(codec, &body));
        }
        stage.append("orders", 4, packed(Compression::Zstd));
        let seen = Seen::default();
        let builder = stage.fleet("g", "b", seen.noting("orders"));
        let fleet = start(builder.property("memory.budget.bytes", "16777216")).await;
        let cap = 4 << 20;
        assert_eq!(fleet.report().inflation.limit, 4 << 20);
        let failed = |fleet: &FleetHandle| {
            one_is_beyond(fleet, cap);
            let report = fleet.report();
            let partitions = report.partitions.iter();
            partitions.filter(|it| it.state == "failed").count()
        };
        until("all four have failed", || failed(&fleet) == 4).await;
        stage.produce("orders", 4, 5);
        until("the fifth is read on", || seen.len() == 26).await;
        let reasons: Vec<_> = fleet
            .recent_events()
            .iter()
            .filter_map(|it| match &it.event {
                Event::CorruptBatch { reason, .. } => Some(reason.clone()),
                _ => None,
            })
            .collect();
        let count = |text| reasons.iter().filter(|it| it.contains(text)).count();
        assert_eq!(count("inflates beyond 4194304 bytes"), 3, "{reasons:?}");
        assert_eq!(count("snappy data does not decode"), 1, "{reasons:?}");
        assert_eq!(failed(&fleet), 4);
        until("nothing is inflated any more", || {
            fleet.report().inflation.charged == 0
        })
        .await;
        fleet.stop(Duration::from_secs(20)).await;
        assert!(nothing_is_held(&fleet));
        for partition in 0..4 {
            let at = TopicPartition::new("orders", partition);
            assert_eq!(seen.offsets(&at), (0..5).collect::<Vec<_>>());
            assert_eq!(stage.committed("g", &at), Some(Offset(5)));
        }
    });
}
