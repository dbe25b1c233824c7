//! The record reader beside a bare hand loop, in the same run (wire.md 8.7).
//!
//! Gate: at most 1.5 times the hand loop at 100 B records, enforced with `NEARSIDE_BENCH_GATE=1`.
//! Both check the checksum and look at every record's offset, timestamp, key and value; the hand
//! loop checks nothing else.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::print_stdout,
    reason = "a benchmark reads what it wrote itself"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use nearside::ids::Offset;
use nearside::records::{BatchSet, BatchWriter, Compression, NewRecord, ReadSettings};

const ROUNDS: u32 = 1_000;
const RATIO_MAX: f64 = 1.5;

/// A batch of about one megabyte.
fn batch(records: u32, value_bytes: usize, codec: Compression) -> Bytes {
    let mut writer = BatchWriter::new(codec);
    // Text that compresses about as well as JSON does.
    let text: Vec<u8> = (0..value_bytes + 4_096)
        .map(|at| (at * at / 7 % 61) as u8 + 48)
        .collect();
    for index in 0..records {
        let start = index as usize * 13 % 4_096;
        let value = &text[start..start + value_bytes];
        let record = NewRecord {
            timestamp: 1_700_000_000_000 + i64::from(index / 16),
            value: Some(value),
            ..NewRecord::default()
        };
        writer.push(&record).unwrap();
    }
    writer.seal().unwrap()
}

/// Sums something of every record, so that nothing can be left out.
fn through_the_reader(bytes: Bytes) -> i64 {
    let mut sum = 0_i64;
    for view in BatchSet::new(bytes, Offset(0), ReadSettings::default()) {
        let open = view.unwrap().inflate(64 << 20).unwrap();
        for record in open.records() {
            let record = record.unwrap();
            let (key, value) = (
                record.key.unwrap_or_default(),
                record.value.unwrap_or_default(),
            );
            sum += record.offset.0 + record.timestamp + (key.len() + value.len()) as i64;
        }
    }
    sum
}

/// The same by hand: checksum, then one pass that believes what it reads.
fn by_hand(bytes: &[u8]) -> i64 {
    let stored = u32::from_be_bytes(bytes[17..21].try_into().unwrap());
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes[21..]) as u32;
    assert_eq!(stored, sum);
    walk(bytes)
}

fn walk(bytes: &[u8]) -> i64 {
    let base = i64::from_be_bytes(bytes[..8].try_into().unwrap());
    let base_timestamp = i64::from_be_bytes(bytes[27..35].try_into().unwrap());
    let count = i32::from_be_bytes(bytes[57..61].try_into().unwrap());
    let mut at = 61;
    let mut sum = 0;
    for _ in 0..count {
        let length = varint(bytes, &mut at) as usize;
        let end = at + length;
        at += 1;
        let timestamp = base_timestamp + varint(bytes, &mut at);
        let offset = base + varint(bytes, &mut at);
        let key = field(bytes, &mut at).unwrap_or_default();
        let value = field(bytes, &mut at).unwrap_or_default();
        sum += offset + timestamp + (key.len() + value.len()) as i64;
        at = end;
    }
    sum
}

fn field<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let length = varint(bytes, at);
    if length < 0 {
        return None;
    }
    let start = *at;
    *at += length as usize;
    Some(&bytes[start..*at])
}

#[inline(always)]
fn varint(bytes: &[u8], at: &mut usize) -> i64 {
    let (mut raw, mut shift) = (0_u64, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        raw |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return (raw >> 1) as i64 ^ -((raw & 1) as i64);
        }
        shift += 7;
    }
}

fn compare(criterion: &mut Criterion, name: &str, records: u32, value_bytes: usize) {
    let bytes = batch(records, value_bytes, Compression::None);
    assert_eq!(through_the_reader(bytes.clone()), by_hand(&bytes));
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(u64::from(records)));
    group.bench_function("reader", |bencher| {
        bencher.iter_batched(|| bytes.clone(), through_the_reader, BatchSize::SmallInput);
    });
    group.bench_function("hand_loop", |bencher| {
        bencher.iter(|| by_hand(black_box(&bytes)))
    });
    group.bench_function("hand_loop_no_checksum", |bencher| {
        bencher.iter(|| walk(black_box(&bytes)));
    });
    group.finish();
}

/// The gate of wire.md 8.7: the fastest of many alternating runs of each, so that a busy machine
/// slows both.
fn gate() {
    let bytes = batch(9_700, 100, Compression::None);
    let (mut reader, mut hand) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        reader = reader.min(timed(|| through_the_reader(bytes.clone())));
        hand = hand.min(timed(|| by_hand(black_box(&bytes))));
    }
    let ratio = reader.as_secs_f64() / hand.as_secs_f64();
    let rate = 9_700.0 / reader.as_secs_f64() / 1e6;
    println!("records of 100 B: {rate:.1} M/s, {ratio:.2} times the hand loop");
    let gated = std::env::var_os("NEARSIDE_BENCH_GATE").is_some();
    assert!(
        !gated || ratio <= RATIO_MAX,
        "the reader takes {ratio:.2} times the hand loop"
    );
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn timed(run: impl FnOnce() -> i64) -> Duration {
    let start = Instant::now();
    black_box(run());
    start.elapsed()
}

fn codecs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("codecs_100_bytes");
    group.throughput(Throughput::Elements(9_700));
    for codec in [
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        let bytes = batch(9_700, 100, codec);
        group.bench_function(codec.name(), |bencher| {
            bencher.iter_batched(|| bytes.clone(), through_the_reader, BatchSize::SmallInput);
        });
    }
    group.finish();
}

fn records(criterion: &mut Criterion) {
    gate();
    compare(criterion, "records_100_bytes", 9_700, 100);
    compare(criterion, "records_1_kib", 1_000, 1_024);
    codecs(criterion);
}

criterion_group!(benches, records);
criterion_main!(benches);
