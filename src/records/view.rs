//! One batch as it travels through the process: bytes and a parsed header.

use bytes::Bytes;

use crate::ids::{LeaderEpoch, Offset};

use super::codec::{self, Charge, Compression, Uncharged};
use super::error::{BatchError, Corruption, InflateError, Place, PoisonReason};
use super::header::{BatchHeader, HEADER_BYTES, TimestampType};
use super::legacy::{self, Unopened};
use super::record::{RecordCursor, Records};

/// Smallest record: seven one-byte fields (B7).
const RECORD_BYTES_MIN: usize = 7;

/// What lies in the bytes of a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// Records that can be read.
    Open,
    /// A compressed body.
    Packed,
    /// Messages of version 0 or 1, compressed or not.
    Legacy,
}

/// One checked batch: a slice of the frame it came in, or the inflated body, and its header.
///
/// Cloning counts one reference up; the view can be sent to any thread. It remembers the first
/// offset wanted: records before it are passed over.
#[derive(Clone, Debug)]
pub struct BatchView {
    bytes: Bytes,
    /// Where the records begin in `bytes`: behind the header, or 0 once inflated.
    body_at: usize,
    header: BatchHeader,
    first_wanted: Offset,
    size: usize,
    form: Form,
    /// Whether the checksum was compared and held.
    vouched: bool,
    /// Whether what is tolerated and counted is an error instead.
    strict: bool,
}

impl BatchView {
    /// Wraps one whole, checked batch.
    pub(super) fn new(
        bytes: Bytes,
        header: BatchHeader,
        first_wanted: Offset,
        vouched: bool,
    ) -> Result<Self, BatchError> {
        let size = bytes.len();
        let codec = header.codec;
        let form = match codec {
            Ok(Compression::None) => Form::Open,
            Ok(_) | Err(_) => Form::Packed,
        };
        let view = Self {
            bytes,
            body_at: HEADER_BYTES,
            header,
            first_wanted,
            size,
            form,
            vouched,
            strict: false,
        };
        match codec {
            Err(number) => Err(view.poison(PoisonReason::UnknownCodec(number))),
            Ok(Compression::None) => view.checked_count(),
            Ok(_) => view.checked_deltas(),
        }
    }

    /// Wraps checked messages of version 0 or 1 that share a header.
    pub(super) fn legacy(
        bytes: Bytes,
        header: BatchHeader,
        first_wanted: Offset,
        vouched: bool,
    ) -> Result<Self, BatchError> {
        let view = Self {
            size: bytes.len(),
            bytes,
            body_at: 0,
            header,
            first_wanted,
            form: Form::Legacy,
            vouched,
            strict: false,
        };
        match header.codec {
            Err(number) => Err(view.poison(PoisonReason::UnknownCodec(number))),
            Ok(_) => Ok(view),
        }
    }

    /// The same, read strictly or not.
    pub(super) fn reading(self, strict: bool) -> Self {
        Self { strict, ..self }
    }

    pub(super) fn is_strict(&self) -> bool {
        self.strict
    }

    /// The parsed header.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Offset that deltas count from.
    pub fn base_offset(&self) -> Offset {
        self.header.base_offset
    }

    /// Offset of the last record the batch covers, present or compacted away.
    pub fn last_offset(&self) -> Offset {
        self.header.last_offset()
    }

    /// Where the position stands once this batch is done with, whatever is left inside (B8).
    pub fn next_offset(&self) -> Offset {
        self.header.next_offset()
    }

    /// First offset that [`BatchView::records`] yields, if it is there.
    pub fn first_wanted(&self) -> Offset {
        self.first_wanted
    }

    /// The same batch without the records before `offset`; never gives back what was already left
    /// out.
    #[must_use]
    pub fn starting_at(mut self, offset: Offset) -> Self {
        self.first_wanted = self.first_wanted.max(offset);
        self
    }

    /// Leader epoch at which the batch was appended, if known.
    pub fn leader_epoch(&self) -> Option<LeaderEpoch> {
        self.header.leader_epoch
    }

    /// Codec the batch came with.
    pub fn compression(&self) -> Compression {
        self.header.codec.unwrap_or(Compression::None)
    }

