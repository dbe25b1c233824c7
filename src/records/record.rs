//! Records inside an open batch: one pass, borrowed, nothing allocated (wire.md 8.2).

use bytes::Bytes;

use crate::ids::Offset;

use super::error::{BatchError, Corruption};
use super::header::TimestampType;
use super::headers::Headers;
use super::varint;
use super::view::{BatchView, shared_slice};

/// One record, borrowed from its batch.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp in ms, of the batch's [`TimestampType`].
    pub timestamp: i64,
    /// Its key; null and empty are different things.
    pub key: Option<&'a [u8]>,
    /// Its value; null and empty are different things.
    pub value: Option<&'a [u8]>,
    /// Its headers, not yet parsed.
    pub headers: Headers<'a>,
    owner: &'a Bytes,
}

impl Record<'_> {
    /// The key as a slice of the frame that shares its memory. Whoever keeps it pins the whole
    /// frame.
    pub fn key_bytes(&self) -> Option<Bytes> {
        self.key.map(|key| shared_slice(self.owner, key))
    }

    /// The value as a slice of the frame that shares its memory. Whoever keeps it pins the whole
    /// frame.
    pub fn value_bytes(&self) -> Option<Bytes> {
        self.value.map(|value| shared_slice(self.owner, value))
    }

    /// The raw header block as a slice of the frame; parse it with [`Headers::from_raw`].
    pub fn headers_bytes(&self) -> Bytes {
        shared_slice(self.owner, self.headers.raw())
    }

    /// Bytes of key, value and headers together.
    pub fn payload_bytes(&self) -> usize {
        let (key, value) = (self.key.unwrap_or_default(), self.value.unwrap_or_default());
        key.len() + value.len() + self.headers.raw().len()
    }
}

/// A place between two records of a batch, from which reading can go on without a rescan.
///
/// It is only meaningful for the view it came from, or clones of that view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordCursor {
    /// Byte position in the body.
    at: usize,
    /// Records passed, skipped ones included.
    read: u32,
    /// Offset delta of the last record passed; -1 before the first.
    delta: i32,
}

impl RecordCursor {
    /// The place before the first record.
    pub(crate) const START: Self = Self {
        at: 0,
        read: 0,
        delta: -1,
    };

    /// Records of the batch that were passed, those before the fetch offset included.
    pub fn records_passed(&self) -> u32 {
        self.read
    }

    /// What lies behind it in `body`.
    pub(super) fn rest(self, body: &[u8]) -> &[u8] {
        body.get(self.at..).unwrap_or_default()
    }
}

/// Iterator over the records of an open batch, those before its first wanted offset left out.
///
/// It ends after the first error. Everything it yielded before is good (E6).
#[derive(Clone, Debug)]
pub struct Records<'a> {
    view: &'a BatchView,
    rest: &'a [u8],
    base: i64,
    base_timestamp: i64,
    from: i64,
    last_delta: i32,
    delta: i32,
    left: u32,
    append_time: bool,
    /// Set if reading ended before the end of the batch: where the position stands.
    stopped_at: Option<Offset>,
    /// The batch is still compressed, and nobody was told yet.
    unopened: bool,
    odd_nulls: u32,
}

impl<'a> Records<'a> {
    pub(super) fn new(view: &'a BatchView, cursor: RecordCursor) -> Self {
        let header = view.header();
        let append_time = header.timestamp_type == TimestampType::LogAppendTime;
        let base_timestamp = if append_time {
            header.max_timestamp
        } else {
            header.base_timestamp
        };
        let (body, count, stopped_at) = if view.is_compressed() {
            (&[][..], 0, Some(view.first_wanted()))
        } else {
            (cursor.rest(view.body()), header.count, None)
        };
        Self {
            view,
            rest: body,
            base: header.base_offset.0,
            base_timestamp,
            from: view.first_wanted().0,
            last_delta: header.last_offset_delta,
            delta: cursor.delta,
            left: count.saturating_sub(cursor.read),
            append_time,
            stopped_at,
            unopened: view.is_compressed(),
            odd_nulls: 0,
        }
    }

