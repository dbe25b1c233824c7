//! What the producer asks of the cluster view.

use crate::cluster::{Snapshot, TopicState};
use crate::ids::{BrokerId, LeaderEpoch, TopicId, TopicIncarnation, TopicName, TopicPartition};
use crate::wire::ErrorCode;

/// The leader of a partition, ready to be written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leader {
    /// The broker; its address is known.
    pub broker: BrokerId,
    /// Its epoch; `None` on clusters without epochs.
    pub epoch: Option<LeaderEpoch>,
}

/// The cluster as far as a producer must know it.
pub trait Leaders {
    /// Number of partitions of `topic`, once known; above 0.
    fn partition_count(&self, topic: &TopicName) -> Option<i32>;

    /// Why brokers refuse to speak about `topic`, if they do.
    fn refusal(&self, topic: &TopicName) -> Option<ErrorCode>;

    /// Whether brokers were asked for `topic` and know of none.
    fn is_absent(&self, topic: &TopicName) -> bool;

    /// The id of `topic`, if known.
    fn topic_id(&self, topic: &TopicName) -> Option<TopicId>;

    /// Which life of its name `topic` is in.
    fn incarnation(&self, topic: &TopicName) -> TopicIncarnation;

    /// The leader of `partition`, if it and its address are known.
    fn leader(&self, partition: &TopicPartition) -> Option<Leader>;
}

impl Leaders for Snapshot {
    fn partition_count(&self, topic: &TopicName) -> Option<i32> {
        self.topic(topic)
            .map(|topic| topic.partition_count())
            .filter(|count| *count > 0)
    }

    fn refusal(&self, topic: &TopicName) -> Option<ErrorCode> {
        match self.topic(topic)?.state {
            TopicState::Error(code) => Some(code),
            TopicState::Known | TopicState::Unconfirmed { .. } | TopicState::Gone => None,
        }
    }

    fn is_absent(&self, topic: &TopicName) -> bool {
        self.topic(topic).is_some_and(|topic| match topic.state {
            TopicState::Gone | TopicState::Unconfirmed { .. } => topic.partition_count() == 0,
            TopicState::Known | TopicState::Error(_) => false,
        })
    }

    fn topic_id(&self, topic: &TopicName) -> Option<TopicId> {
        self.topic(topic)?.id
    }

    fn incarnation(&self, topic: &TopicName) -> TopicIncarnation {
        self.topic(topic)
            .map(|topic| topic.incarnation)
            .unwrap_or_default()
    }

    fn leader(&self, partition: &TopicPartition) -> Option<Leader> {
        let leader = Snapshot::leader(self, partition)?;
        Some(Leader {
            broker: leader.broker.id,
            epoch: leader.epoch,
        })
    }
}
