//! One record as a handler gets it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::handler::Assignment;
use crate::ids::{LeaderEpoch, Moment, Offset, PartitionIndex, TopicId, TopicName, TopicPartition};
use crate::records::{BatchView, Header, HeaderError, Record, RecordCursor, TimestampType};

/// One record with its decoded value.
///
/// A clone counts one reference up and clones the value; key, payload and headers are never copied.
/// A message that is kept keeps the fetched batch around it in memory, and in the memory budget:
/// copy what you need for longer.
#[derive(Clone)]
pub struct Message<T> {
    origin: Arc<Origin>,
    at: RecordCursor,
    offset: Offset,
    timestamp: i64,
    value: T,
}

/// A batch view and the assignment it was fetched under.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) assignment: Arc<Assignment>,
    pub(crate) view: BatchView,
    /// When it was delivered.
    pub(crate) since: Moment,
}

impl<T> Message<T> {
    /// The record that follows `at` in `origin`.
    pub(crate) fn new(
        origin: Arc<Origin>,
        at: RecordCursor,
        record: &Record<'_>,
        value: T,
    ) -> Self {
        Self {
            at,
            offset: record.offset,
            timestamp: record.timestamp,
            value,
            origin,
        }
    }

    /// The topic.
    pub fn topic(&self) -> &TopicName {
        &self.topic_partition().topic
    }

    /// The topic's id (KIP-516), if the cluster gives topics ids.
    pub fn topic_id(&self) -> Option<TopicId> {
        self.origin.assignment.topic_id
    }

    /// The partition inside the topic.
    pub fn partition(&self) -> PartitionIndex {
        self.topic_partition().partition
    }

    /// Topic and partition.
    pub fn topic_partition(&self) -> &TopicPartition {
        &self.origin.assignment.partition
    }

    /// The record's offset.
    pub fn offset(&self) -> Offset {
        self.offset
    }

    /// Leader epoch at which the record was appended, if known.
    pub fn leader_epoch(&self) -> Option<LeaderEpoch> {
        self.origin.view.leader_epoch()
    }

    /// The timestamp, in milliseconds since 1970.
    pub fn timestamp_ms(&self) -> i64 {
        self.timestamp
    }

    /// Who set the timestamp.
    pub fn timestamp_type(&self) -> TimestampType {
        self.origin.view.timestamp_type()
    }

    /// The key's bytes; null and empty are different things.
    pub fn key(&self) -> Option<&[u8]> {
        self.record()?.key
    }

    /// The value's bytes as they came; null and empty are different things.
    pub fn payload(&self) -> Option<&[u8]> {
        self.record()?.value
    }

    /// The key as a shared slice, to be kept or sent on without a copy.
    pub fn key_bytes(&self) -> Option<Bytes> {
        self.record()?.key_bytes()
    }

    /// The value's bytes as a shared slice, to be kept or sent on without a copy.
    pub fn value_bytes(&self) -> Option<Bytes> {
        self.record()?.value_bytes()
    }

    /// The headers in order, duplicates included; one error if the block does not parse.
    pub fn headers(&self) -> impl Iterator<Item = Result<Header<'_>, HeaderError>> {
        self.record().into_iter().flat_map(|record| record.headers)
    }

    /// The decoded value.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The decoded value, by value.
    pub fn into_value(self) -> T {
        self.value
    }

    /// The record in the batch. It was read once to make this message, so it is there; reading it
    /// again is cheaper than keeping five slices per message.
    fn record(&self) -> Option<Record<'_>> {
        self.origin.view.records_from(self.at).next()?.ok()
    }
}

impl<T> fmt::Debug for Message<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may hold what must not reach a log.
        f.debug_struct("Message")
            .field("partition", self.topic_partition())
            .field("offset", &self.offset)
            .field("timestamp_ms", &self.timestamp)
            .finish_non_exhaustive()
    }
}
