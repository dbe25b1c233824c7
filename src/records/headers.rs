//! Record headers: kept raw, parsed when somebody looks (wire.md 8.2 E4).

use std::borrow::Cow;
use std::fmt;

use super::varint;

/// The header block of one record. Order and duplicates are kept, keys are bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Headers<'a> {
    block: &'a [u8],
}

/// One header of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header<'a> {
    /// Its key: text by convention, bytes in fact.
    pub key: &'a [u8],
    /// Its value; null and empty are different things.
    pub value: Option<&'a [u8]>,
}

/// The header block of a record does not parse. The record itself is whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeaderError;

impl<'a> Headers<'a> {
    /// Headers from the raw block: a count, then the headers.
    pub fn from_raw(block: &'a [u8]) -> Self {
        Self { block }
    }

    /// The block as it came, count included.
    pub fn raw(&self) -> &'a [u8] {
        self.block
    }

    /// Whether the record has no headers.
    pub fn is_empty(&self) -> bool {
        self.block == [0]
    }

    /// Parses the block header by header, in order. After an error nothing follows.
    pub fn iter(&self) -> HeaderIter<'a> {
        let mut rest = self.block;
        let left = varint::read_i32(&mut rest)
            .and_then(|count| usize::try_from(count).ok())
            // Two bytes are the smallest header.
            .filter(|count| *count <= rest.len() / 2);
        HeaderIter {
            rest,
            left,
            done: false,
        }
    }

    /// The last value given for `key`; `Ok(None)` if there is no such header, `Ok(Some(None))` if
    /// it is null.
    ///
    /// # Errors
    /// [`HeaderError`] if the block does not parse.
    pub fn last(&self, key: &[u8]) -> Result<Option<Option<&'a [u8]>>, HeaderError> {
        let mut found = None;
        for header in self.iter() {
            let header = header?;
            if header.key == key {
                found = Some(header.value);
            }
        }
        Ok(found)
    }
}

impl<'a> IntoIterator for Headers<'a> {
    type Item = Result<Header<'a>, HeaderError>;
    type IntoIter = HeaderIter<'a>;

    fn into_iter(self) -> HeaderIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Header<'_> {
    /// The key as text, with replacement characters where it is not UTF-8.
    pub fn key_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.key)
    }
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the record's header block does not parse")
    }
}

impl std::error::Error for HeaderError {}

/// Iterator over the headers of one record.
#[derive(Clone, Debug)]
pub struct HeaderIter<'a> {
    rest: &'a [u8],
    /// Headers still to come; `None` if the count itself is bad.
    left: Option<usize>,
    done: bool,
}

impl<'a> HeaderIter<'a> {
    fn read(&mut self) -> Option<Header<'a>> {
        let key = self.field()??;
        let value = self.field()?;
        Some(Header { key, value })
    }

    /// One length-prefixed field; a negative length is null.
    fn field(&mut self) -> Option<Option<&'a [u8]>> {
        let length = varint::read_i32(&mut self.rest)?;
        let Ok(length) = usize::try_from(length) else {
            return Some(None);
        };
        let (field, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(Some(field))
    }
}

impl<'a> Iterator for HeaderIter<'a> {
    type Item = Result<Header<'a>, HeaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let header = match self.left {
            Some(0) if self.rest.is_empty() => {
                self.done = true;
                return None;
            }
            Some(0) | None => None,
            Some(left) => {
                self.left = Some(left - 1);
                self.read()
            }
        };
        self.done = header.is_none();
        Some(header.ok_or(HeaderError))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_above_what_the_block_can_hold_fails_the_access() {
        let block = [0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0];
        let all: Vec<_> = Headers::from_raw(&block).iter().collect();
        assert_eq!(all, [Err(HeaderError)]);
    }

    #[test]
    fn bytes_behind_the_last_header_fail_the_access() {
        let all: Vec<_> = Headers::from_raw(&[2, 2, b'a', 1, 9]).iter().collect();
        assert_eq!(
            all,
            [
                Ok(Header {
                    key: b"a",
                    value: None
                }),
                Err(HeaderError)
            ]
        );
    }
}
