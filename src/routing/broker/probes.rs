//! Probes to one leader: sessionless, few at a time, oldest wish first (routing.md 8.2).

use indexmap::IndexMap;
use std::time::Duration;

use super::asked::{Asking, Flight};
use super::output::Ticket;
use super::settings::Settings;
use super::share::{ProbeNeed, ProbeShare};
use crate::ids::{Moment, TopicPartition};
use crate::routing::output::Demand;
use crate::routing::stamp::Stamp;
use crate::wire::api::fetch::Request;

/// Waiting and running probes.
#[derive(Clone, Debug)]
pub(super) struct Probes {
    queue: IndexMap<TopicPartition, Demand>,
    pub(super) asking: Asking,
    /// Probes that may leave now; refilled with time, at most one second's worth.
    tokens: f64,
    filled_at: Moment,
    per_second: f64,
    /// What the client's budget was told last, and when.
    told: ProbeNeed,
    told_at: Moment,
    /// Until when a queue that ran empty counts as waiting.
    busy_until: Option<Moment>,
}

impl Probes {
    pub(super) fn new(settings: &Settings) -> Self {
        let per_second = settings.probe_per_second;
        Self {
            queue: IndexMap::new(),
            asking: Asking::default(),
            tokens: per_second,
            filled_at: Moment::ZERO,
            per_second,
            told: ProbeNeed::default(),
            told_at: Moment::ZERO,
            busy_until: None,
        }
    }

    /// Takes this link's share of the client's budget.
    pub(super) fn set_share(&mut self, share: ProbeShare, now: Moment) {
        self.refill(now);
        self.per_second = share.per_second;
        self.tokens = (self.tokens + share.tokens).min(self.capacity());
    }

    /// What the client's budget is to be told now, if anything: that probes began to wait here, or
    /// ceased to a while ago, or that many more or fewer routes follow this broker. Told again
    /// while there is no share for what waits: the word may have been lost.
    pub(super) fn news(&mut self, followers: usize, now: Moment) -> Option<ProbeNeed> {
        if !self.queue.is_empty() || self.asking.is_out() {
            self.busy_until = Some(now + LINGER);
        }
        self.busy_until = self.busy_until.filter(|until| now < *until);
        let few = self.told.followers.abs_diff(followers) < FOLLOWERS_STEP;
        let need = ProbeNeed {
            followers: if few { self.told.followers } else { followers },
            waiting: self.busy_until.is_some(),
        };
        let lost = need.waiting && self.per_second <= 0.0 && now >= self.told_at + LINGER;
        if need == self.told && !lost {
            return None;
        }
        (self.told, self.told_at) = (need, now);
        Some(need)
    }

    /// Enters a question, or replaces it in its place.
    pub(super) fn ask(&mut self, partition: TopicPartition, question: Demand) {
        self.queue.insert(partition, question);
    }

    /// Forgets a question, waiting or running.
    pub(super) fn cancel(&mut self, partition: &TopicPartition) {
        self.queue.shift_remove(partition);
        self.asking.cancel(partition, !self.queue.is_empty());
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
        self.asking.connected();
        self.refill(now);
        let count = self
            .affordable()
            .min(settings.probe_batch)
            .min(self.queue.len());
        if self.asking.is_out() || count == 0 {
            return None;
        }
        let mut flight = Flight::new(ticket, now + settings.probe_timeout);
        let mut partitions = Vec::with_capacity(count);
        for (partition, question) in self.queue.drain(..count) {
            partitions.push(flight.add(partition, &question, PROBE_BYTES));
            self.tokens -= 1.0;
        }
        self.asking.leaves(flight);
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

    /// All questions: the connection is gone.
    pub(super) fn fail_all(&mut self) -> Vec<(TopicPartition, Stamp)> {
        let mut failed = self.asking.fail();
        let waiting = self.queue.drain(..);
        failed.extend(waiting.map(|(partition, question)| (partition, question.stamp)));
        failed
    }

    pub(super) fn next_deadline(&self) -> Option<Moment> {
        // What waits for a connection waits for no token: none is earned meanwhile.
        let stuck = self.queue.is_empty()
            || self.asking.is_out()
            || self.asking.is_patient()
            || self.tokens >= 1.0;
        let token = match (stuck, self.per_second > 0.0) {
            (true, _) => None,
            (false, true) => {
                let missing = Duration::from_secs_f64((1.0 - self.tokens) / self.per_second);
                Some(self.filled_at + missing)
            }
            (false, false) => Some(self.told_at + LINGER),
        };
        let deadlines = [self.asking.next_deadline(), token, self.busy_until];
        deadlines.into_iter().flatten().min()
    }

    fn refill(&mut self, now: Moment) {
        let earned = now.since(self.filled_at).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + earned).min(self.capacity());
        self.filled_at = now;
    }

    /// One second's worth, and at least the one token that lets anything leave.
    fn capacity(&self) -> f64 {
        match self.per_second > 0.0 {
            true => self.per_second.max(1.0),
            false => 0.0,
        }
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

/// Byte limit of a probe: a leader that hints sends nothing, one that stays sends one batch.
const PROBE_BYTES: i32 = 1;
/// How long a link keeps its share after its last probe, and waits for an answer about it.
const LINGER: Duration = Duration::from_secs(1);
/// Follower routes by which the number told may be wrong.
const FOLLOWERS_STEP: usize = 500;
/// A token earned to within a nanosecond is earned: deadlines are whole microseconds.
const ROUNDING: f64 = 1e-3;
