//! What processes know of the cluster.

use std::collections::BTreeMap;

use nearside::assign;
use nearside::group::TopicView;
use nearside::ids::{BrokerId, LeaderEpoch, Rack, TopicId, TopicName, TopicPartition};
use nearside::offsets::resolve::LeaderView;

/// What the processes know of the cluster: a copy that changes only on [`Rig::refresh`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Known {
    pub(super) leaders: BTreeMap<TopicPartition, (BrokerId, Option<LeaderEpoch>)>,
    pub(super) racks: BTreeMap<TopicName, Vec<Vec<Rack>>>,
}

impl TopicView for Known {
    fn topic(&self, name: &TopicName) -> Option<assign::Topic> {
        let replica_racks = self.racks.get(name)?.clone();
        Some(assign::Topic {
            name: name.clone(),
            replica_racks,
        })
    }

    fn partition_count(&self, name: &TopicName) -> Option<usize> {
        Some(self.racks.get(name)?.len())
    }
}

impl LeaderView for Known {
    fn leader(&self, partition: &TopicPartition) -> Option<(BrokerId, Option<LeaderEpoch>)> {
        self.leaders.get(partition).copied()
    }

    fn partition_count(&self, topic: &TopicName) -> Option<usize> {
        TopicView::partition_count(self, topic)
    }

    fn topic_id(&self, _: &TopicName) -> Option<TopicId> {
        None
    }
}
