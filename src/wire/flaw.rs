//! What can be wrong with peer bytes, and what is tolerated.

use std::fmt;

/// Why a read failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Flaw {
    /// Fewer bytes remain than the field needs.
    Truncated,
    /// A length or count below what the field allows.
    NegativeLength,
    /// A count that the remaining bytes cannot hold.
    CountTooLarge,
    /// Null where the schema has none.
    UnexpectedNull,
    /// An identifier that is not UTF-8.
    NotUtf8,
    /// An identifier longer than Kafka allows.
    TooLong,
    /// A varint longer than its type, or with bits beyond it.
    Varint,
    /// Tags not strictly ascending, or more than fit.
    Tags,
    /// A value outside its range, such as a port of 70,000.
    OutOfRange,
    /// The decoded form would exceed its share of memory.
    TooMuchMemory,
    /// An oddity that only a strict connection minds (`wire.strict`).
    Odd,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "ends too early",
            Self::NegativeLength => "has a negative length",
            Self::CountTooLarge => "counts more elements than bytes remain",
            Self::UnexpectedNull => "is null",
            Self::NotUtf8 => "is not UTF-8",
            Self::TooLong => "is longer than allowed",
            Self::Varint => "is no valid varint",
            Self::Tags => "has tags out of order",
            Self::OutOfRange => "is out of range",
            Self::TooMuchMemory => "needs more memory than its size allows",
            Self::Odd => "has what a strict reader refuses",
        })
    }
}

/// A flaw, the field that has it and the byte at which that field starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Malformed {
    pub(crate) field: &'static str,
    pub(crate) at: usize,
    pub(crate) flaw: Flaw,
}

/// Things tolerated and counted while decoding (wire.md 7 D5, D7).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Oddities {
    /// Tagged fields this client does not know, and rests inside known ones.
    pub unknown_tags: u32,
    /// Rows that repeat an earlier one; the first wins.
    pub duplicates: u32,
    /// Bytes behind the last field.
    pub trailing_bytes: usize,
}

impl Oddities {
    /// The part of an answer in which one was met, if any was.
    pub(crate) fn place(self) -> Option<&'static str> {
        if self.unknown_tags > 0 {
            Some("tagged fields")
        } else if self.duplicates > 0 {
            Some("repeated rows")
        } else {
            (self.trailing_bytes > 0).then_some("end")
        }
    }
}
