//! The resolution machine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::io::{Event, Input, LeaderView, Output, Question, Reset, Settings, To};
use super::job::{Ask, Job, Next, Origin};
use super::lanes::{Api, Key, Lane, Lanes, Slot, Target};
use super::owed::Owed;
use crate::group::{Assigned, Standing, Token};
use crate::ids::{BrokerId, Draw, LeaderEpoch, Moment, TopicName, TopicPartition};
use crate::wire::Request;
use crate::wire::api::{Isolation, list_offsets, offset_fetch, offset_for_leader_epoch};

/// Answers questions about positions by asking coordinator and leaders. See the [module
/// page](super) for what its host does.
#[derive(Debug)]
pub struct Resolver {
    pub(super) settings: Settings,
    pub(super) jobs: BTreeMap<Key, Job>,
    pub(super) out: BTreeMap<Token, Sent>,
    pub(super) reachable: bool,
    standing: Standing,
    lanes: Lanes,
    delayed: BTreeSet<(Moment, Key)>,
    late: BTreeSet<(Moment, Key)>,
    pub(super) owed: Owed,
    /// Questions that wait for another leader than the one tried, if one was.
    unled: BTreeMap<Key, Option<Leader>>,
    /// Number of partitions when a topic was first asked about (X8).
    first_counts: BTreeMap<TopicName, usize>,
    last_serial: u64,
    last_token: u64,
    outputs: VecDeque<Output>,
}

pub(super) type Leader = (BrokerId, Option<LeaderEpoch>);

/// A request that is out.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) lane: Lane,
    pub(super) rows: Vec<SentRow>,
}

#[derive(Clone, Debug)]
pub(super) struct SentRow {
    pub(super) key: Key,
    pub(super) serial: u64,
    pub(super) ask: Ask,
    pub(super) leader_epoch: Option<LeaderEpoch>,
}

/// What one call sees.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) view: &'a dyn LeaderView,
    pub(super) draw: Draw,
    pub(super) now: Moment,
}

