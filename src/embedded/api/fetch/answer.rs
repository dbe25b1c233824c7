//! Builds the Fetch response and remembers in the session what it said.

use std::collections::BTreeSet;

use kafka_protocol::messages::fetch_response::{
    EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
use kafka_protocol::messages::{BrokerId as WireBroker, FetchResponse, TopicName as WireTopic};
use kafka_protocol::protocol::StrBytes;

use super::super::super::call::Call;
use super::super::super::cluster::Cluster;
use super::Terms;
use super::evaluate::{Evaluation, RowAnswer};
use super::session::{Rows, TopicRef};

pub(super) fn build(
    cluster: &Cluster,
    call: &Call,
    terms: &Terms,
    rows: &mut Rows,
    evaluation: Evaluation,
) -> FetchResponse {
    let mut topics: Vec<(TopicRef, Vec<PartitionData>)> = Vec::new();
    let mut leaders = BTreeSet::new();
    for answer in evaluation.rows {
        let Some(row) = rows.get_mut(answer.order) else {
            continue;
        };
        let heard = (answer.high_watermark, answer.log_start);
        row.sent = (answer.code == 0).then_some(heard);
        leaders.extend(answer.current_leader.map(|(leader, _)| leader));
        let (topic, partition) = (row.topic.clone(), row.partition);
        if !answer.records.is_empty() {
            rows.move_to_end(answer.order);
        }
        let data = partition_data(answer, partition);
        match topics.last_mut() {
            Some((last, partitions)) if *last == topic => partitions.push(data),
            Some(_) | None => topics.push((topic, vec![data])),
        }
    }
    let endpoints = leaders.into_iter().filter(|_| terms.version >= 16);
    FetchResponse::default()
        .with_throttle_time_ms(call.throttle_ms())
        .with_responses(topics.into_iter().map(topic_response).collect())
        .with_node_endpoints(endpoints.filter_map(|id| endpoint(cluster, id)).collect())
}

fn topic_response((topic, partitions): (TopicRef, Vec<PartitionData>)) -> FetchableTopicResponse {
    let response = FetchableTopicResponse::default().with_partitions(partitions);
    match topic {
        TopicRef::Name(name) => {
            response.with_topic(WireTopic(StrBytes::from_string(name.to_string())))
        }
        TopicRef::Id(id) => response.with_topic_id(id),
    }
}

fn partition_data(answer: RowAnswer, partition: i32) -> PartitionData {
    let mut data = PartitionData::default()
        .with_partition_index(partition)
        .with_error_code(answer.code)
        .with_high_watermark(answer.high_watermark)
        .with_last_stable_offset(answer.last_stable_offset)
        .with_log_start_offset(answer.log_start)
        .with_preferred_read_replica(WireBroker(answer.hint.map_or(-1, |hint| hint.0)))
        .with_records(Some(answer.records));
    if let Some((epoch, end_offset)) = answer.diverging {
        data.diverging_epoch = EpochEndOffset::default()
            .with_epoch(epoch)
            .with_end_offset(end_offset);
    }
    if let Some((leader, epoch)) = answer.current_leader {
        data.current_leader = LeaderIdAndEpoch::default()
            .with_leader_id(WireBroker(leader))
            .with_leader_epoch(epoch);
    }
    data
}

fn endpoint(cluster: &Cluster, id: i32) -> Option<NodeEndpoint> {
    let broker = cluster
        .brokers
        .get(&crate::ids::BrokerId(id))
        .filter(|broker| !broker.fenced)?;
    let rack = broker.settings.rack.as_ref();
    Some(
        NodeEndpoint::default()
            .with_node_id(WireBroker(id))
            .with_host(StrBytes::from_string(broker.settings.host.clone()))
            .with_port(i32::from(broker.settings.port))
            .with_rack(rack.map(|rack| StrBytes::from_string(rack.to_string()))),
    )
}
