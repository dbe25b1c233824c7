//! What a damaged record set costs: one batch of one partition, and a typed error.

use nearside::ids::Offset;
use nearside::records::{
    BatchError, BatchSet, Compression, Corruption, PoisonReason, ReadSettings,
};

use crate::forge::{CONTROL, Forge, Read, drain, join, open, repair, values};

/// Reads `batch` between two good ones and expects it to stop there, passable by its next offset.
fn stops(batch: &Forge, expected: Corruption) -> Read {
    let set = join(&[&Forge::filled(7, 3), batch, &Forge::filled(1_000, 1)]);
    let read = drain(open(set, 7));
    let error = read.error.unwrap();
    let BatchError::Corrupt { at, reason } = error else {
        panic!("{error}")
    };
    assert_eq!(reason, expected);
    assert_eq!(at.base, Offset(batch.base));
    assert_eq!(
        error.skip_to(),
        Some(Offset(batch.base + i64::from(batch.last_delta) + 1))
    );
    assert_eq!(read.records[..3], values(7, 0..3));
    read
}

/// wire.md A36
#[test]
fn a_record_count_that_cannot_be_is_corrupt() {
    for count in [i32::MAX, 6, 0] {
        let mut batch = Forge::filled(10, 5);
        batch.count = count;
        assert_eq!(
            stops(&batch, Corruption::Count(count)).position,
            10,
            "{count}"
        );
    }
    let mut negative = Forge::filled(10, 5);
    negative.count = -1;
    assert_eq!(stops(&negative, Corruption::Count(-1)).position, 10);
}

/// wire.md A36
#[test]
fn one_record_too_many_or_too_few_stops_at_that_record() {
    let mut claims_more = Forge::at(10)
        .record(0, "v0000")
        .record(1, "v1111")
        .record(2, "v2222");
    claims_more.count = 4;
    claims_more.last_delta = 3;
    let read = stops(&claims_more, Corruption::RecordLength);
    assert_eq!((read.records.len(), read.position), (6, 13));

    let mut claims_less = Forge::filled(10, 5);
    claims_less.count = 4;
    let read = stops(&claims_less, Corruption::TrailingBytes(9));
    assert_eq!((read.records.len(), read.position), (7, 14));
}

/// wire.md A36
#[test]
fn an_unknown_codec_is_poison_that_can_be_skipped() {
    for codec in 5..=7 {
        let batch = Forge::filled(10, 5).packed(codec, vec![1, 2, 3]);
        let error = drain(open(join(&[&Forge::filled(7, 3), &batch]), 7))
            .error
            .unwrap();
        let BatchError::Poison { at, reason } = error else {
            panic!("{error}")
        };
        assert_eq!(reason, PoisonReason::UnknownCodec(codec as u8));
        assert_eq!(
            (at.position, error.skip_to()),
            (Offset(10), Some(Offset(15)))
        );
        assert_eq!(drain(open(Forge::filled(15, 1).bytes(), 15)).position, 16);
    }
}

/// wire.md A36
#[test]
fn an_unknown_magic_is_poison_that_names_it_and_cannot_be_skipped() {
    for magic in [3, 4, i8::MAX, -1, i8::MIN] {
        let mut batch = Forge::filled(10, 5);
        batch.magic = magic;
        let read = drain(open(join(&[&Forge::filled(7, 3), &batch]), 7));
        assert_eq!(read.records, values(7, 0..3));
        let error = read.error.unwrap();
        let BatchError::Poison { at, reason } = error else {
            panic!("{error}")
        };
        assert_eq!(reason, PoisonReason::Magic(magic));
        assert_eq!((at.base, error.skip_to()), (Offset(10), None));
    }
}

#[test]
fn a_flipped_bit_anywhere_under_the_checksum_is_found_before_it_is_used() {
    let good = Forge::filled(10, 5).bytes();
    for bit in 21 * 8..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let error = drain(open(bad, 10)).error.unwrap();
        let BatchError::Corrupt { at, reason } = error else {
            panic!("{error}")
        };
        assert_eq!((reason, at.next), (Corruption::Checksum, None), "bit {bit}");
    }
}

#[test]
fn without_checksums_no_damage_can_be_skipped() {
    let mut batch = Forge::filled(10, 5);
    batch.count = 4;
    let settings = ReadSettings {
        check_crcs: false,
        ..ReadSettings::default()
    };
    let mut bytes = batch.bytes();
    bytes[17] ^= 1;
    let read = drain(BatchSet::new(bytes.into(), Offset(10), settings));
    assert_eq!(read.records.len(), 4);
    assert_eq!(read.error.unwrap().skip_to(), None);
}

#[test]
fn offsets_that_overlap_or_overflow_are_corrupt() {
    let overlap = join(&[&Forge::filled(10, 5), &Forge::filled(14, 2)]);
    let read = drain(open(overlap, 10));
    assert_eq!((read.records.len(), read.position), (5, 15));
    assert_eq!(read.error.unwrap().label(), "corrupt");
    for base in [-1, i64::MAX, i64::MAX - 2] {
        let error = drain(open(Forge::filled(base, 3).bytes(), 0))
            .error
            .unwrap();
        assert!(
            matches!(
                error,
                BatchError::Corrupt {
                    reason: Corruption::Offsets,
                    ..
                }
            ),
            "{base}: {error}"
        );
    }
}

