//! OffsetCommit (8), versions 7-9: stores a group's offsets. 9 is required under KIP-848.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::{GroupId as WireGroup, OffsetCommitRequest};

use super::{
    Body, by_topic, decode, put, read_error, read_throttle, read_topic_rows, text, wire_epoch,
    wire_topic,
};
use crate::ids::{Generation, GroupId, LeaderEpoch, MemberId, Offset, PartitionIndex, TopicName};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, Read};
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;

/// Stores offsets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The group.
    pub group: GroupId,
    /// Our generation or member epoch; `None` outside a membership.
    pub generation: Option<Generation>,
    /// Our member id; `None` outside a membership.
    pub member: Option<MemberId>,
    /// Our static id, if we have one.
    pub instance: Option<String>,
    /// The offsets.
    pub partitions: Vec<Partition>,
}

/// One offset to store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub partition: PartitionIndex,
    /// The next offset to read.
    pub offset: Offset,
    /// Epoch of the last record before it, if known.
    pub leader_epoch: Option<LeaderEpoch>,
    /// Free text kept beside it.
    pub metadata: String,
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
                OffsetCommitRequestTopic::default()
                    .with_name(wire_topic(topic))
                    .with_partitions(rows.into_iter().map(encode_row).collect())
            })
            .collect();
        let message = OffsetCommitRequest::default()
            .with_group_id(WireGroup(text(self.group.as_str())))
            .with_generation_id_or_member_epoch(self.generation.map_or(-1, |id| id.0))
            .with_member_id(text(self.member.as_ref().map_or("", MemberId::as_str)))
            .with_group_instance_id(self.instance.as_ref().map(text))
            .with_topics(topics);
        put(ApiKey::OffsetCommit, version, &message, out)
    }
}

fn encode_row(row: &Partition) -> OffsetCommitRequestPartition {
    OffsetCommitRequestPartition::default()
        .with_partition_index(row.partition.0)
        .with_committed_offset(row.offset.0)
        .with_committed_leader_epoch(wire_epoch(row.leader_epoch))
        .with_committed_metadata(Some(text(&row.metadata)))
}

/// What became of each offset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// How long the broker asks us to be quiet.
    pub throttle: Duration,
    /// One row per partition.
    pub partitions: Vec<Committed>,
}

/// What became of one offset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Committed {
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub partition: PartitionIndex,
    /// Error of this row.
    pub error: ErrorCode,
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
    const API: ApiKey = ApiKey::OffsetCommit;

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

/// Smallest row: index, error.
const ROW_MIN: usize = 6;

fn read_row(cursor: &mut Cursor<'_>, topic: &TopicName) -> Read<Committed> {
    let partition = PartitionIndex(cursor.i32("partition_index")?);
    let error = read_error(cursor)?;
    cursor.no_tags()?;
    Ok(Committed {
        topic: topic.clone(),
        partition,
        error,
    })
}
