//! Message sets of versions 0 and 1 (wire.md 8.5): read, never written.
//!
//! A run of plain messages, or one compressed message with a set inside, is treated like a batch
//! that has to be opened: its messages are rewritten in place as records of version 2, so that only
//! one reader of records exists. Every field of such a record takes no more room than before.

use std::ops::Range;

use crc_fast::CrcAlgorithm;

use crate::ids::Offset;

use super::codec::{self, Charge, Compression, Fault};
use super::error::Corruption;
use super::header::{BatchHeader, LOG_APPEND_TIME, TimestampType};
use super::varint;

/// One whole message, its fields as places inside it.
struct Message {
    offset: i64,
    magic: u8,
    attributes: u8,
    /// In ms; -1 at version 0, which has none.
    timestamp: i64,
    key: Field,
    value: Field,
}

/// Where a key or value lies. A negative length is null.
struct Field {
    length: i32,
    place: Range<usize>,
}

/// The messages at the front of a set that are read together.
pub(super) struct Run {
    /// Bytes they take.
    pub(super) size: usize,
    /// The lowest offset that is known to be in it.
    pub(super) first: Offset,
    /// What a header of version 2 would say. Of a compressed message only the last offset is known
    /// yet: it covers everything from `position` on, with an unknown number of records.
    pub(super) header: BatchHeader,
    /// Whether offset 0 says nothing about how far the set inside reaches.
    pub(super) unplaced: bool,
}

/// Why a set was not opened.
#[derive(Clone, Copy)]
pub(super) enum Unopened {
    Codec(Fault),
    Corrupt(Corruption),
}

impl From<Corruption> for Unopened {
    fn from(reason: Corruption) -> Self {
        Self::Corrupt(reason)
    }
}

impl From<Fault> for Unopened {
    fn from(fault: Fault) -> Self {
        Self::Codec(fault)
    }
}

/// What is looked at besides the form of messages.
#[derive(Clone, Copy)]
pub(super) struct Checks {
    /// Checksums.
    pub(super) crcs: bool,
    /// Attribute bits without a meaning (`wire.strict`).
    pub(super) strict: bool,
}

/// Finds out what lies at the front of `set`, whose first message has `size` bytes and is whole.
pub(super) fn run(
    set: &[u8],
    size: usize,
    position: Offset,
    check_crcs: bool,
) -> Result<Run, Corruption> {
    let first = checked(set.get(..size).unwrap_or_default(), check_crcs)?;
    let Ok(Compression::None) = first.codec() else {
        return wrapper(&first, size, position);
    };
    let (mut size, mut count, mut last) = (size, 1_u32, first.offset);
    let mut max_timestamp = first.timestamp;
    while let Ok(Some(more)) = front(set.get(size..).unwrap_or_default()) {
        let bytes = set.get(size..size + more).unwrap_or_default();
        // Whatever does not fit in begins the next run and is judged there.
        let Ok(next) = checked(bytes, check_crcs) else {
            break;
        };
        if !first.continues(&next, last) || size + more > RUN_BYTES_MAX {
            break;
        }
        (size, count, last) = (size + more, count + 1, next.offset);
        max_timestamp = max_timestamp.max(next.timestamp);
    }
    let delta = i32::try_from(last - first.offset).map_err(|_| Corruption::Offsets)?;
    Ok(Run {
        size,
        first: Offset(first.offset),
        header: BatchHeader {
            count,
            max_timestamp,
            ..first.header(Offset(first.offset), delta)
        },
        unplaced: false,
    })
}

fn wrapper(first: &Message, size: usize, position: Offset) -> Result<Run, Corruption> {
    if first.value.length < 0 {
        return Err(Corruption::Wrapper);
    }
    let base = position.0.min(first.offset).max(0);
    let delta = i32::try_from(first.offset - base).unwrap_or(i32::MAX);
    let base = Offset(first.offset - i64::from(delta));
    Ok(Run {
        size,
        first: Offset(first.offset),
        header: first.header(base, delta),
        unplaced: first.offset == 0 && first.magic == 1 && first.codec().is_ok(),
    })
}

/// Opens what [`run`] found in `bytes`: records of version 2, and the header that fits them.
pub(super) fn open<C: Charge>(
    bytes: &[u8],
    header: &BatchHeader,
    checks: Checks,
    limit: usize,
    mut charge: C,
) -> Result<(bytes::Bytes, BatchHeader), Unopened> {
    let codec = header.codec.unwrap_or(Compression::None);
    if codec == Compression::None {
        // What lies in memory already is not refused for its size.
        let mut records = codec::inflate(codec, bytes, limit.max(bytes.len()), &mut charge)?;
        rewrite(
            &mut records,
            None,
            Checks {
                crcs: false,
                ..checks
            },
        )?;
        return Ok((codec::charged(records, charge), *header));
    }
    let outer = parse(bytes)?;
    let packed = bytes.get(outer.value.place.clone()).unwrap_or_default();
    let mut records = codec::inflate(codec, packed, limit, &mut charge)?;
    let inner = rewrite(&mut records, Some(outer.magic), checks)?;
    let header = placed(header, &outer, &inner)?;
    Ok((codec::charged(records, charge), header))
}

