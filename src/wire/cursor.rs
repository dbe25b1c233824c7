//! The one reader of peer bytes: every read fails when fewer bytes remain (wire.md 7).

use std::mem::size_of;
use std::str;

use bytes::Bytes;

pub(crate) use super::flaw::{Flaw, Malformed, Oddities};

/// Longest topic name Kafka allows, in bytes.
pub(crate) const TOPIC_MAX: usize = 249;
/// Longest host or rack accepted, in bytes.
pub(crate) const HOST_MAX: usize = 255;
/// Longest other identifier: what a classic string can carry.
pub(crate) const IDENTIFIER_MAX: usize = 32_767;

/// Longest broker message kept, in bytes; the rest is cut.
const MESSAGE_MAX: usize = 1_024;
/// Most elements reserved ahead of their bytes.
const RESERVE_MAX: usize = 1_024;
/// Decoded bytes allowed per wire byte, on top of `BASE_BUDGET`.
const INFLATION_MAX: usize = 16;
/// Decoded bytes allowed whatever the input.
const BASE_BUDGET: usize = 64 * 1_024;
/// Decoded bytes allowed at most.
const DECODED_MAX: usize = 128 * 1_024 * 1_024;
/// What a shared string costs beside its text.
const SHARED_TEXT_OVERHEAD: usize = 2 * size_of::<usize>();

/// What was read or an honest reason why not.
pub(crate) type Read<T> = Result<T, Malformed>;

