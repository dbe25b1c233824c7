//! One record as one line of JSON (`consume --json`).

use serde::Serialize;
use serde::ser::{SerializeMap as _, SerializeSeq as _, Serializer};

use crate::cli::consume::row::Row;
use crate::records::Headers;

/// Appends one record to `out` as one line.
///
/// Keys, values and header values that are UTF-8 are strings and null is null; other bytes appear
/// as `{"hex": "..."}`, so that nothing is lost and nothing is guessed.
pub(super) fn write(row: &Row<'_>, out: &mut Vec<u8>) {
    let line = Line {
        topic: row.topic,
        partition: row.partition,
        offset: row.record.offset.0,
        timestamp: row.record.timestamp,
        headers: HeaderList(row.record.headers),
        key: Text(row.record.key),
        value: Text(row.record.value),
    };
    let before = out.len();
    if serde_json::to_writer(&mut *out, &line).is_err() {
        // Not reached: every part of a line serialises. Half a line must not stay in any case.
        out.truncate(before);
        return;
    }
    out.push(b'\n');
}

#[derive(Serialize)]
struct Line<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    timestamp: i64,
    headers: HeaderList<'a>,
    key: Text<'a>,
    value: Text<'a>,
}

struct Text<'a>(Option<&'a [u8]>);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(bytes) = self.0 else {
            return serializer.serialize_none();
        };
        if let Ok(text) = std::str::from_utf8(bytes) {
            return serializer.serialize_str(text);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("hex", &hex(bytes))?;
        map.end()
    }
}

struct HeaderList<'a>(Headers<'a>);

impl Serialize for HeaderList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for header in self.0.iter().flatten() {
            list.serialize_element(&(header.key_text(), Text(header.value)))?;
        }
        list.end()
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing into memory does not fail.
        write!(text, "{byte:02x}").ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::consume::row::tests::{with_record, with_row};
    use crate::records::NewRecord;

    #[test]
    fn a_record_is_one_line_with_its_headers_in_order() {
        let mut out = Vec::new();
        with_row(|row| write(row, &mut out));
        assert_eq!(
            String::from_utf8(out).unwrap(),
            concat!(
                r#"{"topic":"orders","partition":3,"offset":7,"timestamp":1700000000000,"#,
                r#""headers":[["trace","abc"],["trace","def"],["empty",null]],"#,
                r#""key":"blue","value":"seven"}"#,
                "\n"
            )
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_hex_and_null_is_null() {
        let mut out = Vec::new();
        let record = NewRecord {
            value: Some(&[0xff, 0x00]),
            ..NewRecord::default()
        };
        with_record(&record, |row| write(row, &mut out));
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.ends_with("\"key\":null,\"value\":{\"hex\":\"ff00\"}}\n"),
            "{text}"
        );
    }
}
