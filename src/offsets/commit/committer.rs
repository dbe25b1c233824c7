//! The commit machine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::io::{Due, Event, FlushId, Input, Observed, Output, Settings};
use super::judge::Verdict;
use super::row::{Observation, Row, next_turn};
use crate::group::{Assigned, NoAnswer, Standing, To, Token};
use crate::ids::{Draw, Generation, Moment, TopicPartition};
use crate::wire::api::offset_commit;
use crate::wire::{ErrorCode, Response};

/// Commits the watermarks of all partitions of one group. See the [module page](super) for what its host does.
#[derive(Debug)]
pub struct Committer {
    settings: Settings,
    standing: Standing,
    reachable: bool,
    /// No request leaves with this generation or an older one: a rebalance runs, or the member judges.
    held_at: Option<Generation>,
    rows: BTreeMap<TopicPartition, Row>,
    due: BTreeSet<(Moment, TopicPartition)>,
    out: BTreeMap<Token, Request>,
    flushes: BTreeMap<FlushId, Flush>,
    /// Since when commits wait without any being accepted.
    waiting_since: Option<Moment>,
    told_late: bool,
    last_token: u64,
    outputs: VecDeque<Output>,
}

#[derive(Clone, Debug)]
struct Request {
    generation: Generation,
    rows: Vec<TopicPartition>,
}

#[derive(Clone, Debug)]
struct Flush {
    members: BTreeSet<TopicPartition>,
    /// The members whose newest state is not accepted yet.
    waiting: BTreeMap<TopicPartition, Assigned>,
    failed: Vec<Assigned>,
    until: Moment,
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
        if self.held_at < generation {
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
    fn schedule(&mut self, partition: &TopicPartition, soon: bool, now: Moment) {
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

    fn line_up(&mut self, partition: &TopicPartition, at: Moment) {
        let Some(row) = self.rows.get_mut(partition) else {
            return;
        };
        if let Some(before) = row.due.replace(at) {
            self.due.remove(&(before, partition.clone()));
        }
        self.due.insert((at, partition.clone()));
    }

    fn flush(&mut self, id: FlushId, partitions: Vec<Assigned>, until: Moment, now: Moment) {
        let mut members = BTreeSet::new();
        let mut waiting = BTreeMap::new();
        for assigned in partitions {
            let partition = assigned.partition.clone();
            let Some(row) = self
                .rows
                .get(&partition)
                .filter(|row| row.epoch == assigned.epoch)
            else {
                continue;
            };
            if !row.is_clean() {
                self.schedule(&partition, true, now);
                waiting.insert(partition.clone(), assigned);
            }
            members.insert(partition);
        }
        // Outside a membership there is nobody to commit for: a drain must not wait for it.
        let until = if self.standing == Standing::Outside {
            now
        } else {
            until
        };
        self.flushes.insert(
            id,
            Flush {
                members,
                waiting,
                failed: Vec::new(),
                until,
            },
        );
        self.expire_flushes(now);
    }

    fn is_flushing(&self, partition: &TopicPartition) -> bool {
        self.flushes
            .values()
            .any(|flush| flush.members.contains(partition))
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
                row.out = Some((token, state.clone()));
                states.push(state);
            }
        }
        states
    }

    fn on_answer(
        &mut self,
        token: Token,
        result: Result<Response, NoAnswer>,
        draw: Draw,
        now: Moment,
    ) {
        let Some(request) = self.out.remove(&token) else {
            return;
        };
        let errors: BTreeMap<TopicPartition, ErrorCode> = match result {
            Ok(Response::OffsetCommit(answer)) => answer
                .partitions
                .into_iter()
                .map(|row| {
                    (
                        TopicPartition {
                            topic: row.topic,
                            partition: row.partition,
                        },
                        row.error,
                    )
                })
                .collect(),
            Err(NoAnswer::Unsupported) => request
                .rows
                .iter()
                .map(|row| (row.clone(), ErrorCode::UNSUPPORTED_VERSION))
                .collect(),
            // Committing twice is harmless, so an unknown outcome is simply tried again.
            Ok(_) | Err(NoAnswer::Lost(_)) => request
                .rows
                .iter()
                .map(|row| (row.clone(), ErrorCode::NOT_COORDINATOR))
                .collect(),
        };
        self.split_if_too_large(&request, &errors);
        let mut told = BTreeSet::new();
        for partition in &request.rows {
            // A row the answer leaves out is as good as refused.
            let error = errors
                .get(partition)
                .copied()
                .unwrap_or(ErrorCode::UNKNOWN_SERVER_ERROR);
            self.judge(partition, token, error, &request, draw, now);
            if told.insert(error) {
                self.tell_once(error, request.generation);
            }
        }
        self.note_progress(told.contains(&ErrorCode::NONE).then_some(now));
    }

