//! What the writer writes, our reader and the library's read back.

use bytes::Bytes;
use kafka_protocol::records::RecordBatchDecoder;
use nearside::ids::Offset;
use nearside::records::{BatchSet, BatchWriter, Compression, NewRecord, ReadSettings};

const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

/// The fields of a record.
type Plain<'a> = (i64, Option<&'a [u8]>, Option<&'a [u8]>);

/// The first byte chooses the codec; the rest are records: timestamp, then key and value with their
/// lengths, 255 being null.
pub(super) fn run(data: &[u8]) {
    let Some((codec, mut rest)) = super::choose(data, CODECS.len()) else {
        return;
    };
    let codec = Compression::from_name(CODECS[codec]).expect("known");
    let (mut writer, mut written) = (BatchWriter::new(codec), Vec::<Plain<'_>>::new());
    while let Some((timestamp, after)) = rest.split_first_chunk::<8>() {
        rest = after;
        let timestamp = i64::from_be_bytes(*timestamp);
        let record = NewRecord {
            timestamp,
            key: field(&mut rest),
            value: field(&mut rest),
            headers: &[("one", Some(b"1")), ("two", None)],
        };
        let size = writer.size();
        let grows = writer.size_of(&record);
        if writer.push(&record).is_ok() {
            assert_eq!(writer.size(), size + grows, "the size is known before");
            written.push((timestamp, record.key, record.value));
        }
    }
    let Ok(bytes) = writer.seal() else {
        assert!(written.is_empty());
        return;
    };
    check(&bytes, &written);
    if codec == Compression::None {
        check_theirs(bytes, &written);
    }
}

fn field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first()?;
    *rest = after;
    if *length == u8::MAX {
        return None;
    }
    let (field, after) = rest.split_at(usize::from(*length).min(rest.len()));
    *rest = after;
    Some(field)
}

fn check(bytes: &Bytes, written: &[Plain<'_>]) {
    let mut set = BatchSet::new(bytes.clone(), Offset(0), ReadSettings::default());
    let view = set.next().expect("one batch").expect("sound");
    let open = view.inflate(1 << 24).expect("sound");
    let read: Vec<_> = open
        .records()
        .map(|record| record.expect("sound"))
        .collect();
    let plain: Vec<Plain<'_>> = read
        .iter()
        .map(|it| (it.timestamp, it.key, it.value))
        .collect();
    assert_eq!(plain, written);
    assert!(read.iter().all(|record| record.headers.iter().count() == 2));
    assert!(set.next().is_none());
    assert_eq!(set.position().0, written.len() as i64);
}

fn check_theirs(mut bytes: Bytes, written: &[Plain<'_>]) {
    let sets = RecordBatchDecoder::decode_all(&mut bytes).expect("sound");
    let records: Vec<_> = sets.iter().flat_map(|set| &set.records).collect();
    let plain: Vec<Plain<'_>> = records
        .iter()
        .map(|it| (it.timestamp, it.key.as_deref(), it.value.as_deref()))
        .collect();
    assert_eq!(plain, written);
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let record = |timestamp: i64, key: &[u8], value: &[u8]| {
        let mut out = timestamp.to_be_bytes().to_vec();
        for field in [key, value] {
            out.push(field.len() as u8);
            out.extend(field);
        }
        out
    };
    let records = [record(1_000, b"key", b"value"), record(0, b"", &[7; 200])].concat();
    (0..5)
        .map(|codec| [vec![codec], records.clone()].concat())
        .collect()
}
