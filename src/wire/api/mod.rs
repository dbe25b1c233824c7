//! Kafka's APIs, one file each: plain requests and responses, encoding, bounded decoding.
//!
//! Rows are flat: a row names its own topic, encoding groups them as the protocol wants. The wire's
//! -1 and its all-zero id are `None` here.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use indexmap::IndexMap;
use kafka_protocol::messages::{BrokerId as WireBroker, TopicName as WireTopic};
use kafka_protocol::protocol::{Encodable, StrBytes};
use serde::{Deserialize, Serialize};

use crate::ids::{BrokerId, LeaderEpoch, Offset, Rack, TopicId, TopicName};
use crate::wire::api_key::ApiKey;
use crate::wire::cursor::{Cursor, Flaw, HOST_MAX, Oddities, Read, TOPIC_MAX};
use crate::wire::error::{DecodeError, EncodeError};

pub mod api_versions;
pub mod consumer_group_heartbeat;
pub mod create_topics;
pub mod describe_configs;
pub mod fetch;
pub mod find_coordinator;
pub mod heartbeat;
pub mod init_producer_id;
pub mod join_group;
pub mod leave_group;
pub mod list_offsets;
pub mod metadata;
pub mod offset_commit;
pub mod offset_fetch;
pub mod offset_for_leader_epoch;
pub mod produce;
pub mod sasl_authenticate;
pub mod sasl_handshake;
pub mod sync_group;

/// A topic as a row names it: by name, or by id where the version speaks ids (KIP-516).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TopicRef {
    /// The topic's name.
    Name(TopicName),
    /// The topic's id.
    Id(TopicId),
}

/// Where a broker listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// The broker.
    pub broker: BrokerId,
    /// Its advertised host.
    pub host: Arc<str>,
    /// Its advertised port.
    pub port: u16,
    /// Its rack, if it has one and the response tells.
    pub rack: Option<Rack>,
}

/// Who leads a partition now, as told in passing (KIP-951).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CurrentLeader {
    /// The leader, if there is one.
    pub leader: Option<BrokerId>,
    /// Its epoch, if known.
    pub epoch: Option<LeaderEpoch>,
}

/// Which records a read may see.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Isolation {
    /// Everything below the high watermark.
    #[default]
    ReadUncommitted,
    /// Nothing of open or aborted transactions: everything below the last stable offset.
    ReadCommitted,
}

impl Isolation {
    pub(crate) const fn wire(self) -> i8 {
        match self {
            Self::ReadUncommitted => 0,
            Self::ReadCommitted => 1,
        }
    }
}

/// A response body that can be read from a cursor.
pub(crate) trait Body: Sized {
    const API: ApiKey;

