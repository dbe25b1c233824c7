//! Our record reader beside the protocol library's, on the same batches, in one process.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use kafka_protocol::records::RecordBatchDecoder;
use nearside::ids::Offset;
use nearside::records::{BatchSet, BatchWriter, Compression, NewRecord, ReadSettings};

use crate::Result;

/// What to measure.
#[derive(Args, Clone, Debug)]
pub struct Plan {
    /// How often each reader reads each batch; the fastest reading counts.
    #[arg(long, default_value_t = 500)]
    rounds: usize,
}

/// Records of a batch and the bytes of each value: about a megabyte in both cases.
const SHAPES: [(u32, usize); 2] = [(9_700, 100), (1_000, 1_024)];
const CODECS: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

/// Reads every batch by both, in alternation, and prints a table.
pub fn run(plan: &Plan) -> Result<()> {
    println!(
        "| records | codec | nearside, us | M records/s | library, us | M records/s | library / nearside |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (records, value_bytes) in SHAPES {
        for codec in CODECS {
            let batch = batch(records, value_bytes, codec)?;
            if ours(batch.clone())? != theirs(batch.clone())? {
                return Err("the two readers disagree".into());
            }
            let (mut our_time, mut their_time) = (Duration::MAX, Duration::MAX);
            for _ in 0..plan.rounds {
                our_time = our_time.min(timed(&batch, ours)?);
                their_time = their_time.min(timed(&batch, theirs)?);
            }
            let rate = |time: Duration| f64::from(records) / time.as_secs_f64() / 1e6;
            println!(
                "| {records} of {value_bytes} B | {codec:?} | {} | {:.1} | {} | {:.1} | {:.1} |",
                our_time.as_micros(),
                rate(our_time),
                their_time.as_micros(),
                rate(their_time),
                their_time.as_secs_f64() / our_time.as_secs_f64(),
            );
        }
    }
    Ok(())
}

fn timed(batch: &Bytes, read: fn(Bytes) -> Result<i64>) -> Result<Duration> {
    let batch = batch.clone();
    let started = Instant::now();
    black_box(read(black_box(batch))?);
    Ok(started.elapsed())
}

/// One batch of text that compresses about as well as JSON does.
fn batch(records: u32, value_bytes: usize, codec: Compression) -> Result<Bytes> {
    let text: Vec<u8> = (0..value_bytes + SPREAD)
        .map(|at| (at * at / 7 % 61) as u8 + b'0')
        .collect();
    let mut writer = BatchWriter::new(codec);
    for index in 0..records {
        let start = index as usize * 13 % SPREAD;
        writer.push(&NewRecord {
            timestamp: 1_700_000_000_000 + i64::from(index / 16),
            value: Some(&text[start..start + value_bytes]),
            ..NewRecord::default()
        })?;
    }
    Ok(writer.seal()?)
}

/// Sums something of every record, so that nothing can be left out.
fn ours(batch: Bytes) -> Result<i64> {
    let mut sum = 0;
    for view in BatchSet::new(batch, Offset(0), ReadSettings::default()) {
        let open = view?.inflate(INFLATED_MAX)?;
        for record in open.records() {
            let record = record?;
            let value = record.value.unwrap_or_default();
            sum += record.offset.0 + record.timestamp + value.len() as i64;
        }
    }
    Ok(sum)
}

fn theirs(mut batch: Bytes) -> Result<i64> {
    let set = RecordBatchDecoder::decode(&mut batch)?;
    let sums = set.records.iter().map(|record| {
        let value = record.value.as_ref().map_or(0, Bytes::len);
        record.offset + record.timestamp + value as i64
    });
    Ok(sums.sum())
}

const SPREAD: usize = 4_096;
const INFLATED_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_readers_see_the_same_records_whatever_the_codec() {
        for codec in CODECS {
            let batch = batch(100, 50, codec).unwrap();
            assert_eq!(ours(batch.clone()).unwrap(), theirs(batch).unwrap());
        }
    }
}
