//! What changed between two snapshots, told to those concerned.

use std::sync::Arc;

use super::output::Target;
use super::snapshot::Endpoint;
use crate::ids::{
    BrokerId, LeaderEpoch, MetadataVersion, Moment, Rack, TopicId, TopicIncarnation, TopicName,
    TopicPartition,
};
use crate::wire::ErrorCode;

/// One difference (metadata.md 7.1). Differences come in revision order, after the snapshot that
/// holds them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Diff {
    /// The leader or its epoch changed, became addressable, or is known again at the same epoch.
    LeaderChanged {
        /// Whose leader.
        partition: TopicPartition,
        /// Life of the topic.
        incarnation: TopicIncarnation,
        /// The leader, if one is known.
        leader: Option<BrokerId>,
        /// The floor epoch; `None` on clusters without epochs.
        epoch: Option<LeaderEpoch>,
        /// Whether the leader's address is known.
        addressable: bool,
        /// Who told.
        source: LeaderSource,
    },
    /// The leader of the current epoch is gone, the epoch is not.
    LeaderLost {
        /// Whose leader.
        partition: TopicPartition,
        /// The epoch that still stands.
        epoch: Option<LeaderEpoch>,
    },
    /// The in-sync replicas changed, or became known for the current epoch.
    IsrChanged {
        /// Whose replicas.
        partition: TopicPartition,
        /// The new list, ascending.
        isr: Arc<[BrokerId]>,
        /// Epoch of the row that brought it.
        isr_epoch: Option<LeaderEpoch>,
        /// Who sent that row.
        source: Target,
        /// When.
        observed_at: Moment,
        /// The Metadata response it came with.
        version: MetadataVersion,
    },
    /// The replica list or the offline list changed.
    ReplicasChanged {
        /// Whose replicas.
        partition: TopicPartition,
        /// All replicas, preferred leader first.
        replicas: Arc<[BrokerId]>,
        /// Those listed offline, ascending.
        offline: Arc<[BrokerId]>,
        /// Rack of each replica, in the order of `replicas`.
        racks: Vec<Option<Rack>>,
    },
    /// A broker's address or rack changed.
    EndpointChanged {
        /// Which broker.
        broker: BrokerId,
        /// What it was.
        old: Endpoint,
        /// What it is.
        new: Endpoint,
        /// What differs.
        kind: EndpointChange,
    },
    /// A broker became known.
    BrokerAdded {
        /// Which.
        broker: BrokerId,
    },
    /// A broker is no longer listed, led by, or recently seen.
    BrokerRemoved {
        /// Which.
        broker: BrokerId,
    },
    /// The name now stands for another topic.
    TopicRecreated {
        /// The name.
        topic: TopicName,
        /// The id of the former life.
        old_id: Option<TopicId>,
        /// The id of this life.
        new_id: Option<TopicId>,
        /// This life.
        incarnation: TopicIncarnation,
    },
    /// Answers no longer list the topic; its rows stay in use for now.
    TopicUnconfirmed {
        /// The name.
        topic: TopicName,
        /// Life of the topic.
        incarnation: TopicIncarnation,
    },
    /// The topic does not exist.
    TopicGone {
        /// The name.
        topic: TopicName,
        /// The life that ended.
        incarnation: TopicIncarnation,
    },
    /// Brokers refuse to speak about the topic, or a topic never seen was missing in two answers.
    TopicError {
        /// The name.
        topic: TopicName,
        /// Life of the topic.
        incarnation: TopicIncarnation,
        /// Why.
        code: ErrorCode,
    },
    /// The topic has more partitions than before; a topic seen for the first time starts from 0.
    PartitionsAdded {
        /// The name.
        topic: TopicName,
        /// Number before.
        from: i32,
        /// Number now.
        to: i32,
    },
    /// The cluster really went back to a lower epoch (metadata.md 3.2); positions need validation.
    EpochRegressed {
        /// Whose epoch.
        partition: TopicPartition,
        /// The floor that was.
        from: LeaderEpoch,
        /// The floor that is.
        to: LeaderEpoch,
    },
    /// A Metadata response was applied, whatever it changed.
    MetadataVersion {
        /// Its number.
        version: MetadataVersion,
    },
    /// All learned nodes are suspect; names are being resolved anew.
    RebootstrapStarted {
        /// Why.
        reason: RebootstrapReason,
    },
    /// The first answer after a rebootstrap was applied.
    RebootstrapEnded,
    /// The addresses now lead to another cluster.
    ClusterChanged {
        /// The id we knew.
        old: Arc<str>,
        /// The id that answered.
        new: Arc<str>,
    },
    /// A hinted address refused twice where Metadata names another one (metadata.md 5).
    HintEndpointDistrusted {
        /// Which broker is dialled by Metadata's address from now on.
        broker: BrokerId,
    },
}

impl Diff {
    /// The partition concerned, if it is one.
    pub const fn partition(&self) -> Option<&TopicPartition> {
        match self {
            Self::LeaderChanged { partition, .. }
            | Self::LeaderLost { partition, .. }
            | Self::IsrChanged { partition, .. }
            | Self::ReplicasChanged { partition, .. }
            | Self::EpochRegressed { partition, .. } => Some(partition),
            Self::EndpointChanged { .. }
            | Self::BrokerAdded { .. }
            | Self::BrokerRemoved { .. }
            | Self::TopicRecreated { .. }
            | Self::TopicUnconfirmed { .. }
            | Self::TopicGone { .. }
            | Self::TopicError { .. }
            | Self::PartitionsAdded { .. }
            | Self::MetadataVersion { .. }
            | Self::RebootstrapStarted { .. }
            | Self::RebootstrapEnded
            | Self::ClusterChanged { .. }
            | Self::HintEndpointDistrusted { .. } => None,
        }
    }

    /// The topic concerned, if it is one as a whole.
    pub const fn topic(&self) -> Option<&TopicName> {
        match self {
            Self::TopicRecreated { topic, .. }
            | Self::TopicUnconfirmed { topic, .. }
            | Self::TopicGone { topic, .. }
            | Self::TopicError { topic, .. }
            | Self::PartitionsAdded { topic, .. } => Some(topic),
            Self::LeaderChanged { .. }
            | Self::LeaderLost { .. }
            | Self::IsrChanged { .. }
            | Self::ReplicasChanged { .. }
            | Self::EpochRegressed { .. }
            | Self::EndpointChanged { .. }
            | Self::BrokerAdded { .. }
            | Self::BrokerRemoved { .. }
            | Self::MetadataVersion { .. }
            | Self::RebootstrapStarted { .. }
            | Self::RebootstrapEnded
            | Self::ClusterChanged { .. }
            | Self::HintEndpointDistrusted { .. } => None,
        }
    }
}

/// Who told a leadership.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaderSource {
    /// A Metadata answer of this peer.
    Metadata(Target),
    /// A hint in a Fetch or Produce answer of this broker (KIP-951).
    Hint(BrokerId),
}

/// What of a broker's endpoint changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndpointChange {
    /// Host or port: a new connection is needed, the old one finishes what is in flight.
    Address,
    /// Only the rack: the connection stays.
    Rack,
}

/// Why all nodes are looked up anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RebootstrapReason {
    /// The last attempt to every known node failed.
    NothingReachable,
    /// No refresh succeeded for too long after one was due.
    Overdue,
    /// A broker asked for it (code 129, KIP-1102).
    Asked,
    /// Two answers in a row listed no broker.
    EmptyBrokerList,
}
