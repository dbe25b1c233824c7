//! What the cluster does to its topics.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::{AlterPartitionReassignmentsRequest, BrokerId, ElectLeadersRequest};

use super::admin::{Admin, PartitionView, check, topic_name};
use super::{Cluster, KafkaError, until};

impl Cluster {
    /// Waits until every partition of `topic` satisfies `condition`, and returns them.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] with the last state seen, after a minute.
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

    /// Creates a topic with three replicas a partition, leaders and followers spread evenly, and
    /// waits until all of them are in sync.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when the cluster refuses.
    pub fn create_topic(&self, topic: &str, partitions: usize) -> Result<(), KafkaError> {
        let mut order: Vec<i32> = self.racks().into_keys().collect();
        let replicas = (0..partitions).map(|_| {
            let replicas = order.clone();
            order.rotate_left(1);
            replicas
        });
        let replicas: Vec<Vec<i32>> = replicas.collect();
        self.admin()?.create_topic(topic, &replicas, &[])?;
        self.wait_partitions(topic, "all replicas in sync", |view| view.isr.len() == 3)?;
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
        let reassigned = ReassignablePartition::default()
            .with_partition_index(partition)
            .with_replicas(Some(replicas.into_iter().map(BrokerId).collect()));
        let reassigned = ReassignableTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(vec![reassigned]);
        let request = AlterPartitionReassignmentsRequest::default().with_topics(vec![reassigned]);
        let answer = admin.call(&request, 0)?;
        check(
            format_args!("reordering the replicas of {topic}-{partition}"),
            answer.error_code,
        )?;
        for row in answer
            .responses
            .into_iter()
            .flat_map(|topic| topic.partitions)
        {
            check(
                format_args!("reordering the replicas of {topic}-{partition}"),
                row.error_code,
            )?;
        }
        self.elect_preferred(&mut admin, topic, partition)?;
        // Metadata tells of the move before the new leader acts on it; it serves its end once it
        // does.
        until(
            &format!("broker {to} leading {topic}-{partition}"),
            SETTLE_LIMIT,
            || {
                let served = self
                    .connect(to)
                    .and_then(|mut leader| leader.end_offsets(topic, &[partition]));
                served.map(drop).map_err(|error| error.to_string())
            },
        )
    }

    fn elect_preferred(
        &self,
        admin: &mut Admin,
        topic: &str,
        partition: i32,
    ) -> Result<(), KafkaError> {
        let wanted = TopicPartitions::default()
            .with_topic(topic_name(topic))
            .with_partitions(vec![partition]);
        let request = ElectLeadersRequest::default().with_topic_partitions(Some(vec![wanted]));
        let answer = admin.call(&request, 2)?;
        let rows = answer
            .replica_election_results
            .into_iter()
            .flat_map(|row| row.partition_result);
        for row in rows.filter(|row| row.error_code != ELECTION_NOT_NEEDED) {
            check(
                format_args!("electing the leader of {topic}-{partition}"),
                row.error_code,
            )?;
        }
        Ok(())
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

const SETTLE_LIMIT: Duration = Duration::from_secs(60);
const ELECTION_NOT_NEEDED: i16 = 84;