    fn read(cursor: &mut Cursor<'_>, version: i16) -> Read<Self>;
}

/// Reads a whole response body, tolerated oddities beside it.
pub(crate) fn decode<T: Body>(version: i16, body: &Bytes) -> Result<(T, Oddities), DecodeError> {
    let mut cursor = Cursor::new(body, T::API.is_flexible(version));
    match T::read(&mut cursor, version) {
        Ok(value) => Ok((value, cursor.finish())),
        Err(malformed) => Err(DecodeError::new(T::API, version, malformed)),
    }
}

/// Appends `message` as version `version` of `api`.
pub(crate) fn put<T: Encodable>(
    api: ApiKey,
    version: i16,
    message: &T,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    message.encode(out, version).map_err(|error| EncodeError {
        api,
        version,
        reason: error.to_string(),
    })
}

/// Groups rows by topic in order of first appearance.
pub(crate) fn by_topic<T>(
    rows: &[T],
    topic: impl Fn(&T) -> &TopicName,
) -> Vec<(&TopicName, Vec<&T>)> {
    let mut groups: IndexMap<&TopicName, Vec<&T>> = IndexMap::new();
    for row in rows {
        groups.entry(topic(row)).or_default().push(row);
    }
    groups.into_iter().collect()
}

pub(crate) fn text(value: impl AsRef<str>) -> StrBytes {
    StrBytes::from_string(value.as_ref().to_owned())
}

pub(crate) fn wire_topic(topic: &TopicName) -> WireTopic {
    WireTopic(text(topic.as_str()))
}

/// The wire's broker number for "none", which is also every consumer's replica id.
pub(crate) const NO_BROKER: WireBroker = WireBroker(-1);

/// An epoch for the wire: unknown is -1.
pub(crate) fn wire_epoch(epoch: Option<LeaderEpoch>) -> i32 {
    epoch.map_or(-1, |epoch| epoch.0)
}

pub(crate) fn known_broker(id: i32) -> Option<BrokerId> {
    (id >= 0).then_some(BrokerId(id))
}

pub(crate) fn known_epoch(epoch: i32) -> Option<LeaderEpoch> {
    (epoch >= 0).then_some(LeaderEpoch(epoch))
}

pub(crate) fn known_offset(offset: i64) -> Option<Offset> {
    (offset >= 0).then_some(Offset(offset))
}

/// Milliseconds from the wire; below zero is zero.
pub(crate) fn read_millis(cursor: &mut Cursor<'_>, field: &'static str) -> Read<Duration> {
    let ms = cursor.i32(field)?;
    Ok(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
}

pub(crate) fn read_throttle(cursor: &mut Cursor<'_>) -> Read<Duration> {
    read_millis(cursor, "throttle_time_ms")
}

/// Milliseconds for the wire; saturates.
pub(crate) fn wire_millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

pub(crate) fn read_error(cursor: &mut Cursor<'_>) -> Read<crate::wire::ErrorCode> {
    cursor.i16("error_code").map(crate::wire::ErrorCode)
}

pub(crate) fn read_topic(cursor: &mut Cursor<'_>) -> Read<TopicName> {
    cursor.text("topic name", TOPIC_MAX).map(TopicName::from)
}

pub(crate) fn read_topic_id(cursor: &mut Cursor<'_>) -> Read<Option<TopicId>> {
    let id = cursor.u128("topic_id")?;
    Ok((id != 0).then(|| TopicId(uuid::Uuid::from_u128(id))))
}

pub(crate) fn read_rack(cursor: &mut Cursor<'_>) -> Read<Option<Rack>> {
    Ok(cursor
        .nullable_text("rack", HOST_MAX)?
        .filter(|rack| !rack.is_empty())
        .map(Rack::from))
}

pub(crate) fn read_port(cursor: &mut Cursor<'_>) -> Read<u16> {
    let port = cursor.i32("port")?;
    match u16::try_from(port) {
        Ok(port) => Ok(port),
        Err(_) => cursor.fail("port", Flaw::OutOfRange),
    }
}

/// Smallest endpoint: id, empty host, port, null rack, no tags.
pub(crate) const ENDPOINT_MIN: usize = 11;

/// A node endpoint of a Fetch or Produce response (KIP-951).
pub(crate) fn read_endpoint(cursor: &mut Cursor<'_>) -> Read<Endpoint> {
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

/// The tagged leader of a Fetch or Produce row; (-1, -1) says nothing and is `None`.
pub(crate) fn read_current_leader(cursor: &mut Cursor<'_>) -> Read<Option<CurrentLeader>> {
    let leader = known_broker(cursor.i32("leader_id")?);
    let epoch = known_epoch(cursor.i32("leader_epoch")?);
    cursor.no_tags()?;
    let said = leader.is_some() || epoch.is_some();
    Ok(said.then_some(CurrentLeader { leader, epoch }))
}

/// Smallest topic of a grouped array: empty name, no rows, all compact, no tags.
const GROUP_MIN: usize = 3;

/// Reads topics with rows inside them as one flat list.
pub(crate) fn read_topic_rows<T>(
    cursor: &mut Cursor<'_>,
    row_min: usize,
    mut row: impl FnMut(&mut Cursor<'_>, &TopicName) -> Read<T>,
) -> Read<Vec<T>> {
    let mut rows = Vec::new();
    for _ in 0..cursor.count("topics", GROUP_MIN)? {
        let topic = read_topic(cursor)?;
        rows.extend(cursor.array("partitions", row_min, |cursor| row(cursor, &topic))?);
        cursor.no_tags()?;
    }
    Ok(rows)
}
