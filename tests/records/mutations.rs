//! Batches damaged at random, their checksums repaired: whatever they say, reading ends in an
//! answer.

use nearside::ids::Offset;
use nearside::records::{
    AbortedTransaction, BatchSet, BatchWriter, Compression, NewRecord, ReadSettings,
};
use proptest::prelude::*;

use crate::forge::{Forge, join, repair};

const CODECS: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];
const LIMIT: usize = 1 << 20;

fn seed(codec: Compression) -> Vec<u8> {
    let mut writer = BatchWriter::new(codec);
    for index in 0..40 {
        let record = NewRecord {
            timestamp: index,
            key: Some(b"key of the record"),
            value: Some(b"value of the record, value of the record"),
            headers: &[("header", Some(b"text")), ("header", None)],
        };
        writer.push(&record).unwrap();
    }
    writer.seal().unwrap().to_vec()
}

/// Reads to the end and checks what must hold whatever the bytes are.
fn survey(bytes: Vec<u8>, asked: i64) {
    let size = bytes.len();
    let aborted = [AbortedTransaction {
        first_offset: Offset(0),
        producer_id: 0,
    }];
    let settings = ReadSettings::default();
    let mut set = BatchSet::read_committed(bytes.into(), Offset(asked), aborted, settings);
    let mut position = Offset(asked);
    let mut batches = 0;
    while let Some(view) = set.next() {
        batches += 1;
        assert!(set.position() >= position, "the position fell");
        position = set.position();
        let Ok(open) = view.and_then(|view| view.inflate(LIMIT)) else {
            continue;
        };
        assert!(open.held_bytes() <= LIMIT.max(size));
        let mut last = None;
        let mut count = 0;
        for record in open.records() {
            let Ok(record) = record else { break };
            assert!(last < Some(record.offset) && record.offset >= open.first_wanted());
            assert!(record.offset < open.next_offset());
            last = Some(record.offset);
            count += 1;
            // A block that does not parse ends in an error, also one of no bytes at all.
            let headers = record.headers.iter().flatten().count();
            assert!(headers * 2 <= record.headers.raw().len());
        }
        assert!(count <= open.held_bytes() / 7);
    }
    assert!(batches <= size / 61 + 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_mutated_batch_with_a_good_checksum_never_panics(
        codec in prop::sample::select(&CODECS[..]),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        asked in prop_oneof![Just(0_i64), 0..50_i64, any::<i64>()],
    ) {
        let mut bytes = seed(codec);
        for (index, byte) in mutations {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        repair(&mut bytes);
        survey(bytes, asked);
    }

    #[test]
    fn a_mutated_body_under_a_sound_header_never_panics(
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        count in prop_oneof![0..60_i32, any::<i32>()],
        last_delta in prop_oneof![0..60_i32, any::<i32>()],
        attributes in 0..0x7f_i16,
    ) {
        let mut batch = Forge::filled(0, 50);
        for (index, byte) in mutations {
            let at = index.index(batch.body.len());
            batch.body[at] = byte;
        }
        (batch.count, batch.last_delta, batch.attributes) = (count, last_delta, attributes);
        batch.producer_id = 0;
        survey(join(&[&batch, &Forge::filled(90, 3)]).to_vec(), 0);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        survey(bytes, 0);
    }
}
