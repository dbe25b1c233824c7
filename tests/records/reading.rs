//! What a sound record set yields.

use nearside::ids::{LeaderEpoch, Offset};
use nearside::records::{
    BatchError, BatchSet, Corruption, HeaderError, ReadSettings, TimestampType,
};

use crate::forge::{
    CONTROL, DELETE_HORIZON, Forge, LOG_APPEND_TIME, Read, drain, join, open, values, varint,
};

/// wire.md A29
#[test]
fn a_cut_last_batch_ends_the_set_behind_the_whole_one() {
    let (first, second) = (Forge::filled(100, 3), Forge::filled(103, 9));
    let whole = first.bytes().len();
    let all = join(&[&first, &second]);
    for cut in whole..all.len() {
        let read = drain(open(all.slice(..cut), 100));
        assert_eq!(
            read,
            Read {
                records: values(100, 0..3),
                position: 103,
                error: None
            },
            "{cut}"
        );
    }
}

/// wire.md A30, the part of the reader
#[test]
fn nothing_but_a_cut_batch_says_how_much_to_ask_for() {
    let bytes = Forge::at(7).record(0, vec![b'x'; 3 << 20]).bytes();
    let needed = bytes.len();
    let read = drain(open(bytes[..1 << 20].to_vec(), 7));
    assert_eq!(
        read.error,
        Some(BatchError::RecordTooLarge {
            offset: Offset(7),
            needed
        })
    );
    assert_eq!(read.position, 7);
    assert_eq!(drain(open(bytes, 7)).position, 8);
}

#[test]
fn a_batch_above_every_fetch_is_poison() {
    let bytes = Forge::filled(7, 30).bytes();
    let settings = ReadSettings {
        batch_bytes_max: 200,
        ..ReadSettings::default()
    };
    let set = BatchSet::new(bytes[..70].to_vec().into(), Offset(7), settings);
    let error = drain(set).error.unwrap();
    assert_eq!(error.label(), "too_large");
    assert_eq!(error.skip_to(), None);
}

/// wire.md A31
#[test]
fn an_emptied_batch_moves_the_position_behind_itself() {
    let mut emptied = Forge::at(100);
    emptied.last_delta = 41;
    let read = drain(open(emptied.bytes(), 100));
    assert_eq!(
        read,
        Read {
            records: vec![],
            position: 142,
            error: None
        }
    );
}

/// wire.md A31
#[test]
fn a_compacted_batch_moves_the_position_behind_all_it_covered() {
    let mut compacted = Forge::at(50).record(2, "v2").record(7, "v7");
    compacted.last_delta = 9;
    let read = drain(open(compacted.bytes(), 50));
    let records = vec![(52, "v2".to_owned()), (57, "v7".to_owned())];
    assert_eq!(
        read,
        Read {
            records,
            position: 60,
            error: None
        }
    );
}

/// wire.md A32
#[test]
fn log_append_time_gives_every_record_the_maximum_of_the_batch() {
    let mut batch = Forge::at(0)
        .full(-5, 0, None, None, &[0])
        .full(i64::MAX, 1, None, None, &[0]);
    batch.attributes = LOG_APPEND_TIME;
    batch.base_timestamp = 10;
    batch.max_timestamp = 77;
    let view = open(batch.bytes(), 0).next().unwrap().unwrap();
    assert_eq!(view.timestamp_type(), TimestampType::LogAppendTime);
    let times: Vec<_> = view
        .records()
        .map(|record| record.unwrap().timestamp)
        .collect();
    assert_eq!(times, [77, 77]);
}

/// wire.md A32
#[test]
fn a_delete_horizon_is_a_base_that_deltas_go_back_from() {
    let mut batch = Forge::at(0)
        .full(-600, 0, None, None, &[0])
        .full(3, 1, None, None, &[0]);
    batch.attributes = DELETE_HORIZON;
    batch.base_timestamp = 1_000;
    let view = open(batch.bytes(), 0).next().unwrap().unwrap();
    let times: Vec<_> = view
        .records()
        .map(|record| record.unwrap().timestamp)
        .collect();
    assert_eq!(times, [400, 1_003]);
}