    /// What the timestamps mean.
    pub fn timestamp_type(&self) -> TimestampType {
        self.header.timestamp_type
    }

    /// Number of records present, those before [`BatchView::first_wanted`] included. Nobody knows
    /// it of a compressed message of version 0 or 1 before it is inflated: 0.
    pub fn count(&self) -> u32 {
        self.header.count
    }

    /// Size of the batch on the wire, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Bytes of memory this view keeps readable: its slice of the frame, or the inflated body.
    pub fn held_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the body must be inflated before records can be read. So must plain messages of
    /// versions 0 and 1: they are rewritten as records of version 2.
    pub fn is_compressed(&self) -> bool {
        self.form != Form::Open
    }

    /// The batch exactly as it came, if it was not inflated.
    pub fn raw(&self) -> Option<&Bytes> {
        (self.body_at > 0 || self.form == Form::Legacy).then_some(&self.bytes)
    }

    /// The records, from the first wanted one on. A batch that is still compressed yields one
    /// error.
    pub fn records(&self) -> Records<'_> {
        Records::new(self, RecordCursor::START)
    }

    /// The records behind `cursor`, which [`Records::cursor`] of this view gave: no rescan.
    pub fn records_from(&self, cursor: RecordCursor) -> Records<'_> {
        Records::new(self, cursor)
    }

    /// Bytes of the records behind `cursor`, which [`Records::cursor`] of this view gave.
    pub fn bytes_from(&self, cursor: RecordCursor) -> usize {
        cursor.rest(self.body()).len()
    }

    /// The records behind `cursor`, which [`Records::cursor`] of this view gave, in memory of their
    /// own, which `copy` makes: whoever keeps them keeps no frame.
    #[must_use]
    pub fn copied_from(&self, cursor: RecordCursor, copy: impl FnOnce(&[u8]) -> Bytes) -> Self {
        if self.is_compressed() {
            return self.clone();
        }
        let (rest, passed) = (cursor.rest(self.body()), cursor.records_passed());
        let count = self.header.count.saturating_sub(passed);
        Self {
            bytes: copy(rest),
            body_at: 0,
            header: BatchHeader {
                count,
                ..self.header
            },
            first_wanted: self.records_from(cursor).position(),
            ..self.clone()
        }
    }

    /// The same batch with its body inflated once, to at most `limit` bytes
    /// (`wire.batch.inflated.max.bytes`). A batch that is open already is returned as it is.
    ///
    /// # Errors
    /// Poison if it would inflate beyond `limit`; corrupt if it does not decode or cannot hold its
    /// count; [`BatchError::NoMemory`] if another try may fare better.
    pub fn inflate(&self, limit: usize) -> Result<Self, BatchError> {
        self.inflate_charged(limit, Uncharged)
            .map_err(|error| match error {
                InflateError::Batch(error) => error,
                // `Uncharged` refuses nothing.
                InflateError::NoRoom { .. } => self.poison(PoisonReason::Inflated { limit }),
            })
    }

    /// [`BatchView::inflate`], with every growth of the output asked of `charge` first. The charge
    /// lives as long as the inflated bytes: it is dropped with the last slice of them, or here if
    /// inflating fails.
    ///
    /// # Errors
    /// Those of [`BatchView::inflate`], and [`InflateError::NoRoom`] once `charge` refuses.
    pub fn inflate_charged<C: Charge>(
        &self,
        limit: usize,
        charge: C,
    ) -> Result<Self, InflateError> {
        let (bytes, header) = match self.form {
            Form::Open => return Ok(self.clone()),
            Form::Packed => self.unpack(limit, charge)?,
            Form::Legacy => {
                let checks = legacy::Checks {
                    crcs: self.vouched,
                    strict: self.strict,
                };
                legacy::open(&self.bytes, &self.header, checks, limit, charge)
                    .map_err(|why| self.unopened(why, limit))?
            }
        };
        let open = Self {
            bytes,
            body_at: 0,
            header,
            form: Form::Open,
            ..self.clone()
        };
        Ok(open.checked_count()?)
    }

    fn unpack<C: Charge>(
        &self,
        limit: usize,
        mut charge: C,
    ) -> Result<(Bytes, BatchHeader), InflateError> {
        let body = codec::inflate(self.compression(), self.body(), limit, &mut charge)
            .map_err(|fault| self.unopened(Unopened::Codec(fault), limit))?;
        Ok((codec::charged(body, charge), self.header))
    }

    fn unopened(&self, why: Unopened, limit: usize) -> InflateError {
        match why {
            Unopened::Codec(codec::Fault::NoRoom { bytes }) => InflateError::NoRoom { bytes },
            Unopened::Codec(codec::Fault::NoMemory) => {
                let offset = self.first_wanted;
                BatchError::NoMemory { offset }.into()
            }
            Unopened::Codec(codec::Fault::Limit) => {
                self.poison(PoisonReason::Inflated { limit }).into()
            }
            Unopened::Codec(codec::Fault::Corrupt) => self.undecodable().into(),
            Unopened::Corrupt(reason) => self.corrupt(reason).into(),
        }
    }

    /// The record section: compressed or not.
    pub(super) fn body(&self) -> &[u8] {
        self.bytes.get(self.body_at..).unwrap_or_default()
    }

    pub(super) fn shared_bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// This batch as the place of an error found while `position` was the first offset not
    /// delivered.
    pub(super) fn place(&self, position: Offset) -> Place {
        let next = self.vouched.then(|| self.next_offset());
        let next = next.filter(|next| *next > position);
        Place {
            position,
            base: self.base_offset(),
            next,
            size: self.size,
        }
    }

    pub(super) fn corrupt(&self, reason: Corruption) -> BatchError {
        BatchError::Corrupt {
            at: self.place(self.first_wanted),
            reason,
        }
    }

    /// What is said of a batch whose body does not decode.
    pub(crate) fn undecodable(&self) -> BatchError {
        self.corrupt(Corruption::Codec(self.compression()))
    }

    fn poison(&self, reason: PoisonReason) -> BatchError {
        BatchError::Poison {
            at: self.place(self.first_wanted),
            reason,
        }
    }

    /// B7 on an open body.
    fn checked_count(self) -> Result<Self, BatchError> {
        let body = self.body().len();
        let fits = usize::try_from(self.header.count)
            .is_ok_and(|count| count <= body / RECORD_BYTES_MIN && (count > 0 || body == 0));
        if fits {
            self.checked_deltas()
        } else {
            Err(self.bad_count())
        }
    }

    /// The part of B7 that needs no body: each record has a delta of its own.
    fn checked_deltas(self) -> Result<Self, BatchError> {
        let deltas = i64::from(self.header.last_offset_delta) + 1;
        if i64::from(self.header.count) <= deltas {
            Ok(self)
        } else {
            Err(self.bad_count())
        }
    }

    fn bad_count(&self) -> BatchError {
        self.corrupt(Corruption::Count(self.header.count.cast_signed()))
    }
}

