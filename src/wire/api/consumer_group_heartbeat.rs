//! ConsumerGroupHeartbeat (68), version 1: joins, keeps and leaves a group whose coordinator
//! assigns (KIP-848). Version 0 has member ids made by the broker and is not spoken. What did not
//! change since the last heartbeat is `None`.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use indexmap::IndexMap;
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, GroupId as WireGroup};

use super::{
    Body, decode, put, read_error, read_millis, read_throttle, read_topic_id, text, wire_millis,
    wire_topic,
};
use crate::ids::{Generation, GroupId, MemberId, PartitionIndex, Rack, TopicId, TopicName};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, IDENTIFIER_MAX, Read};
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;

/// What a member says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The group.
    pub group: GroupId,
    /// Our member id, made by ourselves and kept for the life of the process.
    pub member: MemberId,
    /// Where we stand.
    pub standing: Standing,
    /// Our static id, if we have one.
    pub instance: Option<String>,
    /// Our rack.
    pub rack: Option<Rack>,
    /// How long the coordinator waits for us to give partitions up.
    pub rebalance_timeout: Option<Duration>,
    /// The topics subscribed by name.
    pub topics: Option<Vec<TopicName>>,
    /// The topics subscribed by pattern, in the broker's syntax.
    pub pattern: Option<String>,
    /// The coordinator's assignor to use.
    pub assignor: Option<String>,
    /// The partitions we own.
    pub owned: Option<Vec<TopicIdPartition>>,
}

/// What a heartbeat is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// To join, or to join again after being fenced.
    Join,
    /// To stay, at this member epoch.
    Stay(Generation),
    /// To leave for good.
    Leave,
    /// To leave for a while: a static member that will be back.
    LeaveForNow,
}

impl Standing {
    const fn wire(self) -> i32 {
        match self {
            Self::Join => 0,
            Self::Stay(epoch) => epoch.0,
            Self::Leave => -1,
            Self::LeaveForNow => -2,
        }
    }
}

/// A partition of a topic that is known by its id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TopicIdPartition {
    /// The topic.
    pub topic: TopicId,
    /// The partition.
    pub partition: PartitionIndex,
}

impl Request {
    /// Appends the body at `version`.
    ///
    /// # Errors
    /// If `version` cannot carry it.
    pub fn encode(&self, version: i16, out: &mut BytesMut) -> Result<(), EncodeError> {
        let topics = self.topics.as_ref();
        let message = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(WireGroup(text(self.group.as_str())))
            .with_member_id(text(self.member.as_str()))
            .with_member_epoch(self.standing.wire())
            .with_instance_id(self.instance.as_ref().map(text))
            .with_rack_id(self.rack.as_ref().map(|rack| text(rack.as_str())))
            .with_rebalance_timeout_ms(self.rebalance_timeout.map_or(-1, wire_millis))
            .with_subscribed_topic_names(topics.map(|all| all.iter().map(wire_topic).collect()))
            .with_subscribed_topic_regex(self.pattern.as_ref().map(text))
            .with_server_assignor(self.assignor.as_ref().map(text))
            .with_topic_partitions(self.owned.as_deref().map(grouped));
        put(ApiKey::ConsumerGroupHeartbeat, version, &message, out)
    }
}

/// Rows by topic, in order of first appearance.
fn grouped(rows: &[TopicIdPartition]) -> Vec<TopicPartitions> {
    let mut groups: IndexMap<TopicId, Vec<i32>> = IndexMap::new();
    for row in rows {
        groups.entry(row.topic).or_default().push(row.partition.0);
    }
    let group = |(topic, partitions): (TopicId, Vec<i32>)| {
        TopicPartitions::default()
            .with_topic_id(topic.0)
            .with_partitions(partitions)
    };
    groups.into_iter().map(group).collect()
}

/// The coordinator's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// How long the broker asks us to be quiet.
    pub throttle: Duration,
    /// 110 and 25 order a join anew.
    pub error: ErrorCode,
    /// The coordinator's words about the error.
    pub message: Option<String>,
    /// Our member id as the coordinator knows it.
    pub member: Option<MemberId>,
    /// Our member epoch; `None` after leaving and on errors without one.
    pub epoch: Option<Generation>,
    /// How long to wait before the next heartbeat.
    pub interval: Duration,
    /// All partitions we shall own, sorted; `None` if that did not change.
    pub assignment: Option<Vec<TopicIdPartition>>,
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
    const API: ApiKey = ApiKey::ConsumerGroupHeartbeat;

    fn read(cursor: &mut Cursor<'_>, _version: i16) -> Read<Self> {
        let response = Self {
            throttle: read_throttle(cursor)?,
            error: read_error(cursor)?,
            message: cursor.message("error_message")?,
            member: cursor
                .nullable_text("member_id", IDENTIFIER_MAX)?
                .filter(|id| !id.is_empty())
                .map(MemberId::from),
            epoch: known_member_epoch(cursor.i32("member_epoch")?),
            interval: read_millis(cursor, "heartbeat_interval_ms")?,
            assignment: read_assignment(cursor)?,
        };
        cursor.no_tags()?;
        Ok(response)
    }
}

fn known_member_epoch(epoch: i32) -> Option<Generation> {
    (epoch >= 0).then_some(Generation(epoch))
}

/// Smallest topic of an assignment: id, no partitions, no tags.
const TOPIC_MIN: usize = 18;
/// A partition's number.
const PARTITION_MIN: usize = 4;

/// A structure that may be null: a byte below 0 says that it is.
fn read_assignment(cursor: &mut Cursor<'_>) -> Read<Option<Vec<TopicIdPartition>>> {
    if cursor.i8("assignment")? < 0 {
        return Ok(None);
    }
    let mut rows = Vec::new();
    for _ in 0..cursor.count("topic_partitions", TOPIC_MIN)? {
        // An all-zero id belongs to no topic; nobody subscribed to it.
        let topic = read_topic_id(cursor)?.unwrap_or(TopicId(uuid::Uuid::nil()));
        rows.extend(cursor.array("partitions", PARTITION_MIN, |cursor| {
            let partition = PartitionIndex(cursor.i32("partition")?);
            Ok(TopicIdPartition { topic, partition })
        })?);
        cursor.no_tags()?;
    }
    cursor.no_tags()?;
    cursor.sort_unique(&mut rows);
    Ok(Some(rows))
}