/// wire.md A33
#[test]
fn headers_keep_order_duplicates_and_bytes() {
    let mut block = Vec::new();
    varint(&mut block, 4);
    for (key, value) in [
        (&b"a"[..], Some(&b"1"[..])),
        (b"a", Some(b"2")),
        (b"\xff\xfe", Some(b"")),
        (b"n", None),
    ] {
        varint(&mut block, key.len() as i64);
        block.extend_from_slice(key);
        varint(&mut block, value.map_or(-1, |value| value.len() as i64));
        block.extend_from_slice(value.unwrap_or_default());
    }
    let batch = Forge::at(0).full(0, 0, Some(b""), None, &block);
    let view = open(batch.bytes(), 0).next().unwrap().unwrap();
    let record = view.records().next().unwrap().unwrap();
    assert_eq!((record.key, record.value), (Some(&b""[..]), None));
    let headers: Vec<_> = record.headers.iter().map(Result::unwrap).collect();
    let pairs: Vec<_> = headers
        .iter()
        .map(|header| (header.key, header.value))
        .collect();
    assert_eq!(
        pairs,
        [
            (&b"a"[..], Some(&b"1"[..])),
            (b"a", Some(b"2")),
            (b"\xff\xfe", Some(b"")),
            (b"n", None),
        ]
    );
    assert_eq!(headers[2].key_text(), "\u{fffd}\u{fffd}");
    assert_eq!(record.headers.last(b"a"), Ok(Some(Some(&b"2"[..]))));
    assert_eq!(record.headers_bytes(), block);
}

/// wire.md A33
#[test]
fn a_bad_header_block_fails_the_access_and_not_the_batch() {
    let batch = Forge::at(0)
        .full(0, 0, None, Some(b"one"), &[2, 200, 1, b'a'])
        .full(0, 1, None, Some(b"two"), &[0]);
    let read = drain(open(batch.bytes(), 0));
    assert_eq!(read.error, None);
    assert_eq!(read.records, [(0, "one".to_owned()), (1, "two".to_owned())]);
    let view = open(batch.bytes(), 0).next().unwrap().unwrap();
    let record = view.records().next().unwrap().unwrap();
    assert_eq!(
        record.headers.iter().collect::<Vec<_>>(),
        [Err(HeaderError)]
    );
}

#[test]
fn records_before_the_fetch_offset_are_passed_over() {
    let set = join(&[
        &Forge::filled(0, 5),
        &Forge::filled(5, 5),
        &Forge::filled(10, 5),
    ]);
    let mut reading = open(set.clone(), 8);
    let view = reading.next().unwrap().unwrap();
    assert_eq!(
        (view.base_offset(), view.first_wanted()),
        (Offset(5), Offset(8))
    );
    assert_eq!(view.leader_epoch(), Some(LeaderEpoch(7)));
    assert_eq!(reading.counts().before_position, 1);
    let mut records = values(5, 3..5);
    records.extend(values(10, 0..5));
    assert_eq!(
        drain(open(set, 8)),
        Read {
            records,
            position: 15,
            error: None
        }
    );
}

#[test]
fn bytes_that_lie_wholly_before_the_position_are_no_progress() {
    let bytes = Forge::filled(0, 5).bytes();
    let error = BatchError::NoProgress {
        offset: Offset(9),
        bytes: bytes.len(),
    };
    assert_eq!(drain(open(bytes, 9)).error, Some(error));
    assert_eq!(drain(open(Vec::new(), 9)).error, None);
}

#[test]
fn control_batches_of_any_kind_are_never_delivered() {
    for kind in [0, 1, 2, 9] {
        let mut marker = Forge::at(3).full(0, 0, Some(&[0, 0, 0, kind]), Some(&[0; 6]), &[0]);
        marker.attributes = CONTROL;
        let mut set = open(join(&[&marker, &Forge::filled(4, 1)]), 3);
        assert_eq!(set.next().unwrap().unwrap().base_offset(), Offset(4));
        assert_eq!(set.counts().control, 1);
    }
}

