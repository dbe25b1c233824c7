//! OffsetFetch (9), versions 5-9: reads a group's offsets. 5 carries the leader epoch, 7 waits for
//! stable offsets (KIP-447), 8 takes several groups, 9 a member epoch (KIP-848). One group is asked
//! per request.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::{GroupId as WireGroup, OffsetFetchRequest};

use super::{
    Body, by_topic, decode, known_epoch, known_offset, put, read_error, read_throttle,
    read_topic_rows, text, wire_topic,
};
use crate::ids::{
    Generation, GroupId, LeaderEpoch, MemberId, Offset, PartitionIndex, TopicName, TopicPartition,
};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, IDENTIFIER_MAX, Read};
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;

/// Asks for committed offsets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The group.
    pub group: GroupId,
    /// Our member id under KIP-848, told from version 9 on.
    pub member: Option<MemberId>,
    /// Our member epoch under KIP-848, told from version 9 on.
    pub member_epoch: Option<Generation>,
    /// The partitions; `None` is all the group has.
    pub partitions: Option<Vec<TopicPartition>>,
    /// Whether to be refused (88) while transactions are open, from version 7 on.
    pub require_stable: bool,
}

impl Request {
    /// Appends the body at `version`.
    ///
    /// # Errors
    /// If `version` cannot carry it.
    pub fn encode(&self, version: i16, out: &mut BytesMut) -> Result<(), EncodeError> {
        let message = OffsetFetchRequest::default();
        let mut message = if version >= 8 {
            message.with_groups(vec![self.encode_group(version)])
        } else {
            let topics = self.topics(|topic, indexes| {
                OffsetFetchRequestTopic::default()
                    .with_name(topic)
                    .with_partition_indexes(indexes)
            });
            message.with_group_id(self.wire_group()).with_topics(topics)
        };
        if version >= 7 {
            message = message.with_require_stable(self.require_stable);
        }
        put(ApiKey::OffsetFetch, version, &message, out)
    }

    fn encode_group(&self, version: i16) -> OffsetFetchRequestGroup {
        let topics = self.topics(|topic, indexes| {
            OffsetFetchRequestTopics::default()
                .with_name(topic)
                .with_partition_indexes(indexes)
        });
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(self.wire_group())
            .with_topics(topics);
        if version < 9 {
            return group;
        }
        group
            .with_member_id(self.member.as_ref().map(|member| text(member.as_str())))
            .with_member_epoch(self.member_epoch.map_or(-1, |epoch| epoch.0))
    }

    fn wire_group(&self) -> WireGroup {
        WireGroup(text(self.group.as_str()))
    }

    fn topics<T>(
        &self,
        build: impl Fn(kafka_protocol::messages::TopicName, Vec<i32>) -> T,
    ) -> Option<Vec<T>> {
        let partitions = self.partitions.as_ref()?;
        let topics = by_topic(partitions, |row| &row.topic)
            .into_iter()
            .map(|(topic, rows)| {
                let indexes = rows.into_iter().map(|row| row.partition.0).collect();
                build(wire_topic(topic), indexes)
            });
        Some(topics.collect())
    }
}

/// The committed offsets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// How long the broker asks us to be quiet.
    pub throttle: Duration,
    /// Error of the whole request.
    pub error: ErrorCode,
    /// One row per partition.
    pub partitions: Vec<Committed>,
}

/// The committed offset of one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Committed {
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub partition: PartitionIndex,
    /// The next offset to read; `None` if nothing was ever committed.
    pub offset: Option<Offset>,
    /// Epoch of the last record before it, if the committer knew it.
    pub leader_epoch: Option<LeaderEpoch>,
    /// Free text the committer left; null is empty.
    pub metadata: String,
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
    const API: ApiKey = ApiKey::OffsetFetch;

    fn read(cursor: &mut Cursor<'_>, version: i16) -> Read<Self> {
        let throttle = read_throttle(cursor)?;
        let (error, mut partitions) = if version >= 8 {
            // One group is asked, so the first is the answer.
            let groups = cursor.array("groups", GROUP_MIN, read_group)?;
            let missing = || (ErrorCode::UNKNOWN_SERVER_ERROR, Vec::new());
            groups.into_iter().next().unwrap_or_else(missing)
        } else {
            let partitions = read_topic_rows(cursor, ROW_MIN, read_row)?;
            (read_error(cursor)?, partitions)
        };
        cursor.keep_first(&mut partitions, |row| (row.topic.clone(), row.partition));
        cursor.no_tags()?;
        Ok(Self {
            throttle,
            error,
            partitions,
        })
    }
}

/// Smallest group: empty id, no topics, error, no tags.
const GROUP_MIN: usize = 5;
/// Smallest row: index, offset, epoch, null text, error.
const ROW_MIN: usize = 20;

fn read_group(cursor: &mut Cursor<'_>) -> Read<(ErrorCode, Vec<Committed>)> {
    cursor.text("group_id", IDENTIFIER_MAX)?;
    let partitions = read_topic_rows(cursor, ROW_MIN, read_row)?;
    let error = read_error(cursor)?;
    cursor.no_tags()?;
    Ok((error, partitions))
}

fn read_row(cursor: &mut Cursor<'_>, topic: &TopicName) -> Read<Committed> {
    let partition = PartitionIndex(cursor.i32("partition_index")?);
    let offset = known_offset(cursor.i64("committed_offset")?);
    let leader_epoch = known_epoch(cursor.i32("committed_leader_epoch")?);
    let metadata = cursor
        .nullable_text("metadata", IDENTIFIER_MAX)?
        .unwrap_or_default()
        .to_owned();
    let error = read_error(cursor)?;
    cursor.no_tags()?;
    Ok(Committed {
        topic: topic.clone(),
        partition,
        offset,
        leader_epoch,
        metadata,
        error,
    })
}
