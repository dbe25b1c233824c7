//! CreateTopics (19), versions 2-7. 5 flexible, defaults of -1 (KIP-464); 7 topic id in the answer.
//!
//! Topic configurations are accepted and ignored. More than 10,000 partitions in one request are
//! refused, as the controller does.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};
use kafka_protocol::protocol::StrBytes;

use super::super::call::{Call, Reply};
use super::super::cluster::Cluster;
use super::super::control::ControlError;
use crate::ids::{BrokerId, TopicName};

/// Partitions that one request may create.
const PARTITIONS_MAX: u32 = 10_000;

pub(super) fn handle(cluster: &mut Cluster, call: &Call, request: &CreateTopicsRequest) -> Reply {
    let asked: u32 = request.topics.iter().map(partitions).sum();
    let mut rows = Vec::new();
    for topic in &request.topics {
        let refused = cluster.faults.error(call, false);
        let row = match refused {
            Some(code) => failed(topic, code, "refused by the fault plan"),
            None if asked > PARTITIONS_MAX => {
                let code = ResponseError::PolicyViolation.code();
                failed(
                    topic,
                    code,
                    "Excessively large number of partitions per request.",
                )
            }
            None => create(cluster, topic, request.validate_only),
        };
        rows.push(row);
    }
    let response = CreateTopicsResponse::default().with_topics(rows);
    call.answer(&response.with_throttle_time_ms(call.throttle_ms()))
}

fn create(
    cluster: &mut Cluster,
    topic: &CreatableTopic,
    validate_only: bool,
) -> CreatableTopicResult {
    if topic.num_partitions == 0 && topic.assignments.is_empty() {
        let code = ResponseError::InvalidPartitions.code();
        return failed(topic, code, "Number of partitions must be larger than 0.");
    }
    let name = TopicName::from(topic.name.as_str());
    let replication = usize::try_from(topic.replication_factor);
    let replication = replication.unwrap_or_else(|_| cluster.brokers.len().min(3));
    if validate_only {
        return match cluster.topics.contains(&name) {
            true => outcome_of(topic, &ControlError::TopicExists(name)),
            false => CreatableTopicResult::default().with_name(topic.name.clone()),
        };
    }
    let created = if topic.assignments.is_empty() {
        cluster.create_topic(name, partitions(topic), replication)
    } else {
        let ids = |row: &Vec<kafka_protocol::messages::BrokerId>| {
            row.iter().map(|id| BrokerId(id.0)).collect::<Vec<_>>()
        };
        let rows = topic.assignments.iter().map(|row| ids(&row.broker_ids));
        cluster.create_topic_on(name, &rows.collect::<Vec<_>>())
    };
    match created {
        Err(error) => outcome_of(topic, &error),
        Ok(id) => CreatableTopicResult::default()
            .with_name(topic.name.clone())
            .with_topic_id(id.0)
            .with_num_partitions(i32::try_from(partitions(topic)).unwrap_or(i32::MAX))
            .with_replication_factor(i16::try_from(replication).unwrap_or(i16::MAX))
            .with_configs(Some(Vec::new())),
    }
}

fn outcome_of(topic: &CreatableTopic, error: &ControlError) -> CreatableTopicResult {
    let code = match error {
        ControlError::TopicExists(_) => ResponseError::TopicAlreadyExists,
        ControlError::NotEnoughBrokers => ResponseError::InvalidReplicationFactor,
        ControlError::UnknownPartition(_)
        | ControlError::UnknownTopic(_)
        | ControlError::NoLeader(_)
        | ControlError::NotEligible(_)
        | ControlError::BadBatch => ResponseError::UnknownServerError,
    };
    failed(topic, code.code(), &error.to_string())
}

fn failed(topic: &CreatableTopic, code: i16, message: &str) -> CreatableTopicResult {
    CreatableTopicResult::default()
        .with_name(topic.name.clone())
        .with_error_code(code)
        .with_error_message(Some(StrBytes::from_string(message.to_owned())))
}

/// The partitions a topic will have; -1 asks for the broker's default of one.
fn partitions(topic: &CreatableTopic) -> u32 {
    let assigned = u32::try_from(topic.assignments.len()).unwrap_or(u32::MAX);
    if assigned > 0 {
        assigned
    } else {
        u32::try_from(topic.num_partitions).unwrap_or(1)
    }
}