#[test]
fn reading_resumes_at_a_cursor_without_a_rescan() {
    let view = open(Forge::filled(20, 10).bytes(), 22)
        .next()
        .unwrap()
        .unwrap();
    let mut records = view.records();
    let head: Vec<_> = records
        .by_ref()
        .take(3)
        .map(|record| record.unwrap().offset.0)
        .collect();
    assert_eq!(head, [22, 23, 24]);
    assert_eq!(records.position(), Offset(25));
    let cursor = records.cursor();
    assert_eq!(cursor.records_passed(), 5);
    let mut rest = view.records_from(cursor);
    let tail: Vec<_> = rest
        .by_ref()
        .map(|record| record.unwrap().offset.0)
        .collect();
    assert_eq!(tail, [25, 26, 27, 28, 29]);
    assert_eq!(rest.position(), Offset(30));
}

#[test]
fn keys_and_values_share_the_memory_of_the_frame() {
    let bytes = bytes::Bytes::from(
        Forge::at(0)
            .full(0, 0, Some(b"k"), Some(b"vv"), &[0])
            .bytes(),
    );
    let inside = bytes.as_ptr_range();
    let view = open(bytes, 0).next().unwrap().unwrap();
    let record = view.records().next().unwrap().unwrap();
    for part in [record.key_bytes().unwrap(), record.value_bytes().unwrap()] {
        assert!(inside.contains(&part.as_ptr()));
    }
}

#[test]
fn what_is_tolerated_and_counted_is_an_error_to_a_strict_reader() {
    let mut meaningless = Forge::filled(0, 1);
    meaningless.attributes |= 1 << 9;
    let mut below = Forge::filled(0, 1);
    below.body.clear();
    // Attributes, two deltas, a key of length -2, no value, no headers.
    for number in [6, 0, 0, 0, -2, -1, 0] {
        varint(&mut below.body, number);
    }
    for (batch, reason) in [
        (meaningless, Corruption::Attributes),
        (below, Corruption::Field),
    ] {
        assert_eq!(drain(open(batch.bytes(), 0)).error, None, "{reason:?}");
        let settings = ReadSettings {
            strict: true,
            ..ReadSettings::default()
        };
        let set = BatchSet::new(batch.bytes().into(), Offset(0), settings);
        let Some(BatchError::Corrupt { reason: found, .. }) = drain(set).error else {
            panic!("not {reason:?}");
        };
        assert_eq!(found, reason);
    }
}

/// wire.md 8.1 B6
#[test]
fn attribute_bits_without_a_meaning_are_counted_and_passed_over() {
    let mut odd = Forge::filled(10, 2);
    odd.attributes = 1 << 7 | 1 << 14;
    let mut set = open(join(&[&odd, &Forge::filled(12, 1)]), 10);
    assert_eq!(set.by_ref().filter(Result::is_ok).count(), 2);
    assert_eq!(
        (set.counts().unknown_attributes, set.position()),
        (1, Offset(13))
    );
    assert_eq!(drain(open(odd.bytes(), 10)).records, values(10, 0..2));
}

/// wire.md 8.2 E3
#[test]
fn lengths_below_minus_one_are_null_and_counted() {
    // Length, attributes, timestamp, offset; key of -2, value of -3, no headers.
    let odd = [2 * 6, 0, 0, 0, 3, 5, 0];
    let mut batch = Forge::at(0).full(0, 0, None, Some(b""), &[0]);
    batch.body.splice(.., odd);
    let view = open(batch.bytes(), 0).next().unwrap().unwrap();
    let mut records = view.records();
    let record = records.next().unwrap().unwrap();
    assert_eq!((record.key, record.value), (None, None));
    assert_eq!(records.odd_nulls(), 2);
    assert!(records.next().is_none());
}
