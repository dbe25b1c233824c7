//! The 61-byte header of a v2 batch (KIP-98).

use crate::ids::{LeaderEpoch, Offset};

use super::codec::Compression;

/// Size of the header of a v2 batch, in bytes.
pub const HEADER_BYTES: usize = 61;

/// What the timestamps of a batch mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum TimestampType {
    /// Each record carries the time its producer gave it.
    CreateTime,
    /// All records carry the time at which the leader appended the batch.
    LogAppendTime,
}

/// The parsed header of one batch. Offsets are checked: `base_offset + last_offset_delta` does not
/// overflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchHeader {
    /// Offset that deltas count from; the first record may have been compacted away.
    pub base_offset: Offset,
    /// Delta of the last offset the batch covers, present or compacted away.
    pub last_offset_delta: i32,
    /// Leader epoch at which it was appended, if known.
    pub leader_epoch: Option<LeaderEpoch>,
    /// Codec of the body; `Err` holds an unassigned codec number.
    pub(super) codec: Result<Compression, u8>,
    /// What its timestamps mean.
    pub timestamp_type: TimestampType,
    /// Whether it belongs to a transaction.
    pub transactional: bool,
    /// Whether it holds markers instead of records.
    pub control: bool,
    /// Timestamp that deltas count from (the delete horizon, if KIP-534 set one), in ms.
    pub base_timestamp: i64,
    /// Largest timestamp of its records, in ms.
    pub max_timestamp: i64,
    /// Producer id, if the producer was idempotent.
    pub producer_id: Option<i64>,
    /// Producer epoch; meaningful with a producer id only.
    pub producer_epoch: i16,
    /// Sequence of the first record; meaningful with a producer id only.
    pub base_sequence: i32,
    /// Number of records present.
    pub count: u32,
    /// Whether attribute bits without a meaning were set.
    pub(super) unknown_attributes: bool,
}

impl BatchHeader {
    /// Offset of the last record the batch covers.
    pub fn last_offset(&self) -> Offset {
        Offset(
            self.base_offset
                .0
                .saturating_add(i64::from(self.last_offset_delta)),
        )
    }

    /// Offset at which reading goes on, whatever is left inside the batch.
    pub fn next_offset(&self) -> Offset {
        self.last_offset().next()
    }
}

/// The header's raw fields, before anything is believed.
pub(super) struct RawHeader<'a>(&'a [u8; HEADER_BYTES]);

impl<'a> RawHeader<'a> {
    /// The header at the front of `batch`, if it is long enough.
    pub(super) fn of(batch: &'a [u8]) -> Option<Self> {
        batch.first_chunk().map(Self)
    }

    pub(super) fn base_offset(&self) -> i64 {
        i64::from_be_bytes(self.field::<0, 8>())
    }

    pub(super) fn checksum(&self) -> u32 {
        u32::from_be_bytes(self.field::<17, 4>())
    }

    pub(super) fn last_offset_delta(&self) -> i32 {
        i32::from_be_bytes(self.field::<23, 4>())
    }

    pub(super) fn count(&self) -> i32 {
        i32::from_be_bytes(self.field::<57, 4>())
    }

    /// The offset behind the batch, if the header's sums are sane.
    pub(super) fn next_offset(&self) -> Option<Offset> {
        let (base, last_delta) = (self.base_offset(), self.last_offset_delta());
        if base < 0 || last_delta < 0 {
            return None;
        }
        base.checked_add(i64::from(last_delta))?
            .checked_add(1)
            .map(Offset)
    }

    /// The header as a value; `None` if offsets are negative or overflow (B5) or the count is
    /// negative (B7).
    pub(super) fn parse(&self) -> Option<BatchHeader> {
        let attributes = u16::from_be_bytes(self.field::<21, 2>());
        self.next_offset()?;
        let leader_epoch = i32::from_be_bytes(self.field::<12, 4>());
        let producer_id = i64::from_be_bytes(self.field::<43, 8>());
        Some(BatchHeader {
            base_offset: Offset(self.base_offset()),
            last_offset_delta: self.last_offset_delta(),
            leader_epoch: (leader_epoch >= 0).then_some(LeaderEpoch(leader_epoch)),
            codec: Compression::from_attributes(attributes),
            timestamp_type: if attributes & LOG_APPEND_TIME == 0 {
                TimestampType::CreateTime
            } else {
                TimestampType::LogAppendTime
            },
            transactional: attributes & TRANSACTIONAL != 0,
            control: attributes & CONTROL != 0,
            base_timestamp: i64::from_be_bytes(self.field::<27, 8>()),
            max_timestamp: i64::from_be_bytes(self.field::<35, 8>()),
            producer_id: (producer_id >= 0).then_some(producer_id),
            producer_epoch: i16::from_be_bytes(self.field::<51, 2>()),
            base_sequence: i32::from_be_bytes(self.field::<53, 4>()),
            count: u32::try_from(self.count()).ok()?,
            unknown_attributes: attributes & !KNOWN != 0,
        })
    }

    /// `LEN` bytes at `AT`, both constants inside the header.
    #[inline(always)]
    fn field<const AT: usize, const LEN: usize>(&self) -> [u8; LEN] {
        const { assert!(AT + LEN <= HEADER_BYTES) };
        let mut field = [0; LEN];
        for (to, from) in field.iter_mut().zip(self.0.iter().skip(AT)) {
            *to = *from;
        }
        field
    }
}

pub(super) const LOG_APPEND_TIME: u16 = 1 << 3;
pub(super) const TRANSACTIONAL: u16 = 1 << 4;
pub(super) const CONTROL: u16 = 1 << 5;
const DELETE_HORIZON: u16 = 1 << 6;
const KNOWN: u16 = 0b111 | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON;
