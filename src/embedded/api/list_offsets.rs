//! ListOffsets (2), versions 1-10. Leaders only (routing.md F12).
//!
//! - Timestamps: -1 latest, -2 earliest, -3 the record with the highest one (7), -4 and -5 tiered
//!   storage (8, 9): earliest local is earliest, latest tiered is none.
//! - 4 leader epoch in both directions. Consumers see nothing above the high watermark.

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};

use super::super::call::{Call, Reply};
use super::super::cluster::Cluster;
use super::super::partition::Partition;
use crate::ids::{Offset, TopicPartition};
use crate::records::{BatchSet, ReadSettings};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;

pub(super) fn handle(cluster: &mut Cluster, call: &Call, request: &ListOffsetsRequest) -> Reply {
    let committed = request.isolation_level == 1;
    let mut topics = Vec::new();
    for topic in &request.topics {
        let mut rows = Vec::with_capacity(topic.partitions.len());
        for asked in &topic.partitions {
            let at = TopicPartition::new(topic.name.as_str(), asked.partition_index);
            rows.push(row(cluster, call, &at, asked, committed));
        }
        topics.push(
            ListOffsetsTopicResponse::default()
                .with_name(topic.name.clone())
                .with_partitions(rows),
        );
    }
    let response = ListOffsetsResponse::default().with_topics(topics);
    call.answer(&response.with_throttle_time_ms(call.throttle_ms()))
}

fn row(
    cluster: &mut Cluster,
    call: &Call,
    at: &TopicPartition,
    asked: &ListOffsetsPartition,
    committed: bool,
) -> ListOffsetsPartitionResponse {
    let row = ListOffsetsPartitionResponse::default()
        .with_partition_index(asked.partition_index)
        .with_timestamp(-1)
        .with_offset(-1)
        .with_leader_epoch(-1);
    if let Some(code) = cluster.faults.row_error(call, at) {
        return row.with_error_code(code);
    }
    let key = cluster.topics.key(at);
    let partition = key.and_then(|key| cluster.topics.partition(key));
    if let Err(error) = check_leader(partition, call, asked.current_leader_epoch) {
        return row.with_error_code(error.code());
    }
    let partition = key.and_then(|key| cluster.topics.partition_mut(key));
    let found = partition.and_then(|partition| {
        let (offset, timestamp) = find(partition, asked.timestamp, committed)?;
        Some((offset, timestamp, partition.epoch_at(offset)))
    });
    let Some((offset, timestamp, epoch)) = found else {
        return row;
    };
    let row = row.with_offset(offset).with_timestamp(timestamp);
    if call.version >= 4 {
        row.with_leader_epoch(epoch)
    } else {
        row
    }
}

/// The checks that leader-only APIs share: existence, role, then epoch.
pub(super) fn check_leader<'a>(
    partition: Option<&'a Partition>,
    call: &Call,
    current_epoch: i32,
) -> Result<&'a Partition, ResponseError> {
    let partition = partition.ok_or(ResponseError::UnknownTopicOrPartition)?;
    if partition.replica(call.broker).is_some() && current_epoch >= 0 {
        if current_epoch < partition.epoch {
            return Err(ResponseError::FencedLeaderEpoch);
        }
        if current_epoch > partition.epoch {
            return Err(ResponseError::UnknownLeaderEpoch);
        }
    }
    let leads = partition.is_leader(call.broker);
    leads
        .then_some(partition)
        .ok_or(ResponseError::NotLeaderOrFollower)
}

/// The offset and timestamp that answer `timestamp`.
fn find(partition: &mut Partition, timestamp: i64, committed: bool) -> Option<(i64, i64)> {
    let high_watermark = partition.high_watermark();
    let visible = match committed {
        true => partition.stable_below(high_watermark),
        false => high_watermark,
    };
    let log = &mut partition.log;
    let (entry, wanted) = match timestamp {
        LATEST => return Some((visible, -1)),
        EARLIEST | EARLIEST_LOCAL => return Some((log.start(), -1)),
        LATEST_TIERED => return None,
        MAX_TIMESTAMP => log
            .max_timestamp()
            .map(|entry| (entry, entry.max_timestamp)),
        _ => log.at_timestamp(timestamp).map(|entry| (entry, timestamp)),
    }?;
    if entry.last_offset >= visible {
        return None;
    }
    let from = entry.base_offset.max(log.start());
    let batch = log.read(from, entry.last_offset + 1, 0, true);
    // What cannot be opened is answered with its start, which is never behind the record.
    first_at(batch, from, wanted).or(Some((from, entry.max_timestamp)))
}

/// The first record of a batch, from offset `from` on, that is not older than `timestamp`.
fn first_at(batch: Bytes, from: i64, timestamp: i64) -> Option<(i64, i64)> {
    const INFLATED_BYTES_MAX: usize = 64 * 1024 * 1024;
    let view = BatchSet::new(batch, Offset(from), ReadSettings::default())
        .next()?
        .ok()?;
    let open = view.inflate(INFLATED_BYTES_MAX).ok()?;
    let mut records = open.records().filter_map(Result::ok);
    let found = records.find(|r| r.offset.0 >= from && r.timestamp >= timestamp)?;
    Some((found.offset.0, found.timestamp))
}
