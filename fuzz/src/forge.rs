//! Builds record sets by hand, and makes checksums right.

use crc_fast::CrcAlgorithm;

/// Attribute bit of a batch whose records have the broker's time.
pub const LOG_APPEND_TIME: i16 = 1 << 3;
/// Attribute bits of a batch.
pub const TRANSACTIONAL: i16 = 1 << 4;
/// Attribute bits of a batch of markers.
pub const CONTROL: i16 = 1 << 5;
/// Attribute bit of a batch whose base timestamp says when its tombstones go (KIP-534).
pub const DELETE_HORIZON: i16 = 1 << 6;

/// A batch of version 2 in the making.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Base offset.
    pub base: i64,
    /// Attributes, codec included.
    pub attributes: i16,
    /// Last offset delta.
    pub last_delta: i32,
    /// Producer id.
    pub producer: i64,
    /// Record count.
    pub count: i32,
    /// What follows the header.
    pub body: Vec<u8>,
}

impl Batch {
    /// `count` records with one-byte values.
    pub fn filled(base: i64, count: i32) -> Self {
        let body = (0..count).flat_map(|delta| record(delta, b"", b"v"));
        Self {
            base,
            last_delta: count.max(1) - 1,
            producer: -1,
            count,
            body: body.collect(),
            ..Self::default()
        }
    }

    /// The end of a transaction.
    pub fn marker(base: i64, producer: i64, commit: bool) -> Self {
        Self {
            base,
            producer,
            attributes: TRANSACTIONAL | CONTROL,
            count: 1,
            body: record(0, &[0, 0, 0, u8::from(commit)], &[0; 6]),
            ..Self::default()
        }
    }

    /// The bytes, with the right checksum.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.base.to_be_bytes().to_vec();
        out.extend((self.body.len() as i32 + 49).to_be_bytes());
        out.extend(7_i32.to_be_bytes());
        out.push(2);
        out.extend([0; 4]);
        out.extend(self.attributes.to_be_bytes());
        out.extend(self.last_delta.to_be_bytes());
        out.extend([0; 16]);
        out.extend(self.producer.to_be_bytes());
        out.extend([0; 6]);
        out.extend(self.count.to_be_bytes());
        out.extend(&self.body);
        repair(&mut out);
        out
    }
}

/// A record at the base timestamp.
pub fn record(delta: i32, key: &[u8], value: &[u8]) -> Vec<u8> {
    at(0, delta, key, value)
}

/// A record from before the base timestamp.
pub fn earlier(delta: i32) -> Vec<u8> {
    at(-86_400_000, delta, b"k", b"v")
}

fn at(time: i64, delta: i32, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut content = vec![0];
    zigzag(&mut content, time);
    zigzag(&mut content, i64::from(delta));
    for field in [key, value] {
        zigzag(&mut content, field.len() as i64);
        content.extend(field);
    }
    content.push(0);
    let mut out = Vec::new();
    zigzag(&mut out, content.len() as i64);
    out.extend(content);
    out
}

fn zigzag(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// A message of version 0 or 1.
pub fn message(offset: i64, magic: u8, attributes: u8, value: &[u8]) -> Vec<u8> {
    let mut out = offset.to_be_bytes().to_vec();
    let length = 14 + 8 * usize::from(magic) + 3 + value.len();
    out.extend((length as i32).to_be_bytes());
    out.extend([0, 0, 0, 0, magic, attributes]);
    if magic > 0 {
        out.extend(1_000_i64.to_be_bytes());
    }
    out.extend(3_i32.to_be_bytes());
    out.extend(b"key");
    out.extend((value.len() as i32).to_be_bytes());
    out.extend(value);
    repair(&mut out);
    out
}

/// Puts the right checksum into every batch and message of `set`, as far as they reach.
pub fn repair(mut set: &mut [u8]) {
    while set.len() > 21 {
        let length = i32::from_be_bytes([set[8], set[9], set[10], set[11]]);
        let size = usize::try_from(length).unwrap_or(0).saturating_add(12);
        let end = size.min(set.len());
        let (place, covered, algorithm) = if set[16] < 2 {
            (12, 16, CrcAlgorithm::Crc32IsoHdlc)
        } else {
            (17, 21, CrcAlgorithm::Crc32Iscsi)
        };
        if end <= covered {
            return;
        }
        let sum = crc_fast::checksum(algorithm, &set[covered..end]) as u32;
        set[place..place + 4].copy_from_slice(&sum.to_be_bytes());
        set = &mut set[end..];
    }
}
