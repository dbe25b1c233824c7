//! Whether dead letters could be written at all, asked once at the start (runtime.md 16 (14)).

use std::time::Duration;

use crate::ids::{Moment, TopicName};
use crate::producer::Leaders;
use crate::wire::ErrorCode;

/// Looks at the topics until all of them can be written to, or one for long enough cannot.
#[derive(Debug)]
pub(super) struct Check {
    /// Those that have not been seen yet.
    topics: Vec<TopicName>,
    /// When brokers first said that one of them is not there.
    refused_at: Option<Moment>,
}

impl Check {
    pub(super) fn new(topics: Vec<TopicName>) -> Self {
        Self {
            topics,
            refused_at: None,
        }
    }

    /// When to look again if nothing changes.
    pub(super) fn next_deadline(&self) -> Option<Moment> {
        self.refused_at.map(|at| at + PATIENCE)
    }

    /// Looks once more: a topic that cannot be used, with the brokers' reason, told once. A broker
    /// that has just started, or a topic just made, gets a little time.
    pub(super) fn look(
        &mut self,
        cluster: &dyn Leaders,
        now: Moment,
    ) -> Option<(TopicName, ErrorCode)> {
        self.topics.retain(|topic| {
            cluster.refusal(topic).is_some() || cluster.partition_count(topic).is_none()
        });
        let refusal = |topic: &TopicName| Some((topic.clone(), refused(cluster, topic)?));
        let Some(refused) = self.topics.iter().find_map(refusal) else {
            self.refused_at = None;
            return None;
        };
        let since = *self.refused_at.get_or_insert(now);
        if now.since(since) < PATIENCE {
            return None;
        }
        *self = Self::new(Vec::new());
        Some(refused)
    }
}

fn refused(cluster: &dyn Leaders, topic: &TopicName) -> Option<ErrorCode> {
    let absent = || {
        cluster
            .is_absent(topic)
            .then_some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
    };
    cluster.refusal(topic).or_else(absent)
}

/// How long a topic may be refused after the start.
const PATIENCE: Duration = Duration::from_secs(10);
