//! What can be wrong with a batch, and what that means for its partition (wire.md 8.1 B10, 8.6).

use std::fmt;

use crate::error::{Error, ErrorKind, RetryClass};
use crate::ids::Offset;

use super::codec::Compression;

/// Why reading a record set stopped. It concerns one partition, never the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchError {
    /// The bytes break the format. Another replica, or the same one once more, may have them whole.
    Corrupt {
        /// Where it happened.
        at: Place,
        /// What is wrong.
        reason: Corruption,
    },
    /// The batch cannot be opened, whoever serves it.
    Poison {
        /// Where it happened.
        at: Place,
        /// What makes it so.
        reason: PoisonReason,
    },
    /// Nothing but the cut beginning of a batch (B2): fetch again with a partition limit of
    /// `needed`.
    RecordTooLarge {
        /// The offset asked for.
        offset: Offset,
        /// Bytes the next fetch of this partition must allow.
        needed: usize,
    },
    /// Bytes came, but all of them lie before the position (B9): back off before the next fetch.
    NoProgress {
        /// The offset asked for.
        offset: Offset,
        /// Bytes received in vain.
        bytes: usize,
    },
    /// Records were asked of a batch that is still compressed: inflate it first.
    StillCompressed {
        /// The batch's base offset.
        base: Offset,
    },
    /// There was no memory to inflate the batch in, or none left in the budget. The batch is not to
    /// blame: try again.
    NoMemory {
        /// First offset that was not delivered.
        offset: Offset,
    },
}

/// Place of a damaged batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// First offset that was not delivered; reading stands here (E6).
    pub position: Offset,
    /// The batch's base offset as its header says.
    pub base: Offset,
    /// Offset behind the batch, known only if its checksum held: only then can it be skipped.
    pub next: Option<Offset>,
    /// Size of the batch on the wire, in bytes.
    pub size: usize,
}

/// In what way a batch breaks the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Corruption {
    /// The length field is below the smallest batch (B1).
    Length(i32),
    /// The checksum does not match (B4).
    Checksum,
    /// Base offset or last offset delta is negative, overflows, or overlaps the batch before (B5).
    Offsets,
    /// A record count that the batch cannot hold (B7).
    Count(i32),
    /// A record length of zero or less, or one that leaves the body (E1).
    RecordLength,
    /// A varint is cut or over-long, or a field leaves its record (E1).
    Field,
    /// An offset delta outside the batch, or not above the one before (E2).
    OffsetDelta,
    /// A timestamp that overflows (E2).
    Timestamp,
    /// Bytes are left after the last record (E5).
    TrailingBytes(usize),
    /// A control record whose key is too short for version and type (E7).
    ControlKey,
    /// The compressed body does not decode.
    Codec(Compression),
    /// A compressed message of version 0 or 1 without a value, or without a message inside.
    Wrapper,
    /// A message inside a compressed one is compressed again, or of another version.
    Nesting,
    /// Attribute bits without a meaning, which only a strict reader minds (B6).
    Attributes,
}

/// Why a batch cannot be opened at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoisonReason {
    /// A format version that this reader does not know (B3).
    Magic(i8),
    /// A codec number that is not assigned (8.4).
    UnknownCodec(u8),
    /// It inflates beyond the cap.
    Inflated {
        /// The cap, in bytes.
        limit: usize,
    },
    /// It is larger than any fetch may be (B2).
    TooLarge {
        /// Size of the batch on the wire, in bytes.
        needed: usize,
        /// The largest fetch allowed.
        limit: usize,
    },
    /// Corrupt at the leader as well (B10).
    Corrupt(Corruption),
}

/// Why a batch was not inflated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InflateError {
    /// The budget had no room: keep the batch compressed and try again later. Nothing stays
    /// charged.
    NoRoom {
        /// Bytes it would have held with the growth that was refused.
        bytes: usize,
    },
    /// The batch itself is at fault.
    Batch(BatchError),
}

impl BatchError {
    /// The first offset that was not delivered: where the partition's position stands.
    pub fn position(&self) -> Offset {
        match *self {
            Self::Corrupt { at, .. } | Self::Poison { at, .. } => at.position,
            Self::RecordTooLarge { offset, .. }
            | Self::NoProgress { offset, .. }
            | Self::NoMemory { offset } => offset,
            Self::StillCompressed { base } => base,
        }
    }

    /// Where the damaged batch lies; `None` if no batch is to blame.
    pub fn place(&self) -> Option<Place> {
        match *self {
            Self::Corrupt { at, .. } | Self::Poison { at, .. } => Some(at),
            Self::RecordTooLarge { .. }
            | Self::NoProgress { .. }
            | Self::StillCompressed { .. }
            | Self::NoMemory { .. } => None,
        }
    }

