//! Metadata (3), versions 9-13: brokers, topics, leaders. Epochs are trusted from 9, requests by id
//! are served from 12, 13 has a top-level error (KIP-1102).

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::MetadataRequest;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;

use super::{
    Body, Endpoint, TopicRef, decode, known_broker, known_epoch, put, read_error, read_port,
    read_rack, read_throttle, read_topic_id, wire_topic,
};
use crate::ids::{BrokerId, LeaderEpoch, PartitionIndex, TopicId, TopicName};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, HOST_MAX, IDENTIFIER_MAX, Read, TOPIC_MAX};
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;

/// Asks for the cluster and some topics.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// The topics; `None` is all of them, empty is none. Ids are served from version 12 on.
    pub topics: Option<Vec<TopicRef>>,
    /// Whether the broker may create a missing topic.
    pub allow_auto_creation: bool,
}

impl Request {
    /// Appends the body at `version`.
    ///
    /// # Errors
    /// If `version` cannot carry it.
    pub fn encode(&self, version: i16, out: &mut BytesMut) -> Result<(), EncodeError> {
        let topics = self
            .topics
            .as_ref()
            .map(|topics| topics.iter().map(encode_topic).collect());
        let message = MetadataRequest::default()
            .with_topics(topics)
            .with_allow_auto_topic_creation(self.allow_auto_creation);
        put(ApiKey::Metadata, version, &message, out)
    }

    /// The lowest version that serves this request.
    pub fn version_min(&self) -> i16 {
        let by_id = |topic: &TopicRef| matches!(topic, TopicRef::Id(_));
        if self.topics.iter().flatten().any(by_id) {
            12
        } else {
            9
        }
    }
}

/// One partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// Error of this row; 5 (no leader) and 9 come with usable fields.
    pub error: ErrorCode,
    /// The partition.
    pub partition: PartitionIndex,
    /// Its leader, if it has one.
    pub leader: Option<BrokerId>,
    /// The leader's epoch, if known.
    pub leader_epoch: Option<LeaderEpoch>,
    /// All replicas, in order of preference for leadership.
    pub replicas: Vec<BrokerId>,
    /// The in-sync ones.
    pub isr: Vec<BrokerId>,
    /// The offline ones.
    pub offline: Vec<BrokerId>,
}

/// One topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topic {
    /// Error of the whole topic.
    pub error: ErrorCode,
    /// Its name; `None` for an unknown id.
    pub name: Option<TopicName>,
    /// Its id, from version 10 on.
    pub id: Option<TopicId>,
    /// Whether Kafka uses it for itself.
    pub internal: bool,
    /// Its partitions.
    pub partitions: Vec<Partition>,
}

/// The cluster as one broker sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// How long the broker asks us to be quiet.
    pub throttle: Duration,
    /// The live brokers.
    pub brokers: Vec<Endpoint>,
    /// Id of the cluster.
    pub cluster_id: Option<Arc<str>>,
    /// The controller, or any broker under KRaft.
    pub controller: Option<BrokerId>,
    /// The topics asked for.
    pub topics: Vec<Topic>,
    /// Top-level error, from version 13 on; 129 orders a rebootstrap.
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
    const API: ApiKey = ApiKey::Metadata;

    fn read(cursor: &mut Cursor<'_>, version: i16) -> Read<Self> {
        let throttle = read_throttle(cursor)?;
        let mut brokers = cursor.array("brokers", BROKER_MIN, read_broker)?;
        cursor.keep_first(&mut brokers, |endpoint| endpoint.broker);
        let cluster_id = cursor
            .nullable_text("cluster_id", IDENTIFIER_MAX)?
            .map(Arc::from);
        let controller = known_broker(cursor.i32("controller_id")?);
        let mut topics = cursor.array("topics", TOPIC_ROW_MIN, |cursor| {
            read_topic_row(cursor, version)
        })?;
        cursor.keep_first(&mut topics, |topic| (topic.name.clone(), topic.id));
        if (8..=10).contains(&version) {
            cursor.i32("cluster_authorized_operations")?;
        }
        let error = if version >= 13 {
            read_error(cursor)?
        } else {
            ErrorCode::NONE
        };
        cursor.no_tags()?;
        Ok(Self {
            throttle,
            brokers,
            cluster_id,
            controller,
            topics,
            error,
        })
    }
}

/// Smallest broker: id, empty host, port, null rack, no tags.
const BROKER_MIN: usize = 11;
/// Smallest topic at version 9: error, empty name, flag, no partitions, operations, no tags.
const TOPIC_ROW_MIN: usize = 10;
/// Smallest partition: error, index, leader, epoch, three empty lists, no tags.
const PARTITION_MIN: usize = 18;
/// One broker id.
const BROKER_ID: usize = 4;

fn read_broker(cursor: &mut Cursor<'_>) -> Read<Endpoint> {
    let broker = BrokerId(cursor.i32("node_id")?);
    let host = cursor.text("host", HOST_MAX)?.into();
    let port = read_port(cursor)?;
    let rack = read_rack(cursor)?;
    cursor.no_tags()?;
    Ok(Endpoint {
        broker,
        host,
        port,
        rack,
    })
}

fn read_topic_row(cursor: &mut Cursor<'_>, version: i16) -> Read<Topic> {
    let error = read_error(cursor)?;
    let name = cursor.nullable_text("topic name", TOPIC_MAX)?;
    let id = if version >= 10 {
        read_topic_id(cursor)?
    } else {
        None
    };
    let internal = cursor.bool("is_internal")?;
    let mut partitions = cursor.array("partitions", PARTITION_MIN, read_partition)?;
    cursor.keep_first(&mut partitions, |partition| partition.partition);
    cursor.i32("topic_authorized_operations")?;
    cursor.no_tags()?;
    let name = name.filter(|name| !name.is_empty()).map(TopicName::from);
    Ok(Topic {
        error,
        name,
        id,
        internal,
        partitions,
    })
}

fn read_partition(cursor: &mut Cursor<'_>) -> Read<Partition> {
    let error = read_error(cursor)?;
    let partition = PartitionIndex(cursor.i32("partition_index")?);
    let leader = known_broker(cursor.i32("leader_id")?);
    let leader_epoch = known_epoch(cursor.i32("leader_epoch")?);
    let replicas = read_brokers(cursor, "replica_nodes")?;
    let isr = read_brokers(cursor, "isr_nodes")?;
    let offline = read_brokers(cursor, "offline_replicas")?;
    cursor.no_tags()?;
    Ok(Partition {
        error,
        partition,
        leader,
        leader_epoch,
        replicas,
        isr,
        offline,
    })
}

fn read_brokers(cursor: &mut Cursor<'_>, field: &'static str) -> Read<Vec<BrokerId>> {
    cursor.array(field, BROKER_ID, |cursor| cursor.i32(field).map(BrokerId))
}

fn encode_topic(topic: &TopicRef) -> MetadataRequestTopic {
    match topic {
        TopicRef::Name(name) => MetadataRequestTopic::default().with_name(Some(wire_topic(name))),
        TopicRef::Id(id) => MetadataRequestTopic::default()
            .with_name(None)
            .with_topic_id(id.0),
    }
}
