//! Produce (0), versions 7-13: 8 names bad records (KIP-467), 9 flexible, 10 hints (KIP-951), 12
//! inside transactions of the second kind (KIP-890), 13 topic ids.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{ProduceRequest, TransactionalId};

use super::{
    Body, CurrentLeader, ENDPOINT_MIN, Endpoint, TopicRef, decode, known_offset, put,
    read_current_leader, read_endpoint, read_error, read_throttle, read_topic, read_topic_id, text,
    wire_millis, wire_topic,
};
use crate::ids::{Offset, PartitionIndex, TopicId, TopicName};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, Read};
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;

/// Who must have a batch before it is acknowledged. No acknowledgement at all is not offered: there
/// would be no answer to order by (wire.md 4.1 F7).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Acks {
    /// Every in-sync replica.
    #[default]
    All,
    /// The leader alone.
    Leader,
}

/// Writes batches, one per partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The transactional id, inside a transaction.
    pub transactional_id: Option<String>,
    /// Whether the cluster has finalized transaction.version 2, without which a transaction stays
    /// at 11.
    pub transactions_v2: bool,
    /// Who must have the batches.
    pub acks: Acks,
    /// How long the broker may wait for the replicas.
    pub timeout: Duration,
    /// The batches.
    pub partitions: Vec<Partition>,
}

/// One batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// The topic's name.
    pub topic: TopicName,
    /// The topic's id; one row without it takes the whole request to version 12.
    pub topic_id: Option<TopicId>,
    /// The partition.
    pub partition: PartitionIndex,
    /// One sealed record batch.
    pub records: Bytes,
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
                api: ApiKey::Produce,
                version,
                reason,
            });
        }
        let acks = match self.acks {
            Acks::All => -1,
            Acks::Leader => 1,
        };
        let id = self
            .transactional_id
            .as_ref()
            .map(|id| TransactionalId(text(id)));
        let message = ProduceRequest::default()
            .with_transactional_id(id)
            .with_acks(acks)
            .with_timeout_ms(wire_millis(self.timeout))
            .with_topic_data(encode_topics(&self.partitions, version));
        put(ApiKey::Produce, version, &message, out)
    }

    /// The highest version this request may use.
    pub fn version_max(&self) -> i16 {
        if self.transactional_id.is_some() && !self.transactions_v2 {
            11
        } else if self.has_every_id() {
            i16::MAX
        } else {
            12
        }
    }

    fn has_every_id(&self) -> bool {
        self.partitions.iter().all(|row| row.topic_id.is_some())
    }
}

fn encode_topics(rows: &[Partition], version: i16) -> Vec<TopicProduceData> {
    super::by_topic(rows, |row| &row.topic)
        .into_iter()
        .map(|(name, rows)| {
            let id = rows.first().and_then(|row| row.topic_id);
            let partitions = rows.into_iter().map(|row| {
                PartitionProduceData::default()
                    .with_index(row.partition.0)
                    .with_records(Some(row.records.clone()))
            });
            let topic = TopicProduceData::default().with_partition_data(partitions.collect());
            match id {
                Some(id) if version >= 13 => topic.with_topic_id(id.0),
                Some(_) | None => topic.with_name(wire_topic(name)),
            }
        })
        .collect()
}

/// What became of each batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// One row per partition.
    pub partitions: Vec<Produced>,
    /// How long the broker asks us to be quiet.
    pub throttle: Duration,
    /// Endpoints of leaders named in the rows (KIP-951).
    pub endpoints: Vec<Endpoint>,
}

/// What became of one batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Produced {
    /// The topic: an id from version 13 on, else a name.
    pub topic: TopicRef,
    /// The partition.
    pub partition: PartitionIndex,
    /// Error of this row.
    pub error: ErrorCode,
    /// Offset of the first record, if it was written.
    pub base_offset: Option<Offset>,
    /// The broker's timestamp in milliseconds since 1970, where the topic asks for it.
    pub log_append_time_ms: Option<i64>,
    /// First offset still kept.
    pub log_start: Option<Offset>,
    /// Records that were refused, from version 8 on.
    pub record_errors: Vec<RecordError>,
    /// The broker's words, from version 8 on.
    pub message: Option<String>,
    /// The leader as this broker knows it (KIP-951).
    pub current_leader: Option<CurrentLeader>,
}

/// Why one record was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordError {
    /// Index of the record in its batch.
    pub index: i32,
    /// The broker's words.
    pub message: Option<String>,
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
    const API: ApiKey = ApiKey::Produce;

    fn read(cursor: &mut Cursor<'_>, version: i16) -> Read<Self> {
        let mut partitions = Vec::new();
        for _ in 0..cursor.count("responses", TOPIC_MIN)? {
            let topic = match version {
                13.. => TopicRef::Id(read_topic_id(cursor)?.unwrap_or(TopicId(uuid::Uuid::nil()))),
                _ => TopicRef::Name(read_topic(cursor)?),
            };
            let rows = cursor.array("partitions", ROW_MIN, |cursor| {
                read_row(cursor, version, topic.clone())
            })?;
            partitions.extend(rows);
            cursor.no_tags()?;
        }
        cursor.keep_first(&mut partitions, |row| (row.topic.clone(), row.partition));
        let throttle = read_throttle(cursor)?;
        let mut endpoints = Vec::new();
        cursor.tagged(|cursor, tag| {
            let known = tag == 0 && version >= 10;
            if known {
                endpoints = cursor.array("node_endpoints", ENDPOINT_MIN, read_endpoint)?;
            }
            Ok(known)
        })?;
        cursor.keep_first(&mut endpoints, |endpoint| endpoint.broker);
        Ok(Self {
            partitions,
            throttle,
            endpoints,
        })
    }
}

/// Smallest topic: empty name, no rows, all compact, no tags.
const TOPIC_MIN: usize = 3;
/// Smallest row: index, error, offset, time, log start.
const ROW_MIN: usize = 30;
/// Smallest record error: index, null text.
const RECORD_ERROR_MIN: usize = 6;

fn read_row(cursor: &mut Cursor<'_>, version: i16, topic: TopicRef) -> Read<Produced> {
    let partition = PartitionIndex(cursor.i32("index")?);
    let error = read_error(cursor)?;
    let base_offset = known_offset(cursor.i64("base_offset")?);
    let time = cursor.i64("log_append_time_ms")?;
    let log_start = known_offset(cursor.i64("log_start_offset")?);
    let mut row = Produced {
        topic,
        partition,
        error,
        base_offset,
        log_append_time_ms: (time >= 0).then_some(time),
        log_start,
        record_errors: Vec::new(),
        message: None,
        current_leader: None,
    };
    if version >= 8 {
        row.record_errors = cursor.array("record_errors", RECORD_ERROR_MIN, read_record_error)?;
        row.message = cursor.message("error_message")?;
    }
    cursor.tagged(|cursor, tag| {
        let known = tag == 0 && version >= 10;
        if known {
            row.current_leader = read_current_leader(cursor)?;
        }
        Ok(known)
    })?;
    Ok(row)
}

fn read_record_error(cursor: &mut Cursor<'_>) -> Read<RecordError> {
    let index = cursor.i32("batch_index")?;
    let message = cursor.message("batch_index_error_message")?;
    cursor.no_tags()?;
    Ok(RecordError { index, message })
}
