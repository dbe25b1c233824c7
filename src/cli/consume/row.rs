//! One record on its way to the output.

use crate::records::Record;

/// A record and where it comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    /// Its topic.
    pub(super) topic: &'a str,
    /// Its partition.
    pub(super) partition: i32,
    /// The record.
    pub(super) record: Record<'a>,
}

#[cfg(test)]
pub(crate) mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::ids::Offset;
    use crate::records::{BatchSet, BatchWriter, NewRecord, ReadSettings};

    /// Calls `use_row` with record 7 of `orders`-3: key `blue`, value `seven`, three headers.
    pub(crate) fn with_row(use_row: impl FnOnce(&Row<'_>)) {
        let headers: [(&str, Option<&[u8]>); 3] = [
            ("trace", Some(b"abc")),
            ("trace", Some(b"def")),
            ("empty", None),
        ];
        with_record(
            &NewRecord {
                timestamp: 1_700_000_000_000,
                key: Some(b"blue"),
                value: Some(b"seven"),
                headers: &headers,
            },
            use_row,
        );
    }

    /// Calls `use_row` with `record` at offset 7 of `orders`-3.
    pub(crate) fn with_record(record: &NewRecord<'_>, use_row: impl FnOnce(&Row<'_>)) {
        let mut writer = BatchWriter::default();
        writer.push(record).unwrap();
        let mut bytes = writer.seal().unwrap().to_vec();
        bytes[..8].copy_from_slice(&7_i64.to_be_bytes());
        let mut set = BatchSet::new(Bytes::from(bytes), Offset(7), ReadSettings::default());
        let view = set.next().unwrap().unwrap();
        let record = view.records().next().unwrap().unwrap();
        use_row(&Row {
            topic: "orders",
            partition: 3,
            record,
        });
    }
}