    /// Where reading may go on if the damage is skipped on purpose; `None` if the checksum did not
    /// vouch for it.
    pub fn skip_to(&self) -> Option<Offset> {
        match self {
            Self::Corrupt { at, .. } | Self::Poison { at, .. } => at.next,
            Self::RecordTooLarge { .. }
            | Self::NoProgress { .. }
            | Self::StillCompressed { .. }
            | Self::NoMemory { .. } => None,
        }
    }

    /// The same damage once the leader's copy showed it too: corrupt becomes poison (B10).
    #[must_use]
    pub fn confirmed(self) -> Self {
        match self {
            Self::Corrupt { at, reason } => Self::Poison {
                at,
                reason: PoisonReason::Corrupt(reason),
            },
            Self::Poison { .. }
            | Self::RecordTooLarge { .. }
            | Self::NoProgress { .. }
            | Self::StillCompressed { .. }
            | Self::NoMemory { .. } => self,
        }
    }

    /// A short stable name, used as a metric label.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Corrupt { .. } => "corrupt",
            Self::Poison { reason, .. } => reason.label(),
            Self::RecordTooLarge { .. } => "record_too_large",
            Self::NoProgress { .. } => "no_progress",
            Self::StillCompressed { .. } => "still_compressed",
            Self::NoMemory { .. } => "no_memory",
        }
    }
}

impl PoisonReason {
    /// A short stable name, used as a metric label.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Magic(_) => "magic",
            Self::UnknownCodec(_) => "unknown_codec",
            Self::Inflated { .. } => "inflated",
            Self::TooLarge { .. } => "too_large",
            Self::Corrupt(_) => "corrupt",
        }
    }
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt { at, reason } => write!(f, "corrupt batch {}: {reason}", at.base),
            Self::Poison { at, reason } => write!(f, "batch {} cannot be read: {reason}", at.base),
            Self::RecordTooLarge { offset, needed } => write!(
                f,
                "the batch at offset {offset} needs {needed} bytes; raise max.partition.fetch.bytes"
            ),
            Self::NoProgress { offset, bytes } => {
                write!(f, "{bytes} bytes received, all before offset {offset}")
            }
            Self::StillCompressed { base } => write!(f, "batch {base} is still compressed"),
            Self::NoMemory { offset } => write!(f, "no memory to inflate the batch at {offset}"),
        }
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(length) => write!(f, "length {length} is below the smallest batch"),
            Self::Checksum => f.write_str("checksum does not match"),
            Self::Offsets => f.write_str("its offsets are negative, overflow or overlap"),
            Self::Count(count) => write!(f, "it cannot hold {count} records"),
            Self::RecordLength => f.write_str("a record leaves the batch"),
            Self::Field => f.write_str("a field leaves its record"),
            Self::OffsetDelta => f.write_str("record offsets do not ascend inside the batch"),
            Self::Timestamp => f.write_str("a timestamp overflows"),
            Self::TrailingBytes(bytes) => write!(f, "{bytes} bytes follow the last record"),
            Self::ControlKey => f.write_str("a control record has a key below 4 bytes"),
            Self::Codec(codec) => write!(f, "its {codec} data does not decode"),
            Self::Wrapper => f.write_str("a compressed message holds no messages"),
            Self::Attributes => f.write_str("attribute bits without a meaning are set"),
            Self::Nesting => f.write_str("a compressed message holds what may not be inside"),
        }
    }
}

impl fmt::Display for PoisonReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic(magic) => write!(f, "unknown format version {magic}"),
            Self::UnknownCodec(codec) => write!(f, "unknown codec {codec}"),
            Self::Inflated { limit } => write!(
                f,
                "it inflates beyond {limit} bytes; raise wire.batch.inflated.max.bytes"
            ),
            Self::TooLarge { needed, limit } => write!(
                f,
                "it has {needed} bytes, a fetch at most {limit}; raise receive.message.max.bytes"
            ),
            Self::Corrupt(reason) => write!(f, "corrupt at the leader as well, {reason}"),
        }
    }
}

impl fmt::Display for InflateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom { .. } => f.write_str("no room in the inflation budget"),
            Self::Batch(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BatchError {}

impl std::error::Error for InflateError {}

impl From<BatchError> for InflateError {
    fn from(error: BatchError) -> Self {
        Self::Batch(error)
    }
}

impl From<BatchError> for Error {
    fn from(error: BatchError) -> Self {
        let retry = match error {
            BatchError::Corrupt { .. } => RetryClass::Refresh,
            BatchError::RecordTooLarge { .. }
            | BatchError::NoProgress { .. }
            | BatchError::NoMemory { .. } => RetryClass::Backoff,
            BatchError::Poison { .. } | BatchError::StillCompressed { .. } => RetryClass::Never,
        };
        Self::new(ErrorKind::CorruptBatch, error.to_string())
            .with_retry(retry)
            .at_offset(error.position())
    }
}