impl Resolver {
    /// A resolver without questions.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            jobs: BTreeMap::new(),
            out: BTreeMap::new(),
            reachable: false,
            standing: Standing::Outside,
            lanes: Lanes::default(),
            delayed: BTreeSet::new(),
            late: BTreeSet::new(),
            owed: Owed::default(),
            unled: BTreeMap::new(),
            first_counts: BTreeMap::new(),
            last_serial: 0,
            last_token: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input. Drain [`poll_output`](Self::poll_output) until `None` afterwards.
    pub fn handle(&mut self, input: Input, view: &dyn LeaderView, draw: Draw, now: Moment) {
        let facts = Facts { view, draw, now };
        match input {
            Input::Resolve {
                partition,
                assignment_epoch,
                generation,
                question,
                unix_ms,
            } => {
                let policy = self.policy_for(&partition, question, view);
                self.last_serial += 1;
                let serial = self.last_serial;
                let leader = view.leader(&partition);
                let origin = Origin {
                    serial,
                    assignment_epoch,
                    generation,
                    unix_ms,
                    policy,
                    leader_epoch: leader.and_then(|(_, epoch)| epoch),
                    topic_id: view.topic_id(&partition.topic),
                };
                self.open(partition, question, origin, facts);
            }
            Input::Forget(partitions) => self.forget(&partitions),
            Input::Standing(standing) => self.standing = standing,
            Input::Coordinator(reachable) => self.reachable = reachable,
            Input::MetadataChanged => self.on_metadata(facts),
            Input::Answer { token, result } => self.on_answer(token, result, facts),
            Input::Tick => {}
        }
        self.on_time(facts);
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Input::Tick`] is due.
    pub fn next_deadline(&self) -> Option<Moment> {
        let open = self.lanes.next_open(|lane| self.may_send(lane));
        let delayed = self.delayed.first().map(|(due, _)| *due);
        let late = self.late.first().map(|(due, _)| *due);
        let owed = self.owed.next();
        open.into_iter()
            .chain(delayed)
            .chain(late)
            .chain(owed)
            .min()
    }

    /// What it was told to do.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Questions without an answer yet.
    pub fn pending(&self) -> usize {
        self.jobs.len()
    }

    /// The policy for a start without commit: partitions that appeared after we first looked were
    /// never history.
    fn policy_for(
        &mut self,
        partition: &TopicPartition,
        question: Question,
        view: &dyn LeaderView,
    ) -> Reset {
        if question != Question::Start {
            return self.settings.reset;
        }
        let topic = &partition.topic;
        let first = match self.first_counts.get(topic) {
            Some(first) => *first,
            None => {
                let Some(count) = view.partition_count(topic) else {
                    return self.settings.reset;
                };
                self.first_counts.insert(topic.clone(), count);
                count
            }
        };
        match usize::try_from(partition.partition.0) {
            Ok(index) if index >= first => self.settings.reset_new_partitions,
            Ok(_) | Err(_) => self.settings.reset,
        }
    }

    fn open(
        &mut self,
        partition: TopicPartition,
        question: Question,
        origin: Origin,
        facts: Facts<'_>,
    ) {
        let slot = if question == Question::End {
            Slot::End
        } else {
            Slot::Position
        };
        let key = Key { partition, slot };
        self.drop_job(&key);
        let (job, next) = Job::open(question, origin, &self.settings, facts.now);
        self.late
            .insert((facts.now + self.settings.late_after, key.clone()));
        self.jobs.insert(key.clone(), job);
        self.follow(&key, next, facts);
    }

    fn forget(&mut self, partitions: &[Assigned]) {
        for Assigned { partition, epoch } in partitions {
            for slot in [Slot::Position, Slot::End] {
                let key = Key {
                    partition: partition.clone(),
                    slot,
                };
                if self
                    .jobs
                    .get(&key)
                    .is_some_and(|job| job.assignment_epoch == *epoch)
                {
                    self.drop_job(&key);
                }
            }
        }
    }

    fn drop_job(&mut self, key: &Key) -> Option<Job> {
        let job = self.jobs.remove(key)?;
        self.late
            .remove(&(job.since + self.settings.late_after, key.clone()));
        if let Some(due) = job.delayed_to {
            self.delayed.remove(&(due, key.clone()));
        }
        self.owed.forget(key, job.owed_by);
        self.unled.remove(key);
        self.lanes.remove(key);
        Some(job)
    }

    /// Does what an answer leads to.
    pub(super) fn follow(&mut self, key: &Key, next: Next, facts: Facts<'_>) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        match next {
            Next::Ask(ask) => {
                job.ask = ask;
                self.enqueue(key, facts);
            }
            Next::Later(ask, delay) => {
                job.ask = ask;
                self.delay(key, facts.now + delay);
            }
            Next::Done(outcome) => {
                if let Some(job) = self.drop_job(key) {
                    self.outputs.push_back(Output::Resolved {
                        partition: key.partition.clone(),
                        assignment_epoch: job.assignment_epoch,
                        generation: job.generation,
                        outcome,
                    });
                }
            }
        }
    }

    pub(super) fn delay(&mut self, key: &Key, due: Moment) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        if let Some(before) = job.delayed_to.replace(due) {
            self.delayed.remove(&(before, key.clone()));
        }
        self.delayed.insert((due, key.clone()));
    }

    /// After a failure: the same question once its backoff is over.
    pub(super) fn retry(&mut self, key: &Key, facts: Facts<'_>) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let settings = &self.settings;
        let backoff = if job.late {
            settings.late_retry
        } else {
            settings.retry
        };
        let delay = backoff.delay(job.failures, facts.draw);
        job.failures = job.failures.saturating_add(1);
        self.delay(key, facts.now + delay);
    }

    /// The leader is not this one, or not known: refreshed, and asked again as soon as another one
    /// is.
    pub(super) fn await_leader(&mut self, key: &Key, tried: Option<Leader>, facts: Facts<'_>) {
        self.push(Output::Refresh(key.partition.clone()));
        self.unled.insert(key.clone(), tried);
        self.retry(key, facts);
    }

    /// Puts a question in the lane of who can answer it.
    fn enqueue(&mut self, key: &Key, facts: Facts<'_>) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        if let Some(due) = job.delayed_to.take() {
            self.delayed.remove(&(due, key.clone()));
        }
        if job.ask != Ask::Commit {
            let due = facts.now + self.settings.unanswered_after;
            self.owed.owe(key, &mut job.owed_by, due);
        }
        let target = match job.ask {
            Ask::Commit => Target::Coordinator,
            Ask::List(..) | Ask::EpochEnd(_) => match facts.view.leader(&key.partition) {
                Some(old) if job.is_ahead_of(old.1) => {
                    return self.await_leader(key, Some(old), facts);
                }
                Some((leader, _)) => Target::Leader(leader),
                None => return self.await_leader(key, None, facts),
            },
        };
        let lane = Lane {
            target,
            api: Api::of(job.ask),
        };
        self.unled.remove(key);
        self.lanes
            .put(lane, key.clone(), facts.now + self.settings.window);
    }

    fn on_metadata(&mut self, facts: Facts<'_>) {
        let ready: Vec<Key> = self
            .unled
            .iter()
            .filter(|(key, tried)| {
                let leader = facts.view.leader(&key.partition);
                leader.is_some() && leader != **tried
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in ready {
            self.enqueue(&key, facts);
        }
    }

    /// Whatever is due: delays that are over, questions that are late, lanes that are open.
    fn on_time(&mut self, facts: Facts<'_>) {
        while let Some((due, key)) = self.delayed.first().cloned() {
            if due > facts.now {
                break;
            }
            self.enqueue(&key, facts);
        }
        while let Some((due, key)) = self.late.first().cloned() {
            if due > facts.now {
                break;
            }
            self.late.pop_first();
            self.tell_late(&key);
        }
        self.tell_unanswered(facts);
        while let Some((lane, keys)) = self.take_open(facts.now) {
            self.send(lane, keys, facts);
        }
    }

    fn tell_late(&mut self, key: &Key) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        job.late = true;
        job.failures = 0;
        let waiting_for = match job.ask {
            Ask::Commit => "the committed offset",
            Ask::List(..) => "an offset of the leader",
            Ask::EpochEnd(_) => "the end of an epoch",
        };
        let partition = key.partition.clone();
        self.push(Output::Event(Event::ResolveLate {
            partition,
            waiting_for,
        }));
    }

    fn may_send(&self, lane: Lane) -> bool {
        let out = self
            .out
            .values()
            .filter(|sent| sent.lane.excludes(lane))
            .count();
        match lane.target {
            Target::Coordinator => self.reachable && out < self.settings.fetch_in_flight_max,
            Target::Leader(_) => out == 0,
        }
    }

    fn take_open(&mut self, now: Moment) -> Option<(Lane, Vec<Key>)> {
        let mut lanes = std::mem::take(&mut self.lanes);
        let taken = lanes.take(
            |lane| self.may_send(lane),
            self.settings.fetch_rows_max,
            now,
        );
        self.lanes = lanes;
        taken
    }

    fn send(&mut self, lane: Lane, keys: Vec<Key>, facts: Facts<'_>) {
        let mut rows = Vec::with_capacity(keys.len());
        for key in keys {
            let leader = facts.view.leader(&key.partition);
            let moved = match lane.target {
                Target::Coordinator => false,
                Target::Leader(broker) => leader.is_none_or(|(leader, _)| leader != broker),
            };
            if moved {
                self.enqueue(&key, facts);
                continue;
            }
            let Some(job) = self.jobs.get(&key) else {
                continue;
            };
            let leader_epoch = leader.and_then(|(_, epoch)| epoch);
            rows.push(SentRow {
                serial: job.serial,
                ask: job.ask,
                leader_epoch,
                key,
            });
        }
        if rows.is_empty() {
            return;
        }
        let to = match (lane.target, &self.standing) {
            (Target::Leader(broker), _) => To::Broker(broker),
            (Target::Coordinator, Standing::Stable(_)) => To::Coordinator,
            (Target::Coordinator, Standing::Outside | Standing::Joining(_) | Standing::Syncing) => {
                To::CoordinatorControl
            }
        };
        let request = self.request(lane.api, &rows);
        self.last_token += 1;
        let token = Token(self.last_token);
        self.out.insert(token, Sent { lane, rows });
        let timeout = self.settings.request_timeout;
        self.push(Output::Send {
            to,
            request,
            token,
            timeout,
        });
    }

    fn request(&self, api: Api, rows: &[SentRow]) -> Request {
        match api {
            Api::OffsetFetch => self.offset_fetch(rows).into(),
            Api::ListOffsets { committed } => self.list_offsets(committed, rows).into(),
            Api::OffsetForLeaderEpoch => epoch_ends(rows).into(),
        }
    }

    fn offset_fetch(&self, rows: &[SentRow]) -> offset_fetch::Request {
        offset_fetch::Request {
            group: self.settings.group.clone().unwrap_or_else(|| "".into()),
            member: None,
            member_epoch: None,
            partitions: Some(rows.iter().map(|row| row.key.partition.clone()).collect()),
            require_stable: true,
        }
    }

    fn list_offsets(&self, committed: bool, rows: &[SentRow]) -> list_offsets::Request {
        let isolation = if committed {
            Isolation::ReadCommitted
        } else {
            Isolation::ReadUncommitted
        };
        let partitions = rows.iter().filter_map(|row| match row.ask {
            Ask::List(at, _) => Some(list_offsets::Partition {
                topic: row.key.partition.topic.clone(),
                partition: row.key.partition.partition,
                current_leader_epoch: row.leader_epoch,
                at,
            }),
            Ask::Commit | Ask::EpochEnd(_) => None,
        });
        list_offsets::Request {
            isolation,
            partitions: partitions.collect(),
            timeout: self.settings.request_timeout,
        }
    }

    pub(super) fn push(&mut self, output: Output) {
        self.outputs.push_back(output);
    }
}

fn epoch_ends(rows: &[SentRow]) -> offset_for_leader_epoch::Request {
    let partitions = rows.iter().filter_map(|row| match row.ask {
        Ask::EpochEnd(leader_epoch) => Some(offset_for_leader_epoch::Partition {
            topic: row.key.partition.topic.clone(),
            partition: row.key.partition.partition,
            current_leader_epoch: row.leader_epoch,
            leader_epoch,
        }),
        Ask::Commit | Ask::List(..) => None,
    });
    offset_for_leader_epoch::Request {
        partitions: partitions.collect(),
    }
}
