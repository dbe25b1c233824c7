//! Message sets of versions 0 and 1, so that old segments are never skipped (wire.md 8.5).

use bytes::Bytes;
use nearside::budget::{Budget, Inflation};
use nearside::ids::Offset;
use nearside::records::{
    BatchError, BatchSet, BatchView, Charge, Corruption, PoisonReason, ReadSettings, TimestampType,
};
use proptest::prelude::*;

use crate::bombs::gzip;
use crate::forge::{Forge, Read, drain, open};

const GZIP: u8 = 1;
const SNAPPY: u8 = 2;
const LZ4: u8 = 3;
const LOG_APPEND_TIME: u8 = 1 << 3;

/// One message in the making.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub offset: i64,
    pub magic: u8,
    pub attributes: u8,
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
}

impl Message {
    pub(crate) fn at(offset: i64, magic: u8, value: impl AsRef<[u8]>) -> Self {
        Self {
            offset,
            magic,
            attributes: 0,
            timestamp: 1_000 + offset,
            key: None,
            value: Some(value.as_ref().to_vec()),
        }
    }

    /// A compressed message at `offset` with `set` inside.
    pub(crate) fn around(offset: i64, magic: u8, codec: u8, set: &[Message]) -> Self {
        Self {
            attributes: codec,
            ..Self::at(offset, magic, pack(codec, magic, &join(set)))
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut covered = vec![self.magic, self.attributes];
        if self.magic > 0 {
            covered.extend(self.timestamp.to_be_bytes());
        }
        for field in [&self.key, &self.value] {
            let length = field.as_ref().map_or(-1, |field| field.len() as i32);
            covered.extend(length.to_be_bytes());
            covered.extend(field.as_deref().unwrap_or_default());
        }
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, &covered) as u32;
        let mut out = self.offset.to_be_bytes().to_vec();
        out.extend((covered.len() as i32 + 4).to_be_bytes());
        out.extend(sum.to_be_bytes());
        out.extend(covered);
        out
    }
}

pub(crate) fn join(messages: &[Message]) -> Vec<u8> {
    messages.iter().flat_map(Message::bytes).collect()
}

fn pack(codec: u8, magic: u8, set: &[u8]) -> Vec<u8> {
    match codec {
        GZIP => gzip(set),
        SNAPPY => snap::raw::Encoder::new().compress_vec(set).unwrap(),
        _ => {
            use lz4_flex::frame::{BlockMode, FrameEncoder, FrameInfo};
            use std::io::Write;
            let info = FrameInfo::new().block_mode(BlockMode::Independent);
            let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
            encoder.write_all(set).unwrap();
            let mut frame = encoder.finish().unwrap();
            if magic == 0 {
                // Clients of that time summed the frame's magic number as well (KIP-57).
                frame[6] ^= 0x5a;
            }
            frame
        }
    }
}

/// Messages at `offsets`, each with its offset as value.
fn plain(magic: u8, offsets: impl IntoIterator<Item = i64>) -> Vec<Message> {
    let message = |offset: i64| Message::at(offset, magic, format!("m{offset}"));
    offsets.into_iter().map(message).collect()
}

fn named(offsets: impl IntoIterator<Item = i64>) -> Vec<(i64, String)> {
    let named = |offset: i64| (offset, format!("m{offset}"));
    offsets.into_iter().map(named).collect()
}

fn read(messages: &[Message], asked: i64) -> Read {
    drain(open(join(messages), asked))
}

fn views(messages: &[Message]) -> Vec<BatchView> {
    open(join(messages), 0)
        .map(|view| view.unwrap().inflate(1 << 20).unwrap())
        .collect()
}

/// Timestamps of all records.
fn times(messages: &[Message]) -> Vec<i64> {
    let views = views(messages);
    let records = views.iter().flat_map(BatchView::records);
    records.map(|record| record.unwrap().timestamp).collect()
}

#[test]
fn plain_messages_are_read_with_their_offsets_and_timestamps() {
    for magic in [0, 1] {
        let messages = plain(magic, [5, 6, 9, 12]);
        let found = read(&messages, 5);
        assert_eq!(found.records, named([5, 6, 9, 12]), "version {magic}");
        assert_eq!((found.position, found.error), (13, None));
        let expected = if magic == 0 {
            vec![-1; 4]
        } else {
            vec![1_005, 1_006, 1_009, 1_012]
        };
        assert_eq!(times(&messages), expected);
        assert_eq!(views(&messages).len(), 1, "one view for all");
    }
}

