//! Writes v2 batches (wire.md 9).

use std::fmt;

use bytes::Bytes;

use super::codec::{self, Compression};
use super::header::{HEADER_BYTES, TRANSACTIONAL};
use super::set::checksum;
use super::varint;

/// A record to write, borrowed from its producer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NewRecord<'a> {
    /// Its timestamp in ms since 1970, at least 0.
    pub timestamp: i64,
    /// Its key; null and empty are different things.
    pub key: Option<&'a [u8]>,
    /// Its value; null and empty are different things.
    pub value: Option<&'a [u8]>,
    /// Its headers in order, duplicates allowed.
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
}

/// The producer that seals a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sealer {
    /// Its producer id.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
    /// Sequence of the batch's first record.
    pub base_sequence: i32,
    /// Whether the batch is part of a transaction.
    pub transactional: bool,
}

/// Why a batch cannot be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteError {
    /// There is no record in it.
    Empty,
    /// A timestamp below 0.
    Timestamp(i64),
    /// More bytes or records than the format can count.
    TooLarge,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a batch needs a record"),
            Self::Timestamp(timestamp) => write!(f, "timestamp {timestamp} is below 0"),
            Self::TooLarge => f.write_str("the batch is larger than the format can count"),
        }
    }
}

impl std::error::Error for WriteError {}

/// Collects records into one batch: base offset 0, deltas 0..n-1, leader epoch unknown (O1).
#[derive(Clone, Debug, Default)]
pub struct BatchWriter {
    body: Vec<u8>,
    count: i32,
    base_timestamp: i64,
    max_timestamp: i64,
    compression: Compression,
    level: Option<i32>,
}

impl BatchWriter {
    /// An empty batch, to be compressed with `compression` at its default level if that makes it
    /// smaller (O2).
    pub fn new(compression: Compression) -> Self {
        Self {
            compression,
            ..Self::default()
        }
    }

    /// The same with a level of the codec's own scale (gzip and zstd; the others have none).
    #[must_use]
    pub fn with_level(mut self, level: i32) -> Self {
        self.level = Some(level);
        self
    }

    /// Bytes that `record` adds to this batch before compression; known before the append (O3).
    pub fn size_of(&self, record: &NewRecord<'_>) -> usize {
        let content = self.content_size(record);
        content + varint::size(as_length(content))
    }

    /// Appends `record` and returns its index in the batch.
    ///
    /// # Errors
    /// [`WriteError::Timestamp`] or [`WriteError::TooLarge`]; the batch stays as it was.
    pub fn push(&mut self, record: &NewRecord<'_>) -> Result<i32, WriteError> {
        if record.timestamp < 0 {
            return Err(WriteError::Timestamp(record.timestamp));
        }
        let size = self.size_of(record);
        let total = HEADER_BYTES
            .saturating_add(self.body.len())
            .saturating_add(size);
        if i32::try_from(total).is_err() || self.count == i32::MAX {
            return Err(WriteError::TooLarge);
        }
        let content = as_length(self.content_size(record));
        if self.count == 0 {
            self.base_timestamp = record.timestamp;
        }
        self.max_timestamp = self.max_timestamp.max(record.timestamp);
        let index = self.count;
        self.body.reserve(size);
        varint::write_i64(&mut self.body, content);
        self.body.push(0);
        varint::write_i64(&mut self.body, record.timestamp - self.base_timestamp);
        varint::write_i64(&mut self.body, i64::from(index));
        self.field(record.key);
        self.field(record.value);
        varint::write_i64(&mut self.body, as_length(record.headers.len()));
        for (key, value) in record.headers {
            self.field(Some(key.as_bytes()));
            self.field(*value);
        }
        self.count += 1;
        Ok(index)
    }

    /// Number of records so far.
    pub fn count(&self) -> i32 {
        self.count
    }

    /// Whether no record was appended yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Size of the batch before compression, header included, in bytes.
    pub fn size(&self) -> usize {
        HEADER_BYTES + self.body.len()
    }

    /// Finishes a batch of a producer without an id.
    ///
    /// # Errors
    /// [`WriteError::Empty`] without a record.
    pub fn seal(self) -> Result<Bytes, WriteError> {
        self.seal_as(Sealer {
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            transactional: false,
        })
    }

