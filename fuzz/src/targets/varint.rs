//! Varints of answers and of records, beside a slow reference.

use bytes::Bytes;
use nearside::ids::Offset;
use nearside::records::{BatchSet, BatchWriter, Compression, NewRecord, ReadSettings, Record};
use nearside::wire::{ApiKey, Flaw, Response};

use crate::forge::Batch;
use crate::script::Script;
use crate::slow::{Varint, put_varint, put_zigzag, unzigzag, varint};

/// Bytes of a batch in front of its records.
const HEADER: usize = 61;

/// The first byte chooses where the varint stands.
pub(super) fn run(data: &[u8]) {
    let Some((place, bytes)) = super::choose(data, 4) else {
        return;
    };
    match place {
        0 => in_an_answer(bytes),
        1 => as_a_timestamp(bytes),
        2 => as_an_offset(bytes),
        _ => written(bytes),
    }
}

/// The length of a token in SaslAuthenticate.
fn in_an_answer(bytes: &[u8]) {
    const FIELD: &str = "auth_bytes";
    let body = Bytes::from([&[0, 0, 0][..], bytes].concat());
    let read = Response::decode(ApiKey::SaslAuthenticate, 2, &body);
    let flaw = match varint(bytes, 32) {
        Varint::Cut => Some(Flaw::Truncated),
        Varint::TooLong => Some(Flaw::Varint),
        Varint::Value(0, _) => Some(Flaw::UnexpectedNull),
        Varint::Value(length, used) => {
            let token = usize::try_from(length - 1).ok();
            let token = token.and_then(|length| bytes[used..].get(..length));
            match (&read, token) {
                (Ok((Response::SaslAuthenticate(read), _)), token) => {
                    assert_eq!(Some(&read.token[..]), token);
                    return;
                }
                // What follows the token is not there.
                (_, Some(_)) => None,
                (_, None) => Some(Flaw::Truncated),
            }
        }
    };
    let error = read.expect_err("no token");
    assert_eq!(error.field == FIELD, flaw.is_some(), "{error}");
    assert!(flaw.is_none_or(|flaw| flaw == error.flaw), "{error}");
}

fn as_a_timestamp(bytes: &[u8]) {
    let read = |bytes: &[u8]| read_one(bytes, &[0], |record| record.timestamp.into());
    judge(bytes, 64, read, |_| true);
}

fn as_an_offset(bytes: &[u8]) {
    let read = |bytes: &[u8]| read_one(&[0], bytes, |record| record.offset.0.into());
    judge(bytes, 32, read, |offset| offset >= 0);
}

fn judge(
    bytes: &[u8],
    bits: u32,
    read: impl Fn(&[u8]) -> Option<i128>,
    allowed: impl Fn(i128) -> bool,
) {
    match varint(bytes, bits) {
        Varint::Value(raw, used) => {
            let value = unzigzag(raw);
            let expected = Some(value).filter(|value| allowed(*value));
            assert_eq!(read(&bytes[..used]), expected);
        }
        Varint::TooLong => {
            let longest = bits.div_ceil(7) as usize;
            assert_eq!(read(&bytes[..longest]), None);
        }
        // What follows in the record would complete it.
        Varint::Cut => {}
    }
}

/// Reads a record with these bytes as its two deltas.
fn read_one(timestamp: &[u8], offset: &[u8], what: impl Fn(&Record<'_>) -> i128) -> Option<i128> {
    // No key, no value, no headers.
    let content = [&[0], timestamp, offset, &[1, 1, 0]].concat();
    let mut body = Vec::new();
    put_zigzag(&mut body, content.len() as i64);
    body.extend(content);
    let batch = Batch {
        last_delta: i32::MAX,
        producer: -1,
        count: 1,
        body,
        ..Batch::default()
    };
    let bytes = Bytes::from(batch.bytes());
    let mut set = BatchSet::new(bytes, Offset(0), ReadSettings::default());
    let view = set
        .next()
        .expect("one batch")
        .expect("sound")
        .inflate(1 << 20);
    let view = view.expect("sound");
    let mut records = view.records();
    let record = records.next().expect("one record");
    record.ok().map(|record| what(&record))
}

/// What the writer writes, byte for byte.
fn written(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let stamps = [script.i64() & i64::MAX, script.i64() & i64::MAX];
    let long = vec![7; usize::from(script.i16().cast_unsigned())];
    let values = [
        Some(script.field()),
        Some(&long[..]).filter(|_| script.flag()),
    ];
    let mut writer = BatchWriter::new(Compression::None);
    let mut expected = Vec::new();
    for (index, (timestamp, value)) in stamps.into_iter().zip(values).enumerate() {
        let record = NewRecord {
            timestamp,
            key: None,
            value,
            headers: &[],
        };
        let (size, grows) = (writer.size(), writer.size_of(&record));
        writer.push(&record).expect("in range");
        assert_eq!(writer.size(), size + grows);
        expected.extend(slow_record(timestamp - stamps[0], index as i64, value));
    }
    let sealed = writer.seal().expect("two records");
    assert_eq!(&sealed[HEADER..], expected);
}

fn slow_record(timestamp: i64, offset: i64, value: Option<&[u8]>) -> Vec<u8> {
    let mut content = vec![0];
    for number in [timestamp, offset, -1] {
        put_zigzag(&mut content, number);
    }
    put_zigzag(&mut content, value.map_or(-1, |value| value.len() as i64));
    content.extend(value.unwrap_or_default());
    content.push(0);
    let mut out = Vec::new();
    put_zigzag(&mut out, content.len() as i64);
    out.extend(content);
    out
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let numbers = [
        0,
        1,
        127,
        128,
        16_383,
        16_384,
        u128::from(u32::MAX),
        1 << 32,
        1 << 35,
        u128::from(u64::MAX),
        1 << 64,
    ];
    let mut seeds = Vec::new();
    for place in 0..3 {
        for number in numbers {
            let mut seed = vec![place];
            put_varint(&mut seed, number);
            // A token that may be there, and what follows it.
            seed.extend([0; 9]);
            seeds.push(seed);
        }
        let padded = [0x80, 0x80, 0x80, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        seeds.push([&[place][..], &padded].concat());
        let unending = [0xff; 12];
        seeds.push([&[place][..], &unending].concat());
    }
    for stamps in [[0_i64, 64], [1_000, 0], [i64::MAX, 0], [0, 1 << 40]] {
        let stamps = stamps.map(i64::to_be_bytes).concat();
        seeds.push([&[3][..], &stamps, &[0x12, 0x34, 5], b"value", &[1]].concat());
    }
    seeds
}