#[test]
fn keys_and_values_keep_null_and_empty_apart() {
    let mut messages = plain(1, 0..3);
    messages[0].value = None;
    (messages[1].key, messages[1].value) = (Some(Vec::new()), Some(Vec::new()));
    messages[2].key = Some(b"key".to_vec());
    let views = views(&messages);
    let records: Vec<_> = views[0].records().map(Result::unwrap).collect();
    let fields: Vec<_> = records.iter().map(|it| (it.key, it.value)).collect();
    let (empty, key) = (Some(&b""[..]), Some(&b"key"[..]));
    assert_eq!(
        fields,
        [(None, None), (empty, empty), (key, Some(&b"m2"[..]))]
    );
    assert!(records.iter().all(|record| record.headers.is_empty()));
}

/// wire.md A39
#[test]
fn a_gzip_set_of_version_1_begun_before_the_fetch_offset_gives_the_rest() {
    // Offsets inside count from the first record: the set covers 95 to 104, two were compacted.
    let inside: Vec<_> = [0, 1, 2, 4, 5, 6, 8, 9]
        .into_iter()
        .map(|delta| Message {
            timestamp: 7_000 + delta,
            ..Message::at(delta, 1, format!("m{}", 95 + delta))
        })
        .collect();
    let wrapper = Message::around(104, 1, GZIP, &inside);
    let next = Message::at(105, 1, "m105");
    let found = read(&[wrapper.clone(), next], 100);
    assert_eq!(found.records, named([100, 101, 103, 104, 105]));
    assert_eq!((found.position, found.error), (106, None));
    let view = open(wrapper.bytes(), 100).next().unwrap().unwrap();
    assert!(view.is_compressed() && view.count() == 0);
    assert_eq!(
        (view.first_wanted(), view.next_offset()),
        (Offset(100), Offset(105))
    );
    let open = view.inflate(1 << 20).unwrap();
    assert_eq!((open.base_offset(), open.count()), (Offset(95), 8));
    assert_eq!(open.next_offset(), Offset(105));
    let first = open.records().next().unwrap().unwrap();
    assert_eq!((first.offset, first.timestamp), (Offset(100), 7_005));
}

/// wire.md A39
#[test]
fn an_lz4_set_of_version_0_is_read_in_spite_of_its_header_checksum() {
    let wrapper = Message::around(14, 0, LZ4, &plain(0, 10..15));
    let found = read(&[wrapper], 12);
    assert_eq!(found.records, named(12..15));
    assert_eq!((found.position, found.error), (15, None));
}

/// wire.md A39
#[test]
fn a_wrapper_at_offset_0_counts_from_0_and_loses_nothing() {
    let first = Message::around(0, 1, SNAPPY, &plain(1, 0..5));
    let inside: Vec<_> = (0..2)
        .map(|delta| Message::at(delta, 1, format!("m{}", 5 + delta)))
        .collect();
    let second = Message::around(6, 1, SNAPPY, &inside);
    let found = read(&[first.clone(), second], 0);
    assert_eq!(found.records, named(0..7));
    assert_eq!((found.position, found.error), (7, None));
    let found = read(std::slice::from_ref(&first), 0);
    assert_eq!(
        (found.records, found.position),
        (named(0..5), 5),
        "nothing comes twice"
    );
    let found = read(&[first], 3);
    assert_eq!(found.records, named(3..5));
}

#[test]
fn a_wrapper_at_offset_0_is_read_although_others_wait_for_more_room_than_there_is() {
    let inflation = Inflation::new(1 << 20, Budget::new(1 << 20));
    let seat = inflation.seat();
    let (mut most, mut beyond) = (seat.charge(), seat.charge_next());
    assert!(most.grow((1 << 20) - 100_000) && beyond.grow(200_000));
    let _turn = seat.when_room(1 << 20, || {});
    let wrapper = Message::around(0, 1, GZIP, &plain(1, 0..3));
    let mut set = open(join(&[wrapper]), 0).charged_to(&inflation.seat());
    let view = set.next().unwrap().unwrap();
    assert_eq!(view.records().filter(Result::is_ok).count(), 3);
}

#[test]
fn the_append_time_of_a_wrapper_overrides_those_inside() {
    let mut wrapper = Message::around(2, 1, GZIP, &plain(1, 0..3));
    (wrapper.attributes, wrapper.timestamp) = (GZIP | LOG_APPEND_TIME, 99);
    assert_eq!(times(&[wrapper]), [99, 99, 99]);
    let mut messages = plain(1, 0..3);
    for (message, timestamp) in messages.iter_mut().zip([50, 50, 60]) {
        (message.attributes, message.timestamp) = (LOG_APPEND_TIME, timestamp);
    }
    assert_eq!(times(&messages), [50, 50, 60]);
    let views = views(&messages);
    assert_eq!(views.len(), 2, "one view for each time of append");
    assert_eq!(views[0].timestamp_type(), TimestampType::LogAppendTime);
}

