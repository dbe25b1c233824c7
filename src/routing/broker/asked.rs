//! Questions about partitions that left in one sessionless request (routing.md 8.2, 8.5).

use std::collections::BTreeMap;
use std::time::Duration;

use super::output::Ticket;
use crate::ids::{Moment, TopicId, TopicName, TopicPartition};
use crate::routing::output::Demand;
use crate::routing::stamp::Stamp;
use crate::wire::api::TopicRef;
use crate::wire::api::fetch::{Partition, Row};

/// The one request of its kind in flight. Who lost interest is taken out; the request stays.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    ticket: Ticket,
    asked: BTreeMap<TopicPartition, Stamp>,
    /// Those who lost interest. What a row says of the leader counts all the same (G0).
    void: BTreeMap<TopicPartition, Stamp>,
    names: BTreeMap<TopicId, TopicName>,
    deadline: Moment,
}

impl Flight {
    /// A request about nothing yet.
    pub(super) fn new(ticket: Ticket, deadline: Moment) -> Self {
        Self {
            ticket,
            asked: BTreeMap::new(),
            void: BTreeMap::new(),
            names: BTreeMap::new(),
            deadline,
        }
    }

    /// Adds a question; returns its row.
    pub(super) fn add(
        &mut self,
        partition: TopicPartition,
        question: &Demand,
        max_bytes: i32,
    ) -> Partition {
        let row = Partition {
            topic: partition.topic.clone(),
            topic_id: question.topic_id,
            partition: partition.partition,
            current_leader_epoch: question.stamp.epoch,
            fetch_offset: question.stamp.offset,
            last_fetched_epoch: question.last_fetched_epoch,
            max_bytes,
        };
        if let Some(id) = question.topic_id {
            self.names.insert(id, partition.topic.clone());
        }
        self.asked.insert(partition, question.stamp);
        row
    }

    /// Whether this is its ticket.
    pub(super) fn is(&self, ticket: Ticket) -> bool {
        self.ticket == ticket
    }

    /// Whether its answer is overdue.
    pub(super) fn is_late(&self, now: Moment) -> bool {
        self.deadline <= now
    }

    /// When it is overdue.
    pub(super) fn deadline(&self) -> Moment {
        self.deadline
    }

    /// Moves the deadline: the broker is muted.
    pub(super) fn extend(&mut self, mute: Duration) {
        self.deadline = self.deadline + mute;
    }

    /// Bytes of an answer came in: it may take this long from now on.
    pub(super) fn allow(&mut self, patience: Duration, now: Moment) {
        self.deadline = self.deadline.max(now + patience);
    }

    /// Takes out who lost interest.
    pub(super) fn cancel(&mut self, partition: &TopicPartition) {
        self.void.extend(self.asked.remove_entry(partition));
    }

    /// Takes the question that a row answers, and whether somebody still waits for it.
    pub(super) fn take(&mut self, row: &Row) -> Option<(TopicPartition, Stamp, bool)> {
        let topic = match &row.topic {
            TopicRef::Name(name) => name.clone(),
            TopicRef::Id(id) => self.names.get(id)?.clone(),
        };
        let partition = TopicPartition {
            topic,
            partition: row.partition,
        };
        let waits = self.asked.remove(&partition).map(|stamp| (stamp, true));
        let (stamp, waits) = waits.or_else(|| Some((self.void.remove(&partition)?, false)))?;
        Some((partition, stamp, waits))
    }

    /// Who still waits.
    pub(super) fn rest(self) -> Vec<(TopicPartition, Stamp)> {
        self.asked.into_iter().collect()
    }
}
