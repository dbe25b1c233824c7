//! OffsetForLeaderEpoch (23), versions 2-4. Leaders only (routing.md F12).
//!
//! Answers the largest epoch at or below the one asked for, and where it ends (KIP-101, KIP-320).

use kafka_protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use kafka_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

use super::super::call::{Call, Reply};
use super::super::cluster::Cluster;
use super::list_offsets::check_leader;
use crate::ids::TopicPartition;

pub(super) fn handle(
    cluster: &mut Cluster,
    call: &Call,
    request: &OffsetForLeaderEpochRequest,
) -> Reply {
    let mut topics = Vec::new();
    for topic in &request.topics {
        let mut rows = Vec::with_capacity(topic.partitions.len());
        for asked in &topic.partitions {
            let at = TopicPartition::new(topic.topic.as_str(), asked.partition);
            rows.push(row(cluster, call, &at, asked));
        }
        topics.push(
            OffsetForLeaderTopicResult::default()
                .with_topic(topic.topic.clone())
                .with_partitions(rows),
        );
    }
    let response = OffsetForLeaderEpochResponse::default().with_topics(topics);
    call.answer(&response.with_throttle_time_ms(call.throttle_ms()))
}

fn row(
    cluster: &mut Cluster,
    call: &Call,
    at: &TopicPartition,
    asked: &OffsetForLeaderPartition,
) -> EpochEndOffset {
    let row = EpochEndOffset::default()
        .with_partition(asked.partition)
        .with_leader_epoch(-1)
        .with_end_offset(-1);
    if let Some(code) = cluster.faults.row_error(call, at) {
        return row.with_error_code(code);
    }
    let told = cluster.faults.epoch_end(call, at);
    let partition = cluster
        .topics
        .key(at)
        .and_then(|key| cluster.topics.partition(key));
    let partition = match check_leader(partition, call, asked.current_leader_epoch) {
        Err(error) => return row.with_error_code(error.code()),
        Ok(partition) => partition,
    };
    match partition.end_of_epoch(asked.leader_epoch, partition.log.end()) {
        None => row,
        Some((epoch, end)) => {
            let end = told.map_or(end, |told| told.0);
            row.with_leader_epoch(epoch).with_end_offset(end)
        }
    }
}
