//! The snapshot: what all other machines and actors read.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::shared::Shared;
use super::topic::{Partition, Topic};
use crate::ids::{
    BrokerId, LeaderEpoch, MetadataVersion, Moment, Rack, TopicId, TopicName, TopicPartition,
};

/// +1 per published change of the snapshot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Revision(pub u64);

/// An immutable view of the cluster (metadata.md 2). Copies share what did not change between them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    pub(super) cluster_id: Option<Arc<str>>,
    pub(super) controller: Option<BrokerId>,
    pub(super) version: MetadataVersion,
    pub(super) revision: Revision,
    pub(super) brokers: Arc<BTreeMap<BrokerId, Broker>>,
    pub(super) topics: Shared<TopicName, Arc<Topic>>,
    pub(super) names: Shared<TopicId, TopicName>,
}

impl Snapshot {
    /// The cluster's id, once an answer named it.
    pub fn cluster_id(&self) -> Option<&str> {
        self.cluster_id.as_deref()
    }

    /// The controller, or under KRaft any broker that forwards to it.
    pub const fn controller(&self) -> Option<BrokerId> {
        self.controller
    }

    /// +1 per applied Metadata response.
    pub const fn version(&self) -> MetadataVersion {
        self.version
    }

    /// +1 per published change.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// All brokers, by id.
    pub fn brokers(&self) -> impl Iterator<Item = &Broker> {
        self.brokers.values()
    }

    /// The broker with this id.
    pub fn broker(&self, id: BrokerId) -> Option<&Broker> {
        self.brokers.get(&id)
    }

    /// All topics, in an order that is the same on every run but not alphabetic.
    pub fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.topics.values().map(|topic| &**topic)
    }

    /// The topic with this name.
    pub fn topic(&self, name: &TopicName) -> Option<&Topic> {
        self.topics.get(name).map(|topic| &**topic)
    }

    /// The topic with this id, unless the id is retired.
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Topic> {
        self.topic(self.names.get(&id)?)
    }

    /// The row of one partition.
    pub fn partition(&self, partition: &TopicPartition) -> Option<&Partition> {
        self.topic(&partition.topic)?.partition(partition.partition)
    }

    /// The leader of one partition, if it is known and its address too.
    pub fn leader(&self, partition: &TopicPartition) -> Option<Leader<'_>> {
        let row = self.partition(partition)?;
        let broker = self.broker(row.leader()?)?;
        Some(Leader {
            broker,
            epoch: row.floor,
        })
    }
}

/// The leader of a partition, ready to be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leader<'a> {
    /// Where it is.
    pub broker: &'a Broker,
    /// The epoch to send with every request; `None` on clusters without epochs.
    pub epoch: Option<LeaderEpoch>,
}

/// A host and port, as advertised.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// Host name or address.
    pub host: Arc<str>,
    /// TCP port.
    pub port: u16,
}

impl Endpoint {
    /// Pairs a host with a port.
    pub fn new(host: impl Into<Arc<str>>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An IPv6 literal needs brackets, or its last group reads as the port.
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One broker of the snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broker {
    /// Its node id.
    pub id: BrokerId,
    /// Where to dial it.
    pub endpoint: Endpoint,
    /// Its rack as last told; a restart that hides it for a moment does not clear it (KIP-881).
    pub rack: Option<Rack>,
    /// Who told the endpoint in use.
    pub source: BrokerSource,
    /// What the last Metadata answer that listed it said, if any did.
    pub listed: Option<Endpoint>,
    /// The leadership whose hint brought the endpoint, while the hint overlays Metadata.
    pub witness: Option<Witness>,
    /// When an answer or hint last named it.
    pub seen_at: Moment,
    /// Missing from the last Metadata answer, kept because it may still be needed.
    pub unlisted: bool,
}

/// Who told a broker's endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BrokerSource {
    /// A Metadata answer.
    Metadata,
    /// A leadership hint (KIP-951).
    Hint,
}

/// The leadership that vouches for a hinted endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Witness {
    /// The partition whose hint brought the endpoint.
    pub partition: TopicPartition,
    /// The epoch of that hint.
    pub epoch: LeaderEpoch,
}