/// `part`, which lies inside `owner`, as a `Bytes` that shares its memory.
pub(super) fn shared_slice(owner: &Bytes, part: &[u8]) -> Bytes {
    let at = part.as_ptr().addr().wrapping_sub(owner.as_ptr().addr());
    match at.checked_add(part.len()) {
        Some(end) if end <= owner.len() => owner.slice(at..end),
        // Not reached for slices of the owner; a copy is right in any case.
        _ => Bytes::copy_from_slice(part),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BatchSet, BatchWriter, NewRecord, ReadSettings};
    use super::*;

    #[test]
    fn a_batch_that_found_no_memory_is_not_to_blame_and_is_never_skipped() {
        let mut writer = BatchWriter::new(Compression::Zstd);
        writer.push(&NewRecord::default()).unwrap();
        let bytes = writer.seal().unwrap();
        let mut set = BatchSet::new(bytes, Offset(0), ReadSettings::default());
        let view = set.next().unwrap().unwrap();
        let told = view.unopened(Unopened::Codec(codec::Fault::NoMemory), 100);
        let error = BatchError::NoMemory { offset: Offset(0) };
        assert_eq!(told, InflateError::Batch(error));
        assert_eq!((error.skip_to(), error.place()), (None, None));
        assert_eq!(error.confirmed(), error, "no copy could be better");
    }
}
