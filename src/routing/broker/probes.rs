//! Probes to one leader: sessionless, few at a time, oldest wish first (routing.md 8.2).

use indexmap::IndexMap;
use std::time::Duration;

use super::output::Ticket;
use super::settings::Settings;
use crate::ids::{Moment, TopicId, TopicPartition};
use crate::routing::output::Demand;
use crate::routing::stamp::Stamp;
use crate::wire::api::TopicRef;
use crate::wire::api::fetch::{Partition, Request, Row};

/// A question that left.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Asked {
    pub(super) partition: TopicPartition,
    pub(super) topic_id: Option<TopicId>,
    pub(super) stamp: Stamp,
}

impl Asked {
    fn new(partition: TopicPartition, question: &Demand) -> Self {
        Self {
            partition,
            topic_id: question.topic_id,
            stamp: question.stamp,
        }
    }

    /// Whether a row answers it.
    pub(super) fn is_answered_by(&self, row: &Row) -> bool {
        let same_topic = match &row.topic {
            TopicRef::Name(name) => *name == self.partition.topic,
            TopicRef::Id(id) => Some(*id) == self.topic_id,
        };
        same_topic && row.partition == self.partition.partition
    }
}

/// The one probe request in flight.
#[derive(Clone, Debug)]
struct Flight {
    ticket: Ticket,
    asked: Vec<Asked>,
    deadline: Moment,
}

/// Waiting and running probes.
#[derive(Clone, Debug)]
pub(super) struct Probes {
    queue: IndexMap<TopicPartition, Demand>,
    flight: Option<Flight>,
    /// Probes that may leave now; refilled with time, at most one second's worth.
    tokens: f64,
    filled_at: Moment,
    per_second: f64,
    /// When the queue gives up on a control connection that is not Ready.
    patience: Option<Moment>,
}

impl Probes {
    pub(super) fn new(settings: &Settings) -> Self {
        let per_second = settings.probe_per_second.max(1.0);
        Self {
            queue: IndexMap::new(),
            flight: None,
            tokens: per_second,
            filled_at: Moment::ZERO,
            per_second,
            patience: None,
        }
    }

    pub(super) fn set_rate(&mut self, per_second: f64) {
        self.per_second = per_second.max(1.0);
    }

    /// Enters a question, or replaces it in its place.
    pub(super) fn ask(&mut self, partition: TopicPartition, question: Demand) {
        self.queue.insert(partition, question);
    }

    /// Forgets a question, waiting or running.
    pub(super) fn cancel(&mut self, partition: &TopicPartition) {
        self.queue.shift_remove(partition);
        if let Some(flight) = &mut self.flight {
            flight.asked.retain(|asked| asked.partition != *partition);
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The next request, if one may leave.
    pub(super) fn next_request(
        &mut self,
        ticket: Ticket,
        settings: &Settings,
        now: Moment,
    ) -> Option<Request> {
        self.patience = None;
        self.refill(now);
        let count = self
            .affordable()
            .min(settings.probe_batch)
            .min(self.queue.len());
        if self.flight.is_some() || count == 0 {
            return None;
        }
        let mut asked = Vec::with_capacity(count);
        let mut partitions = Vec::with_capacity(count);
        for (partition, question) in self.queue.drain(..count) {
            partitions.push(row(&partition, &question));
            asked.push(Asked::new(partition, &question));
            self.tokens -= 1.0;
        }
        self.flight = Some(Flight {
            ticket,
            asked,
            deadline: now + settings.probe_timeout,
        });
        Some(Request {
            session_id: 0,
            session_epoch: -1,
            partitions,
            forgotten: Vec::new(),
            rack: settings.rack.clone(),
            isolation: settings.isolation,
            max_wait: Duration::ZERO,
            min_bytes: 0,
            max_bytes: PROBE_BYTES,
            version_limit: None,
        })
    }

    /// The questions of an answered request; `None` if it is not the one in flight.
    pub(super) fn answered(&mut self, ticket: Ticket) -> Option<Vec<Asked>> {
        self.flight
            .take_if(|flight| flight.ticket == ticket)
            .map(|flight| flight.asked)
    }

    /// The questions of a request that went unanswered for too long.
    pub(super) fn overdue(&mut self, now: Moment) -> Option<Vec<Asked>> {
        self.flight
            .take_if(|flight| flight.deadline <= now)
            .map(|flight| flight.asked)
    }

    /// All questions: the connection is gone.
    pub(super) fn fail_all(&mut self) -> Vec<Asked> {
        self.patience = None;
        let mut failed = self
            .flight
            .take()
            .map(|flight| flight.asked)
            .unwrap_or_default();
        let waiting = self.queue.drain(..);
        let waiting = waiting.map(|(partition, question)| Asked::new(partition, &question));
        failed.extend(waiting);
        failed
    }

    /// There is no connection: questions wait for it no longer than for an answer. True once that
    /// time is over.
    pub(super) fn is_out_of_patience(&mut self, settings: &Settings, now: Moment) -> bool {
        if self.queue.is_empty() {
            self.patience = None;
            return false;
        }
        let due = *self.patience.get_or_insert(now + settings.probe_timeout);
        due <= now
    }

    pub(super) fn extend(&mut self, mute: Duration) {
        if let Some(flight) = &mut self.flight {
            flight.deadline = flight.deadline + mute;
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Moment> {
        let flight = self.flight.as_ref().map(|flight| flight.deadline);
        let token = match self.queue.is_empty() || self.flight.is_some() || self.tokens >= 1.0 {
            true => None,
            false => Some(
                self.filled_at + Duration::from_secs_f64((1.0 - self.tokens) / self.per_second),
            ),
        };
        [flight, token, self.patience].into_iter().flatten().min()
    }

    fn refill(&mut self, now: Moment) {
        let earned = now.since(self.filled_at).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + earned).min(self.per_second);
        self.filled_at = now;
    }

    fn affordable(&self) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to a small range first"
        )]
        let whole = (self.tokens + ROUNDING).clamp(0.0, 1_000_000.0) as usize;
        whole
    }
}

fn row(partition: &TopicPartition, question: &Demand) -> Partition {
    Partition {
        topic: partition.topic.clone(),
        topic_id: question.topic_id,
        partition: partition.partition,
        current_leader_epoch: question.stamp.epoch,
        fetch_offset: question.stamp.offset,
        last_fetched_epoch: question.last_fetched_epoch,
        max_bytes: PROBE_BYTES,
    }
}

/// Byte limit of a probe: a leader that hints sends nothing, one that stays sends one batch.
const PROBE_BYTES: i32 = 1;
/// A token earned to within a nanosecond is earned: deadlines are whole microseconds.
const ROUNDING: f64 = 1e-3;
