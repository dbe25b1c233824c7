//! Hedges at one leader: what was to come from a silent follower, asked for beside its Fetch
//! (routing.md 8.5).

use std::collections::BTreeMap;
use std::time::Duration;

use super::asked::Flight;
use super::output::Ticket;
use super::settings::Settings;
use crate::ids::{Moment, TopicPartition};
use crate::routing::output::Demand;
use crate::routing::stamp::Stamp;
use crate::wire::api::fetch::Request;

/// Waiting and running hedges: all that are due leave together, one request at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Hedges {
    waiting: BTreeMap<TopicPartition, Demand>,
    flight: Option<Flight>,
    /// When those waiting give up on a control connection that is not Ready.
    patience: Option<Moment>,
}

impl Hedges {
    /// Enters a question, or replaces it.
    pub(super) fn ask(&mut self, partition: TopicPartition, question: Demand) {
        self.waiting.insert(partition, question);
    }

    /// Forgets a question, waiting or running.
    pub(super) fn cancel(&mut self, partition: &TopicPartition) {
        self.waiting.remove(partition);
        // Nobody waits for the connection any more; who asks next waits from then on.
        if self.waiting.is_empty() {
            self.patience = None;
        }
        if let Some(flight) = &mut self.flight {
            flight.cancel(partition);
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next request, unless one is in flight. `version_limit` is that of the no-rack lane: a
    /// hedge carries no rack, so that the leader serves it.
    pub(super) fn next_request(
        &mut self,
        ticket: Ticket,
        version_limit: Option<i16>,
        settings: &Settings,
        now: Moment,
    ) -> Option<Request> {
        self.patience = None;
        if self.flight.is_some() || self.waiting.is_empty() {
            return None;
        }
        let mut flight = Flight::new(ticket, now + settings.probe_timeout);
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let partitions = waiting
            .map(|(partition, question)| flight.add(partition, &question, question.max_bytes))
            .collect();
        self.flight = Some(flight);
        Some(Request {
            session_id: 0,
            session_epoch: -1,
            partitions,
            forgotten: Vec::new(),
            rack: None,
            isolation: settings.isolation,
            max_wait: Duration::ZERO,
            min_bytes: 1,
            max_bytes: settings.max_bytes,
            version_limit,
        })
    }

    /// The request answered; `None` if it is not the one in flight.
    pub(super) fn answered(&mut self, ticket: Ticket) -> Option<Flight> {
        self.flight.take_if(|flight| flight.is(ticket))
    }

    /// The request that went unanswered for too long.
    pub(super) fn overdue(&mut self, now: Moment) -> Option<Flight> {
        self.flight.take_if(|flight| flight.is_late(now))
    }

    /// All questions: the connection is gone.
    pub(super) fn fail_all(&mut self) -> Vec<(TopicPartition, Stamp)> {
        self.patience = None;
        let mut failed = self.flight.take().map(Flight::rest).unwrap_or_default();
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        failed.extend(waiting.map(|(partition, question)| (partition, question.stamp)));
        failed
    }

    /// There is no connection: questions wait for it no longer than for an answer. True once that
    /// time is over.
    pub(super) fn is_out_of_patience(&mut self, settings: &Settings, now: Moment) -> bool {
        *self
            .patience
            .get_or_insert_with(|| now + settings.probe_timeout)
            <= now
    }

    pub(super) fn extend(&mut self, mute: Duration) {
        self.patience = self.patience.map(|due| due + mute);
        if let Some(flight) = &mut self.flight {
            flight.extend(mute);
        }
    }

    /// Bytes came in over the control connection.
    pub(super) fn progress(&mut self, settings: &Settings, now: Moment) {
        if let Some(flight) = &mut self.flight {
            flight.allow(settings.probe_timeout, now);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Moment> {
        let flight = self.flight.as_ref().map(Flight::deadline);
        flight.into_iter().chain(self.patience).min()
    }
}