/// The header of a compressed message once its set is known.
fn placed(
    header: &BatchHeader,
    outer: &Message,
    inner: &Rewritten,
) -> Result<BatchHeader, Corruption> {
    // Version 1 counts from the first record of the set when it was written (KIP-31); offset 0 is
    // that of a producer who could not know it.
    let shift = match (outer.magic, outer.offset) {
        (0, _) | (_, 0) => 0,
        (_, offset) => offset - inner.last,
    };
    let last = if outer.magic == 0 {
        outer.offset
    } else {
        shift + inner.last
    };
    if shift < 0 || inner.last > last {
        return Err(Corruption::Offsets);
    }
    let base = inner.first + shift;
    let max_timestamp = match header.timestamp_type {
        TimestampType::LogAppendTime => outer.timestamp,
        TimestampType::CreateTime => inner.max_timestamp,
    };
    Ok(BatchHeader {
        base_offset: Offset(base),
        last_offset_delta: i32::try_from(last - base).map_err(|_| Corruption::Offsets)?,
        base_timestamp: 0,
        max_timestamp,
        count: inner.count,
        ..*header
    })
}

/// What [`rewrite`] met.
struct Rewritten {
    first: i64,
    last: i64,
    count: u32,
    max_timestamp: i64,
}

/// Turns the messages in `buffer` into records of version 2. Those of a compressed message of
/// version `inside` must be of the same version and not compressed again. A cut one ends the set.
fn rewrite(
    buffer: &mut Vec<u8>,
    inside: Option<u8>,
    checks: Checks,
) -> Result<Rewritten, Corruption> {
    let mut met: Option<Rewritten> = None;
    let (mut at, mut written) = (0, 0);
    while let Some(size) = front(buffer.get(at..).unwrap_or_default())? {
        let message = checked(buffer.get(at..at + size).unwrap_or_default(), checks.crcs)?;
        if inside.is_some_and(|magic| magic != message.magic) || message.is_compressed() {
            return Err(Corruption::Nesting);
        }
        if checks.strict && message.unknown_attributes() {
            return Err(Corruption::Attributes);
        }
        let first = met.as_ref().map_or(message.offset, |met| met.first);
        if met.as_ref().is_some_and(|met| message.offset <= met.last) {
            return Err(Corruption::OffsetDelta);
        }
        let delta = i32::try_from(message.offset - first).map_err(|_| Corruption::OffsetDelta)?;
        written = message
            .write(buffer, at, written, delta)
            .ok_or(Corruption::Field)?;
        met = Some(Rewritten {
            first,
            last: message.offset,
            count: met.as_ref().map_or(1, |met| met.count + 1),
            max_timestamp: met.map_or(message.timestamp, |met| {
                met.max_timestamp.max(message.timestamp)
            }),
        });
        at += size;
    }
    buffer.truncate(written);
    met.ok_or(Corruption::Wrapper)
}

impl Message {
    fn codec(&self) -> Result<Compression, u8> {
        match Compression::from_attributes(u16::from(self.attributes)) {
            // Zstandard is younger than these versions.
            Ok(Compression::Zstd) => Err(4),
            codec => codec,
        }
    }

    fn is_compressed(&self) -> bool {
        self.codec() != Ok(Compression::None)
    }

    /// Whether its timestamp is that of the append (KIP-32).
    fn append_time(&self) -> bool {
        self.magic == 1 && u16::from(self.attributes) & LOG_APPEND_TIME != 0
    }

    /// Whether `next` can share a header with this message, `last` being the offset between them.
    fn continues(&self, next: &Self, last: i64) -> bool {
        next.magic == self.magic
            && next.attributes == self.attributes
            && next.offset > last
            && (!self.append_time() || next.timestamp == self.timestamp)
    }

    fn unknown_attributes(&self) -> bool {
        let known = if self.magic == 0 { 0b0111 } else { 0b1111 };
        self.attributes & !known != 0
    }

    fn header(&self, base_offset: Offset, last_offset_delta: i32) -> BatchHeader {
        BatchHeader {
            base_offset,
            last_offset_delta,
            leader_epoch: None,
            codec: self.codec(),
            timestamp_type: if self.append_time() {
                TimestampType::LogAppendTime
            } else {
                TimestampType::CreateTime
            },
            transactional: false,
            control: false,
            base_timestamp: 0,
            max_timestamp: self.timestamp,
            producer_id: None,
            producer_epoch: -1,
            base_sequence: -1,
            count: 0,
            unknown_attributes: self.unknown_attributes(),
        }
    }

