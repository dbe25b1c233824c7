//! What a member reads of the cluster.

use std::collections::BTreeSet;

use crate::assign;
use crate::cluster::{Partition, Snapshot};
use crate::ids::{PartitionIndex, Rack, TopicName};

/// The topics of the cluster, as far as they are known. The metadata snapshot is one; tests write
/// their own.
pub trait TopicView {
    /// The topic with the racks of its replicas; `None` while it is not known.
    fn topic(&self, name: &TopicName) -> Option<assign::Topic>;

    /// Number of partitions; `None` while the topic is not known.
    fn partition_count(&self, name: &TopicName) -> Option<usize>;
}

impl TopicView for Snapshot {
    fn topic(&self, name: &TopicName) -> Option<assign::Topic> {
        let topic = Self::topic(self, name)?;
        let racks = |row: &Partition| -> BTreeSet<Rack> {
            let replicas = row.replicas.iter();
            replicas
                .filter_map(|id| self.broker(*id)?.rack.clone())
                .collect()
        };
        Some(assign::Topic {
            name: name.clone(),
            replica_racks: (0..topic.partition_count())
                .map(|index| topic.partition(PartitionIndex(index)))
                .map(|row| row.map(racks).into_iter().flatten().collect())
                .collect(),
        })
    }

    fn partition_count(&self, name: &TopicName) -> Option<usize> {
        usize::try_from(Self::topic(self, name)?.partition_count())
            .ok()
            .filter(|count| *count > 0)
    }
}
