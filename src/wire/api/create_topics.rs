//! CreateTopics (19), versions 5-7: 5 takes the cluster's defaults (KIP-464), 7 answers with the
//! id.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::CreateTopicsRequest;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};

use super::{
    Body, decode, put, read_error, read_throttle, read_topic, read_topic_id, text, wire_millis,
    wire_topic,
};
use crate::ids::{TopicId, TopicName};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, IDENTIFIER_MAX, Read};
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;

/// Creates topics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The topics.
    pub topics: Vec<NewTopic>,
    /// How long the broker may take.
    pub timeout: Duration,
    /// Only check, create nothing.
    pub validate_only: bool,
}

/// One topic to create.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewTopic {
    /// Its name.
    pub name: TopicName,
    /// Number of partitions; `None` takes the cluster's default.
    pub partitions: Option<i32>,
    /// Replicas of each; `None` takes the cluster's default.
    pub replication: Option<i16>,
    /// Its configuration.
    pub configs: Vec<(String, String)>,
}

impl Request {
    /// Appends the body at `version`.
    ///
    /// # Errors
    /// If `version` cannot carry it.
    pub fn encode(&self, version: i16, out: &mut BytesMut) -> Result<(), EncodeError> {
        let message = CreateTopicsRequest::default()
            .with_topics(self.topics.iter().map(encode_topic).collect())
            .with_timeout_ms(wire_millis(self.timeout))
            .with_validate_only(self.validate_only);
        put(ApiKey::CreateTopics, version, &message, out)
    }
}

fn encode_topic(topic: &NewTopic) -> CreatableTopic {
    let configs = topic.configs.iter().map(|(name, value)| {
        CreatableTopicConfig::default()
            .with_name(text(name))
            .with_value(Some(text(value)))
    });
    CreatableTopic::default()
        .with_name(wire_topic(&topic.name))
        .with_num_partitions(topic.partitions.unwrap_or(-1))
        .with_replication_factor(topic.replication.unwrap_or(-1))
        .with_configs(configs.collect())
}

/// What became of each topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// How long the broker asks us to be quiet.
    pub throttle: Duration,
    /// One row per topic.
    pub topics: Vec<Created>,
}

/// What became of one topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Created {
    /// Its name.
    pub name: TopicName,
    /// Its id, from version 7 on.
    pub id: Option<TopicId>,
    /// Error of this row.
    pub error: ErrorCode,
    /// The broker's words.
    pub message: Option<String>,
    /// Number of partitions, if told.
    pub partitions: Option<i32>,
    /// Replicas of each, if told.
    pub replication: Option<i16>,
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
    const API: ApiKey = ApiKey::CreateTopics;

    fn read(cursor: &mut Cursor<'_>, version: i16) -> Read<Self> {
        let throttle = read_throttle(cursor)?;
        let mut topics = cursor.array("topics", ROW_MIN, |cursor| read_row(cursor, version))?;
        cursor.keep_first(&mut topics, |topic| topic.name.clone());
        cursor.no_tags()?;
        Ok(Self { throttle, topics })
    }
}

/// Smallest row: empty name, error, null text, two numbers, null configuration, no tags.
const ROW_MIN: usize = 12;
/// Smallest entry: empty name, null value, two flags, source, no tags.
const CONFIG_MIN: usize = 6;

fn read_row(cursor: &mut Cursor<'_>, version: i16) -> Read<Created> {
    let name = read_topic(cursor)?;
    let id = if version >= 7 {
        read_topic_id(cursor)?
    } else {
        None
    };
    let error = read_error(cursor)?;
    let message = cursor.message("error_message")?;
    let partitions = cursor.i32("num_partitions")?;
    let replication = cursor.i16("replication_factor")?;
    cursor.nullable_array("configs", CONFIG_MIN, skip_config)?;
    cursor.no_tags()?;
    let partitions = (partitions >= 0).then_some(partitions);
    let replication = (replication >= 0).then_some(replication);
    Ok(Created {
        name,
        id,
        error,
        message,
        partitions,
        replication,
    })
}

fn skip_config(cursor: &mut Cursor<'_>) -> Read<()> {
    cursor.text("config name", IDENTIFIER_MAX)?;
    cursor.message("config value")?;
    cursor.bool("read_only")?;
    cursor.i8("config_source")?;
    cursor.bool("is_sensitive")?;
    cursor.no_tags()
}
