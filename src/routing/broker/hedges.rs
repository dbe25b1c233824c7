//! Hedges at one leader: what was to come from a silent follower, asked for beside its Fetch
//! (routing.md 8.5).

use std::collections::BTreeMap;
use std::time::Duration;

use super::asked::{Asking, Flight};
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
    pub(super) asking: Asking,
}

impl Hedges {
    /// Enters a question, or replaces it.
    pub(super) fn ask(&mut self, partition: TopicPartition, question: Demand) {
        self.waiting.insert(partition, question);
    }

    /// Forgets a question, waiting or running.
    pub(super) fn cancel(&mut self, partition: &TopicPartition) {
        self.waiting.remove(partition);
        self.asking.cancel(partition, !self.waiting.is_empty());
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
        self.asking.connected();
        if self.asking.is_out() || self.waiting.is_empty() {
            return None;
        }
        let mut flight = Flight::new(ticket, now + settings.probe_timeout);
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        let partitions = waiting
            .map(|(partition, question)| flight.add(partition, &question, question.max_bytes))
            .collect();
        self.asking.leaves(flight);
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

    /// All questions: the connection is gone.
    pub(super) fn fail_all(&mut self) -> Vec<(TopicPartition, Stamp)> {
        let mut failed = self.asking.fail();
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        failed.extend(waiting.map(|(partition, question)| (partition, question.stamp)));
        failed
    }
}
