//! What a lying peer may make us allocate (wire.md 13), and what reading costs (wire.md 8.7). A
//! binary of its own, for the counting allocator is the process's.

use std::fs;
use std::path::{Path, PathBuf};

use allocation_counter::measure;
use bytes::{BufMut as _, Bytes, BytesMut};
use nearside::ids::Offset;
use nearside::records::{
    BatchSet, BatchWriter, Compression, HEADER_BYTES, NewRecord, ReadSettings,
};
use nearside::wire::api::metadata;
use nearside::wire::{ApiKey, Caps, Deframer, Response, Tier, ours};

const KIB: usize = 1_024;

/// What one attempt of a peer costs; told at its end to whoever reads the output.
struct Cost {
    attempt: &'static str,
    worst: u64,
}

impl Cost {
    fn of(attempt: &'static str) -> Self {
        Self { attempt, worst: 0 }
    }

    /// Runs `work`, which may hold `bytes` at a time and not one beyond.
    fn within<T>(&mut self, bytes: usize, work: impl FnOnce() -> T) -> T {
        let mut result = None;
        let held = measure(|| result = Some(work())).bytes_max;
        assert!(held <= bytes as u64, "{held} bytes held, not {bytes}");
        self.worst = self.worst.max(held);
        result.expect("the work is done")
    }
}

impl Drop for Cost {
    fn drop(&mut self) {
        eprintln!("{}: {} bytes held at most", self.attempt, self.worst);
    }
}

/// wire.md A6
#[test]
fn a_count_of_two_billion_brokers_allocates_no_more_than_64_kib() {
    let mut body = BytesMut::new();
    body.put_i32(0);
    body.put_slice(&[0xff, 0xff, 0xff, 0xff, 0x07]);
    let body = body.freeze();
    let mut cost = Cost::of("two billion brokers in an answer of 9 bytes");
    let decoded = cost.within(64 * KIB, || metadata::Response::decode(9, &body));
    decoded.expect_err("the count is beyond the bytes");
}

/// Every place of every golden frame in turn says that two billion elements follow.
#[test]
fn a_huge_count_anywhere_in_an_answer_costs_no_more_than_its_share() {
    let mut tried = 0;
    let mut cost = Cost::of("two billion elements anywhere in a golden frame");
    for (api, version, body) in golden() {
        for at in 0..body.len().min(400) {
            for count in [
                &[0x7f, 0xff, 0xff, 0xff][..],
                &[0xff, 0xff, 0xff, 0xff, 0x0f],
            ] {
                let mut damaged = body.clone();
                for (to, from) in damaged.iter_mut().skip(at).zip(count) {
                    *to = *from;
                }
                let damaged = Bytes::from(damaged);
                let share = 16 * damaged.len() + 64 * KIB;
                drop(cost.within(share, || Response::decode(api, version, &damaged)));
                tried += 1;
            }
        }
    }
    assert!(tried > 10_000, "{tried}");
}

/// wire.md A3
#[test]
fn a_length_of_two_billion_is_refused_before_anything_is_reserved() {
    let mut cost = Cost::of("a frame of 2^31 - 1 bytes");
    for tier in [Tier::Setup, Tier::Other, Tier::Fetch] {
        let mut deframer = Deframer::new(Caps::default());
        deframer.expect(tier);
        let frame = cost.within(64 * KIB, || {
            deframer.buffer().put_slice(&[0x7f, 0xff, 0xff, 0xff]);
            deframer.next_frame()
        });
        frame.expect_err("above every cap");
    }
}

/// wire.md A4
#[test]
fn bytes_that_drip_in_cost_twice_their_number_whatever_length_was_claimed() {
    const FED: usize = 300_000;
    let claimed = u32::to_be_bytes(90 << 20);
    let mut bytes = claimed.into_iter().chain(std::iter::repeat(7));
    let mut cost = Cost::of("300,000 of 90 Mi bytes, one at a time");
    // The old buffer lives on while its bytes move to the new one.
    cost.within(3 * FED + 65 * KIB, || {
        let mut deframer = Deframer::new(Caps::default());
        deframer.expect(Tier::Fetch);
        for fed in 0..FED {
            let held = deframer.buffer().capacity();
            assert!(held <= 2 * fed + 64 * KIB, "{held} bytes held after {fed}");
            deframer.buffer().put_u8(bytes.next().expect("endless"));
            assert_eq!(deframer.next_frame(), Ok(None));
        }
    });
}

