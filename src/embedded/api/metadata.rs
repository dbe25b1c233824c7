//! Metadata (3), versions 0-13.
//!
//! - Version 0: an empty list asks for all topics; later null asks for all and empty for none.
//! - Racks and the controller from 1, cluster id from 2, offline replicas from 5, leader epochs
//!   from 7, topic ids from 10, requests by id from 12 (KIP-516), a top-level code at 13
//!   (KIP-1102).

use kafka_protocol::ResponseError;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    BrokerId as WireBroker, MetadataRequest, MetadataResponse, TopicName as WireTopic,
};
use kafka_protocol::protocol::StrBytes;

use super::super::broker::Broker;
use super::super::call::{Call, Reply};
use super::super::cluster::Cluster;
use super::super::faults::MetadataEdit;
use super::super::partition::Partition;
use super::super::topics::Topic;
use crate::ids::{BrokerId, TopicName, TopicPartition};

type Edits = Vec<(Option<TopicPartition>, MetadataEdit)>;

pub(super) fn handle(cluster: &mut Cluster, call: &Call, request: &MetadataRequest) -> Reply {
    let code = cluster.faults.error(call, false).unwrap_or(0);
    let edits = cluster.faults.metadata_edits(call.broker);
    let topics = match &request.topics {
        Some(asked) if !(asked.is_empty() && call.version == 0) => {
            let create = call.version < 4 || request.allow_auto_topic_creation;
            asked
                .iter()
                .map(|topic| asked_topic(cluster, topic, create, &edits))
                .collect()
        }
        Some(_) | None => cluster
            .topics
            .names()
            .map(|(_, topic)| topic_row(cluster, topic, &edits))
            .collect(),
    };
    let hidden = |broker: &Broker| {
        edits
            .iter()
            .any(|(_, edit)| edit.hide_brokers.contains(&broker.settings.id))
    };
    let alive = cluster
        .brokers
        .values()
        .filter(|broker| !broker.fenced && !hidden(broker));
    let brokers: Vec<_> = alive.map(broker_row).collect();
    let controller = cluster.brokers.values().find(|broker| !broker.fenced);
    let controller = controller.map_or(-1, |broker| broker.settings.id.0);
    let response = MetadataResponse::default()
        .with_throttle_time_ms(call.throttle_ms())
        .with_brokers(brokers)
        .with_cluster_id(Some(StrBytes::from_string(
            cluster.settings.cluster_id.clone(),
        )))
        .with_controller_id(WireBroker(controller));
    // Before version 13 there is no top-level code: every topic carries it instead.
    if call.version >= 13 {
        return call.answer(&response.with_topics(topics).with_error_code(code));
    }
    let fail = |topic: MetadataResponseTopic| {
        if code == 0 {
            topic
        } else {
            topic.with_error_code(code)
        }
    };
    call.answer(&response.with_topics(topics.into_iter().map(fail).collect()))
}

fn asked_topic(
    cluster: &mut Cluster,
    asked: &MetadataRequestTopic,
    create: bool,
    edits: &Edits,
) -> MetadataResponseTopic {
    let Some(name) = asked.name.as_ref() else {
        let unknown = || {
            MetadataResponseTopic::default()
                .with_topic_id(asked.topic_id)
                .with_error_code(ResponseError::UnknownTopicId.code())
        };
        let known = cluster.topics.by_id(&asked.topic_id);
        return known.map_or_else(unknown, |topic| topic_row(cluster, topic, edits));
    };
    if create && cluster.topics.by_name(name).is_none() {
        cluster.auto_create(&TopicName::from(name.as_str()));
    }
    let unknown = || {
        MetadataResponseTopic::default()
            .with_name(Some(name.clone()))
            .with_error_code(ResponseError::UnknownTopicOrPartition.code())
    };
    let known = cluster.topics.by_name(name);
    known.map_or_else(unknown, |topic| topic_row(cluster, topic, edits))
}

fn topic_row(cluster: &Cluster, topic: &Topic, edits: &Edits) -> MetadataResponseTopic {
    let partitions = topic
        .partitions
        .iter()
        .map(|p| partition_row(cluster, p, edits))
        .collect();
    MetadataResponseTopic::default()
        .with_name(Some(WireTopic(StrBytes::from_string(
            topic.name.to_string(),
        ))))
        .with_topic_id(topic.id)
        .with_partitions(partitions)
}

fn partition_row(
    cluster: &Cluster,
    partition: &Partition,
    edits: &Edits,
) -> MetadataResponsePartition {
    let fenced = |broker: &BrokerId| cluster.brokers.get(broker).is_none_or(|b| b.fenced);
    let replicas: Vec<BrokerId> = partition.replicas.iter().map(|r| r.broker).collect();
    let mut said = MetadataEdit {
        error: Some(0),
        leader: Some(partition.leader),
        epoch: Some(crate::ids::LeaderEpoch(partition.epoch)),
        isr: Some(partition.isr.clone()),
        offline: Some(replicas.iter().copied().filter(fenced).collect()),
        replicas: Some(replicas),
        hide_brokers: Vec::new(),
    };
    if partition.leader.is_none() {
        said.error = Some(ResponseError::LeaderNotAvailable.code());
    }
    for (_, edit) in edits
        .iter()
        .filter(|(only, _)| only.as_ref().is_none_or(|o| *o == partition.at))
    {
        said = edit.clone().over(said);
    }
    let wire = |ids: Option<Vec<BrokerId>>| {
        ids.unwrap_or_default()
            .into_iter()
            .map(|id| WireBroker(id.0))
            .collect::<Vec<_>>()
    };
    MetadataResponsePartition::default()
        .with_error_code(said.error.unwrap_or(0))
        .with_partition_index(partition.at.partition.0)
        .with_leader_id(WireBroker(
            said.leader.flatten().map_or(-1, |leader| leader.0),
        ))
        .with_leader_epoch(said.epoch.map_or(-1, |epoch| epoch.0))
        .with_isr_nodes(wire(said.isr))
        .with_offline_replicas(wire(said.offline))
        .with_replica_nodes(wire(said.replicas))
}

fn broker_row(broker: &Broker) -> MetadataResponseBroker {
    MetadataResponseBroker::default()
        .with_node_id(WireBroker(broker.settings.id.0))
        .with_host(StrBytes::from_string(broker.settings.host.clone()))
        .with_port(i32::from(broker.settings.port))
        .with_rack(
            broker
                .settings
                .rack
                .as_ref()
                .map(|rack| StrBytes::from_string(rack.to_string())),
        )
}

impl MetadataEdit {
    /// This edit laid over an earlier one.
    fn over(self, earlier: Self) -> Self {
        Self {
            error: self.error.or(earlier.error),
            leader: self.leader.or(earlier.leader),
            epoch: self.epoch.or(earlier.epoch),
            isr: self.isr.or(earlier.isr),
            replicas: self.replicas.or(earlier.replicas),
            offline: self.offline.or(earlier.offline),
            hide_brokers: earlier.hide_brokers,
        }
    }
}
