//! ListOffsets (2), versions 4-10: offsets by time. 4 carries the leader epoch (KIP-320), 7 the
//! largest timestamp (KIP-734), 8 and 9 tiered storage, 10 a timeout.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::ListOffsetsRequest;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};

use super::{
    Body, Isolation, NO_BROKER, by_topic, decode, known_epoch, known_offset, put, read_error,
    read_throttle, read_topic_rows, wire_epoch, wire_millis, wire_topic,
};
use crate::ids::{LeaderEpoch, Offset, PartitionIndex, TopicName};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, Read};
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;

/// Which offset is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// The first one kept.
    Earliest,
    /// The next one to be written, or the last stable one under read_committed.
    Latest,
    /// That of the record with the largest timestamp, from version 7 on.
    MaxTimestamp,
    /// That of the first record at or after this time, in milliseconds since 1970.
    Timestamp(i64),
}

impl At {
    const fn wire(self) -> i64 {
        match self {
            Self::Earliest => -2,
            Self::Latest => -1,
            Self::MaxTimestamp => -3,
            Self::Timestamp(ms) => ms,
        }
    }
}

/// Asks leaders for offsets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Which records count for the latest offset.
    pub isolation: Isolation,
    /// The partitions.
    pub partitions: Vec<Partition>,
    /// How long a broker may look in tiered storage, from version 10 on.
    pub timeout: Duration,
}

/// One partition to look at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub partition: PartitionIndex,
    /// The leader's epoch as we know it.
    pub current_leader_epoch: Option<LeaderEpoch>,
    /// The offset wanted.
    pub at: At,
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
                ListOffsetsTopic::default()
                    .with_name(wire_topic(topic))
                    .with_partitions(rows.into_iter().map(encode_row).collect())
            })
            .collect();
        let mut message = ListOffsetsRequest::default()
            .with_replica_id(NO_BROKER)
            .with_isolation_level(self.isolation.wire())
            .with_topics(topics);
        if version >= 10 {
            message = message.with_timeout_ms(wire_millis(self.timeout));
        }
        put(ApiKey::ListOffsets, version, &message, out)
    }

    /// The lowest version that serves this request.
    pub fn version_min(&self) -> i16 {
        if self.partitions.iter().any(|row| row.at == At::MaxTimestamp) {
            7
        } else {
            4
        }
    }
}

fn encode_row(row: &Partition) -> ListOffsetsPartition {
    ListOffsetsPartition::default()
        .with_partition_index(row.partition.0)
        .with_current_leader_epoch(wire_epoch(row.current_leader_epoch))
        .with_timestamp(row.at.wire())
}

/// The offsets found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// How long the broker asks us to be quiet.
    pub throttle: Duration,
    /// One row per partition.
    pub partitions: Vec<Found>,
}

/// The offset of one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub partition: PartitionIndex,
    /// Error of this row.
    pub error: ErrorCode,
    /// Timestamp of the record, in milliseconds since 1970, if a time was asked.
    pub timestamp: Option<i64>,
    /// The offset; `None` if no record is that young.
    pub offset: Option<Offset>,
    /// Epoch of the record there, or of the leader.
    pub leader_epoch: Option<LeaderEpoch>,
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
    const API: ApiKey = ApiKey::ListOffsets;

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

/// Smallest row: index, error, timestamp, offset, epoch.
const ROW_MIN: usize = 26;

fn read_row(cursor: &mut Cursor<'_>, topic: &TopicName) -> Read<Found> {
    let partition = PartitionIndex(cursor.i32("partition_index")?);
    let error = read_error(cursor)?;
    let timestamp = cursor.i64("timestamp")?;
    let offset = known_offset(cursor.i64("offset")?);
    let leader_epoch = known_epoch(cursor.i32("leader_epoch")?);
    cursor.no_tags()?;
    let timestamp = (timestamp >= 0).then_some(timestamp);
    Ok(Found {
        topic: topic.clone(),
        partition,
        error,
        timestamp,
        offset,
        leader_epoch,
    })
}
