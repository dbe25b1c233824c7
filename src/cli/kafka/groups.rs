//! What a group's coordinator knows.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::{FindCoordinatorRequest, GroupId, OffsetFetchRequest};

use super::admin::{check, text, topic_name};
use super::{Cluster, KafkaError, until};

impl Cluster {
    /// The broker that coordinates a group, once there is one: a new offsets topic takes a moment
    /// to find its leaders.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when none is named within half a minute.
    pub fn coordinator(&self, group: &str) -> Result<i32, KafkaError> {
        let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![text(group)]);
        until(
            &format!("a coordinator of {group}"),
            COORDINATOR_LIMIT,
            || {
                let answer = self.admin().and_then(|mut admin| admin.call(&request, 4));
                let answer = answer.map_err(|error| error.to_string())?;
                let found = answer.coordinators.into_iter().next();
                let found = found.ok_or("an answer about no group")?;
                check("finding it", found.error_code).map_err(|error| error.to_string())?;
                Ok(found.node_id.0)
            },
        )
    }

    /// The offsets a group has committed for the given partitions of one topic, as its coordinator
    /// tells them; partitions without a commit are left out.
    ///
    /// # Errors
    ///
    /// [`KafkaError::Failed`] when the coordinator does not tell within half a minute.
    pub fn committed(
        &self,
        group: &str,
        topic: &str,
        partitions: &[i32],
    ) -> Result<BTreeMap<i32, i64>, KafkaError> {
        let wanted = OffsetFetchRequestTopics::default()
            .with_name(topic_name(topic))
            .with_partition_indexes(partitions.to_vec());
        let wanted = OffsetFetchRequestGroup::default()
            .with_group_id(GroupId(text(group)))
            .with_topics(Some(vec![wanted]));
        let request = OffsetFetchRequest::default().with_groups(vec![wanted]);
        until(
            &format!("the offsets of {group}"),
            COORDINATOR_LIMIT,
            || {
                let answer = self
                    .coordinator(group)
                    .and_then(|broker| self.connect(broker)?.call(&request, 8))
                    .map_err(|error| error.to_string())?;
                let mut offsets = BTreeMap::new();
                for told in answer.groups {
                    check("asking", told.error_code).map_err(|error| error.to_string())?;
                    for row in told.topics.into_iter().flat_map(|topic| topic.partitions) {
                        check("asking", row.error_code).map_err(|error| error.to_string())?;
                        if row.committed_offset >= 0 {
                            offsets.insert(row.partition_index, row.committed_offset);
                        }
                    }
                }
                Ok(offsets)
            },
        )
    }
}

const COORDINATOR_LIMIT: Duration = Duration::from_secs(30);
