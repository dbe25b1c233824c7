//! Codecs with output caps (wire.md 8.4): a small input never makes us hold more than was agreed
//! to.

mod gzip;
mod lz4;
mod snappy;
mod zstd;

use std::fmt;

use bytes::Bytes;

/// A codec of record batches, the value of `compression.type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Compression {
    /// Not compressed.
    #[default]
    None,
    /// gzip.
    Gzip,
    /// Snappy, framed by the conventions of the Java client.
    Snappy,
    /// LZ4 frames of independent blocks.
    Lz4,
    /// Zstandard (KIP-110).
    Zstd,
}

impl Compression {
    /// The codec in bits 0-2 of a batch's attributes, or the number that means none.
    pub(super) fn from_attributes(attributes: u16) -> Result<Self, u8> {
        match attributes & 0b111 {
            0 => Ok(Self::None),
            1 => Ok(Self::Gzip),
            2 => Ok(Self::Snappy),
            3 => Ok(Self::Lz4),
            4 => Ok(Self::Zstd),
            other => Err(u8::try_from(other).unwrap_or(u8::MAX)),
        }
    }

    /// The codec's bits in a batch's attributes.
    pub(super) fn attributes(self) -> u16 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// The name Kafka gives it in `compression.type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// The codec called `name` in `compression.type`.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];
        all.into_iter().find(|codec| codec.name() == name)
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Permission to hold inflated bytes. What was granted is given back when the value is dropped.
pub trait Charge: Send + 'static {
    /// Asks for `bytes` more; false refuses, and inflating stops without an effect.
    fn grow(&mut self, bytes: usize) -> bool;

    /// Gives back `bytes` of what was granted: the output turned out smaller than its buffer.
    fn shrink(&mut self, bytes: usize);
}

/// A charge that grants everything: the cap alone bounds the output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uncharged;

impl Charge for Uncharged {
    fn grow(&mut self, _bytes: usize) -> bool {
        true
    }

    fn shrink(&mut self, _bytes: usize) {}
}

/// Why a body was not inflated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// It does not decode.
    Corrupt,
    /// The output would exceed the cap.
    Limit,
    /// The charge was refused when the output was to hold so many bytes.
    NoRoom { bytes: usize },
    /// The codec found no memory to work in; the next time it may.
    NoMemory,
}

/// Inflates `input` to at most `limit` bytes, each growth asked of `charge` first.
pub(super) fn inflate(
    codec: Compression,
    input: &[u8],
    limit: usize,
    charge: &mut impl Charge,
) -> Result<Vec<u8>, Fault> {
    let mut sink = Sink {
        buffer: Vec::new(),
        limit,
        charge,
    };
    match codec {
        Compression::None => sink.append(input)?,
        Compression::Gzip => gzip::inflate(input, &mut sink)?,
        Compression::Snappy => snappy::inflate(input, &mut sink)?,
        Compression::Lz4 => lz4::inflate(input, &mut sink)?,
        Compression::Zstd => zstd::inflate(input, &mut sink)?,
    }
    sink.trim();
    Ok(sink.buffer)
}

/// What was inflated, with the charge inside.
pub(super) fn charged<C: Charge>(buffer: Vec<u8>, charge: C) -> Bytes {
    Bytes::from_owner(Charged {
        buffer,
        _charge: charge,
    })
}

/// Where a codec writes: a buffer that asks before it grows and never grows beyond the cap.
struct Sink<'a> {
    buffer: Vec<u8>,
    limit: usize,
    charge: &'a mut dyn Charge,
}

impl Sink<'_> {
    /// Makes room for `more` bytes behind what is there, growing at least twofold within the cap.
    fn reserve(&mut self, more: usize) -> Result<(), Fault> {
        let needed = self.buffer.len().saturating_add(more);
        if needed > self.limit {
            return Err(Fault::Limit);
        }
        let capacity = self.buffer.capacity();
        if needed <= capacity {
            return Ok(());
        }
        let target = capacity.saturating_mul(2).clamp(needed, self.limit);
        if !self.charge.grow(target - capacity) {
            return Err(Fault::NoRoom { bytes: target });
        }
        self.buffer.reserve_exact(target - self.buffer.len());
        Ok(())
    }

    /// Frees the end of the buffer that was not needed, if it is worth the copy that may cost.
    fn trim(&mut self) {
        let (before, needed) = (self.buffer.capacity(), self.buffer.len());
        if before - needed > needed / 4 {
            self.buffer.shrink_to_fit();
            self.charge
                .shrink(before.saturating_sub(self.buffer.capacity()));
        }
    }

    /// Bytes that still fit under the cap.
    fn left(&self) -> usize {
        self.limit.saturating_sub(self.buffer.len())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.reserve(bytes.len())?;
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends `size` zero bytes and hands them out to be written.
    fn grow_by(&mut self, size: usize) -> Result<&mut [u8], Fault> {
        self.reserve(size)?;
        let start = self.buffer.len();
        self.buffer.resize(start + size, 0);
        Ok(self.buffer.get_mut(start..).unwrap_or_default())
    }
}

/// Inflated bytes with the permission to hold them: both end at the last drop.
struct Charged<C> {
    buffer: Vec<u8>,
    _charge: C,
}

impl<C> AsRef<[u8]> for Charged<C> {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

/// Compresses `input`; `None` if the codec refuses or is none.
pub(super) fn deflate(codec: Compression, level: Option<i32>, input: &[u8]) -> Option<Vec<u8>> {
    match codec {
        Compression::None => None,
        Compression::Gzip => gzip::deflate(input, level),
        Compression::Snappy => snappy::deflate(input),
        Compression::Lz4 => lz4::deflate(input),
        Compression::Zstd => zstd::deflate(input, level),
    }
}
