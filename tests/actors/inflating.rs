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

// What is inflated elsewhere takes real time, as hashing does.
use crate::stage::until_hashed as until;
use crate::stage::{Builder, Seen, Stage, forged, run, start};

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

/// What is held within the share and beyond it, and all that is fetched or asked for.
fn held(fleet: &FleetHandle) -> usize {
    let report = fleet.report();
    report.inflation.charged + report.budget.charged
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
            let most = limit + BATCH + fleet.report().budget.limit;
            until("the share is used up", || inflated(&fleet) > limit - BATCH).await;
            let since = tokio::time::Instant::now();
            until("one batch more is open", || {
                assert!(held(&fleet) <= most, "{:?}", fleet.report());
                inflated(&fleet) > limit
            })
            .await;
            // A second later any partition that holds nothing would open one.
            assert!(since.elapsed() < Duration::from_millis(500));
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert!(inflated(&fleet) < limit + BATCH, "one at a time");
            assert_eq!(seen.len(), 0);

            gate.add_permits(1_000_000);
            let all = usize::try_from(i64::from(PARTITIONS) * BATCHES).expect("small");
            until("all is handled", || seen.len() == all).await;
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
        let (share, cap) = (4 << 20, 4 << 20);
        let most = share + cap + fleet.report().budget.limit;
        let failed = |fleet: &FleetHandle| {
            let report = fleet.report();
            assert!(held(fleet) <= most, "{report:?}");
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
