//! ListOffsets (2), versions 1-10. Leaders only (routing.md F12).
//!
//! - Timestamps: -1 latest, -2 earliest, -3 the record with the highest one (7), -4 and -5 tiered
//!   storage (8, 9): earliest local is earliest, latest tiered is none.
//! - 4 leader epoch in both directions. Consumers see nothing above the high watermark.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};

use super::super::call::{Call, Reply};
use super::super::cluster::Cluster;
use super::super::partition::Partition;
use crate::ids::TopicPartition;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;

pub(super) fn handle(cluster: &mut Cluster, call: &Call, request: &ListOffsetsRequest) -> Reply {
    let mut topics = Vec::new();
    for topic in &request.topics {
        let mut rows = Vec::with_capacity(topic.partitions.len());
        for asked in &topic.partitions {
            let at = TopicPartition::new(topic.name.as_str(), asked.partition_index);
            rows.push(row(cluster, call, &at, asked));
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
) -> ListOffsetsPartitionResponse {
    let row = ListOffsetsPartitionResponse::default()
        .with_partition_index(asked.partition_index)
        .with_timestamp(-1)
        .with_offset(-1)
        .with_leader_epoch(-1);
    if let Some(code) = cluster.faults.row_error(call, at) {
        return row.with_error_code(code);
    }
    let partition = cluster
        .topics
        .key(at)
        .and_then(|key| cluster.topics.partition(key));
    let checked = check_leader(partition, call, asked.current_leader_epoch);
    let (offset, timestamp) = match checked {
        Err(error) => return row.with_error_code(error.code()),
        Ok(partition) => match find(partition, asked.timestamp) {
            None => return row,
            Some(found) => found,
        },
    };
    let epoch = partition.map_or(-1, |partition| partition.epoch_at(offset));
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
fn find(partition: &Partition, timestamp: i64) -> Option<(i64, i64)> {
    let log = &partition.log;
    let entry = match timestamp {
        LATEST => return Some((partition.high_watermark(), -1)),
        EARLIEST | EARLIEST_LOCAL => return Some((log.start(), -1)),
        LATEST_TIERED => None,
        MAX_TIMESTAMP => log.max_timestamp(),
        _ => log.at_timestamp(timestamp),
    }?;
    // A broker looks inside the batch; the embedded one answers with a batch boundary, which is at
    // or before the record, unless the log starts behind it.
    let offset = entry.base_offset.max(log.start());
    (entry.last_offset < partition.high_watermark()).then_some((offset, entry.max_timestamp))
}