/// A position inside one frame. Lengths are compact when `flexible`.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    frame: &'a Bytes,
    at: usize,
    end: usize,
    flexible: bool,
    budget: usize,
    pub(crate) oddities: Oddities,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(frame: &'a Bytes, flexible: bool) -> Self {
        let budget = frame
            .len()
            .saturating_mul(INFLATION_MAX)
            .saturating_add(BASE_BUDGET);
        Self {
            frame,
            at: 0,
            end: frame.len(),
            flexible,
            budget: budget.min(DECODED_MAX),
            oddities: Oddities::default(),
        }
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn flexible(&self) -> bool {
        self.flexible
    }

    fn remaining(&self) -> usize {
        self.end.saturating_sub(self.at)
    }

    pub(crate) fn fail<T>(&self, field: &'static str, flaw: Flaw) -> Read<T> {
        Err(Malformed {
            field,
            at: self.at,
            flaw,
        })
    }

    /// Charges `bytes` of decoded size.
    fn charge(&mut self, field: &'static str, bytes: usize) -> Read<()> {
        match self.budget.checked_sub(bytes) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => self.fail(field, Flaw::TooMuchMemory),
        }
    }

    fn take(&mut self, field: &'static str, length: usize) -> Read<&'a [u8]> {
        if length > self.remaining() {
            return self.fail(field, Flaw::Truncated);
        }
        let Some(slice) = self.frame.get(self.at..self.at + length) else {
            return self.fail(field, Flaw::Truncated);
        };
        self.at += length;
        Ok(slice)
    }

    fn array_of<const N: usize>(&mut self, field: &'static str) -> Read<[u8; N]> {
        let at = self.at;
        let slice = self.take(field, N)?;
        slice.try_into().map_err(|_| Malformed {
            field,
            at,
            flaw: Flaw::Truncated,
        })
    }

    pub(crate) fn i8(&mut self, field: &'static str) -> Read<i8> {
        self.array_of(field).map(i8::from_be_bytes)
    }

    pub(crate) fn i16(&mut self, field: &'static str) -> Read<i16> {
        self.array_of(field).map(i16::from_be_bytes)
    }

    pub(crate) fn i32(&mut self, field: &'static str) -> Read<i32> {
        self.array_of(field).map(i32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self, field: &'static str) -> Read<i64> {
        self.array_of(field).map(i64::from_be_bytes)
    }

    pub(crate) fn u128(&mut self, field: &'static str) -> Read<u128> {
        self.array_of(field).map(u128::from_be_bytes)
    }

    /// Non-zero is true.
    pub(crate) fn bool(&mut self, field: &'static str) -> Read<bool> {
        self.i8(field).map(|value| value != 0)
    }

    /// An unsigned varint of at most five bytes; padded forms are accepted.
    pub(crate) fn uvarint(&mut self, field: &'static str) -> Read<u32> {
        let start = self.at;
        let mut value = 0_u64;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array_of(field)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| Malformed {
                    field,
                    at: start,
                    flaw: Flaw::Varint,
                });
            }
        }
        Err(Malformed {
            field,
            at: start,
            flaw: Flaw::Varint,
        })
    }

    /// A compact length: 0 is null, n is n - 1.
    fn compact_length(&mut self, field: &'static str) -> Read<Option<usize>> {
        let value = self.uvarint(field)?;
        match value.checked_sub(1) {
            None => Ok(None),
            Some(length) => Ok(Some(usize::try_from(length).unwrap_or(usize::MAX))),
        }
    }

    /// A classic length: -1 is null, below is malformed.
    fn classic_length(&mut self, field: &'static str, length: i32) -> Read<Option<usize>> {
        match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) if length == -1 => Ok(None),
            Err(_) => self.fail(field, Flaw::NegativeLength),
        }
    }

    fn text_length(&mut self, field: &'static str) -> Read<Option<usize>> {
        if self.flexible {
            return self.compact_length(field);
        }
        let length = self.i16(field)?;
        self.classic_length(field, length.into())
    }

    fn block_length(&mut self, field: &'static str) -> Read<Option<usize>> {
        if self.flexible {
            return self.compact_length(field);
        }
        let length = self.i32(field)?;
        self.classic_length(field, length)
    }

    /// A nullable identifier of at most `max` bytes, borrowed from the frame.
    pub(crate) fn nullable_text(
        &mut self,
        field: &'static str,
        max: usize,
    ) -> Read<Option<&'a str>> {
        let Some(length) = self.text_length(field)? else {
            return Ok(None);
        };
        if length > max {
            return self.fail(field, Flaw::TooLong);
        }
        let at = self.at;
        let bytes = self.take(field, length)?;
        self.charge(field, length + SHARED_TEXT_OVERHEAD)?;
        match str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(Malformed {
                field,
                at,
                flaw: Flaw::NotUtf8,
            }),
        }
    }

    /// An identifier of at most `max` bytes, borrowed from the frame.
    pub(crate) fn text(&mut self, field: &'static str, max: usize) -> Read<&'a str> {
        match self.nullable_text(field, max)? {
            Some(text) => Ok(text),
            None => self.fail(field, Flaw::UnexpectedNull),
        }
    }

    /// A broker's message: lossy, control characters escaped, cut at 1 KiB.
    pub(crate) fn message(&mut self, field: &'static str) -> Read<Option<String>> {
        let Some(length) = self.text_length(field)? else {
            return Ok(None);
        };
        let bytes = self.take(field, length)?;
        let kept = bytes.get(..MESSAGE_MAX).unwrap_or(bytes);
        let mut text = String::new();
        for character in String::from_utf8_lossy(kept).chars() {
            if character.is_control() {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        while text.len() > MESSAGE_MAX {
            text.pop();
        }
        self.charge(field, text.len())?;
        Ok(Some(text))
    }

    /// Nullable bytes, as a slice of the frame.
    pub(crate) fn nullable_bytes(&mut self, field: &'static str) -> Read<Option<Bytes>> {
        let Some(length) = self.block_length(field)? else {
            return Ok(None);
        };
        let start = self.at;
        self.take(field, length)?;
        Ok(Some(self.frame.slice(start..start + length)))
    }

    /// Bytes, as a slice of the frame.
    pub(crate) fn bytes(&mut self, field: &'static str) -> Read<Bytes> {
        match self.nullable_bytes(field)? {
            Some(bytes) => Ok(bytes),
            None => self.fail(field, Flaw::UnexpectedNull),
        }
    }

    /// The part of the frame between `start` and here.
    pub(crate) fn since(&self, start: usize) -> Bytes {
        self.frame.slice(start.min(self.at)..self.at)
    }

    /// The count of an array whose elements take at least `min_size` bytes each.
    pub(crate) fn nullable_count(
        &mut self,
        field: &'static str,
        min_size: usize,
    ) -> Read<Option<usize>> {
        let Some(count) = self.block_length(field)? else {
            return Ok(None);
        };
        if count > self.remaining() / min_size.max(1) {
            return self.fail(field, Flaw::CountTooLarge);
        }
        Ok(Some(count))
    }

    /// The count of an array that may not be null.
    pub(crate) fn count(&mut self, field: &'static str, min_size: usize) -> Read<usize> {
        match self.nullable_count(field, min_size)? {
            Some(count) => Ok(count),
            None => self.fail(field, Flaw::UnexpectedNull),
        }
    }

    /// A nullable array whose elements take at least `min_size` bytes each.
    pub(crate) fn nullable_array<T>(
        &mut self,
        field: &'static str,
        min_size: usize,
        mut read: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Option<Vec<T>>> {
        let Some(count) = self.nullable_count(field, min_size)? else {
            return Ok(None);
        };
        let mut items = Vec::with_capacity(count.min(RESERVE_MAX));
        for _ in 0..count {
            self.charge(field, size_of::<T>())?;
            items.push(read(self)?);
        }
        Ok(Some(items))
    }

    /// An array whose elements take at least `min_size` bytes each.
    pub(crate) fn array<T>(
        &mut self,
        field: &'static str,
        min_size: usize,
        read: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<T>> {
        match self.nullable_array(field, min_size, read)? {
            Some(items) => Ok(items),
            None => self.fail(field, Flaw::UnexpectedNull),
        }
    }

    /// The tagged fields at the end of a structure; nothing at versions without them.
    ///
    /// `known` reads the tags it knows and answers whether it did. Each is confined to its own
    /// size.
    pub(crate) fn tagged(
        &mut self,
        mut known: impl FnMut(&mut Self, u32) -> Read<bool>,
    ) -> Read<()> {
        const FIELD: &str = "tagged fields";
        if !self.flexible {
            return Ok(());
        }
        let count = usize::try_from(self.uvarint(FIELD)?).unwrap_or(usize::MAX);
        if count > self.remaining() / 2 {
            return self.fail(FIELD, Flaw::Tags);
        }
        let mut previous = None;
        for _ in 0..count {
            let tag = self.uvarint(FIELD)?;
            if previous.is_some_and(|previous| tag <= previous) {
                return self.fail(FIELD, Flaw::Tags);
            }
            previous = Some(tag);
            self.one_tag(tag, &mut known)?;
        }
        Ok(())
    }

    fn one_tag(
        &mut self,
        tag: u32,
        known: &mut impl FnMut(&mut Self, u32) -> Read<bool>,
    ) -> Read<()> {
        const FIELD: &str = "tagged field size";
        let size = usize::try_from(self.uvarint(FIELD)?).unwrap_or(usize::MAX);
        if size > self.remaining() {
            return self.fail(FIELD, Flaw::Truncated);
        }
        let outer = self.end;
        let end = self.at + size;
        self.end = end;
        let read = known(self, tag)?;
        if !read || self.at != end {
            self.oddities.unknown_tags = self.oddities.unknown_tags.saturating_add(1);
        }
        self.at = end;
        self.end = outer;
        Ok(())
    }

    /// Tagged fields of a structure in which none is known.
    pub(crate) fn no_tags(&mut self) -> Read<()> {
        self.tagged(|_, _| Ok(false))
    }

    /// Ends the reading: what is left is counted.
    pub(crate) fn finish(mut self) -> Oddities {
        self.oddities.trailing_bytes = self.remaining();
        self.oddities
    }

    /// Drops rows that repeat an earlier one and counts them.
    pub(crate) fn keep_first<T, K: Ord>(&mut self, rows: &mut Vec<T>, key: impl Fn(&T) -> K) {
        if rows.is_sorted_by(|left, right| key(left) < key(right)) {
            return;
        }
        let before = rows.len();
        let mut seen = std::collections::BTreeSet::new();
        rows.retain(|row| seen.insert(key(row)));
        self.note_duplicates(before - rows.len());
    }

    /// Sorts rows and drops those that are there twice, without memory of its own.
    pub(crate) fn sort_unique<T: Ord>(&mut self, rows: &mut Vec<T>) {
        let before = rows.len();
        rows.sort_unstable();
        rows.dedup();
        self.note_duplicates(before - rows.len());
    }

    fn note_duplicates(&mut self, dropped: usize) {
        let dropped = u32::try_from(dropped).unwrap_or(u32::MAX);
        self.oddities.duplicates = self.oddities.duplicates.saturating_add(dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_that_outgrow_their_bytes_are_refused_before_they_are_kept() {
        // One byte each on the wire, 64 in memory: the base budget is spent long before the end.
        let frame = Bytes::from([&[0, 1, 0, 0][..], &[7; 65_536]].concat());
        let mut cursor = Cursor::new(&frame, false);
        let mut read = 0;
        let kept = cursor.array("rows", 1, |cursor| {
            read += 1;
            cursor.i8("row").map(|row| [i64::from(row); 8])
        });
        assert_eq!(
            kept.map(|rows| rows.len()).unwrap_err().flaw,
            Flaw::TooMuchMemory
        );
        assert!(read * 64 <= frame.len() * 16 + 64 * 1_024);
    }

    #[test]
    fn a_broker_message_is_escaped_and_cut() {
        let long = [&b"\x1b[31m\xff"[..], &[b'a'; 2_000]].concat();
        let mut frame = u16::try_from(long.len()).unwrap().to_be_bytes().to_vec();
        frame.extend(long);
        let frame = Bytes::from(frame);
        let message = Cursor::new(&frame, false)
            .message("error_message")
            .unwrap()
            .unwrap();
        assert!(message.starts_with("\\u{1b}[31m\u{fffd}aaa"), "{message}");
        assert!(message.len() <= 1_024);
    }
}