    /// Writes this message, which begins at `at` in `buffer`, as a record at `to`, not behind it.
    /// Returns the record's end.
    fn write(&self, buffer: &mut [u8], at: usize, to: usize, delta: i32) -> Option<usize> {
        let (key, value) = (i64::from(self.key.length), i64::from(self.value.length));
        let (timestamp, delta) = (self.timestamp, i64::from(delta));
        let content = 1
            + varint::size(timestamp)
            + varint::size(delta)
            + varint::size(key)
            + self.key.place.len()
            + varint::size(value)
            + self.value.place.len()
            + 1;
        let mut record = Rewriter { buffer, at: to };
        record.varint(i64::try_from(content).ok()?)?;
        record.byte(0)?;
        record.varint(timestamp)?;
        record.varint(delta)?;
        record.varint(key)?;
        record.shift(at, &self.key.place)?;
        record.varint(value)?;
        record.shift(at, &self.value.place)?;
        record.byte(0)?;
        Some(record.at)
    }
}

/// Writes over bytes that were read.
struct Rewriter<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl Rewriter<'_> {
    fn byte(&mut self, byte: u8) -> Option<()> {
        *self.buffer.get_mut(self.at)? = byte;
        self.at += 1;
        Some(())
    }

    fn varint(&mut self, value: i64) -> Option<()> {
        let room = self.buffer.get_mut(self.at..)?;
        self.at += varint::put_i64(room, value)?;
        Some(())
    }

    /// Moves the bytes at `place` of the message at `message` down to here.
    fn shift(&mut self, message: usize, place: &Range<usize>) -> Option<()> {
        let from = message + place.start..message + place.end;
        if from.end > self.buffer.len() || from.start < self.at {
            return (from.is_empty()).then_some(());
        }
        self.buffer.copy_within(from, self.at);
        self.at += place.len();
        Some(())
    }
}

/// Size of the message at the front of `set`; `None` at its end or at a cut one (B1).
pub(super) fn front(set: &[u8]) -> Result<Option<usize>, Corruption> {
    let Some([_, _, _, _, _, _, _, _, l0, l1, l2, l3, _, _, _, _, _magic]) =
        set.first_chunk::<MAGIC_END>()
    else {
        return Ok(None);
    };
    let length = i32::from_be_bytes([*l0, *l1, *l2, *l3]);
    let size = usize::try_from(length)
        .unwrap_or(0)
        .saturating_add(LENGTH_END);
    if length < LENGTH_MIN {
        return Err(Corruption::Length(length));
    }
    Ok((size <= set.len()).then_some(size))
}

/// The message in `bytes`, once its checksum held.
fn checked(bytes: &[u8], check_crcs: bool) -> Result<Message, Corruption> {
    if check_crcs {
        let covered = bytes.get(CHECKSUM_END..).unwrap_or_default();
        let sum = crc_fast::checksum(CrcAlgorithm::Crc32IsoHdlc, covered);
        let told = bytes.get(LENGTH_END..CHECKSUM_END).unwrap_or_default();
        if u32::try_from(sum).unwrap_or_default().to_be_bytes() != told {
            return Err(Corruption::Checksum);
        }
    }
    parse(bytes)
}

fn parse(bytes: &[u8]) -> Result<Message, Corruption> {
    let mut rest = bytes;
    let offset = i64::from_be_bytes(take(&mut rest)?);
    let length = i32::from_be_bytes(take(&mut rest)?);
    let [_, _, _, _, magic, attributes] = take(&mut rest)?;
    let timestamp = match magic {
        0 => -1,
        1 if length >= LENGTH_MIN_1 => i64::from_be_bytes(take(&mut rest)?),
        1 => return Err(Corruption::Length(length)),
        _ => return Err(Corruption::Nesting),
    };
    let key = field(bytes, &mut rest)?;
    let value = field(bytes, &mut rest)?;
    match (offset, rest.len()) {
        (..0 | i64::MAX, _) => Err(Corruption::Offsets),
        (_, 0) => Ok(Message {
            offset,
            magic,
            attributes,
            timestamp,
            key,
            value,
        }),
        (_, trailing) => Err(Corruption::TrailingBytes(trailing)),
    }
}

/// One field with a length of 32 bits before it.
fn field(message: &[u8], rest: &mut &[u8]) -> Result<Field, Corruption> {
    let length = i32::from_be_bytes(take(rest)?);
    let size = usize::try_from(length).unwrap_or(0);
    let start = message.len() - rest.len();
    let (_field, after) = rest.split_at_checked(size).ok_or(Corruption::Field)?;
    *rest = after;
    Ok(Field {
        length,
        place: start..start + size,
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Corruption> {
    let (taken, after) = rest.split_first_chunk::<N>().ok_or(Corruption::Field)?;
    *rest = after;
    Ok(*taken)
}

/// Plain messages are opened together, as long as that is quick.
const RUN_BYTES_MAX: usize = 64 * 1024;
/// End of the length field.
const LENGTH_END: usize = 12;
/// End of the checksum field: the checksum covers what follows.
const CHECKSUM_END: usize = 16;
/// End of the magic byte.
const MAGIC_END: usize = 17;
/// Length of a message of version 0 without key and value.
const LENGTH_MIN: i32 = 14;
/// The same at version 1, which has a timestamp.
const LENGTH_MIN_1: i32 = 22;
