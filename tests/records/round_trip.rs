//! What our writer writes, our reader reads.

use nearside::ids::Offset;
use nearside::records::{BatchSet, BatchWriter, Compression, NewRecord, ReadSettings};

const CODECS: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

#[test]
fn a_batch_of_every_codec_is_read_back() {
    for codec in CODECS {
        let mut writer = BatchWriter::new(codec);
        let value = vec![b'x'; 1_000];
        for index in 0..500 {
            let headers = [("a", Some(&b"1"[..])), ("a", None)];
            let record = NewRecord {
                timestamp: 1_000 + index,
                key: Some(b"key"),
                value: Some(&value),
                headers: &headers,
            };
            let size = writer.size();
            let claimed = writer.size_of(&record);
            writer.push(&record).unwrap();
            assert_eq!(writer.size(), size + claimed);
        }
        let bytes = writer.seal().unwrap();
        let mut set = BatchSet::new(bytes, Offset(10), ReadSettings::default());
        let view = set.next().unwrap().unwrap().inflate(1 << 20).unwrap();
        assert_eq!(view.compression(), codec);
        let records: Vec<_> = view.records().map(Result::unwrap).collect();
        assert_eq!(records.len(), 490, "{codec}");
        for (record, offset) in records.iter().zip(10..) {
            assert_eq!(record.offset, Offset(offset));
            assert_eq!(record.timestamp, 1_000 + offset);
            assert_eq!(record.key, Some(&b"key"[..]));
            assert_eq!(record.value_bytes().unwrap(), value);
            assert_eq!(record.headers.iter().count(), 2);
        }
        assert!(set.next().is_none());
        assert_eq!(set.position(), Offset(500));
    }
}
