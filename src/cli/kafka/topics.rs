//! What the cluster does to its topics.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, BrokerId, DeleteRecordsRequest, ElectLeadersRequest,
};

use super::admin::{PartitionView, check, topic_name};
use super::{Cluster, KafkaError, until};

impl Cluster {
    /// Waits until every partition of `topic` satisfies `condition`, and returns them.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] with the last state seen, after three minutes.
    pub fn wait_partitions(
        &self,
        topic: &str,
        what: &str,
        condition: impl Fn(&PartitionView) -> bool,
    ) -> Result<BTreeMap<i32, PartitionView>, KafkaError> {
        until(&format!("{what} of {topic}"), SETTLE_LIMIT, || {
            let views = self
                .admin()
                .and_then(|mut admin| admin.partitions(topic))
                .map_err(|error| error.to_string())?;
            if !views.is_empty() && views.values().all(&condition) {
                return Ok(views);
            }
            Err(format!("{views:?}"))
        })
    }

    /// Creates a topic with three replicas a partition, each in a rack of its own, leaders and
    /// followers spread evenly, and waits until all of them are in sync.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when the cluster refuses.
    pub fn create_topic(&self, topic: &str, partitions: usize) -> Result<(), KafkaError> {
        let replicas = spread(&self.racks(), partitions);
        self.admin()?.create_topic(topic, &replicas, &[])?;
        self.wait_partitions(topic, "all replicas in sync", |view| {
            view.isr.len() == view.replicas.len()
        })?;
        Ok(())
    }

    /// Moves the lead of one partition without any fault, and waits for it.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when the cluster refuses or `to` has no replica.
    pub fn move_leader(&self, topic: &str, partition: i32, to: i32) -> Result<(), KafkaError> {
        let mut admin = self.admin()?;
        let mut replicas = admin
            .partitions(topic)?
            .remove(&partition)
            .ok_or_else(|| KafkaError::failed(format!("{topic} has no partition {partition}")))?
            .replicas;
        replicas.sort_unstable_by_key(|id| (*id != to, *id));
        self.reassign(topic, &BTreeMap::from([(partition, replicas)]))?;
        until(
            &format!("broker {to} leading {topic}-{partition}"),
            SETTLE_LIMIT,
            || {
                // A replica that is behind cannot lead yet.
                let led = self
                    .elect_preferred(topic, &[partition])
                    .and_then(|()| self.is_led_by(topic, partition, to));
                led.map_err(|error| error.to_string())
            },
        )
    }

    /// The leader serves its end once it acts as one; the broker that tells of it may be the last
    /// to hear.
    fn is_led_by(&self, topic: &str, partition: i32, leader: i32) -> Result<(), KafkaError> {
        self.connect(leader)?.end_offsets(topic, &[partition])?;
        let views = self.admin()?.partitions(topic)?;
        match views.get(&partition) {
            Some(view) if view.leader == leader => Ok(()),
            other => Err(KafkaError::failed(format!("{other:?}"))),
        }
    }

    /// Gives partitions other replicas, or the same in another order; copying them may take a
    /// while.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when the cluster refuses.
    pub fn reassign(
        &self,
        topic: &str,
        replicas: &BTreeMap<i32, Vec<i32>>,
    ) -> Result<(), KafkaError> {
        let partitions = replicas.iter().map(|(partition, replicas)| {
            ReassignablePartition::default()
                .with_partition_index(*partition)
                .with_replicas(Some(replicas.iter().copied().map(BrokerId).collect()))
        });
        let reassigned = ReassignableTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(partitions.collect());
        let request = AlterPartitionReassignmentsRequest::default().with_topics(vec![reassigned]);
        let answer = self.admin()?.call(&request, 0)?;
        let what = format!("reassigning {topic}");
        check(&what, answer.error_code)?;
        let mut rows = answer
            .responses
            .into_iter()
            .flat_map(|topic| topic.partitions);
        rows.try_for_each(|row| check(&what, row.error_code))
    }

