//! What a Fetch asks for.

use std::time::Duration;

use bytes::BytesMut;
use kafka_protocol::messages::FetchRequest;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};

use crate::ids::{LeaderEpoch, Offset, PartitionIndex, Rack, TopicId, TopicName};
use crate::wire::api::{Isolation, NO_BROKER, put, text, wire_epoch, wire_millis, wire_topic};
use crate::wire::api_key::ApiKey;
use crate::wire::error::EncodeError;

/// Asks for the records of some partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Session to continue; 0 is none (KIP-227).
    pub session_id: i32,
    /// -1 ends or avoids a session, 0 creates one, n continues it.
    pub session_epoch: i32,
    /// The partitions to read, in the order the broker should fill them.
    pub partitions: Vec<Partition>,
    /// Partitions that leave the session.
    pub forgotten: Vec<Forgotten>,
    /// Our rack; `None` asks for no preferred replica.
    pub rack: Option<Rack>,
    /// Which records may be seen.
    pub isolation: Isolation,
    /// How long the broker may wait for `min_bytes`.
    pub max_wait: Duration,
    /// Bytes that end the wait.
    pub min_bytes: i32,
    /// Bytes of the whole answer; one larger batch is still sent (KIP-74).
    pub max_bytes: i32,
    /// A version not to exceed: 10 on the v10 lane, 12 while a session goes by names (an
    /// incremental request without rows would else leave it). `None` leaves the choice to the
    /// connection.
    pub version_limit: Option<i16>,
}

/// One partition to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// The topic's name.
    pub topic: TopicName,
    /// The topic's id; one row without it takes the whole request to version 12.
    pub topic_id: Option<TopicId>,
    /// The partition.
    pub partition: PartitionIndex,
    /// The leader's epoch as we know it.
    pub current_leader_epoch: Option<LeaderEpoch>,
    /// Where to read.
    pub fetch_offset: Offset,
    /// Epoch of the last record read, so that the broker can report divergence.
    pub last_fetched_epoch: Option<LeaderEpoch>,
    /// Bytes of this row; one larger batch is still sent when it comes first.
    pub max_bytes: i32,
}

/// One partition to drop from the session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forgotten {
    /// The topic's name.
    pub topic: TopicName,
    /// The topic's id; one row without it takes the whole request to version 12.
    pub topic_id: Option<TopicId>,
    /// The partition.
    pub partition: PartitionIndex,
}

impl Request {
    /// Appends the body at `version`.
    ///
    /// # Errors
    /// If `version` cannot carry it, such as a missing topic id from version 13 on.
    pub fn encode(&self, version: i16, out: &mut BytesMut) -> Result<(), EncodeError> {
        if version >= 13 && !self.has_every_id() {
            let reason = "a topic has no id".to_owned();
            return Err(EncodeError {
                api: ApiKey::Fetch,
                version,
                reason,
            });
        }
        let mut message = FetchRequest::default()
            .with_replica_id(NO_BROKER)
            .with_max_wait_ms(wire_millis(self.max_wait))
            .with_min_bytes(self.min_bytes)
            .with_max_bytes(self.max_bytes)
            .with_isolation_level(self.isolation.wire())
            .with_session_id(self.session_id)
            .with_session_epoch(self.session_epoch)
            .with_topics(encode_topics(&self.partitions, version))
            .with_forgotten_topics_data(encode_forgotten(&self.forgotten, version));
        if let (Some(rack), 11..) = (&self.rack, version) {
            message = message.with_rack_id(text(rack.as_str()));
        }
        put(ApiKey::Fetch, version, &message, out)
    }

    /// The highest version this request may use: ids come all or none (KIP-516).
    pub fn version_max(&self) -> i16 {
        let by_content = if self.has_every_id() { i16::MAX } else { 12 };
        self.version_limit
            .map_or(by_content, |limit| limit.min(by_content))
    }

    fn has_every_id(&self) -> bool {
        self.partitions.iter().all(|row| row.topic_id.is_some())
            && self.forgotten.iter().all(|row| row.topic_id.is_some())
    }
}

/// Groups neighbours only: the broker fills rows in request order.
fn encode_topics(rows: &[Partition], version: i16) -> Vec<FetchTopic> {
    let same = |left: &Partition, right: &Partition| {
        left.topic == right.topic && left.topic_id == right.topic_id
    };
    let topic = |group: &[Partition]| {
        let partitions = group.iter().map(|row| encode_row(row, version)).collect();
        let topic = FetchTopic::default().with_partitions(partitions);
        match group.first() {
            Some(Partition {
                topic_id: Some(id), ..
            }) if version >= 13 => topic.with_topic_id(id.0),
            Some(row) => topic.with_topic(wire_topic(&row.topic)),
            None => topic,
        }
    };
    rows.chunk_by(same).map(topic).collect()
}

fn encode_row(row: &Partition, version: i16) -> FetchPartition {
    let encoded = FetchPartition::default()
        .with_partition(row.partition.0)
        .with_current_leader_epoch(wire_epoch(row.current_leader_epoch))
        .with_fetch_offset(row.fetch_offset.0)
        .with_log_start_offset(-1)
        .with_partition_max_bytes(row.max_bytes);
    if version >= 12 {
        encoded.with_last_fetched_epoch(wire_epoch(row.last_fetched_epoch))
    } else {
        encoded
    }
}

fn encode_forgotten(rows: &[Forgotten], version: i16) -> Vec<ForgottenTopic> {
    let same = |left: &Forgotten, right: &Forgotten| {
        left.topic == right.topic && left.topic_id == right.topic_id
    };
    let topic = |group: &[Forgotten]| {
        let partitions = group.iter().map(|row| row.partition.0).collect();
        let topic = ForgottenTopic::default().with_partitions(partitions);
        match group.first() {
            Some(Forgotten {
                topic_id: Some(id), ..
            }) if version >= 13 => topic.with_topic_id(id.0),
            Some(row) => topic.with_topic(wire_topic(&row.topic)),
            None => topic,
        }
    };
    rows.chunk_by(same).map(topic).collect()
}
