//! OffsetForLeaderEpoch (23), versions 3-4: where an epoch ended (KIP-320).

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::OffsetForLeaderEpochRequest;
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};

use super::{
    Body, NO_BROKER, by_topic, decode, known_epoch, known_offset, put, read_error, read_throttle,
    read_topic_rows, wire_epoch, wire_topic,
};
use crate::ids::{LeaderEpoch, Offset, PartitionIndex, TopicName};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, Read};
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;

/// Asks leaders where epochs ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// The partitions.
    pub partitions: Vec<Partition>,
}

/// One partition to validate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub partition: PartitionIndex,
    /// The leader's epoch as we know it.
    pub current_leader_epoch: Option<LeaderEpoch>,
    /// The epoch whose end is wanted.
    pub leader_epoch: LeaderEpoch,
}

impl Request {
    /// Appends the body at `version`.
    ///
    /// # Errors
    /// If `version` cannot carry it.
    pub fn encode(&self, version: i16, out: &mut BytesMut) -> Result<(), EncodeError> {
        let topics = by_topic(&self.partitions, |row| &row.topic)
            .into_iter()
            .map(|(topic, rows)| {
                OffsetForLeaderTopic::default()
                    .with_topic(wire_topic(topic))
                    .with_partitions(rows.into_iter().map(encode_row).collect())
            })
            .collect();
        let message = OffsetForLeaderEpochRequest::default()
            .with_replica_id(NO_BROKER)
            .with_topics(topics);
        put(ApiKey::OffsetForLeaderEpoch, version, &message, out)
    }
}

fn encode_row(row: &Partition) -> OffsetForLeaderPartition {
    OffsetForLeaderPartition::default()
        .with_partition(row.partition.0)
        .with_current_leader_epoch(wire_epoch(row.current_leader_epoch))
        .with_leader_epoch(row.leader_epoch.0)
}

/// Where the epochs ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// How long the broker asks us to be quiet.
    pub throttle: Duration,
    /// One row per partition.
    pub partitions: Vec<EpochEnd>,
}

/// The end of an epoch in one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EpochEnd {
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub partition: PartitionIndex,
    /// Error of this row.
    pub error: ErrorCode,
    /// The largest epoch not above the asked one; `None` if the leader knows none.
    pub leader_epoch: Option<LeaderEpoch>,
    /// First offset behind that epoch; `None` if the leader knows none.
    pub end_offset: Option<Offset>,
}

impl Response {
    /// Decodes the body of an answer at `version`.
    ///
    /// # Errors
    /// If the bytes break the protocol.
    pub fn decode(version: i16, body: &Bytes) -> Result<Self, DecodeError> {
        decode(version, body).map(|(response, _)| response)
    }
}

impl Body for Response {
    const API: ApiKey = ApiKey::OffsetForLeaderEpoch;

    fn read(cursor: &mut Cursor<'_>, _version: i16) -> Read<Self> {
        let throttle = read_throttle(cursor)?;
        let mut partitions = read_topic_rows(cursor, ROW_MIN, read_row)?;
        cursor.keep_first(&mut partitions, |row| (row.topic.clone(), row.partition));
        cursor.no_tags()?;
        Ok(Self {
            throttle,
            partitions,
        })
    }
}

/// Smallest row: error, index, epoch, offset.
const ROW_MIN: usize = 18;

fn read_row(cursor: &mut Cursor<'_>, topic: &TopicName) -> Read<EpochEnd> {
    let error = read_error(cursor)?;
    let partition = PartitionIndex(cursor.i32("partition")?);
    let leader_epoch = known_epoch(cursor.i32("leader_epoch")?);
    let end_offset = known_offset(cursor.i64("end_offset")?);
    cursor.no_tags()?;
    Ok(EpochEnd {
        topic: topic.clone(),
        partition,
        error,
        leader_epoch,
        end_offset,
    })
}
