//! The same batches through an independent implementation.

use bytes::{Bytes, BytesMut};
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    Compression as PeerCompression, Record as PeerRecord, RecordBatchDecoder, RecordBatchEncoder,
    RecordEncodeOptions, TimestampType as PeerTimestampType,
};
use nearside::records::{BatchWriter, NewRecord, Sealer};
use proptest::prelude::*;

use crate::forge::open;

type Field = Option<Vec<u8>>;
type Plain = (Field, Field, Vec<(String, Field)>, i64);

fn field() -> impl Strategy<Value = Field> {
    prop::option::of(prop::collection::vec(any::<u8>(), 0..200))
}

fn plain() -> impl Strategy<Value = Plain> {
    let header = ("[a-z]{1,8}", field());
    (
        field(),
        field(),
        prop::collection::vec(header, 0..4),
        0..4_000_000_000_000_i64,
    )
}

fn as_peer((key, value, headers, timestamp): &Plain, offset: i64) -> PeerRecord {
    let bytes = |field: &Field| field.clone().map(Bytes::from);
    PeerRecord {
        transactional: true,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: -1,
        producer_id: 9,
        producer_epoch: 3,
        timestamp_type: PeerTimestampType::Creation,
        offset,
        sequence: 70 + i32::try_from(offset).unwrap(),
        timestamp: *timestamp,
        key: bytes(key),
        value: bytes(value),
        headers: headers
            .iter()
            .map(|(key, value)| (StrBytes::from_string(key.clone()), bytes(value)))
            .collect::<IndexMap<_, _>>(),
    }
}

/// The peer keeps one value per header key, so the comparison does too.
fn without_duplicate_keys(mut record: Plain) -> Plain {
    let mut seen = std::collections::BTreeSet::new();
    record.2.retain(|(key, _)| seen.insert(key.clone()));
    record
}

fn write(records: &[Plain]) -> Bytes {
    let mut writer = BatchWriter::default();
    for (key, value, headers, timestamp) in records {
        let headers: Vec<_> = headers
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_deref()))
            .collect();
        let record = NewRecord {
            timestamp: *timestamp,
            key: key.as_deref(),
            value: value.as_deref(),
            headers: &headers,
        };
        writer.push(&record).unwrap();
    }
    let sealer = Sealer {
        producer_id: 9,
        producer_epoch: 3,
        base_sequence: 70,
        transactional: true,
    };
    writer.seal_as(sealer).unwrap()
}

fn read(bytes: Bytes) -> Vec<Plain> {
    let view = open(bytes, 0).next().unwrap().unwrap();
    assert!(view.header().transactional);
    assert_eq!(view.header().producer_id, Some(9));
    assert_eq!(
        (view.header().producer_epoch, view.header().base_sequence),
        (3, 70)
    );
    let plain = view.records().zip(0..).map(|(record, index)| {
        let record = record.unwrap();
        assert_eq!(record.offset.0, index);
        let headers = record.headers.iter().map(|header| {
            let header = header.unwrap();
            (
                header.key_text().into_owned(),
                header.value.map(<[u8]>::to_vec),
            )
        });
        let (key, value) = (
            record.key.map(<[u8]>::to_vec),
            record.value.map(<[u8]>::to_vec),
        );
        (key, value, headers.collect(), record.timestamp)
    });
    plain.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn our_reader_gives_back_what_our_writer_took(
        records in prop::collection::vec(plain(), 1..80),
    ) {
        prop_assert_eq!(read(write(&records)), records);
    }

    #[test]
    fn our_reader_gives_back_what_the_peer_wrote(
        records in prop::collection::vec(plain().prop_map(without_duplicate_keys), 1..80),
    ) {
        let peer: Vec<_> = records.iter().zip(0..).map(|(r, offset)| as_peer(r, offset)).collect();
        let options = RecordEncodeOptions { version: 2, compression: PeerCompression::None };
        let mut bytes = BytesMut::new();
        RecordBatchEncoder::encode(&mut bytes, peer.iter(), &options).unwrap();
        prop_assert_eq!(read(bytes.freeze()), records);
    }

    #[test]
    fn the_peer_gives_back_what_our_writer_took(
        records in prop::collection::vec(plain().prop_map(without_duplicate_keys), 1..80),
    ) {
        let set = RecordBatchDecoder::decode(&mut write(&records)).unwrap();
        let expected: Vec<_> =
            records.iter().zip(0..).map(|(r, offset)| as_peer(r, offset)).collect();
        prop_assert_eq!(set.records, expected);
    }
}
