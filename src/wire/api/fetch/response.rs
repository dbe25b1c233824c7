//! What a Fetch answers.

use std::time::Duration;

use bytes::Bytes;

use crate::ids::{BrokerId, LeaderEpoch, Offset, PartitionIndex, TopicId};
use crate::wire::api::{
    Body, CurrentLeader, ENDPOINT_MIN, Endpoint, TopicRef, decode, known_broker, known_epoch,
    known_offset, read_current_leader, read_endpoint, read_error, read_throttle, read_topic,
    read_topic_id,
};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, Read};
use crate::wire::error::DecodeError;
use crate::wire::error_code::ErrorCode;

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
#[derive(Clone, Default, Debug)]
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

/// The same entries, however they were written: a count may be padded on the wire.
impl PartialEq for Aborted {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
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
