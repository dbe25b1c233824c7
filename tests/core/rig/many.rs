//! Many partitions in one rig, all alike.

use std::sync::Arc;

use bytes::Bytes;
use nearside::embedded::{self, Cluster, Record};
use nearside::ids::{BrokerId, LeaderEpoch, TopicPartition};
use nearside::routing::Route;

use super::{Reader, Rig};

/// `orders` with `count` partitions led by 1 at epoch 5, with replicas 1, 2, 3.
pub(super) fn create(cluster: &mut Cluster, count: i32) {
    let replicas = [1, 2, 3].map(BrokerId).to_vec();
    let assignment = vec![replicas; usize::try_from(count).unwrap()];
    cluster.create_topic_on("orders", &assignment).unwrap();
    for partition in partitions(count) {
        cluster.raise_epoch(&partition, LeaderEpoch(5)).unwrap();
    }
}

/// The first `count` partitions.
pub(crate) fn partitions(count: i32) -> impl Iterator<Item = TopicPartition> {
    (0..count).map(|index| TopicPartition::new("orders", index))
}

impl Rig {
    /// Writes one record to each of these partitions.
    pub(crate) fn preload_each(&mut self, to: impl IntoIterator<Item = TopicPartition>) {
        for partition in to {
            let bytes: Bytes = embedded::encode_batch(&[Record::of(vec![b'x'; 100])]);
            self.cluster().preload(&partition, bytes).unwrap();
        }
    }

    /// Assigns the first `count` partitions at offset 0.
    pub(crate) fn assign_all(&mut self, count: i32) {
        let last = TopicPartition::new("orders", count - 1);
        self.run_until(|rig| rig.metadata.snapshot().partition(&last).is_some());
        for partition in partitions(count) {
            let route = Route::new(Arc::clone(&self.settings));
            self.readers.insert(partition.clone(), Reader::new(route));
            self.begin_at(&partition, 0);
        }
        self.settle();
    }

    /// Number of routes for which something holds.
    pub(crate) fn count(&self, holds: impl Fn(&Route) -> bool) -> usize {
        let routes = self.readers.values().map(|reader| &reader.route);
        routes.filter(|route| holds(route)).count()
    }
}
