//! Inputs and outputs of the producer.

use std::fmt;

use bytes::Bytes;

use crate::cluster::{HintLot, Reason, Want};
use crate::error::{Error, ErrorKind, RetryClass};
use crate::ids::{BrokerId, Offset, PartitionIndex, TopicName, TopicPartition};
use crate::records::WriteError;
use crate::wire::ErrorCode;
use crate::wire::api::{init_producer_id, produce};

/// A record to produce.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Where to.
    pub topic: TopicName,
    /// Which partition; `None` lets the key decide, or fills batches if there is no key.
    pub partition: Option<PartitionIndex>,
    /// Its timestamp in ms since 1970, at least 0.
    pub timestamp: i64,
    /// Its key; null and empty are different things.
    pub key: Option<Bytes>,
    /// Its value; null and empty are different things.
    pub value: Option<Bytes>,
    /// Its headers in order, duplicates allowed.
    pub headers: Vec<(String, Option<Bytes>)>,
}

impl Record {
    /// A record for `topic` with a value and nothing else.
    pub fn new(topic: impl Into<TopicName>, value: impl Into<Bytes>) -> Self {
        Self {
            topic: topic.into(),
            partition: None,
            timestamp: 0,
            key: None,
            value: Some(value.into()),
            headers: Vec::new(),
        }
    }

    /// The same with a key.
    #[must_use]
    pub fn with_key(self, key: impl Into<Bytes>) -> Self {
        Self {
            key: Some(key.into()),
            ..self
        }
    }

    /// The same, bound to a partition.
    #[must_use]
    pub fn to_partition(self, partition: PartitionIndex) -> Self {
        Self {
            partition: Some(partition),
            ..self
        }
    }

    /// The same with a timestamp in ms since 1970.
    #[must_use]
    pub fn at(self, timestamp: i64) -> Self {
        Self { timestamp, ..self }
    }

    /// Bytes it holds while it waits.
    pub(super) fn held_bytes(&self) -> usize {
        let length = |field: &Option<Bytes>| field.as_ref().map_or(0, Bytes::len);
        let headers: usize = self
            .headers
            .iter()
            .map(|(key, value)| key.len() + length(value))
            .sum();
        length(&self.key) + length(&self.value) + headers
    }
}

/// Names a record; chosen by its owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct RecordToken(pub u64);

/// Names a request of the producer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct SendToken(pub u64);

/// What is known about an attempt, and about a batch as the join of its attempts (wire.md 2).
///
/// The order is that of the join: Written beats Unknown beats NotWritten.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Outcome {
    /// No byte left us, or the broker refused before any effect.
    NotWritten,
    /// It may have been written.
    Unknown,
    /// Confirmed.
    Written,
}

/// One input of the [`Producer`](super::Producer).
#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    /// Produce a record.
    Append {
        /// Comes back with the record's fate.
        token: RecordToken,
        /// The record.
        record: Record,
    },
    /// The answer to a [`Output::Send`].
    Answered {
        /// Which request.
        token: SendToken,
        /// What the broker said.
        response: produce::Response,
    },
    /// A [`Output::Send`] ended without an answer.
    Lost {
        /// Which request.
        token: SendToken,
        /// [`Outcome::Unknown`] if a byte of it was written, else [`Outcome::NotWritten`].
        outcome: Outcome,
    },
    /// The answer to an [`Output::Identify`]; `None` if there was none.
    Identified {
        /// Which request.
        token: SendToken,
        /// What the broker said.
        response: Option<init_producer_id::Response>,
    },
    /// The cluster view changed.
    ClusterChanged,
    /// Send what is there without lingering.
    Flush,
    /// A deadline passed.
    Tick,
}