#[test]
fn old_and_new_versions_follow_one_another_in_one_set() {
    let mut set = join(&plain(0, 0..2));
    set.extend(join(&plain(1, 2..4)));
    set.extend(Message::around(6, 1, LZ4, &plain(1, 0..3)).bytes());
    set.extend(Forge::filled(7, 2).bytes());
    set.extend(&join(&plain(1, [9]))[..20]);
    let found = drain(open(set, 0));
    let offsets: Vec<_> = found.records.iter().map(|record| record.0).collect();
    assert_eq!(offsets, (0..9).collect::<Vec<_>>());
    assert_eq!(
        (found.position, found.error),
        (9, None),
        "the cut tail is no error"
    );
}

#[test]
fn a_cut_message_inside_ends_its_set_without_an_error() {
    let mut set = join(&plain(0, 10..13));
    set.truncate(set.len() - 3);
    let mut wrapper = Message::at(12, 0, gzip(&set));
    wrapper.attributes = GZIP;
    let found = read(&[wrapper], 10);
    assert_eq!((found.records, found.position), (named(10..12), 13));
    assert_eq!(found.error, None);
}

/// Reads a bad message between two good ones and expects it to stop there.
fn stops(bad: &[u8], expected: Corruption, next: Option<i64>) {
    let set = [
        join(&plain(1, 7..10)),
        bad.to_vec(),
        join(&plain(1, 50..51)),
    ]
    .concat();
    let found = drain(open(set, 7));
    let error = found.error.unwrap();
    let BatchError::Corrupt { at, reason } = error else {
        panic!("{error}")
    };
    assert_eq!((reason, found.position), (expected, 10));
    // Of what a wrapper covers, only the end is known before it is opened.
    assert!([10, 20].contains(&at.base.0), "{error}");
    assert_eq!(
        (found.records, error.skip_to()),
        (named(7..10), next.map(Offset))
    );
}

#[test]
fn a_flipped_bit_of_a_message_is_found_before_it_is_used() {
    let good = Message::at(20, 1, "value").bytes();
    for at in 16..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            // A magic byte above 2 is told by name; 2 has a checksum elsewhere.
            if at > 16 {
                stops(&bad, Corruption::Checksum, None);
            }
        }
    }
}

#[test]
fn a_message_inside_has_a_checksum_of_its_own() {
    let mut set = join(&plain(1, 0..3));
    let last = set.len() - 1;
    set[last] ^= 1;
    let mut wrapper = Message::at(20, 1, gzip(&set));
    wrapper.attributes = GZIP;
    stops(&wrapper.bytes(), Corruption::Checksum, Some(21));
}

#[test]
fn sets_that_may_not_be_inside_are_corrupt_and_can_be_skipped() {
    let inner = Message::around(20, 1, GZIP, &plain(1, 0..2));
    let twice = Message::around(20, 1, GZIP, &[Message { offset: 0, ..inner }]);
    stops(&twice.bytes(), Corruption::Nesting, Some(21));
    let older = Message::around(20, 1, GZIP, &plain(0, 0..2));
    stops(&older.bytes(), Corruption::Nesting, Some(21));
    let empty = Message::around(20, 1, GZIP, &[]);
    stops(&empty.bytes(), Corruption::Wrapper, Some(21));
    let null = Message {
        attributes: GZIP,
        value: None,
        ..Message::at(20, 1, "")
    };
    stops(&null.bytes(), Corruption::Wrapper, Some(21));
    let behind = Message::around(20, 1, GZIP, &plain(1, [0, 21]));
    stops(&behind.bytes(), Corruption::Offsets, Some(21));
    let unordered = Message::around(20, 1, GZIP, &plain(1, [1, 0]));
    stops(&unordered.bytes(), Corruption::OffsetDelta, Some(21));
}

#[test]
fn fields_that_leave_their_message_are_corrupt() {
    let mut long = Message::at(20, 1, "value").bytes();
    long[30..34].copy_from_slice(&6_i32.to_be_bytes());
    let repaired = |mut bytes: Vec<u8>| {
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, &bytes[16..]) as u32;
        bytes[12..16].copy_from_slice(&sum.to_be_bytes());
        bytes
    };
    stops(&repaired(long), Corruption::Field, Some(21));
    let mut short = Message::at(20, 1, "value").bytes();
    short[30..34].copy_from_slice(&4_i32.to_be_bytes());
    stops(&repaired(short), Corruption::TrailingBytes(1), Some(21));
}

