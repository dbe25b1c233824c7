//! OffsetFetch (9), versions 1-9.
//!
//! - 2 null topics ask for everything, and a code for the whole group; 5 leader epochs; 7
//!   require_stable (KIP-447); 8 several groups (KIP-709); 9 member id and epoch (KIP-848).

use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{OffsetFetchRequest, OffsetFetchResponse, TopicName as WireTopic};
use kafka_protocol::protocol::StrBytes;

use super::super::call::{Call, Reply};
use super::super::cluster::Cluster;
use super::super::group::Committed;
use crate::ids::{GroupId, TopicName, TopicPartition};

/// Topics asked for, with their partitions; `None` asks for all.
type Asked = Option<Vec<(WireTopic, Vec<i32>)>>;

pub(super) fn handle(cluster: &mut Cluster, call: &Call, request: &OffsetFetchRequest) -> Reply {
    let response = OffsetFetchResponse::default().with_throttle_time_ms(call.throttle_ms());
    if call.version >= 8 {
        let groups = request.groups.iter().map(|group| {
            let topic =
                |t: &OffsetFetchRequestTopics| (t.name.clone(), t.partition_indexes.clone());
            let asked = group
                .topics
                .as_ref()
                .map(|topics| topics.iter().map(topic).collect());
            group_row(cluster, call, &group.group_id, asked)
        });
        return call.answer(&response.with_groups(groups.collect()));
    }
    let topic = |t: &OffsetFetchRequestTopic| (t.name.clone(), t.partition_indexes.clone());
    let asked = request
        .topics
        .as_ref()
        .map(|topics| topics.iter().map(topic).collect());
    let group = group_row(cluster, call, &request.group_id, asked);
    let code = group.error_code;
    let topics = group
        .topics
        .into_iter()
        .map(|topic| flatten(topic, code))
        .collect();
    let response = response.with_topics(topics);
    call.answer(&if call.version >= 2 {
        response.with_error_code(code)
    } else {
        response
    })
}

fn group_row(
    cluster: &mut Cluster,
    call: &Call,
    wire_id: &kafka_protocol::messages::GroupId,
    asked: Asked,
) -> OffsetFetchResponseGroup {
    let id = GroupId::from(wire_id.as_str());
    let code = cluster.check_group(call, &id).err().unwrap_or(0);
    let asked = match asked {
        Some(asked) => asked,
        None if code == 0 => everything(cluster, &id),
        None => Vec::new(),
    };
    // With a code for the whole group the rows are left out, but versions 0 and 1 have only rows.
    let listed = code == 0 || call.version < 2;
    let mut topics = Vec::new();
    for (wire_name, partitions) in asked.into_iter().filter(|_| listed) {
        let name = TopicName::from(wire_name.as_str());
        let mut rows = Vec::with_capacity(partitions.len());
        for index in partitions {
            rows.push(row(
                cluster,
                call,
                &id,
                &TopicPartition::new(name.clone(), index),
            ));
        }
        topics.push(
            OffsetFetchResponseTopics::default()
                .with_name(wire_name)
                .with_partitions(rows),
        );
    }
    let group = OffsetFetchResponseGroup::default().with_group_id(wire_id.clone());
    group.with_topics(topics).with_error_code(code)
}

fn everything(cluster: &Cluster, id: &GroupId) -> Vec<(WireTopic, Vec<i32>)> {
    let mut topics: Vec<(TopicName, Vec<i32>)> = Vec::new();
    for at in cluster
        .groups
        .get(id)
        .iter()
        .flat_map(|group| group.offsets.keys())
    {
        match topics.last_mut() {
            Some((name, partitions)) if *name == at.topic => partitions.push(at.partition.0),
            Some(_) | None => topics.push((at.topic.clone(), vec![at.partition.0])),
        }
    }
    let wire = |name: TopicName| WireTopic(StrBytes::from_string(name.to_string()));
    topics
        .into_iter()
        .map(|(name, partitions)| (wire(name), partitions))
        .collect()
}

fn row(
    cluster: &mut Cluster,
    call: &Call,
    id: &GroupId,
    at: &TopicPartition,
) -> OffsetFetchResponsePartitions {
    let code = cluster.faults.row_error(call, at);
    let committed = cluster
        .groups
        .get(id)
        .and_then(|group| group.offsets.get(at));
    let committed: Option<&Committed> = committed.filter(|_| code.is_none());
    let epoch = committed.and_then(|committed| committed.leader_epoch);
    let metadata = committed
        .map(|committed| committed.metadata.clone())
        .unwrap_or_default();
    OffsetFetchResponsePartitions::default()
        .with_partition_index(at.partition.0)
        .with_committed_offset(committed.map_or(-1, |committed| committed.offset.0))
        .with_committed_leader_epoch(epoch.map_or(-1, |epoch| epoch.0))
        .with_metadata(Some(StrBytes::from_string(metadata)))
        .with_error_code(code.unwrap_or(0))
}

/// The shape of versions 1-7.
fn flatten(topic: OffsetFetchResponseTopics, code: i16) -> OffsetFetchResponseTopic {
    let row = |row: OffsetFetchResponsePartitions| {
        OffsetFetchResponsePartition::default()
            .with_partition_index(row.partition_index)
            .with_committed_offset(row.committed_offset)
            .with_committed_leader_epoch(row.committed_leader_epoch)
            .with_metadata(row.metadata)
            .with_error_code(if row.error_code == 0 {
                code
            } else {
                row.error_code
            })
    };
    OffsetFetchResponseTopic::default()
        .with_name(topic.name)
        .with_partitions(topic.partitions.into_iter().map(row).collect())
}
