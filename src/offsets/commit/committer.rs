//! The commit machine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::io::{Due, Event, FlushId, Input, Observed, Output, Settings};
use super::row::{Observation, Row, next_turn};
use crate::group::{Assigned, Standing, To, Token};
use crate::ids::{Draw, Generation, Moment, TopicPartition};
use crate::invariants;
use crate::wire::api::offset_commit;

/// Commits the watermarks of all partitions of one group. See the [module page](super) for what its
/// host does.
#[derive(Debug)]
pub struct Committer {
    pub(super) settings: Settings,
    pub(super) standing: Standing,
    pub(super) reachable: bool,
    /// No request leaves with this generation or an older one until a SyncGroup succeeds: a
    /// rebalance runs, or the member judges.
    pub(super) held_at: Option<Generation>,
    pub(super) rows: BTreeMap<TopicPartition, Row>,
    due: BTreeSet<(Moment, TopicPartition)>,
    pub(super) out: BTreeMap<Token, Request>,
    pub(super) flushes: BTreeMap<FlushId, Flush>,
    /// Since when commits wait without any being accepted.
    waiting_since: Option<Moment>,
    told_late: bool,
    last_token: u64,
    pub(super) outputs: VecDeque<Output>,
}

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) token: Token,
    pub(super) generation: Generation,
    pub(super) rows: Vec<TopicPartition>,
}

#[derive(Clone, Debug)]
pub(super) struct Flush {
    pub(super) members: BTreeSet<TopicPartition>,
    /// The members whose newest state is not accepted yet.
    pub(super) waiting: BTreeMap<TopicPartition, Assigned>,
    pub(super) failed: Vec<Assigned>,
    pub(super) until: Moment,
}

