//! OffsetCommit (8), versions 2-9. 6 leader epochs; 7 static members; 9 codes of KIP-848.
//!
//! A commit is written as one batch: beyond the batch limit every row fails with -1, not with a
//! size error, and nothing is stored.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_commit_request::OffsetCommitRequestTopic;
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse};

use super::super::call::{Call, Reply};
use super::super::cluster::Cluster;
use super::super::group::{Committed, Group, GroupPhase};
use super::heartbeat::check_member;
use crate::ids::{GroupId, LeaderEpoch, Offset, TopicPartition};

/// What one partition takes in the coordinator's batch besides its texts, in bytes.
const ROW_BYTES: usize = 60;
/// `offset.metadata.max.bytes`.
const METADATA_BYTES_MAX: usize = 4_096;

pub(super) fn handle(cluster: &mut Cluster, call: &Call, request: &OffsetCommitRequest) -> Reply {
    let id = GroupId::from(request.group_id.as_str());
    let refused = check(cluster, call, &id, request).err();
    let mut topics = Vec::new();
    for topic in &request.topics {
        let rows = commit_topic(cluster, call, &id, topic, refused);
        topics.push(
            OffsetCommitResponseTopic::default()
                .with_name(topic.name.clone())
                .with_partitions(rows),
        );
    }
    let response = OffsetCommitResponse::default().with_topics(topics);
    call.answer(&response.with_throttle_time_ms(call.throttle_ms()))
}

/// Whether the commit as a whole is acceptable.
fn check(
    cluster: &mut Cluster,
    call: &Call,
    id: &GroupId,
    request: &OffsetCommitRequest,
) -> Result<(), i16> {
    cluster.check_group(call, id)?;
    let (now, bytes_max) = (cluster.now, cluster.settings.message_bytes_max);
    let generation = request.generation_id_or_member_epoch;
    let group = cluster.groups.entry(id.clone()).or_insert_with(Group::new);
    let outside = generation < 0 && request.member_id.is_empty();
    if !(outside && group.phase == GroupPhase::Empty) {
        let instance = request.group_instance_id.as_ref();
        check_member(group, &request.member_id, instance, generation)?;
        if group.phase == GroupPhase::CompletingRebalance {
            return Err(ResponseError::RebalanceInProgress.code());
        }
        if let Some(member) = group.members.get_mut(&request.member_id) {
            member.expires = now + member.session;
        }
    }
    if record_bytes(id, &request.topics) > bytes_max {
        return Err(ResponseError::UnknownServerError.code());
    }
    Ok(())
}

fn record_bytes(id: &GroupId, topics: &[OffsetCommitRequestTopic]) -> usize {
    let of_topic = |topic: &OffsetCommitRequestTopic| {
        let metadata = topic
            .partitions
            .iter()
            .filter_map(|row| row.committed_metadata.as_ref());
        let fixed = topic.name.len() + id.as_str().len() + ROW_BYTES;
        topic.partitions.len() * fixed + metadata.map(|text| text.len()).sum::<usize>()
    };
    topics.iter().map(of_topic).sum()
}

fn commit_topic(
    cluster: &mut Cluster,
    call: &Call,
    id: &GroupId,
    topic: &OffsetCommitRequestTopic,
    refused: Option<i16>,
) -> Vec<OffsetCommitResponsePartition> {
    let name = crate::ids::TopicName::from(topic.name.as_str());
    let mut rows = Vec::with_capacity(topic.partitions.len());
    for row in &topic.partitions {
        let at = TopicPartition::new(name.clone(), row.partition_index);
        let metadata = row
            .committed_metadata
            .as_ref()
            .map_or("", |text| text.as_str());
        let code = refused.or_else(|| refusal(cluster, call, &at, metadata));
        if code.is_none() {
            let epoch = row.committed_leader_epoch;
            let committed = Committed {
                offset: Offset(row.committed_offset),
                leader_epoch: (epoch >= 0).then_some(LeaderEpoch(epoch)),
                metadata: metadata.to_owned(),
            };
            if let Some(group) = cluster.groups.get_mut(id) {
                group.offsets.insert(at, committed);
            }
        }
        rows.push(
            OffsetCommitResponsePartition::default()
                .with_partition_index(row.partition_index)
                .with_error_code(code.unwrap_or(0)),
        );
    }
    rows
}

fn refusal(cluster: &mut Cluster, call: &Call, at: &TopicPartition, metadata: &str) -> Option<i16> {
    if let Some(code) = cluster.faults.row_error(call, at) {
        return Some(code);
    }
    if cluster.topics.key(at).is_none() {
        return Some(ResponseError::UnknownTopicOrPartition.code());
    }
    (metadata.len() > METADATA_BYTES_MAX).then(|| ResponseError::OffsetMetadataTooLarge.code())
}