/// wire.md A36
#[test]
fn counts_of_two_billion_records_or_headers_reserve_nothing() {
    let mut writer = BatchWriter::default();
    let record = NewRecord {
        value: Some(b"v"),
        ..NewRecord::default()
    };
    writer.push(&record).expect("small");
    let sound = writer.seal().expect("not empty");
    let settings = ReadSettings {
        check_crcs: false,
        ..ReadSettings::default()
    };
    let mut records = sound.to_vec();
    records.splice(57..61, i32::MAX.to_be_bytes());
    let mut headers = sound.to_vec();
    headers.pop();
    headers.extend([0xfe, 0xff, 0xff, 0xff, 0x0f]);
    headers.splice(HEADER_BYTES..=HEADER_BYTES, [2 * 11]);
    headers.splice(8..12, 61_i32.to_be_bytes());
    let mut cost = Cost::of("two billion records, or headers, in a batch of 73 bytes");
    for (bytes, is_read) in [(records, false), (headers, true)] {
        let bytes = Bytes::from(bytes);
        cost.within(KIB, || {
            let mut set = BatchSet::new(bytes, Offset(0), settings);
            let view = set.next().expect("one batch");
            assert_eq!(view.is_ok(), is_read);
            for record in view.iter().flat_map(|view| view.records()) {
                let record = record.expect("bad headers leave the record alone");
                assert!(record.headers.iter().any(|header| header.is_err()));
            }
        });
    }
}

/// wire.md A40
#[test]
fn reading_allocates_twice_for_a_batch_or_as_often_as_its_inflated_bytes_double() {
    for (codec, most) in [
        (Compression::None, 2),
        (Compression::Lz4, 16),
        (Compression::Zstd, 16),
    ] {
        let mut writer = BatchWriter::new(codec);
        for _ in 0..9_700 {
            let record = NewRecord {
                value: Some(&[7; 100]),
                ..NewRecord::default()
            };
            writer.push(&record).expect("a batch has room");
        }
        let batch = writer.seal().expect("not empty");
        // The first reading makes what a thread keeps for the next ones.
        read_all(batch.clone());
        let allocations = measure(|| read_all(batch.clone())).count_total;
        assert!(allocations <= most, "{codec:?}: {allocations} allocations");
    }
}

fn read_all(batch: Bytes) {
    let mut bytes = 0;
    for view in BatchSet::new(batch, Offset(0), ReadSettings::default()) {
        let open = view.and_then(|view| view.inflate(64 << 20)).expect("sound");
        for record in open.records() {
            bytes += record.expect("sound").value.map_or(0, <[u8]>::len);
        }
    }
    assert_eq!(bytes, 970_000);
}

/// The bodies of the golden frames.
fn golden() -> Vec<(ApiKey, i16, Vec<u8>)> {
    ApiKey::ALL.into_iter().flat_map(golden_of).collect()
}

fn golden_of(api: ApiKey) -> Vec<(ApiKey, i16, Vec<u8>)> {
    let mut name = String::new();
    for letter in api.to_string().chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = fs::read_dir(root.join(name)).into_iter().flatten();
    let files = files.map(|entry| entry.expect("readable").path());
    files.filter_map(|file| body(api, &file)).collect()
}

fn body(api: ApiKey, file: &PathBuf) -> Option<(ApiKey, i16, Vec<u8>)> {
    let version: i16 = file
        .file_stem()?
        .to_str()?
        .split('-')
        .next()?
        .parse()
        .ok()?;
    assert!((ours(api).min..=ours(api).max).contains(&version));
    let text = fs::read_to_string(file).ok()?;
    let digits: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| line.chars().filter_map(|digit| digit.to_digit(16)))
        .filter_map(|digit| u8::try_from(digit).ok())
        .collect();
    let pairs = digits.as_chunks::<2>().0;
    let frame: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    let header = kafka_protocol::messages::ApiKey::try_from(api.code()).ok()?;
    let tagged = header.response_header_version(version) > 0;
    let body = frame.get(if tagged { 9 } else { 8 }..)?;
    Some((api, version, body.to_vec()))
}
