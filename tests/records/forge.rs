//! Builds batches by hand, right or wrong in any field, with a checksum that always holds.

use bytes::Bytes;
use nearside::ids::Offset;
use nearside::records::{BatchError, BatchSet, BatchView, ReadSettings};

pub(crate) const LOG_APPEND_TIME: i16 = 1 << 3;
pub(crate) const TRANSACTIONAL: i16 = 1 << 4;
pub(crate) const CONTROL: i16 = 1 << 5;
pub(crate) const DELETE_HORIZON: i16 = 1 << 6;

/// One batch in the making.
#[derive(Clone, Debug)]
pub(crate) struct Forge {
    pub base: i64,
    pub magic: i8,
    pub attributes: i16,
    pub last_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub count: i32,
    pub body: Vec<u8>,
}

impl Forge {
    /// An empty batch that covers one offset.
    pub(crate) fn at(base: i64) -> Self {
        Self {
            base,
            magic: 2,
            attributes: 0,
            last_delta: 0,
            base_timestamp: 0,
            max_timestamp: 0,
            producer_id: -1,
            count: 0,
            body: Vec::new(),
        }
    }

    /// `count` records with the values `v0`, `v1`, ... and no key.
    pub(crate) fn filled(base: i64, count: i32) -> Self {
        (0..count).fold(Self::at(base), |batch, delta| {
            batch.record(delta, format!("v{delta}"))
        })
    }

    /// Appends a record without key and headers.
    pub(crate) fn record(self, delta: i32, value: impl AsRef<[u8]>) -> Self {
        self.full(0, delta, None, Some(value.as_ref()), &[0])
    }

    /// Appends a record with everything, `headers` raw.
    pub(crate) fn full(
        mut self,
        timestamp_delta: i64,
        delta: i32,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[u8],
    ) -> Self {
        let mut content = vec![0];
        varint(&mut content, timestamp_delta);
        varint(&mut content, i64::from(delta));
        for field in [key, value] {
            varint(&mut content, field.map_or(-1, |field| field.len() as i64));
            content.extend_from_slice(field.unwrap_or_default());
        }
        content.extend_from_slice(headers);
        varint(&mut self.body, content.len() as i64);
        self.body.extend_from_slice(&content);
        self.count += 1;
        self.last_delta = self.last_delta.max(delta);
        self
    }

    /// Replaces the body by its compressed form, under codec number `codec`.
    pub(crate) fn packed(mut self, codec: i16, body: Vec<u8>) -> Self {
        self.attributes |= codec;
        self.body = body;
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.base.to_be_bytes());
        out.extend_from_slice(&(self.body.len() as i32 + 49).to_be_bytes());
        out.extend_from_slice(&7_i32.to_be_bytes());
        out.extend_from_slice(&self.magic.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.attributes.to_be_bytes());
        out.extend_from_slice(&self.last_delta.to_be_bytes());
        out.extend_from_slice(&self.base_timestamp.to_be_bytes());
        out.extend_from_slice(&self.max_timestamp.to_be_bytes());
        out.extend_from_slice(&self.producer_id.to_be_bytes());
        out.extend_from_slice(&0_i16.to_be_bytes());
        out.extend_from_slice(&0_i32.to_be_bytes());
        out.extend_from_slice(&self.count.to_be_bytes());
        out.extend_from_slice(&self.body);
        repair(&mut out);
        out
    }
}

/// Puts the right checksum into the batch at the front of `bytes`, if it reaches that far.
pub(crate) fn repair(bytes: &mut [u8]) {
    if bytes.len() < 21 {
        return;
    }
    let length = i32::from_be_bytes(bytes[8..12].try_into().unwrap());
    let end = usize::try_from(length)
        .unwrap_or(0)
        .saturating_add(12)
        .min(bytes.len());
    if end > 21 {
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes[21..end]) as u32;
        bytes[17..21].copy_from_slice(&sum.to_be_bytes());
    }
}

pub(crate) fn varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Joins batches to a record set.
pub(crate) fn join(batches: &[&Forge]) -> Bytes {
    batches
        .iter()
        .flat_map(|batch| batch.bytes())
        .collect::<Vec<_>>()
        .into()
}

pub(crate) fn open(bytes: impl Into<Bytes>, asked: i64) -> BatchSet {
    BatchSet::new(bytes.into(), Offset(asked), ReadSettings::default())
}

/// What reading a set to its end gave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Read {
    /// Offset and value of each record.
    pub records: Vec<(i64, String)>,
    pub position: i64,
    pub error: Option<BatchError>,
}

/// Reads `set` to its end, or to the first error, inflating on the way.
pub(crate) fn drain(mut set: BatchSet) -> Read {
    let mut records = Vec::new();
    for view in set.by_ref() {
        match view.and_then(|view| deliver(&view, &mut records)) {
            Ok(()) => {}
            Err(error) => {
                return Read {
                    records,
                    position: error.position().0,
                    error: Some(error),
                };
            }
        }
    }
    Read {
        records,
        position: set.position().0,
        error: None,
    }
}

fn deliver(view: &BatchView, records: &mut Vec<(i64, String)>) -> Result<(), BatchError> {
    for record in view.inflate(64 << 20)?.records() {
        let record = record?;
        let value = String::from_utf8_lossy(record.value.unwrap_or_default());
        records.push((record.offset.0, value.into_owned()));
    }
    Ok(())
}

/// The records `first..first + count` as [`Forge::filled`] at `base` makes them.
pub(crate) fn values(base: i64, deltas: std::ops::Range<i64>) -> Vec<(i64, String)> {
    deltas
        .map(|delta| (base + delta, format!("v{delta}")))
        .collect()
}