    /// A request refused whole for its size is tried again in halves.
    fn split_if_too_large(
        &mut self,
        request: &Request,
        errors: &BTreeMap<TopicPartition, ErrorCode>,
    ) {
        let too_large = |error: &ErrorCode| Verdict::of(*error) == Verdict::Split;
        let Some(error) = errors
            .values()
            .next()
            .filter(|_| errors.values().all(too_large))
        else {
            return;
        };
        let partitions = request.rows.len();
        for partition in &request.rows {
            if let Some(row) = self.rows.get_mut(partition) {
                row.rows_max = Some(partitions.div_ceil(2));
            }
        }
        if partitions > 1 {
            self.outputs.push_back(Output::Event(Event::CommitSplit {
                partitions,
                error: *error,
            }));
        }
    }

    /// Consequences that concern the whole request.
    fn tell_once(&mut self, error: ErrorCode, generation: Generation) {
        match Verdict::of(error) {
            Verdict::Find => {
                self.reachable = false;
                self.outputs.push_back(Output::CoordinatorMoved);
            }
            Verdict::Hold | Verdict::Member => {
                self.held_at = self.held_at.max(Some(generation));
                self.outputs
                    .push_back(Output::Refused { generation, error });
            }
            Verdict::Stored
            | Verdict::Backoff
            | Verdict::Split
            | Verdict::Deleted
            | Verdict::Forbidden => {}
        }
    }

    fn judge(
        &mut self,
        partition: &TopicPartition,
        token: Token,
        error: ErrorCode,
        request: &Request,
        draw: Draw,
        now: Moment,
    ) {
        let settings = &self.settings;
        let Some(row) = self.rows.get_mut(partition) else {
            return;
        };
        if row.out.as_ref().is_none_or(|(out, _)| *out != token) {
            return;
        }
        let verdict = Verdict::of(error);
        let at = match verdict {
            Verdict::Stored => {
                let stored = row.accept();
                self.outputs.extend(stored.map(Output::Committed));
                if row.is_clean() {
                    for flush in self.flushes.values_mut() {
                        flush.waiting.remove(partition);
                    }
                } else {
                    self.schedule(partition, self.is_flushing(partition), now);
                }
                return;
            }
            Verdict::Find | Verdict::Hold | Verdict::Member => {
                row.take_back();
                now
            }
            Verdict::Split if request.rows.len() > 1 => {
                row.take_back();
                now
            }
            Verdict::Split | Verdict::Backoff | Verdict::Deleted => {
                row.reject(now);
                now + settings.retry.delay(row.failures - 1, draw)
            }
            Verdict::Forbidden => {
                row.reject(now);
                now + settings.forbidden.delay(row.failures - 1, draw)
            }
        };
        if row.turns_stuck(now) {
            let event = Event::CommitStuck {
                partition: partition.clone(),
                error,
            };
            self.outputs.push_back(Output::Event(event));
        } else if row.failures == 1 {
            let event = Event::CommitFailed {
                partition: partition.clone(),
                error,
            };
            self.outputs.push_back(Output::Event(event));
        }
        self.line_up(partition, at);
        if matches!(verdict, Verdict::Deleted | Verdict::Forbidden) {
            self.fail_in_flushes(partition);
        }
    }

    /// A deleted topic, or one without permission, must not hold up a release.
    fn fail_in_flushes(&mut self, partition: &TopicPartition) {
        for flush in self.flushes.values_mut() {
            flush.failed.extend(flush.waiting.remove(partition));
        }
    }

    fn expire_flushes(&mut self, now: Moment) {
        for flush in self.flushes.values_mut().filter(|flush| flush.until <= now) {
            flush
                .failed
                .extend(std::mem::take(&mut flush.waiting).into_values());
        }
    }

    fn end_flushes(&mut self) {
        let is_over = |(id, flush): (&FlushId, &Flush)| flush.waiting.is_empty().then_some(*id);
        let over: Vec<FlushId> = self.flushes.iter().filter_map(is_over).collect();
        for id in over {
            if let Some(flush) = self.flushes.remove(&id) {
                self.outputs.push_back(Output::Flushed {
                    id,
                    unfinished: flush.failed,
                });
            }
        }
    }

    fn note_progress(&mut self, accepted_at: Option<Moment>) {
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
