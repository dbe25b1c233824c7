//! Whom a record was handled for: the token that lets a sink refuse a former owner.

use std::fmt;

use serde::Serialize;

use crate::ids::{AssignmentEpoch, Generation, GroupId, Offset, TopicId, TopicPartition};

/// The assignment under which records reach a handler; shared by all its attempts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// The consumer group.
    pub group: GroupId,
    /// The partition.
    pub partition: TopicPartition,
    /// The topic's id (KIP-516), if the cluster gives topics ids.
    pub topic_id: Option<TopicId>,
    /// Generation or member epoch in force.
    pub generation: Generation,
    /// The local number of this assignment.
    pub epoch: AssignmentEpoch,
}

/// Orders the owners of a partition (runtime.md 1). A sink that remembers the highest token it has
/// seen for a partition can refuse the writes of a former owner, whose token is lower.
///
/// Tokens compare by group, topic, partition, then generation, then offset, so comparing them is
/// meaningful within one partition of one group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[non_exhaustive]
pub struct FencingToken {
    /// The consumer group.
    pub group: GroupId,
    /// The topic's id, if known.
    pub topic_id: Option<TopicId>,
    /// Topic name and partition.
    pub partition: TopicPartition,
    /// Generation or member epoch under which the record was handed out.
    pub generation: Generation,
    /// Offset of the record, or of the first record of the batch.
    pub offset: Offset,
}

impl FencingToken {
    /// The token of the record at `offset` under `assignment`.
    pub fn new(assignment: &Assignment, offset: Offset) -> Self {
        Self {
            group: assignment.group.clone(),
            topic_id: assignment.topic_id,
            partition: assignment.partition.clone(),
            generation: assignment.generation,
            offset,
        }
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}/{}/{}",
            self.group, self.partition, self.generation, self.offset
        )
    }
}