    /// The place behind the last record yielded.
    pub fn cursor(&self) -> RecordCursor {
        RecordCursor {
            at: self.view.body().len().saturating_sub(self.rest.len()),
            read: self.view.header().count.saturating_sub(self.left),
            delta: self.delta,
        }
    }

    /// First offset not yet passed: where the position stands if reading stops here.
    pub fn position(&self) -> Offset {
        match self.stopped_at {
            Some(position) => position,
            None if self.left == 0 && self.rest.is_empty() => self.view.next_offset(),
            None => self.position_inside(),
        }
    }

    /// The first record, be it before the first one wanted.
    pub(super) fn first(mut self) -> Option<Result<Record<'a>, BatchError>> {
        if self.left == 0 {
            return self.finish().map(Err);
        }
        Some(self.read().map_err(|reason| self.fail(reason)))
    }

    /// Key and value lengths below -1 met so far: read as null, and worth counting (E3).
    pub fn odd_nulls(&self) -> u32 {
        self.odd_nulls
    }

    fn position_inside(&self) -> Offset {
        let behind = self
            .base
            .saturating_add(i64::from(self.delta))
            .saturating_add(1);
        Offset(behind.max(self.from))
    }

    #[inline(always)]
    fn read(&mut self) -> Result<Record<'a>, Corruption> {
        let mut rest = self.rest;
        let length = varint::read_i32(&mut rest).ok_or(Corruption::RecordLength)?;
        let length = usize::try_from(length).map_err(|_| Corruption::RecordLength)?;
        let (mut record, rest) = rest
            .split_at_checked(length)
            .ok_or(Corruption::RecordLength)?;
        let (_attributes, after) = record.split_first().ok_or(Corruption::RecordLength)?;
        record = after;
        let timestamp_delta = varint::read_i64(&mut record).ok_or(Corruption::Field)?;
        let delta = varint::read_i32(&mut record).ok_or(Corruption::Field)?;
        if delta <= self.delta || delta > self.last_delta {
            return Err(Corruption::OffsetDelta);
        }
        let key = self.field(&mut record)?;
        let value = self.field(&mut record)?;
        let timestamp = if self.append_time {
            self.base_timestamp
        } else {
            self.base_timestamp
                .checked_add(timestamp_delta)
                .ok_or(Corruption::Timestamp)?
        };
        self.rest = rest;
        self.delta = delta;
        self.left -= 1;
        Ok(Record {
            // Checked once per batch: base + last delta does not overflow.
            offset: Offset(self.base.wrapping_add(i64::from(delta))),
            timestamp,
            key,
            value,
            headers: Headers::from_raw(record),
            owner: self.view.shared_bytes(),
        })
    }

    /// One length-prefixed field; a negative length is null.
    #[inline(always)]
    fn field(&mut self, record: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Corruption> {
        let length = varint::read_i32(record).ok_or(Corruption::Field)?;
        let Ok(length) = usize::try_from(length) else {
            let odd = length < -1;
            if odd && self.view.is_strict() {
                return Err(Corruption::Field);
            }
            self.odd_nulls = self.odd_nulls.saturating_add(u32::from(odd));
            return Ok(None);
        };
        let (field, rest) = record.split_at_checked(length).ok_or(Corruption::Field)?;
        *record = rest;
        Ok(Some(field))
    }

    /// The end of the batch, or the reason why it is none (E5).
    #[cold]
    fn finish(&mut self) -> Option<BatchError> {
        if self.unopened {
            self.unopened = false;
            return Some(BatchError::StillCompressed {
                base: self.view.base_offset(),
            });
        }
        let trailing = self.rest.len();
        (trailing > 0).then(|| self.fail(Corruption::TrailingBytes(trailing)))
    }

    #[cold]
    fn fail(&mut self, reason: Corruption) -> BatchError {
        let position = self.position_inside();
        let at = self.view.place(position);
        self.stopped_at = Some(position);
        self.left = 0;
        self.rest = &[];
        BatchError::Corrupt { at, reason }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, BatchError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.left == 0 {
                return self.finish().map(Err);
            }
            match self.read() {
                Ok(record) if record.offset.0 >= self.from => return Some(Ok(record)),
                Ok(_earlier) => {}
                Err(reason) => return Some(Err(self.fail(reason))),
            }
        }
    }
}
