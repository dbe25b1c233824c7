//! A slice of one partition as a batch handler gets it.

use std::fmt;
use std::sync::Arc;
use std::vec;

use crate::handler::Message;
use crate::handler::message::Origin;
use crate::ids::{Offset, PartitionIndex, TopicId, TopicName, TopicPartition};
use crate::records::{Record, RecordCursor};

use super::Assignment;

/// Consecutive records of one partition in offset order, spanning as many fetched batches as
/// needed. Never empty.
///
/// Records are read out of the fetched bytes as they are iterated. With the
/// [`Raw`](crate::handler::Raw) codec nothing is decoded or allocated per record.
#[derive(Clone)]
pub struct Batch<T> {
    pub(crate) assignment: Arc<Assignment>,
    pub(crate) pieces: Vec<Piece>,
    /// One per record.
    pub(crate) values: Vec<T>,
    pub(crate) first: Offset,
    pub(crate) last: Offset,
}

/// Consecutive records of one fetched batch.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) origin: Arc<Origin>,
    pub(crate) start: RecordCursor,
    pub(crate) count: usize,
}

impl<T> Batch<T> {
    /// Number of records, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a batch is never empty")]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// The topic.
    pub fn topic(&self) -> &TopicName {
        &self.assignment.partition.topic
    }

    /// The topic's id (KIP-516), if the cluster gives topics ids.
    pub fn topic_id(&self) -> Option<TopicId> {
        self.assignment.topic_id
    }

    /// The partition inside the topic.
    pub fn partition(&self) -> PartitionIndex {
        self.assignment.partition.partition
    }

    /// Topic and partition.
    pub fn topic_partition(&self) -> &TopicPartition {
        &self.assignment.partition
    }

    /// Offset of the first record.
    pub fn first_offset(&self) -> Offset {
        self.first
    }

    /// Offset of the last record.
    pub fn last_offset(&self) -> Offset {
        self.last
    }

    /// The records, borrowed: the fast way through a batch.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.pieces.iter().flat_map(Piece::records)
    }

    /// The decoded values, in the order of [`records`](Self::records).
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// The records as owned messages. To move the values instead of cloning them, iterate over the
    /// batch itself.
    pub fn messages(&self) -> Messages<T>
    where
        T: Clone,
    {
        self.clone().into_iter()
    }
}

impl<T> IntoIterator for Batch<T> {
    type Item = Message<T>;
    type IntoIter = Messages<T>;

    fn into_iter(self) -> Messages<T> {
        let mut pieces = self.pieces.into_iter();
        Messages {
            current: pieces.next(),
            pieces,
            values: self.values.into_iter(),
        }
    }
}

impl<T> fmt::Debug for Batch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("partition", self.topic_partition())
            .field("first_offset", &self.first)
            .field("last_offset", &self.last)
            .field("records", &self.len())
            .finish_non_exhaustive()
    }
}

impl Piece {
    fn records(&self) -> impl Iterator<Item = Record<'_>> {
        // They were read when the batch was cut, so they read again.
        self.origin
            .view
            .records_from(self.start)
            .flatten()
            .take(self.count)
    }
}

/// Iterator over the owned messages of a batch.
pub struct Messages<T> {
    current: Option<Piece>,
    pieces: vec::IntoIter<Piece>,
    values: vec::IntoIter<T>,
}

impl<T> Iterator for Messages<T> {
    type Item = Message<T>;

    fn next(&mut self) -> Option<Message<T>> {
        while self.current.as_ref()?.count == 0 {
            self.current = self.pieces.next();
        }
        let piece = self.current.as_mut()?;
        let mut records = piece.origin.view.records_from(piece.start);
        let record = records.next()?.ok()?;
        let value = self.values.next()?;
        let message = Message::new(Arc::clone(&piece.origin), piece.start, &record, value);
        let behind = records.cursor();
        piece.start = behind;
        piece.count -= 1;
        Some(message)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.values.size_hint()
    }
}

impl<T> ExactSizeIterator for Messages<T> {}

impl<T> fmt::Debug for Messages<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages")
            .field("left", &self.values.len())
            .finish()
    }
}
