//! Fetch (1), versions 10-18: 11 hints (KIP-392), 12 diverging epochs and flexible, 13 topic ids,
//! 16 node endpoints (KIP-951).
//!
//! A response is validated once, then iterated: a [`Row`] borrows nothing, its records and its
//! aborted transactions are slices of the frame, and nothing is kept per partition.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::FetchRequest;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};

use super::{
    Body, CurrentLeader, ENDPOINT_MIN, Endpoint, Isolation, NO_BROKER, TopicRef, decode,
    known_broker, known_epoch, known_offset, put, read_current_leader, read_endpoint, read_error,
    read_throttle, read_topic, read_topic_id, text, wire_epoch, wire_millis, wire_topic,
};
use crate::ids::{BrokerId, LeaderEpoch, Offset, PartitionIndex, Rack, TopicId, TopicName};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, Read};
use crate::wire::error::{DecodeError, EncodeError};
use crate::wire::error_code::ErrorCode;

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
    /// A version not to exceed: 10 on the v10 lane, 12 while a session goes by names (an incremental
    /// request without rows would else leave it). `None` leaves the choice to the connection.
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

/// An answer whose rows are read on demand. Cloning copies a reference to the frame.
#[derive(Clone, PartialEq, Debug)]
pub struct Response {
    /// How long the broker asks us to be quiet.
    pub throttle: Duration,
    /// Error of the whole request; rows are then meaningless.
    pub error: ErrorCode,
    /// The session; 0 if the broker keeps none.
    pub session_id: i32,
    /// Endpoints of leaders named in the rows (KIP-951).
    pub endpoints: Vec<Endpoint>,
    version: i16,
    row_count: usize,
    topics: Bytes,
}

impl Response {
    /// Decodes the body of an answer at `version`: walks every row once, keeps none.
    ///
    /// # Errors
    /// If the bytes break the protocol anywhere.
    pub fn decode(version: i16, body: &Bytes) -> Result<Self, DecodeError> {
        decode(version, body).map(|(response, _)| response)
    }

    /// The rows in the broker's order. A partition that appears twice is not detected here: whoever
    /// keeps the session judges rows against it (wire.md 7 D7).
    pub fn rows(&self) -> Rows<'_> {
        let mut cursor = Cursor::new(&self.topics, ApiKey::Fetch.is_flexible(self.version));
        let topics_left = cursor.count("responses", TOPIC_MIN).unwrap_or(0);
        Rows {
            cursor,
            version: self.version,
            topics_left,
            topic: None,
        }
    }

    /// Number of rows.
    pub fn row_count(&self) -> usize {
        self.row_count
    }
}

/// One partition's share of an answer.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The topic: an id from version 13 on, else a name.
    pub topic: TopicRef,
    /// The partition.
    pub partition: PartitionIndex,
    /// Error of this row.
    pub error: ErrorCode,
    /// End of what is replicated, as this broker knows it.
    pub high_watermark: Option<Offset>,
    /// End of what read_committed may see.
    pub last_stable_offset: Option<Offset>,
    /// First offset still kept.
    pub log_start: Option<Offset>,
    /// The replica the leader would rather have us read (KIP-392).
    pub preferred_read_replica: Option<BrokerId>,
    /// Where the broker's log leaves ours (KIP-595), if it does.
    pub diverging_epoch: Option<EpochEnd>,
    /// The leader as this broker knows it (KIP-951).
    pub current_leader: Option<CurrentLeader>,
    /// Aborted transactions among the records.
    pub aborted: Aborted,
    /// Record batches, the last one perhaps cut; empty if there are none.
    pub records: Bytes,
}

/// An epoch and where it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochEnd {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// First offset behind it.
    pub end_offset: Offset,
}

/// Aborted transactions of one row, read on demand: unsorted, may hold duplicates.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Aborted {
    entries: Bytes,
    count: usize,
    flexible: bool,
}

/// One aborted transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AbortedTransaction {
    /// Its first offset in this partition.
    pub first_offset: Offset,
    /// Its producer's id.
    pub producer_id: i64,
}

impl Aborted {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The entries in the broker's order.
    pub fn iter(&self) -> impl Iterator<Item = AbortedTransaction> {
        let mut cursor = Cursor::new(&self.entries, self.flexible);
        (0..self.count).map_while(move |_| read_aborted(&mut cursor).ok())
    }
}

/// Iterates the rows of a [`Response`].
#[derive(Debug)]
pub struct Rows<'a> {
    cursor: Cursor<'a>,
    version: i16,
    topics_left: usize,
    topic: Option<(TopicRef, usize)>,
}