/// wire.md 8.1 B5
#[test]
fn a_negative_last_delta_is_corrupt_and_no_way_back() {
    let mut batch = Forge::filled(10, 3);
    batch.last_delta = -1;
    let read = drain(open(batch.bytes(), 10));
    assert_eq!((read.records.len(), read.position), (0, 10));
    let error = read.error.unwrap();
    assert_eq!((error.label(), error.skip_to()), ("corrupt", None));
}

/// wire.md 8.1 B7: the count is judged by the body as inflated.
#[test]
fn a_count_that_the_inflated_body_cannot_hold_is_corrupt() {
    let packed = crate::bombs::gzip(&Forge::filled(10, 5).body);
    let mut batch = Forge::filled(10, 5).packed(1, packed);
    assert_eq!(drain(open(batch.bytes(), 10)).records, values(10, 0..5));
    // The body has 45 bytes: six records at most.
    (batch.count, batch.last_delta) = (7, 9);
    assert_eq!(stops(&batch, Corruption::Count(7)).position, 10);
}

#[test]
fn a_length_below_the_smallest_batch_is_corrupt() {
    for length in [i32::MIN, -1, 0, 13, 48] {
        let mut bytes = Forge::filled(10, 5).bytes();
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        let error = drain(open(bytes, 10)).error.unwrap();
        let expected = Corruption::Length(length);
        assert!(matches!(error, BatchError::Corrupt { reason, .. } if reason == expected));
    }
}

#[test]
fn record_offsets_must_ascend_inside_the_batch() {
    for deltas in [[0, 0], [1, 0], [0, -1]] {
        let mut batch = Forge::at(10)
            .record(deltas[0], "v0")
            .record(deltas[1], "v1");
        batch.last_delta = 5;
        assert_eq!(
            stops(&batch, Corruption::OffsetDelta).position,
            11 + i64::from(deltas[0])
        );
    }
    let mut beyond = Forge::at(10).record(9, "v0");
    beyond.last_delta = 8;
    assert_eq!(stops(&beyond, Corruption::OffsetDelta).position, 10);
}

#[test]
fn a_timestamp_that_overflows_is_corrupt() {
    let mut batch = Forge::at(10).full(1, 0, None, None, &[0]);
    batch.base_timestamp = i64::MAX;
    stops(&batch, Corruption::Timestamp);
}

#[test]
fn a_field_is_judged_by_its_record_and_not_by_the_batch() {
    let mut batch = Forge::at(10).record(0, "v0").record(1, "v1");
    // Length, attributes, timestamp, offset, key, then the value's length.
    batch.body[5] = 2 * 9;
    stops(&batch, Corruption::Field);
}

#[test]
fn a_control_record_needs_a_key_with_version_and_type() {
    let mut marker = Forge::at(10).full(0, 0, Some(&[0, 0, 0]), None, &[0]);
    marker.attributes = CONTROL;
    assert_eq!(stops(&marker, Corruption::ControlKey).position, 10);
}

#[test]
fn a_damaged_marker_before_the_fetch_offset_never_moves_the_position_back() {
    let mut marker = Forge::at(3).full(0, 0, Some(&[0, 0, 0, 0]), Some(&[0; 6]), &[0]);
    marker.attributes = CONTROL;
    marker.body[0] = 0;
    let read = drain(open(join(&[&marker, &Forge::filled(4, 9)]), 8));
    assert!(matches!(
        read.error,
        Some(BatchError::Corrupt { at, reason: Corruption::RecordLength })
            if at.base == Offset(3) && at.next.is_none()
    ));
    assert_eq!(read.position, 8);
}

#[test]
fn data_that_does_not_decode_names_its_codec() {
    let codecs = [
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];
    for (codec, number) in codecs.into_iter().zip(1..) {
        let batch = Forge::filled(10, 5).packed(number, vec![0x55; 40]);
        stops(&batch, Corruption::Codec(codec));
        let empty = Forge::filled(10, 5).packed(number, Vec::new());
        drain(open(empty.bytes(), 10)).error.unwrap();
    }
}

/// wire.md A37
#[test]
fn damage_seen_at_the_leader_as_well_becomes_poison() {
    let mut bytes = Forge::filled(10, 5).bytes();
    bytes[40] ^= 1;
    let confirmed = drain(open(bytes.clone(), 10)).error.unwrap().confirmed();
    assert!(matches!(
        confirmed,
        BatchError::Poison {
            reason: PoisonReason::Corrupt(Corruption::Checksum),
            ..
        }
    ));
    repair(&mut bytes);
    assert!(drain(open(bytes, 10)).error.is_none());
}

#[test]
fn records_of_a_compressed_batch_are_an_error_and_never_nothing() {
    let batch = Forge::filled(10, 5).packed(4, vec![0; 8]);
    let view = open(batch.bytes(), 10).next().unwrap().unwrap();
    let mut records = view.records();
    assert_eq!(
        records.next().unwrap().unwrap_err().label(),
        "still_compressed"
    );
    assert_eq!(records.position(), Offset(10));
    assert!(records.next().is_none());
}
