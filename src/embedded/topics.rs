//! The topics of a cluster, by name and by id, with partitions addressed by two small numbers.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::partition::Partition;
use crate::ids::{TopicName, TopicPartition};

/// Addresses a partition without text: index of the topic's life, index of the partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct PartitionKey {
    pub(super) topic: usize,
    pub(super) partition: usize,
}

#[derive(Debug, Default)]
pub(super) struct Topics {
    /// Every life of every topic; a deleted one keeps its slot, without partitions.
    lives: Vec<Topic>,
    by_name: BTreeMap<TopicName, usize>,
    by_id: BTreeMap<Uuid, usize>,
}

#[derive(Debug)]
pub(super) struct Topic {
    pub(super) name: TopicName,
    pub(super) id: Uuid,
    pub(super) partitions: Vec<Partition>,
}

impl Topics {
    pub(super) fn contains(&self, name: &TopicName) -> bool {
        self.by_name.contains_key(name)
    }

    /// Adds a topic under a fresh id and returns its index.
    pub(super) fn add(&mut self, name: TopicName, partitions: Vec<Partition>) -> usize {
        let index = self.lives.len();
        let id = topic_id(index);
        self.by_name.insert(name.clone(), index);
        self.by_id.insert(id, index);
        self.lives.push(Topic {
            name,
            id,
            partitions,
        });
        index
    }

    /// Deletes a topic; its id is never used again.
    pub(super) fn remove(&mut self, name: &TopicName) -> Option<usize> {
        let index = self.by_name.remove(name)?;
        let topic = self.lives.get_mut(index)?;
        self.by_id.remove(&topic.id);
        topic.partitions = Vec::new();
        Some(index)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = (&TopicName, &Topic)> {
        self.by_name
            .iter()
            .filter_map(|(name, &index)| Some((name, self.lives.get(index)?)))
    }

    pub(super) fn by_name(&self, name: &str) -> Option<&Topic> {
        self.lives.get(self.index_by_name(name)?)
    }

    pub(super) fn by_id(&self, id: &Uuid) -> Option<&Topic> {
        self.lives.get(self.index_by_id(id)?)
    }

    pub(super) fn index_by_name(&self, name: &str) -> Option<usize> {
        self.by_name.get(&TopicName::from(name)).copied()
    }

    pub(super) fn index_by_id(&self, id: &Uuid) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    pub(super) fn topic(&self, index: usize) -> Option<&Topic> {
        self.lives.get(index)
    }

    pub(super) fn key(&self, at: &TopicPartition) -> Option<PartitionKey> {
        let topic = self.by_name.get(&at.topic).copied()?;
        self.key_in(topic, at.partition.0)
    }

    /// The key of partition `partition` of the topic at `topic`, if it exists.
    pub(super) fn key_in(&self, topic: usize, partition: i32) -> Option<PartitionKey> {
        let partition = usize::try_from(partition).ok()?;
        let exists = self.lives.get(topic)?.partitions.len() > partition;
        exists.then_some(PartitionKey { topic, partition })
    }

    pub(super) fn partition(&self, key: PartitionKey) -> Option<&Partition> {
        self.lives.get(key.topic)?.partitions.get(key.partition)
    }

    pub(super) fn partition_mut(&mut self, key: PartitionKey) -> Option<&mut Partition> {
        self.lives
            .get_mut(key.topic)?
            .partitions
            .get_mut(key.partition)
    }

    /// The keys of all partitions that exist.
    pub(super) fn keys(&self) -> Vec<PartitionKey> {
        let of_topic = |(topic, life): (usize, &Topic)| {
            (0..life.partitions.len()).map(move |partition| PartitionKey { topic, partition })
        };
        self.lives.iter().enumerate().flat_map(of_topic).collect()
    }
}

/// Ids are unique, look random and are the same in every run.
fn topic_id(index: usize) -> Uuid {
    let low = crate::ids::Draw(u64::try_from(index).unwrap_or(0)).split();
    uuid::Builder::from_random_bytes(
        u128::from(low.0)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .to_be_bytes(),
    )
    .into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recreated_topic_has_another_id() {
        let mut topics = Topics::default();
        let first = topics.add("t".into(), Vec::new());
        let id = topics.topic(first).unwrap().id;
        assert_eq!(topics.remove(&"t".into()), Some(first));
        let second = topics.add("t".into(), Vec::new());
        assert_ne!(topics.topic(second).unwrap().id, id);
        assert_eq!(topics.index_by_id(&id), None);
    }
}