impl Rows<'_> {
    fn advance(&mut self) -> Read<Option<Row>> {
        loop {
            if let Some((topic, left)) = &mut self.topic {
                if let Some(rest) = left.checked_sub(1) {
                    *left = rest;
                    let topic = topic.clone();
                    return read_row(&mut self.cursor, self.version, topic).map(Some);
                }
                self.topic = None;
                self.cursor.no_tags()?;
            }
            let Some(rest) = self.topics_left.checked_sub(1) else {
                return Ok(None);
            };
            self.topics_left = rest;
            let topic = read_topic_ref(&mut self.cursor, self.version)?;
            let partitions = self.cursor.count("partitions", ROW_MIN)?;
            self.topic = Some((topic, partitions));
        }
    }
}

impl Iterator for Rows<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        // The same bytes were walked without an error when the response was decoded.
        self.advance().ok().flatten()
    }
}

impl Body for Response {
    const API: ApiKey = ApiKey::Fetch;

    fn read(cursor: &mut Cursor<'_>, version: i16) -> Read<Self> {
        let throttle = read_throttle(cursor)?;
        let error = read_error(cursor)?;
        let session_id = cursor.i32("session_id")?;
        let start = cursor.position();
        let row_count = skip_topics(cursor, version)?;
        let topics = cursor.since(start);
        let mut endpoints = Vec::new();
        cursor.tagged(|cursor, tag| {
            let known = tag == 0 && version >= 16;
            if known {
                endpoints = cursor.array("node_endpoints", ENDPOINT_MIN, read_endpoint)?;
            }
            Ok(known)
        })?;
        cursor.keep_first(&mut endpoints, |endpoint| endpoint.broker);
        Ok(Self {
            throttle,
            error,
            session_id,
            endpoints,
            version,
            row_count,
            topics,
        })
    }
}

/// Smallest topic: empty name and no partitions, all compact, no tags.
const TOPIC_MIN: usize = 3;
/// Smallest row: index, error, three offsets, no aborted ones, preferred replica if any, no
/// records.
const ROW_MIN: usize = 37;
/// Smallest aborted transaction: two numbers.
const ABORTED_MIN: usize = 16;

fn skip_topics(cursor: &mut Cursor<'_>, version: i16) -> Read<usize> {
    let mut rows = 0_usize;
    for _ in 0..cursor.count("responses", TOPIC_MIN)? {
        let topic = read_topic_ref(cursor, version)?;
        for _ in 0..cursor.count("partitions", ROW_MIN)? {
            read_row(cursor, version, topic.clone())?;
            rows += 1;
        }
        cursor.no_tags()?;
    }
    Ok(rows)
}

fn read_topic_ref(cursor: &mut Cursor<'_>, version: i16) -> Read<TopicRef> {
    if version < 13 {
        return read_topic(cursor).map(TopicRef::Name);
    }
    // An all-zero id belongs to no topic; it reaches the session, which asked for no such row.
    let id = read_topic_id(cursor)?.unwrap_or(TopicId(uuid::Uuid::nil()));
    Ok(TopicRef::Id(id))
}

fn read_row(cursor: &mut Cursor<'_>, version: i16, topic: TopicRef) -> Read<Row> {
    let mut row = Row {
        topic,
        partition: PartitionIndex(cursor.i32("partition_index")?),
        error: read_error(cursor)?,
        high_watermark: known_offset(cursor.i64("high_watermark")?),
        last_stable_offset: known_offset(cursor.i64("last_stable_offset")?),
        log_start: known_offset(cursor.i64("log_start_offset")?),
        aborted: read_aborted_list(cursor)?,
        preferred_read_replica: match version {
            11.. => known_broker(cursor.i32("preferred_read_replica")?),
            _ => None,
        },
        records: cursor.nullable_bytes("records")?.unwrap_or_default(),
        diverging_epoch: None,
        current_leader: None,
    };
    cursor.tagged(|cursor, tag| {
        match tag {
            0 => row.diverging_epoch = read_epoch_end(cursor)?,
            1 => row.current_leader = read_current_leader(cursor)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(row)
}

fn read_epoch_end(cursor: &mut Cursor<'_>) -> Read<Option<EpochEnd>> {
    let epoch = known_epoch(cursor.i32("diverging epoch")?);
    let end = known_offset(cursor.i64("diverging end_offset")?);
    cursor.no_tags()?;
    Ok(epoch
        .zip(end)
        .map(|(epoch, end_offset)| EpochEnd { epoch, end_offset }))
}

fn read_aborted_list(cursor: &mut Cursor<'_>) -> Read<Aborted> {
    let Some(count) = cursor.nullable_count("aborted_transactions", ABORTED_MIN)? else {
        return Ok(Aborted::default());
    };
    let start = cursor.position();
    for _ in 0..count {
        read_aborted(cursor)?;
    }
    Ok(Aborted {
        entries: cursor.since(start),
        count,
        flexible: cursor.flexible(),
    })
}

fn read_aborted(cursor: &mut Cursor<'_>) -> Read<AbortedTransaction> {
    let producer_id = cursor.i64("producer_id")?;
    let first_offset = Offset(cursor.i64("first_offset")?);
    cursor.no_tags()?;
    Ok(AbortedTransaction {
        first_offset,
        producer_id,
    })
}