impl Committer {
    /// A plan without partitions.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            standing: Standing::Outside,
            reachable: false,
            held_at: None,
            rows: BTreeMap::new(),
            due: BTreeSet::new(),
            out: BTreeMap::new(),
            flushes: BTreeMap::new(),
            waiting_since: None,
            told_late: false,
            last_token: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input. Drain [`poll_output`](Self::poll_output) until `None` afterwards.
    pub fn handle(&mut self, input: Input, draw: Draw, now: Moment) {
        match input {
            Input::Standing(standing) => self.stand(standing, now),
            Input::Coordinator(reachable) => self.reachable = reachable,
            Input::Observed(state, due) => self.observe(state, due, now),
            Input::Flush {
                id,
                partitions,
                until,
            } => self.flush(id, partitions, until, now),
            Input::Forget(partitions) => self.forget(&partitions),
            Input::Answer { token, result } => self.on_answer(token, result, draw, now),
            Input::Tick => self.on_tick(now),
        }
        self.send_due(now);
        self.end_flushes();
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Input::Tick`] is due.
    pub fn next_deadline(&self) -> Option<Moment> {
        let sending = self
            .may_send()
            .then(|| self.due.first().map(|(due, _)| *due))
            .flatten();
        let flushing = self.flushes.values().map(|flush| flush.until).min();
        let late = self
            .waiting_since
            .filter(|_| !self.told_late)
            .map(|at| at + self.patience());
        sending.into_iter().chain(flushing).chain(late).min()
    }

    /// Partitions whose newest state is not accepted yet.
    pub fn dirty(&self) -> usize {
        self.rows.values().filter(|row| !row.is_clean()).count()
    }

    /// The last accepted state of a partition, in its present assignment.
    pub fn accepted(&self, partition: &TopicPartition) -> Option<&Observed> {
        self.rows.get(partition)?.accepted.as_ref()
    }

    fn stand(&mut self, standing: Standing, now: Moment) {
        let generation = standing.identity().map(|identity| identity.generation);
        // A round that is repeated, say for a lost SyncGroup, ends in the generation it began in.
        let synced = match &standing {
            Standing::Stable(_) => self.standing == Standing::Syncing,
            Standing::Outside | Standing::Joining(_) | Standing::Syncing => false,
        };
        if synced || self.held_at < generation {
            self.held_at = None;
        }
        self.standing = standing;
        if self.standing == Standing::Outside {
            self.held_at = None;
            for flush in self.flushes.values_mut() {
                flush.until = now;
            }
            self.expire_flushes(now);
        }
    }

    fn observe(&mut self, state: Observed, due: Due, now: Moment) {
        let epoch = state.assignment_epoch;
        let partition = state.partition.clone();
        let row = self
            .rows
            .entry(partition.clone())
            .or_insert_with(|| Row::new(epoch));
        if epoch > row.epoch {
            // Assigned anew: what was known of the former assignment counts no more.
            let former = std::mem::replace(row, Row::new(epoch));
            if let Some(at) = former.due {
                self.due.remove(&(at, partition.clone()));
            }
        }
        let seen = if epoch < row.epoch {
            Observation::Stale
        } else {
            row.observe(state)
        };
        match seen {
            Observation::Known => {}
            Observation::Stale => {
                self.outputs
                    .push_back(Output::Event(Event::StaleObservation(partition)));
            }
            Observation::Fresh => {
                let full = row.backlog() >= self.settings.records_max;
                let soon = due == Due::Now || self.is_flushing(&partition) || full;
                self.waiting_since.get_or_insert(now);
                self.schedule(&partition, soon, now);
            }
        }
    }

    /// Puts a row with a wanted state in line, unless its last state is still out.
    pub(super) fn schedule(&mut self, partition: &TopicPartition, soon: bool, now: Moment) {
        let Some(row) = self.rows.get(partition) else {
            return;
        };
        if row.wanted.is_none() || row.out.is_some() || (row.due.is_some() && !soon) {
            return;
        }
        // A row that failed keeps its backoff.
        let at = match (soon, row.due) {
            (true, Some(due)) if row.failures > 0 => due,
            (true, Some(_) | None) => now,
            (false, Some(_) | None) => next_turn(partition, self.settings.interval, now),
        };
        self.line_up(partition, at);
    }

    pub(super) fn line_up(&mut self, partition: &TopicPartition, at: Moment) {
        let Some(row) = self.rows.get_mut(partition) else {
            return;
        };
        if let Some(before) = row.due.replace(at) {
            self.due.remove(&(before, partition.clone()));
        }
        self.due.insert((at, partition.clone()));
    }

    fn forget(&mut self, partitions: &[Assigned]) {
        for assigned in partitions {
            let current = self
                .rows
                .get(&assigned.partition)
                .is_some_and(|row| row.epoch == assigned.epoch);
            if !current {
                continue;
            }
            if let Some(at) = self
                .rows
                .remove(&assigned.partition)
                .and_then(|row| row.due)
            {
                self.due.remove(&(at, assigned.partition.clone()));
            }
            for flush in self.flushes.values_mut() {
                flush
                    .failed
                    .extend(flush.waiting.remove(&assigned.partition));
            }
        }
        self.note_progress(None);
    }

    fn on_tick(&mut self, now: Moment) {
        self.expire_flushes(now);
        let late = self
            .waiting_since
            .is_some_and(|since| now.since(since) >= self.patience());
        if late && !std::mem::replace(&mut self.told_late, true) {
            let partitions = self.dirty();
            self.outputs
                .push_back(Output::Event(Event::CommitLate { partitions }));
        }
    }

    fn may_send(&self) -> bool {
        let Some(identity) = self.standing.identity() else {
            return false;
        };
        self.reachable
            && self.out.len() < self.settings.in_flight_max
            && self.held_at.is_none_or(|held| held < identity.generation)
    }

    fn send_due(&mut self, now: Moment) {
        while self.may_send() && self.due.first().is_some_and(|(due, _)| *due <= now) {
            self.last_token += 1;
            let token = Token(self.last_token);
            let (to, identity) = match &self.standing {
                Standing::Stable(identity) => (To::Coordinator, identity.clone()),
                Standing::Joining(identity) => (To::CoordinatorControl, identity.clone()),
                Standing::Outside | Standing::Syncing => return,
            };
            let states = self.take_due(token, now);
            let request = offset_commit::Request {
                group: self.settings.group.clone(),
                generation: Some(identity.generation),
                member: Some(identity.member),
                instance: identity.instance,
                partitions: states.iter().map(wire_row).collect(),
            };
            let rows = states.into_iter().map(|state| state.partition).collect();
            self.out.insert(
                token,
                Request {
                    token,
                    generation: identity.generation,
                    rows,
                },
            );
            let timeout = self.settings.request_timeout;
            self.outputs.push_back(Output::Send {
                to,
                request: request.into(),
                token,
                timeout,
            });
        }
    }

    /// Takes rows that are due for one request, within its bounds.
    fn take_due(&mut self, token: Token, now: Moment) -> Vec<Observed> {
        let mut states: Vec<Observed> = Vec::new();
        let mut bytes = 0;
        let mut rows_max = self.settings.request_rows_max;
        while let Some((due, partition)) = self.due.first() {
            let Some(row) = self.rows.get_mut(partition) else {
                self.due.pop_first();
                continue;
            };
            rows_max = rows_max.min(row.rows_max.unwrap_or(rows_max)).max(1);
            bytes +=
                self.settings.group.as_str().len() + partition.topic.as_str().len() + ROW_BYTES;
            let full = states.len() >= rows_max || bytes > self.settings.request_bytes_max;
            if *due > now || (full && !states.is_empty()) {
                break;
            }
            self.due.pop_first();
            row.due = None;
            if let Some(state) = row.wanted.take() {
                let accepted = row.accepted.as_ref();
                debug_assert!(
                    accepted.is_none_or(|stored| invariants::commit_may_follow(stored, &state)),
                    "{accepted:?} then {state:?}"
                );
                row.out = Some((token, state.clone()));
                states.push(state);
            }
        }
        states
    }

    pub(super) fn note_progress(&mut self, accepted_at: Option<Moment>) {
        if self.rows.values().all(Row::is_clean) {
            self.waiting_since = None;
            self.told_late = false;
        } else if accepted_at.is_some() {
            self.waiting_since = accepted_at;
            self.told_late = false;
        }
    }

    fn patience(&self) -> std::time::Duration {
        self.settings.interval * LATE_INTERVALS
    }
}

fn wire_row(state: &Observed) -> offset_commit::Partition {
    offset_commit::Partition {
        topic: state.partition.topic.clone(),
        partition: state.partition.partition,
        offset: state.offset,
        leader_epoch: state.leader_epoch,
        metadata: String::new(),
    }
}

/// What a row takes in the coordinator's batch beside topic, group and metadata (kafka.md 4.1).
const ROW_BYTES: usize = 60;
/// Intervals without an accepted commit that are late (L9).
const LATE_INTERVALS: u32 = 3;