    /// Finishes the batch for its first write: from here on the bytes are frozen (O4).
    ///
    /// # Errors
    /// [`WriteError::Empty`] without a record.
    pub fn seal_as(self, sealer: Sealer) -> Result<Bytes, WriteError> {
        if self.count == 0 {
            return Err(WriteError::Empty);
        }
        let packed = codec::deflate(self.compression, self.level, &self.body)
            .filter(|packed| packed.len() < self.body.len());
        let (body, codec) = match &packed {
            Some(packed) => (packed, self.compression),
            None => (&self.body, Compression::None),
        };
        let mut attributes = codec.attributes();
        if sealer.transactional {
            attributes |= TRANSACTIONAL;
        }
        let mut batch = Vec::with_capacity(HEADER_BYTES + body.len());
        batch.extend_from_slice(&0_i64.to_be_bytes());
        let length = i32::try_from(LENGTH_REST + body.len()).map_err(|_| WriteError::TooLarge)?;
        batch.extend_from_slice(&length.to_be_bytes());
        batch.extend_from_slice(&(-1_i32).to_be_bytes());
        batch.push(2);
        batch.extend_from_slice(&[0; 4]);
        batch.extend_from_slice(&attributes.to_be_bytes());
        batch.extend_from_slice(&(self.count - 1).to_be_bytes());
        batch.extend_from_slice(&self.base_timestamp.to_be_bytes());
        batch.extend_from_slice(&self.max_timestamp.to_be_bytes());
        batch.extend_from_slice(&sealer.producer_id.to_be_bytes());
        batch.extend_from_slice(&sealer.producer_epoch.to_be_bytes());
        batch.extend_from_slice(&sealer.base_sequence.to_be_bytes());
        batch.extend_from_slice(&self.count.to_be_bytes());
        batch.extend_from_slice(body);
        close(&mut batch);
        Ok(batch.into())
    }

    /// Bytes of `record` behind its length.
    fn content_size(&self, record: &NewRecord<'_>) -> usize {
        let base = if self.count == 0 {
            record.timestamp
        } else {
            self.base_timestamp
        };
        let headers: usize = record
            .headers
            .iter()
            .map(|(key, value)| field_size(Some(key.as_bytes())) + field_size(*value))
            .sum();
        1 + varint::size(record.timestamp.wrapping_sub(base))
            + varint::size(i64::from(self.count))
            + field_size(record.key)
            + field_size(record.value)
            + varint::size(as_length(record.headers.len()))
            + headers
    }

    fn field(&mut self, field: Option<&[u8]>) {
        match field {
            None => varint::write_i64(&mut self.body, -1),
            Some(bytes) => {
                varint::write_i64(&mut self.body, as_length(bytes.len()));
                self.body.extend_from_slice(bytes);
            }
        }
    }
}

/// A copy of a sealed batch under another producer id, epoch or sequence; its records stay as they
/// are. The original is untouched, since a write may still hold it (O4).
pub(crate) fn reseal(batch: &Bytes, sealer: Sealer) -> Bytes {
    let mut copy = batch.to_vec();
    let fields = sealer
        .producer_id
        .to_be_bytes()
        .into_iter()
        .chain(sealer.producer_epoch.to_be_bytes())
        .chain(sealer.base_sequence.to_be_bytes());
    for (to, from) in copy.iter_mut().skip(PRODUCER_AT).zip(fields) {
        *to = from;
    }
    close(&mut copy);
    copy.into()
}

/// Writes the checksum, last of all.
fn close(batch: &mut [u8]) {
    let sum = checksum(batch).to_be_bytes();
    for (to, from) in batch.iter_mut().skip(CHECKSUM_AT).zip(sum) {
        *to = from;
    }
}

fn field_size(field: Option<&[u8]>) -> usize {
    field.map_or(1, |bytes| {
        bytes.len() + varint::size(as_length(bytes.len()))
    })
}

/// A length as varints carry it. Lengths beyond the format are caught by the size of the whole
/// batch.
fn as_length(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// Header bytes that the length field counts.
const LENGTH_REST: usize = HEADER_BYTES - 12;
/// Where the checksum lies.
const CHECKSUM_AT: usize = 17;
/// Where producer id, epoch and sequence lie, in this order.
const PRODUCER_AT: usize = 43;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resealed_batch_equals_one_sealed_so_at_first() {
        let mut writer = BatchWriter::new(Compression::Lz4);
        for timestamp in 0..100 {
            let value = Some(&b"the same value again and again"[..]);
            writer
                .push(&NewRecord {
                    timestamp,
                    value,
                    ..NewRecord::default()
                })
                .unwrap();
        }
        let (first, second) = (sealer(1, 2, 3), sealer(4, 5, 6));
        let sealed = writer.clone().seal_as(first).unwrap();
        assert_eq!(reseal(&sealed, second), writer.seal_as(second).unwrap());
    }

    #[test]
    fn a_record_with_a_timestamp_below_zero_is_refused_without_a_trace() {
        let mut writer = BatchWriter::default();
        let early = NewRecord {
            timestamp: -1,
            ..NewRecord::default()
        };
        assert_eq!(writer.push(&early), Err(WriteError::Timestamp(-1)));
        assert_eq!((writer.count(), writer.size()), (0, HEADER_BYTES));
        assert_eq!(writer.seal(), Err(WriteError::Empty));
    }

    fn sealer(producer_id: i64, producer_epoch: i16, base_sequence: i32) -> Sealer {
        Sealer {
            producer_id,
            producer_epoch,
            base_sequence,
            transactional: false,
        }
    }
}
