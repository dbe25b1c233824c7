//! Records that get into a log without a client.

use bytes::{Bytes, BytesMut};

use super::super::api::{fetch, produce};
use super::super::batch::Header;
use super::super::cluster::Cluster;
use super::super::partition::Partition;
use super::super::topics::PartitionKey;
use super::super::{Record, encode_batch};
use super::ControlError;
use crate::ids::{Offset, TopicPartition};

/// Records.
impl Cluster {
    /// Appends `records` as one batch at the leader and returns the offset of the first. They reach
    /// the followers, and consumers, by replication.
    ///
    /// # Errors
    ///
    /// No such partition, no leader, or no records.
    pub fn produce(
        &mut self,
        at: &TopicPartition,
        records: &[Record],
    ) -> Result<Offset, ControlError> {
        self.append(at, encode_batch(records))
    }

    /// Appends whole raw batches at the leader; offsets and leader epochs are assigned.
    ///
    /// # Errors
    ///
    /// No such partition, no leader, or bytes that are not whole batches.
    pub fn append(&mut self, at: &TopicPartition, batches: Bytes) -> Result<Offset, ControlError> {
        let key = self.key(at)?;
        let first = self.append_batches(key, batches)?;
        self.appended(key);
        Ok(first)
    }

    /// As [`append`](Self::append), but every in-sync replica has the records, and knows that the
    /// others have them, at once.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub fn preload(&mut self, at: &TopicPartition, batches: Bytes) -> Result<Offset, ControlError> {
        let key = self.key(at)?;
        let first = self.append_batches(key, batches)?;
        self.settle(key);
        Ok(first)
    }

    /// Every in-sync replica catches up at once.
    pub(in super::super) fn settle(&mut self, key: PartitionKey) {
        let now = self.now;
        let Some(partition) = self.topics.partition_mut(key) else {
            return;
        };
        let end = partition.log.end();
        let isr = partition.isr.clone();
        for broker in &isr {
            if let Some(replica) = partition.replica_mut(*broker) {
                (replica.end, replica.seen_end, replica.high_watermark) = (end, end, end);
                replica.caught_up_at = now;
            }
        }
        for broker in isr {
            fetch::wake(self, key, broker, fetch::Wake::Records);
        }
        produce::wake(self, key);
        self.wake_followers(key);
    }

    /// Rewrites and stores batches at the end of the log; the leader's own log end follows.
    pub(in super::super) fn append_batches(
        &mut self,
        key: PartitionKey,
        batches: Bytes,
    ) -> Result<Offset, ControlError> {
        let now = self.now;
        let Some(partition) = self.topics.partition_mut(key) else {
            return Err(ControlError::BadBatch);
        };
        let leader = partition
            .leader
            .ok_or_else(|| ControlError::NoLeader(partition.at.clone()))?;
        let first = partition.log.end();
        let (chunk, headers) = assign_offsets(batches, first, partition.epoch)?;
        for replica in &mut partition.replicas {
            if replica.seen_end >= first {
                replica.caught_up_at = now;
            }
        }
        partition.log.append(chunk, &headers);
        let end = partition.log.end();
        if let Some(own) = partition.replica_mut(leader) {
            (own.end, own.seen_end) = (end, end);
        }
        Ok(Offset(first))
    }

    /// The leader's log has grown.
    pub(in super::super) fn appended(&mut self, key: PartitionKey) {
        let advances = self
            .topics
            .partition_mut(key)
            .is_some_and(Partition::advance_high_watermark);
        if advances {
            self.high_watermark_moved(key);
        }
        self.wake_followers(key);
    }

    /// Opens a transaction at an offset, or ends it: until then the last stable offset stays there.
    ///
    /// # Errors
    ///
    /// No such partition.
    pub fn hold_stable(
        &mut self,
        at: &TopicPartition,
        from: Option<Offset>,
    ) -> Result<(), ControlError> {
        let key = self.key(at)?;
        if let Some(partition) = self.topics.partition_mut(key) {
            partition.open_from = from.map(|from| from.0);
        }
        self.high_watermark_moved(key);
        Ok(())
    }

    /// Moves the log start, as retention or DeleteRecords would.
    ///
    /// # Errors
    ///
    /// No such partition.
    pub fn delete_records(
        &mut self,
        at: &TopicPartition,
        before: Offset,
    ) -> Result<(), ControlError> {
        let key = self.key(at)?;
        if let Some(partition) = self.topics.partition_mut(key) {
            let limit = before.0.min(partition.high_watermark());
            partition.log.delete_before(limit);
        }
        Ok(())
    }
}

/// Gives the batches their place: offsets from `first` on, and the leader's epoch.
fn assign_offsets(
    batches: Bytes,
    first: i64,
    epoch: i32,
) -> Result<(Bytes, Vec<Header>), ControlError> {
    let mut chunk = batches
        .try_into_mut()
        .unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    let (mut headers, mut at, mut offset) = (Vec::new(), 0, first);
    while at < chunk.len() {
        let rest = chunk.get_mut(at..).ok_or(ControlError::BadBatch)?;
        let mut header = Header::read(rest).map_err(|_| ControlError::BadBatch)?;
        Header::assign(rest, offset, epoch);
        header.base_offset = offset;
        offset = offset
            .saturating_add(i64::from(header.last_delta))
            .saturating_add(1);
        at = at.saturating_add(header.size);
        headers.push(header);
    }
    if headers.is_empty() {
        Err(ControlError::BadBatch)
    } else {
        Ok((chunk.freeze(), headers))
    }
}