    /// Lets the first replica of each partition lead where another one does.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when the cluster refuses.
    pub fn elect_preferred(&self, topic: &str, partitions: &[i32]) -> Result<(), KafkaError> {
        let wanted = TopicPartitions::default()
            .with_topic(topic_name(topic))
            .with_partitions(partitions.to_vec());
        let request = ElectLeadersRequest::default()
            .with_topic_partitions(Some(vec![wanted]))
            .with_timeout_ms(SERVER_TIMEOUT_MS);
        let answer = self.admin()?.call(&request, 2)?;
        let mut rows = answer
            .replica_election_results
            .into_iter()
            .flat_map(|row| row.partition_result)
            .filter(|row| row.error_code != ELECTION_NOT_NEEDED);
        rows.try_for_each(|row| {
            let what = format_args!("electing the leader of {topic}-{}", row.partition_id);
            check(what, row.error_code)
        })
    }

    /// Deletes the records of one partition below `offset`, as retention does.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when its leader refuses.
    pub fn delete_records(
        &self,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> Result<(), KafkaError> {
        let views = self.admin()?.partitions(topic)?;
        let view = views
            .get(&partition)
            .ok_or_else(|| KafkaError::failed(format!("{topic} has no partition {partition}")))?;
        let wanted = DeleteRecordsPartition::default()
            .with_partition_index(partition)
            .with_offset(offset);
        let wanted = DeleteRecordsTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(vec![wanted]);
        let request = DeleteRecordsRequest::default()
            .with_topics(vec![wanted])
            .with_timeout_ms(SERVER_TIMEOUT_MS);
        let answer = self.connect(view.leader)?.call(&request, 2)?;
        let mut rows = answer.topics.into_iter().flat_map(|topic| topic.partitions);
        rows.try_for_each(|row| {
            check(
                format_args!("deleting from {topic}-{partition}"),
                row.error_code,
            )
        })
    }

    /// The log end offsets of a whole topic, each asked of its leader.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when a leader refuses.
    pub fn end_offsets(&self, topic: &str) -> Result<BTreeMap<i32, i64>, KafkaError> {
        let mut by_leader: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for (partition, view) in self.admin()?.partitions(topic)? {
            by_leader.entry(view.leader).or_default().push(partition);
        }
        let mut ends = BTreeMap::new();
        for (leader, partitions) in by_leader {
            ends.extend(self.connect(leader)?.end_offsets(topic, &partitions)?);
        }
        Ok(ends)
    }
}

/// Three replicas for each partition, in racks of their own as far as there are racks.
fn spread(racks: &BTreeMap<i32, &str>, partitions: usize) -> Vec<Vec<i32>> {
    let mut order: Vec<i32> = racks.keys().copied().collect();
    let replicas = (0..partitions).map(|_| {
        let mut chosen: Vec<i32> = Vec::new();
        for id in &order {
            if chosen.len() < 3 && chosen.iter().all(|other| racks.get(other) != racks.get(id)) {
                chosen.push(*id);
            }
        }
        for id in &order {
            if chosen.len() < 3 && !chosen.contains(id) {
                chosen.push(*id);
            }
        }
        order.rotate_left(1);
        chosen
    });
    replicas.collect()
}

const SETTLE_LIMIT: Duration = Duration::from_secs(180);
const ELECTION_NOT_NEEDED: i16 = 84;
const SERVER_TIMEOUT_MS: i32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_has_a_replica_in_every_rack_and_every_broker_leads() {
        let racks = BTreeMap::from([(1, "a"), (2, "b"), (3, "c"), (4, "a"), (5, "b")]);
        let expected = [[1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 3], [5, 1, 3]];
        assert_eq!(spread(&racks, 5), expected);
    }

    #[test]
    fn too_few_racks_are_filled_up_with_the_brokers_there_are() {
        let racks = BTreeMap::from([(1, "a"), (2, "a"), (3, "b")]);
        assert_eq!(spread(&racks, 1), [[1, 3, 2]]);
    }
}