/// One output of the [`Producer`](super::Producer).
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// Send a Produce request on the broker's produce connection, in the order of these outputs.
    Send {
        /// To whom.
        broker: BrokerId,
        /// The request.
        request: produce::Request,
        /// Comes back with the answer.
        token: SendToken,
    },
    /// Ask any broker for a producer id.
    Identify {
        /// The request.
        request: init_producer_id::Request,
        /// Comes back with the answer.
        token: SendToken,
    },
    /// Metadata must be refreshed.
    Refresh {
        /// Why.
        reason: Reason,
        /// What must become known.
        want: Want,
    },
    /// An answer named new leaders (KIP-951): hand it to the metadata machine.
    Hints(HintLot),
    /// A partition moved away and this broker's answers were waited for long enough: close its
    /// produce connection, so that what is in flight there ends.
    Abandon {
        /// Which broker.
        broker: BrokerId,
    },
    /// A record was written.
    Acked {
        /// Which record.
        token: RecordToken,
        /// Where it went.
        partition: TopicPartition,
        /// Its offset; unknown if the broker recognised a batch it already had.
        offset: Option<Offset>,
    },
    /// A record was given up.
    Failed {
        /// Which record.
        token: RecordToken,
        /// Why.
        error: ProduceError,
    },
}

/// Why a record was given up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProduceError {
    /// The delivery timeout passed, and the record was certainly not written.
    Timeout,
    /// Given up in doubt: the record may have been written.
    OutcomeUnknown,
    /// The record is larger than a request, or than the broker takes.
    RecordTooLarge {
        /// Its size in a batch of its own, in bytes.
        size: usize,
    },
    /// The broker refused the batch.
    Refused {
        /// Its error.
        code: ErrorCode,
        /// What it said about this record, or about the batch.
        message: Option<String>,
    },
    /// The record cannot be written in the batch format.
    Invalid(WriteError),
    /// The topic has no such partition.
    NoSuchPartition(PartitionIndex),
    /// The produce buffer is full: wait for answers, then append again.
    BufferFull,
}

/// What the producer counted since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Records acknowledged.
    pub acked: u64,
    /// Records given up.
    pub failed: u64,
    /// Batches sent again.
    pub retries: u64,
    /// Of these, sent at once because a newer leader was known.
    pub free_retries: u64,
    /// Raises of the producer epoch.
    pub epoch_bumps: u64,
    /// Batches in doubt that were sent under a new epoch.
    pub possible_duplicates: u64,
    /// Batches split because the broker found them too large.
    pub splits: u64,
}

impl fmt::Display for ProduceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("not delivered within delivery.timeout.ms"),
            Self::OutcomeUnknown => {
                f.write_str("given up without knowing whether the record was written")
            }
            Self::RecordTooLarge { size } => {
                write!(
                    f,
                    "a record of {size} bytes is above max.request.size or max.message.bytes"
                )
            }
            Self::Refused {
                code,
                message: Some(message),
            } => {
                write!(f, "refused by the broker: {code}: {message}")
            }
            Self::Refused {
                code,
                message: None,
            } => write!(f, "refused by the broker: {code}"),
            Self::Invalid(error) => error.fmt(f),
            Self::NoSuchPartition(index) => write!(f, "the topic has no partition {index}"),
            Self::BufferFull => f.write_str("the produce buffer is full"),
        }
    }
}

impl std::error::Error for ProduceError {}

impl From<ProduceError> for Error {
    fn from(error: ProduceError) -> Self {
        let (kind, retry) = match &error {
            ProduceError::Timeout => (ErrorKind::Timeout, RetryClass::Backoff),
            ProduceError::OutcomeUnknown => (ErrorKind::Produce, RetryClass::Never),
            ProduceError::BufferFull => (ErrorKind::Produce, RetryClass::Backoff),
            ProduceError::NoSuchPartition(_) => (ErrorKind::UnknownTopic, RetryClass::Refresh),
            ProduceError::Refused { code, .. } => match *code {
                ErrorCode::TOPIC_AUTHORIZATION_FAILED
                | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
                | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED => {
                    (ErrorKind::Authorization, RetryClass::Never)
                }
                ErrorCode::INVALID_TOPIC_EXCEPTION => (ErrorKind::UnknownTopic, RetryClass::Never),
                _ => (ErrorKind::Produce, RetryClass::Never),
            },
            ProduceError::RecordTooLarge { .. } | ProduceError::Invalid(_) => {
                (ErrorKind::Produce, RetryClass::Never)
            }
        };
        Self::new(kind, error.to_string()).with_retry(retry)
    }
}
