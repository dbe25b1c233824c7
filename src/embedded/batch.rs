//! The header of a v2 record batch (KIP-98): what a broker reads and rewrites, and no more.

use bytes::{Buf, Bytes, BytesMut};
use crc_fast::CrcAlgorithm;
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    Compression, NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE,
    Record as WireRecord, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};

use crate::ids::Moment;

/// A record to be written by [`encode_batch`] or [`Cluster::produce`](super::Cluster::produce).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The key, if any.
    pub key: Option<Bytes>,
    /// The value; `None` is a tombstone.
    pub value: Option<Bytes>,
    /// Milliseconds since the epoch.
    pub timestamp_ms: i64,
    /// Headers in order.
    pub headers: Vec<(String, Option<Bytes>)>,
}

impl Record {
    /// A record with this value, without a key, at time 0.
    pub fn of(value: impl Into<Bytes>) -> Self {
        Self {
            value: Some(value.into()),
            ..Self::default()
        }
    }

    /// The same record with a key.
    #[must_use]
    pub fn keyed(mut self, key: impl Into<Bytes>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The same record at a time on the virtual clock.
    #[must_use]
    pub fn at(mut self, moment: Moment) -> Self {
        self.timestamp_ms = i64::try_from(moment.as_ms()).unwrap_or(i64::MAX);
        self
    }
}

/// Encodes `records` as one uncompressed v2 batch with base offset 0 and no producer id; empty if
/// there are no records. Duplicate header keys collapse to the last one.
pub fn encode_batch(records: &[Record]) -> Bytes {
    let wire: Vec<WireRecord> = (0_i32..).zip(records).map(to_wire).collect();
    let mut buffer = BytesMut::new();
    let options = RecordEncodeOptions {
        version: 2,
        compression: Compression::None,
    };
    if wire.is_empty() || RecordBatchEncoder::encode(&mut buffer, &wire, &options).is_err() {
        return Bytes::new();
    }
    buffer.freeze()
}

fn to_wire((offset, record): (i32, &Record)) -> WireRecord {
    let header = |(key, value): &(String, Option<Bytes>)| {
        (StrBytes::from_string(key.clone()), value.clone())
    };
    WireRecord {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
        producer_id: NO_PRODUCER_ID,
        producer_epoch: NO_PRODUCER_EPOCH,
        timestamp_type: TimestampType::Creation,
        offset: i64::from(offset),
        // The encoder starts a new batch where sequence and offset drift apart; the base stays
        // "none".
        sequence: NO_SEQUENCE.wrapping_add(offset),
        timestamp: record.timestamp_ms,
        key: record.key.clone(),
        value: record.value.clone(),
        headers: record
            .headers
            .iter()
            .map(header)
            .collect::<IndexMap<_, _>>(),
    }
}

/// What a broker reads from a batch header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Size of the whole batch in bytes.
    pub(super) size: usize,
    pub(super) base_offset: i64,
    pub(super) last_delta: i32,
    pub(super) max_timestamp: i64,
    pub(super) producer_id: i64,
    pub(super) producer_epoch: i16,
    pub(super) base_sequence: i32,
}

/// Why a broker refuses a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadBatch {
    /// Too short, wrong length, wrong checksum, or counts that contradict each other.
    Corrupt,
    /// Not magic 2.
    OldMagic,
}

impl Header {
    pub(super) const BYTES: usize = 61;
    const LENGTH_AT: usize = 8;
    const PREFIX_BYTES: usize = 12;
    const EPOCH_AT: usize = 12;
    const CRC_FROM: usize = 21;

    /// Reads the header at the start of `bytes`, which may hold further batches. The checksum is
    /// left to [`Header::verify`].
    pub(super) fn read(bytes: &[u8]) -> Result<Self, BadBatch> {
        let mut head = bytes.get(..Self::BYTES).ok_or(BadBatch::Corrupt)?;
        let base_offset = head.get_i64();
        let length = usize::try_from(head.get_i32()).map_err(|_| BadBatch::Corrupt)?;
        let size = length.saturating_add(Self::PREFIX_BYTES);
        if size < Self::BYTES || size > bytes.len() {
            return Err(BadBatch::Corrupt);
        }
        head.advance(size_of::<i32>());
        if head.get_i8() != 2 {
            return Err(BadBatch::OldMagic);
        }
        head.advance(size_of::<u32>() + size_of::<i16>());
        let last_delta = head.get_i32();
        head.advance(size_of::<i64>());
        let header = Self {
            size,
            base_offset,
            last_delta,
            max_timestamp: head.get_i64(),
            producer_id: head.get_i64(),
            producer_epoch: head.get_i16(),
            base_sequence: head.get_i32(),
        };
        let count = head.get_i32();
        let sane = last_delta >= 0 && count >= 0 && count - 1 <= last_delta;
        sane.then_some(header).ok_or(BadBatch::Corrupt)
    }

    /// Checks the CRC-32C of the batch at the start of `bytes`.
    pub(super) fn verify(&self, bytes: &[u8]) -> Result<(), BadBatch> {
        let stored = bytes
            .get(17..Self::CRC_FROM)
            .ok_or(BadBatch::Corrupt)?
            .get_u32();
        let covered = bytes
            .get(Self::CRC_FROM..self.size)
            .ok_or(BadBatch::Corrupt)?;
        let computed = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, covered);
        (u64::from(stored) == computed)
            .then_some(())
            .ok_or(BadBatch::Corrupt)
    }

    /// Writes the offset and leader epoch that the leader assigns; both lie outside the checksum.
    pub(super) fn assign(batch: &mut [u8], base_offset: i64, leader_epoch: i32) {
        if let Some(field) = batch.get_mut(..Self::LENGTH_AT) {
            field.copy_from_slice(&base_offset.to_be_bytes());
        }
        if let Some(field) = batch.get_mut(Self::EPOCH_AT..Self::EPOCH_AT + size_of::<i32>()) {
            field.copy_from_slice(&leader_epoch.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoded_batch_has_a_header_that_verifies() {
        let bytes = encode_batch(&[Record::of("one"), Record::of("two").keyed("k")]);
        let header = Header::read(&bytes).expect("a valid header");
        assert_eq!((header.size, header.last_delta), (bytes.len(), 1));
        assert_eq!((header.producer_id, header.base_sequence), (-1, -1));
        assert_eq!(header.verify(&bytes), Ok(()));
    }

    #[test]
    fn assigning_an_offset_keeps_the_checksum_right() {
        let mut bytes = encode_batch(&[Record::of("one")]).to_vec();
        Header::assign(&mut bytes, 4711, 6);
        let header = Header::read(&bytes).expect("a valid header");
        assert_eq!(header.base_offset, 4711);
        assert_eq!(header.verify(&bytes), Ok(()));
    }

    #[test]
    fn a_flipped_bit_fails_the_checksum() {
        let mut bytes = encode_batch(&[Record::of("one")]).to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        let header = Header::read(&bytes).expect("the header itself is whole");
        assert_eq!(header.verify(&bytes), Err(BadBatch::Corrupt));
    }

    #[test]
    fn lengths_beyond_the_bytes_are_corrupt() {
        let mut bytes = encode_batch(&[Record::of("one")]).to_vec();
        bytes[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
        assert_eq!(Header::read(&bytes), Err(BadBatch::Corrupt));
        assert_eq!(Header::read(&bytes[..40]), Err(BadBatch::Corrupt));
    }
}