#[test]
fn a_strict_reader_minds_what_is_odd_inside_a_compressed_message_too() {
    let odd = |magic| Message {
        attributes: 0x40,
        ..Message::at(1, magic, "b")
    };
    for magic in [0, 1] {
        let inner = [Message::at(0, magic, "a"), odd(magic)];
        let wrapper = Message::around(1, magic, GZIP, &inner).bytes();
        for strict in [false, true] {
            let settings = ReadSettings {
                strict,
                ..ReadSettings::default()
            };
            let set = BatchSet::new(Bytes::from(wrapper.clone()), Offset(0), settings);
            let read = drain(set);
            let reason = match read.error {
                Some(BatchError::Corrupt { reason, .. }) => Some(reason),
                Some(error) => panic!("{error}"),
                None => None,
            };
            assert_eq!(reason, strict.then_some(Corruption::Attributes));
            assert_eq!(read.records.len(), if strict { 0 } else { 2 });
        }
    }
}

#[test]
fn a_length_below_minus_one_is_null_but_to_a_strict_reader() {
    let mut bytes = Message::at(0, 1, "v").bytes();
    // The key's length, behind offset, size, checksum, magic, attributes and timestamp.
    bytes.splice(26..30, (-2_i32).to_be_bytes());
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, &bytes[16..]) as u32;
    bytes.splice(12..16, sum.to_be_bytes());
    for strict in [false, true] {
        let settings = ReadSettings {
            strict,
            ..ReadSettings::default()
        };
        let set = BatchSet::new(Bytes::from(bytes.clone()), Offset(0), settings);
        let read = drain(set);
        assert_eq!(read.error.is_some(), strict, "{read:?}");
        assert_eq!(read.records.len(), usize::from(!strict));
    }
}

#[test]
fn a_codec_younger_than_the_version_is_poison() {
    let message = Message {
        attributes: 4,
        ..Message::at(20, 1, "zstd")
    };
    let error = read(&[message], 20).error.unwrap();
    let BatchError::Poison { reason, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(
        (reason, error.skip_to()),
        (PoisonReason::UnknownCodec(4), Some(Offset(21)))
    );
}

/// wire.md A38
#[test]
fn a_bomb_in_a_wrapper_stops_at_the_cap() {
    for (offset, codec) in [(0, GZIP), (20, GZIP), (20, LZ4)] {
        let wrapper = Message {
            attributes: codec,
            ..Message::at(offset, 1, pack(codec, 1, &vec![0; 2 << 20]))
        };
        let settings = ReadSettings {
            inflated_bytes_max: 1 << 20,
            ..ReadSettings::default()
        };
        let set = BatchSet::new(wrapper.bytes().into(), Offset(0), settings);
        let mut errors = set.map(|view| view.and_then(|view| view.inflate(1 << 20)).unwrap_err());
        assert_eq!(errors.next().unwrap().label(), "inflated");
    }
}

/// A message set as both a list of records and its bytes.
fn sets() -> impl Strategy<Value = (Vec<(i64, String)>, Bytes)> {
    let piece = (0..2_u8, 0..4_u8, 1..6_i64, 0..3_i64);
    prop::collection::vec(piece, 1..8).prop_map(|pieces| {
        let (mut at, mut records, mut bytes) = (0, Vec::new(), Vec::new());
        for (magic, codec, count, gap) in pieces {
            at += gap;
            let offsets: Vec<_> = (at..at + count).collect();
            at += count;
            records.extend(named(offsets.iter().copied()));
            if codec == 0 {
                bytes.extend(join(&plain(magic, offsets)));
                continue;
            }
            let base = if magic == 0 { 0 } else { offsets[0] };
            let inside: Vec<_> = offsets
                .iter()
                .map(|offset| Message {
                    offset: offset - base,
                    ..Message::at(*offset, magic, format!("m{offset}"))
                })
                .collect();
            bytes.extend(Message::around(at - 1, magic, codec, &inside).bytes());
        }
        (records, bytes.into())
    })
}

proptest! {
    /// wire.md A39
    #[test]
    fn every_set_is_read_whole_from_every_start((records, bytes) in sets()) {
        let end = records.last().unwrap().0 + 1;
        for start in 0..end {
            let found = drain(open(bytes.clone(), start));
            let expected: Vec<_> = records.iter().filter(|it| it.0 >= start).cloned().collect();
            prop_assert_eq!(found, Read { records: expected, position: end, error: None });
        }
    }
}
