//! A Metadata answer as the machine reads it: sentinels and error codes made plain.

use std::sync::Arc;

use super::snapshot::Endpoint;
use crate::ids::{BrokerId, LeaderEpoch, PartitionIndex, Rack, TopicId, TopicName};

/// A Metadata answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// Top-level error code, 0 if none (Metadata v13+).
    pub code: i16,
    /// The cluster's id.
    pub cluster_id: Option<Arc<str>>,
    /// The controller.
    pub controller: Option<BrokerId>,
    /// The live brokers.
    pub brokers: Vec<BrokerRow>,
    /// The topics asked for.
    pub topics: Vec<TopicRow>,
}

/// A broker of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokerRow {
    /// Its id.
    pub id: BrokerId,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Its rack, if it has one and is up.
    pub rack: Option<Rack>,
}

/// A topic of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicRow {
    /// Error code of the topic, 0 if none.
    pub code: i16,
    /// Its name.
    pub name: TopicName,
    /// Its id, if the version carries one.
    pub id: Option<TopicId>,
    /// Its partitions.
    pub partitions: Vec<PartitionRow>,
}

/// A partition of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionRow {
    /// Error code of the partition, 0 if none.
    pub code: i16,
    /// Its index.
    pub index: PartitionIndex,
    /// Its leader; the wire's -1 is `None`.
    pub leader: Option<BrokerId>,
    /// Its leader epoch; the wire's -1 is `None`.
    pub epoch: Option<LeaderEpoch>,
    /// All replicas, preferred leader first.
    pub replicas: Vec<BrokerId>,
    /// The in-sync ones.
    pub isr: Vec<BrokerId>,
    /// The offline ones.
    pub offline: Vec<BrokerId>,
}
