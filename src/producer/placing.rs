//! Which queue a record joins, and what happens until that can be told.

use crate::cluster::{Reason, Want};
use crate::ids::{Draw, Moment, PartitionIndex, TopicPartition};

use super::leaders::Leaders;
use super::machine::Producer;
use super::message::{Output, ProduceError, Record, RecordToken};
use super::partitioner::partition_of_key;
use super::queue::Queue;

/// A record without a queue yet.
#[derive(Debug)]
pub(super) struct Unplaced {
    pub(super) token: RecordToken,
    pub(super) record: Record,
    pub(super) since: Moment,
}

impl Producer {
    /// Takes a new record.
    pub(super) fn append(&mut self, new: Unplaced, cluster: (&dyn Leaders, Draw)) {
        let size = new.record.held_bytes();
        // An empty buffer takes any record that a request can carry.
        if self.held > 0 && size > self.room() {
            return self.fail(new.token, ProduceError::BufferFull);
        }
        self.held += size;
        if let Some(waiting) = self.unplaced.get_mut(&new.record.topic) {
            return waiting.push_back(new);
        }
        if let Some(new) = self.place(new, cluster) {
            let topic = new.record.topic.clone();
            let (reason, want) = (Reason::Subscription, Want::Topic(topic.clone()));
            self.effects
                .outputs
                .push_back(Output::Refresh { reason, want });
            self.unplaced.entry(topic).or_default().push_back(new);
        }
    }

    /// Places the records of topics that have become known.
    pub(super) fn place_waiting(&mut self, cluster: (&dyn Leaders, Draw)) {
        for (topic, mut waiting) in std::mem::take(&mut self.unplaced) {
            while let Some(first) = waiting.pop_front() {
                if let Some(first) = self.place(first, cluster) {
                    waiting.push_front(first);
                    self.unplaced.insert(topic, waiting);
                    break;
                }
            }
        }
    }

    /// Gives a record to its queue, or fails it; hands it back if the topic's partitions are not
    /// known.
    fn place(&mut self, new: Unplaced, (leaders, draw): (&dyn Leaders, Draw)) -> Option<Unplaced> {
        let topic = &new.record.topic;
        let refusal = leaders.refusal(topic);
        let placed = match (refusal, leaders.partition_count(topic)) {
            (Some(code), _) => Err(ProduceError::Refused {
                code,
                message: None,
            }),
            (None, None) => return Some(new),
            (None, Some(count)) => self
                .choose(&new.record, count, (leaders, draw))
                .and_then(|partition| self.enqueue(partition, &new, leaders)),
        };
        if let Err(error) = placed {
            self.effects.released += new.record.held_bytes();
            self.fail(new.token, error);
        }
        None
    }

    fn choose(
        &mut self,
        record: &Record,
        count: i32,
        cluster: (&dyn Leaders, Draw),
    ) -> Result<TopicPartition, ProduceError> {
        let index = match (record.partition, &record.key) {
            (Some(index), _) => Some(index).filter(|index| (0..count).contains(&index.0)),
            (None, Some(key)) => partition_of_key(key, count),
            (None, None) => self.choose_without_key(record, count, cluster),
        };
        let missing = record.partition.unwrap_or(PartitionIndex(0));
        let partition = index.ok_or(ProduceError::NoSuchPartition(missing))?;
        Ok(TopicPartition {
            topic: record.topic.clone(),
            partition,
        })
    }

    /// Stays with a partition while its batch takes the record: the next batch is begun elsewhere,
    /// be this one full or gone after its linger.
    fn choose_without_key(
        &mut self,
        record: &Record,
        count: i32,
        (leaders, draw): (&dyn Leaders, Draw),
    ) -> Option<PartitionIndex> {
        let at = |partition| TopicPartition {
            topic: record.topic.clone(),
            partition,
        };
        let current = self.sticky.current(&record.topic, count);
        if let Some(current) = current
            && let Some(index) = self.index.get(&at(current))
            && let Some(queue) = self.queues.get(*index)
            && queue.has_room_for(record, &self.settings)
        {
            return Some(current);
        }
        let is_available = |index| leaders.leader(&at(index)).is_some();
        self.sticky
            .advance(&record.topic, count, draw, is_available)
    }

    fn enqueue(
        &mut self,
        partition: TopicPartition,
        new: &Unplaced,
        leaders: &dyn Leaders,
    ) -> Result<(), ProduceError> {
        let index = match self.index.get(&partition) {
            Some(index) => *index,
            None => self.open_queue(partition, leaders),
        };
        let Some(queue) = self.queues.get_mut(index) else {
            return Ok(());
        };
        let record = &new.record;
        queue.append(new.token, record, &self.settings, new.since)?;
        self.dirty.insert(index);
        Ok(())
    }

    fn open_queue(&mut self, partition: TopicPartition, leaders: &dyn Leaders) -> usize {
        let index = self.queues.len();
        let incarnation = leaders.incarnation(&partition.topic);
        self.queues.push(Queue::new(partition.clone(), incarnation));
        self.index.insert(partition, index);
        index
    }
}
