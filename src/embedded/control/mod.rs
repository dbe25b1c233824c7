//! What a test, a demo or an operator does to the cluster: topics, records, faults, inspection.

mod faults;
mod leadership;
mod records;

use std::fmt;

use super::cluster::Cluster;
use super::partition::{Partition, PartitionView};
use super::topics::PartitionKey;
use super::{Api, Seen};
use crate::ids::{BrokerId, TopicId, TopicName, TopicPartition};

/// Why a control call was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControlError {
    /// No such topic or partition.
    UnknownPartition(TopicPartition),
    /// No such topic.
    UnknownTopic(TopicName),
    /// A topic of this name exists.
    TopicExists(TopicName),
    /// Fewer brokers than replicas wanted, no replica at all, or a broker that does not exist.
    NotEnoughBrokers,
    /// The partition has no leader to append to.
    NoLeader(TopicPartition),
    /// The broker is not an in-sync replica that lives.
    NotEligible(BrokerId),
    /// The bytes are not whole v2 batches.
    BadBatch,
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPartition(at) => write!(f, "partition {at} does not exist"),
            Self::UnknownTopic(name) => write!(f, "topic {name} does not exist"),
            Self::TopicExists(name) => write!(f, "topic {name} exists already"),
            Self::NotEnoughBrokers => f.write_str("not enough brokers for the replicas wanted"),
            Self::NoLeader(at) => write!(f, "partition {at} has no leader"),
            Self::NotEligible(broker) => {
                write!(f, "broker {broker} is not a living in-sync replica")
            }
            Self::BadBatch => f.write_str("the bytes are not whole v2 record batches"),
        }
    }
}

impl std::error::Error for ControlError {}

/// Topics.
impl Cluster {
    /// Creates a topic; leaders are spread over the brokers in turn.
    ///
    /// # Errors
    ///
    /// The name is taken, or there are fewer brokers than replicas.
    pub fn create_topic(
        &mut self,
        name: impl Into<TopicName>,
        partitions: u32,
        replication: usize,
    ) -> Result<TopicId, ControlError> {
        let ids: Vec<BrokerId> = self.brokers.keys().copied().collect();
        if replication == 0 || replication > ids.len() {
            return Err(ControlError::NotEnoughBrokers);
        }
        let turn = |first: u32| {
            let skip = usize::try_from(first).unwrap_or(0) % ids.len();
            ids.iter()
                .cycle()
                .skip(skip)
                .take(replication)
                .copied()
                .collect()
        };
        let assignment: Vec<Vec<BrokerId>> = (0..partitions).map(turn).collect();
        self.create_topic_on(name, &assignment)
    }

    /// Creates a topic with the given replicas per partition, preferred leader first.
    ///
    /// # Errors
    ///
    /// The name is taken, or a partition has no replica or an unknown one.
    pub fn create_topic_on(
        &mut self,
        name: impl Into<TopicName>,
        assignment: &[Vec<BrokerId>],
    ) -> Result<TopicId, ControlError> {
        let name = name.into();
        if self.topics.contains(&name) {
            return Err(ControlError::TopicExists(name));
        }
        let known = |replicas: &Vec<BrokerId>| {
            !replicas.is_empty() && replicas.iter().all(|id| self.brokers.contains_key(id))
        };
        if !assignment.iter().all(known) {
            return Err(ControlError::NotEnoughBrokers);
        }
        let partitions = (0_i32..).zip(assignment).map(|(index, replicas)| {
            Partition::new(TopicPartition::new(name.clone(), index), replicas, self.now)
        });
        let partitions = partitions.collect();
        let index = self.topics.add(name, partitions);
        Ok(TopicId(
            self.topics
                .topic(index)
                .map_or_else(uuid::Uuid::nil, |topic| topic.id),
        ))
    }

    /// Deletes a topic. Created again under the same name it has another id.
    ///
    /// # Errors
    ///
    /// There is no such topic.
    pub fn delete_topic(&mut self, name: &TopicName) -> Result<(), ControlError> {
        let gone = self.topics.remove(name);
        gone.map(drop)
            .ok_or_else(|| ControlError::UnknownTopic(name.clone()))
    }

    pub(super) fn key(&self, at: &TopicPartition) -> Result<PartitionKey, ControlError> {
        self.topics
            .key(at)
            .ok_or_else(|| ControlError::UnknownPartition(at.clone()))
    }

    pub(super) fn auto_create(&mut self, name: &TopicName) {
        if let Some(partitions) = self.settings.auto_create_partitions {
            let replication = self.brokers.len().min(3);
            if self
                .create_topic(name.clone(), partitions, replication)
                .is_err()
            {
                debug_assert!(
                    self.topics.contains(name),
                    "brokers suffice for the replication"
                );
            }
        }
    }
}

/// Inspection.
impl Cluster {
    /// Leadership, replicas and watermarks of a partition.
    pub fn partition(&self, at: &TopicPartition) -> Option<PartitionView> {
        self.topics
            .partition(self.topics.key(at)?)
            .map(Partition::view)
    }

    /// The names of all topics, in order.
    pub fn topics(&self) -> impl Iterator<Item = &TopicName> {
        self.topics.names().map(|(name, _)| name)
    }

    /// Requests received, oldest first, within `history_max`.
    pub fn history(&self) -> impl DoubleEndedIterator<Item = &Seen> {
        self.history.iter()
    }

    /// Requests received since the last call, oldest first.
    pub fn take_history(&mut self) -> Vec<Seen> {
        self.history.take()
    }

    /// Record-set bytes a broker served to consumers since the start.
    pub fn record_bytes(&self, broker: BrokerId) -> u64 {
        self.history.record_bytes(broker)
    }

    /// Requests of one API a broker received since the start.
    pub fn requests(&self, broker: BrokerId, api: Api) -> u64 {
        self.history.requests(broker, api)
    }
}
