//! Questions about partitions that left in one sessionless request (routing.md 8.2, 8.5).

use std::collections::BTreeMap;
use std::time::Duration;

use super::output::Ticket;
use super::settings::Settings;
use crate::ids::{Moment, TopicId, TopicName, TopicPartition};
use crate::routing::output::Demand;
use crate::routing::stamp::Stamp;
use crate::wire::api::TopicRef;
use crate::wire::api::fetch::{Partition, Row};

/// What probes and hedges of one leader have in common: one request out at a time, over a control
/// connection that may not be there.
#[derive(Clone, Debug, Default)]
pub(super) struct Asking {
    flight: Option<Flight>,
    /// When those waiting give up on a control connection that is not Ready.
    patience: Option<Moment>,
}

impl Asking {
    /// Whether a request is out.
    pub(super) fn is_out(&self) -> bool {
        self.flight.is_some()
    }

    /// Whether a connection is waited for.
    pub(super) fn is_patient(&self) -> bool {
        self.patience.is_some()
    }

    /// The connection is there.
    pub(super) fn connected(&mut self) {
        self.patience = None;
    }

    /// A request leaves.
    pub(super) fn leaves(&mut self, flight: Flight) {
        self.flight = Some(flight);
    }

    /// Somebody lost interest. With nobody `waiting` any more, who asks next waits for the
    /// connection from then on.
    pub(super) fn cancel(&mut self, partition: &TopicPartition, waiting: bool) {
        self.patience = self.patience.filter(|_| waiting);
        if let Some(flight) = &mut self.flight {
            flight.cancel(partition);
        }
    }

    /// The request answered; `None` if it is not the one in flight.
    pub(super) fn answered(&mut self, ticket: Ticket) -> Option<Flight> {
        self.flight.take_if(|flight| flight.ticket == ticket)
    }

    /// The request that went unanswered for too long.
    pub(super) fn overdue(&mut self, now: Moment) -> Option<Flight> {
        self.flight.take_if(|flight| flight.deadline <= now)
    }

    /// Whoever is asked about: the connection is gone.
    pub(super) fn fail(&mut self) -> Vec<(TopicPartition, Stamp)> {
        self.patience = None;
        self.flight.take().map(Flight::rest).unwrap_or_default()
    }

    /// There is no connection: questions wait for it no longer than for an answer. True once that
    /// time is over.
    pub(super) fn is_out_of_patience(&mut self, settings: &Settings, now: Moment) -> bool {
        *self.patience.get_or_insert(now + settings.probe_timeout) <= now
    }

    /// The broker is muted.
    pub(super) fn extend(&mut self, mute: Duration) {
        self.patience = self.patience.map(|due| due + mute);
        if let Some(flight) = &mut self.flight {
            flight.deadline = flight.deadline + mute;
        }
    }

    /// Bytes of an answer came in: it may take as long again from now on.
    pub(super) fn progress(&mut self, settings: &Settings, now: Moment) {
        if let Some(flight) = &mut self.flight {
            flight.deadline = flight.deadline.max(now + settings.probe_timeout);
        }
    }

    /// When the answer or the connection is overdue.
    pub(super) fn next_deadline(&self) -> Option<Moment> {
        let answer = self.flight.as_ref().map(|flight| flight.deadline);
        answer.into_iter().chain(self.patience).min()
    }
}

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

    /// Takes out who lost interest.
    fn cancel(&mut self, partition: &TopicPartition) {
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
