//! The one error type that leaves the crate: opaque, with a kind, the place it concerns and a retry
//! class.
//!
//! Inside, every layer has its own enum (`wire::DecodeError`, `records::BatchError`, ...); they
//! become an [`Error`] at the surface. Text is lowercase, one line, and says what, where and what
//! to try.

use std::fmt;
use std::sync::Arc;

use crate::ids::{BrokerId, Offset, TopicPartition};

/// What went wrong, in the terms a caller can act on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Configuration that cannot work; nothing was opened.
    Config,
    /// No broker could be reached.
    Unreachable,
    /// The peer is not a Kafka broker, or speaks another protocol on this port.
    WrongPort,
    /// Credentials or certificates were refused.
    Authentication,
    /// The principal lacks a right on a topic or group.
    Authorization,
    /// A topic or partition does not exist.
    UnknownTopic,
    /// The group coordinator refused the member for good.
    Group,
    /// Bytes that break the protocol.
    Protocol,
    /// A record batch that cannot be opened.
    CorruptBatch,
    /// A broker too old, or too new, for an API that is required.
    UnsupportedVersion,
    /// Produce gave up; the record may or may not have been written.
    Produce,
    /// The handler asked to stop.
    Stopped,
    /// A deadline passed.
    Timeout,
    /// A file or terminal could not be read or written.
    Io,
    /// A defect of nearside itself.
    Internal,
}

/// Whether trying again can help.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum RetryClass {
    /// Retry after a backoff.
    Backoff,
    /// Refresh the metadata, then retry.
    Refresh,
    /// Retrying the same thing cannot succeed.
    Never,
}

/// An error of nearside, cheap to clone.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    retry: RetryClass,
    message: String,
    partition: Option<TopicPartition>,
    offset: Option<Offset>,
    broker: Option<BrokerId>,
}

impl Error {
    /// An error of `kind` that retrying does not mend. `message` is one lowercase line without a
    /// full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind,
            retry: RetryClass::Never,
            message: message.into(),
            partition: None,
            offset: None,
            broker: None,
        }))
    }

    /// The same error with a retry class.
    #[must_use]
    pub fn with_retry(self, retry: RetryClass) -> Self {
        self.edit(|inner| inner.retry = retry)
    }

    /// The same error, naming the partition concerned.
    #[must_use]
    pub fn at(self, partition: TopicPartition) -> Self {
        self.edit(|inner| inner.partition = Some(partition))
    }

    /// The same error, naming the offset concerned.
    #[must_use]
    pub fn at_offset(self, offset: Offset) -> Self {
        self.edit(|inner| inner.offset = Some(offset))
    }

    /// The same error, naming the broker concerned.
    #[must_use]
    pub fn on(self, broker: BrokerId) -> Self {
        self.edit(|inner| inner.broker = Some(broker))
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether trying again can help.
    pub fn retry_class(&self) -> RetryClass {
        self.0.retry
    }

    /// The partition concerned, if one is.
    pub fn partition(&self) -> Option<&TopicPartition> {
        self.0.partition.as_ref()
    }

    /// The offset concerned, if one is.
    pub fn offset(&self) -> Option<Offset> {
        self.0.offset
    }

    /// The broker concerned, if one is.
    pub fn broker(&self) -> Option<BrokerId> {
        self.0.broker
    }

    fn edit(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(partition) = &self.0.partition {
            write!(f, " (partition {partition}")?;
            if let Some(offset) = self.0.offset {
                write!(f, ", offset {offset}")?;
            }
            f.write_str(")")?;
        }
        if let Some(broker) = self.0.broker {
            write!(f, " (broker {broker})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_place() {
        let error = Error::new(ErrorKind::CorruptBatch, "batch checksum does not match")
            .at(TopicPartition::new("orders", 2))
            .at_offset(Offset(41))
            .on(BrokerId(3));
        assert_eq!(
            error.to_string(),
            "batch checksum does not match (partition orders-2, offset 41) (broker 3)"
        );
        assert_eq!(error.kind(), ErrorKind::CorruptBatch);
    }
}
