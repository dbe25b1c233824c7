//! Record sets of every version: the position never falls, and moves by whole batches only.

use bytes::Bytes;
use nearside::ids::Offset;
use nearside::records::{
    AbortedTransaction, BatchSet, BatchView, BatchWriter, Compression, NewRecord, ReadSettings,
};

use crate::forge::{
    Batch, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, earlier, message, record,
};
use crate::golden;

/// No batch may inflate beyond this.
const OUTPUT_MAX: usize = 256 * 1024;
/// Bytes that may be held beside 16 times the input: an open batch with what it grew from, and the
/// state of a decoder.
pub(super) const ROOM: usize = 64 * 1024 + OUTPUT_MAX + OUTPUT_MAX / 2 + 2 * 64 * 1024;
const RECORD_BYTES_MIN: usize = 7;

/// The first byte is the offset asked for, and its highest bit asks to be strict; the rest is the
/// set.
pub(super) fn run(data: &[u8]) {
    let Some((asked, set)) = super::choose(data, 128) else {
        return;
    };
    let asked = asked as i64;
    let aborted = [AbortedTransaction {
        first_offset: Offset(0),
        producer_id: 1,
    }];
    let settings = ReadSettings {
        inflated_bytes_max: OUTPUT_MAX,
        strict: data[0] >= 128,
        ..ReadSettings::default()
    };
    let bytes = Bytes::copy_from_slice(set);
    let mut set = BatchSet::read_committed(bytes, Offset(asked), aborted, settings);
    let (mut position, mut turns) = (Offset(asked), 0);
    while let Some(next) = set.next() {
        assert!(set.position() >= position, "the position fell");
        position = set.position();
        turns += 1;
        match next {
            Ok(view) => {
                assert_eq!(position, view.next_offset());
                read(&view, settings.strict);
            }
            Err(error) => assert!(error.skip_to().is_none_or(|to| to > error.position())),
        }
    }
    assert!(turns <= data.len() / 26 + 1, "a turn without progress");
    assert!(!settings.strict || set.counts().unknown_attributes == 0);
}

fn read(view: &BatchView, strict: bool) {
    let Ok(open) = view.inflate(OUTPUT_MAX) else {
        return;
    };
    assert!(open.held_bytes() <= OUTPUT_MAX.max(view.held_bytes()));
    assert_eq!(open.next_offset(), view.next_offset());
    let (mut last, mut count) = (None, 0);
    let mut records = open.records();
    for record in &mut records {
        let Ok(record) = record else { break };
        assert!(last < Some(record.offset) && record.offset >= open.first_wanted());
        assert!(record.offset < open.next_offset());
        last = Some(record.offset);
        count += 1;
        let headers = record.headers.iter().count();
        assert!(headers <= record.headers.raw().len() + 1);
    }
    assert!(count <= open.held_bytes() / RECORD_BYTES_MIN);
    assert!(records.position() <= open.next_offset());
    assert!(!strict || records.odd_nulls() == 0);
    assert!(records.next().is_none(), "nothing follows an error");
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let mut writer = BatchWriter::new(Compression::from_name(codec).expect("known"));
        for timestamp in 0..20 {
            let record = NewRecord {
                timestamp,
                key: Some(b"key of the record"),
                value: Some(b"value of the record, value of the record"),
                headers: &[("header", Some(b"text")), ("header", None)],
            };
            writer.push(&record).expect("small");
        }
        seeds.push([vec![0], writer.seal().expect("not empty").to_vec()].concat());
    }
    let log = [
        Batch::filled(0, 5),
        Batch {
            attributes: LOG_APPEND_TIME,
            ..Batch::filled(5, 3)
        },
        Batch {
            base: 8,
            last_delta: 9,
            producer: -1,
            ..Batch::default()
        },
        Batch {
            attributes: TRANSACTIONAL,
            producer: 1,
            ..Batch::filled(18, 4)
        },
        Batch::marker(22, 1, false),
        Batch {
            attributes: DELETE_HORIZON,
            ..Batch::filled(23, 4)
        },
    ];
    let log: Vec<u8> = log.iter().flat_map(Batch::bytes).collect();
    for asked in [2, 20, 128] {
        seeds.push([vec![asked], log.clone()].concat());
    }
    seeds.extend(kept());
    let sets = golden::record_sets().into_iter();
    seeds.extend(sets.map(|set| [&[0][..], &set].concat()));
    seeds
}

/// Sets as a broker keeps them, made by hand: compacted, transactional, with a delete horizon.
fn kept() -> Vec<Vec<u8>> {
    let compacted = Batch {
        last_delta: 9,
        count: 2,
        body: [record(2, b"a", b"v"), record(7, b"b", b"v")].concat(),
        ..Batch::filled(10, 0)
    };
    let of = |base, producer| Batch {
        attributes: TRANSACTIONAL,
        producer,
        ..Batch::filled(base, 2)
    };
    let transactions = [
        of(0, 1),
        of(2, 2),
        Batch::marker(4, 1, false),
        of(5, 1),
        Batch::marker(7, 2, true),
        Batch::marker(8, 1, true),
        // Compaction left a marker alone, and of a batch its header.
        Batch::marker(20, 3, false),
        Batch {
            attributes: TRANSACTIONAL,
            last_delta: 4,
            producer: 1,
            ..Batch::filled(21, 0)
        },
    ];
    // The base timestamp is the horizon, and a record may be older.
    let horizon = Batch {
        attributes: DELETE_HORIZON,
        body: [earlier(0), record(1, b"k", b"")].concat(),
        count: 2,
        last_delta: 3,
        ..Batch::filled(30, 0)
    };
    let appended = Batch {
        attributes: LOG_APPEND_TIME,
        ..Batch::filled(40, 3)
    };
    let sets: [&[Batch]; 4] = [&[compacted], &transactions, &[horizon], &[appended]];
    let bytes = |set: &[Batch]| set.iter().flat_map(Batch::bytes).collect::<Vec<_>>();
    let all = [vec![3], sets.map(bytes).concat()].concat();
    let each = sets.map(|set| [vec![0], bytes(set)].concat());
    each.into_iter().chain([all]).collect()
}

pub(super) fn legacy_seeds() -> Vec<Vec<u8>> {
    let plain = |magic: u8, from: i64| -> Vec<u8> {
        (from..from + 4)
            .flat_map(|offset| message(offset, magic, 0, b"value"))
            .collect()
    };
    let mut seeds = vec![
        [
            vec![0],
            plain(0, 0),
            plain(1, 4),
            Batch::filled(8, 3).bytes(),
        ]
        .concat(),
        [vec![2], plain(1, 0)].concat(),
    ];
    for codec in 1..4_u8 {
        for (magic, from) in [(0, 10), (1, 0)] {
            let inside = super::codec::packed(codec, &plain(magic, from));
            let wrapper = message(13, magic, codec, &inside);
            seeds.push([vec![11], wrapper].concat());
            let first = message(
                0,
                magic,
                codec,
                &super::codec::packed(codec, &plain(magic, 0)),
            );
            seeds.push([vec![0], first].concat());
        }
    }
    seeds
}
