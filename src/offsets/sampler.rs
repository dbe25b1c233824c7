//! Samples of the leader's end of the log, for partitions whose replica stands still (routing.md
//! 14.2).
//!
//! [`Sampler`] decides; its host, the coordinator's, acts. The host
//!
//! * turns a route's [`Output::Sample`](crate::routing::Output::Sample) into [`Input::Sample`] and
//!   [`Output::Sampled`] back into the route's input;
//! * sends [`Output::Send`] over the control connection and returns exactly one [`Input::Answer`];
//! * refreshes the metadata of [`Output::Refresh`].
//!
//! A sample that fails is not asked again: the route does so while the replica stands still.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::resolve::LeaderView;
use crate::group::{NoAnswer, Token};
use crate::ids::{
    AssignmentEpoch, BrokerId, LeaderEpoch, Moment, Offset, PositionGeneration, TopicPartition,
};
use crate::wire::api::Isolation;
use crate::wire::api::list_offsets::{At, Found, Partition, Request};
use crate::wire::{ErrorCode, Response};

/// Settings of a [`Sampler`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// `isolation.level`, `read_uncommitted` by default: what an open transaction holds back is not
    /// ahead of the replica.
    pub isolation: Isolation,
    /// `request.timeout.ms`, 30 s by default.
    pub request_timeout: Duration,
    /// How long questions are gathered, 250 ms.
    pub window: Duration,
    /// Partitions of one request, 1,000.
    pub rows_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            isolation: Isolation::ReadUncommitted,
            request_timeout: Duration::from_secs(30),
            window: Duration::from_millis(250),
            rows_max: 1_000,
        }
    }
}

/// What happens to the sampler.
#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    /// A route wants to know the leader's end; replaces its earlier question.
    Sample {
        /// Whose.
        partition: TopicPartition,
        /// Its assignment.
        assignment_epoch: AssignmentEpoch,
        /// Generation of its position.
        generation: PositionGeneration,
    },
    /// The end of a request.
    Answer {
        /// Which.
        token: Token,
        /// The answer, or why there is none.
        result: Result<Response, NoAnswer>,
    },
    /// A deadline passed.
    Tick,
}

/// What the sampler asks of its host.
#[derive(Clone, PartialEq, Debug)]
pub enum Output {
    /// Send this to the leader.
    Send {
        /// The leader.
        to: BrokerId,
        /// The questions.
        request: Request,
        /// Names the request.
        token: Token,
        /// When it counts as lost.
        timeout: Duration,
    },
    /// The leader's end of the log.
    Sampled {
        /// Whose.
        partition: TopicPartition,
        /// The assignment that asked.
        assignment_epoch: AssignmentEpoch,
        /// The generation that asked.
        generation: PositionGeneration,
        /// The end.
        leader_end: Offset,
    },
    /// The broker asked does not lead this partition, or not at our epoch.
    Refresh(TopicPartition),
}

/// Asks leaders how far their logs reach: one request per leader at a time.
#[derive(Debug)]
pub struct Sampler {
    settings: Settings,
    gathered: BTreeMap<TopicPartition, Asking>,
    /// When what was gathered is to be asked.
    closes: Option<Moment>,
    /// Gathered, and waiting for the turn of their leader: an answer looks at those it makes room
    /// for and at no others.
    waiting: BTreeMap<BrokerId, BTreeMap<TopicPartition, Asking>>,
    out: BTreeMap<Token, Sent>,
    last_token: u64,
    outputs: VecDeque<Output>,
}

#[derive(Clone, Copy, Debug)]
struct Asking {
    assignment_epoch: AssignmentEpoch,
    generation: PositionGeneration,
}

/// A request that is out.
#[derive(Debug)]
struct Sent {
    leader: BrokerId,
    asking: BTreeMap<TopicPartition, Asking>,
}

impl Sampler {
    /// A sampler without questions.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            gathered: BTreeMap::new(),
            closes: None,
            waiting: BTreeMap::new(),
            out: BTreeMap::new(),
            last_token: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input. Drain [`poll_output`](Self::poll_output) until `None` afterwards.
    pub fn handle(&mut self, input: Input, view: &dyn LeaderView, now: Moment) {
        match input {
            Input::Sample {
                partition,
                assignment_epoch,
                generation,
            } => {
                let asking = Asking {
                    assignment_epoch,
                    generation,
                };
                self.gathered.insert(partition, asking);
                self.closes.get_or_insert(now + self.settings.window);
            }
            Input::Answer { token, result } => {
                let freed = self.on_answer(token, result);
                self.ask(freed.into_iter().collect(), view);
            }
            Input::Tick => {}
        }
        if self.closes.take_if(|closes| *closes <= now).is_some() {
            let gathered = std::mem::take(&mut self.gathered).into_iter();
            let leaders = gathered
                .filter_map(|(partition, asking)| self.enqueue(partition, asking, view))
                .collect();
            self.ask(leaders, view);
        }
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Input::Tick`] is due.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.closes
    }

    /// Puts a question behind the others of its leader. A partition without one is dropped: it has
    /// other troubles than a replica that stands still.
    fn enqueue(
        &mut self,
        partition: TopicPartition,
        asking: Asking,
        view: &dyn LeaderView,
    ) -> Option<BrokerId> {
        let (leader, _) = view.leader(&partition)?;
        let queue = self.waiting.entry(leader).or_default();
        queue.insert(partition, asking);
        Some(leader)
    }

    /// Asks those of `leaders` that are not being asked.
    fn ask(&mut self, mut leaders: BTreeSet<BrokerId>, view: &dyn LeaderView) {
        while let Some(leader) = leaders.pop_first() {
            if self.out.values().any(|sent| sent.leader == leader) {
                continue;
            }
            let mut rows = Vec::new();
            let mut asked = BTreeMap::new();
            while rows.len() < self.settings.rows_max
                && let Some((partition, asking)) = self.next_waiting(leader)
            {
                match view.leader(&partition) {
                    Some((leads, epoch)) if leads == leader => {
                        rows.push(row(&partition, epoch));
                        asked.insert(partition, asking);
                    }
                    // The leader moved while it waited.
                    Some(_) | None => leaders.extend(self.enqueue(partition, asking, view)),
                }
            }
            if !rows.is_empty() {
                self.send(leader, rows, asked);
            }
        }
    }

    fn next_waiting(&mut self, leader: BrokerId) -> Option<(TopicPartition, Asking)> {
        let queue = self.waiting.get_mut(&leader)?;
        let next = queue.pop_first();
        if queue.is_empty() {
            self.waiting.remove(&leader);
        }
        next
    }

    fn send(
        &mut self,
        leader: BrokerId,
        partitions: Vec<Partition>,
        asking: BTreeMap<TopicPartition, Asking>,
    ) {
        self.last_token += 1;
        let token = Token(self.last_token);
        self.out.insert(token, Sent { leader, asking });
        let timeout = self.settings.request_timeout;
        let request = Request {
            isolation: self.settings.isolation,
            partitions,
            timeout,
        };
        self.outputs.push_back(Output::Send {
            to: leader,
            request,
            token,
            timeout,
        });
    }

    /// Tells of the ends in the answer, and whose turn is over.
    fn on_answer(&mut self, token: Token, result: Result<Response, NoAnswer>) -> Option<BrokerId> {
        let mut sent = self.out.remove(&token)?;
        let Ok(Response::ListOffsets(answer)) = result else {
            return Some(sent.leader);
        };
        for row in answer.partitions {
            let partition = TopicPartition {
                topic: row.topic.clone(),
                partition: row.partition,
            };
            if let Some(asking) = sent.asking.remove(&partition) {
                self.on_row(partition, asking, &row);
            }
        }
        Some(sent.leader)
    }

    fn on_row(&mut self, partition: TopicPartition, asking: Asking, row: &Found) {
        let denied = [
            ErrorCode::NOT_LEADER_OR_FOLLOWER,
            ErrorCode::FENCED_LEADER_EPOCH,
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        ];
        match (row.error, row.offset) {
            (ErrorCode::NONE, Some(leader_end)) => self.outputs.push_back(Output::Sampled {
                partition,
                assignment_epoch: asking.assignment_epoch,
                generation: asking.generation,
                leader_end,
            }),
            (error, _) if denied.contains(&error) => {
                self.outputs.push_back(Output::Refresh(partition));
            }
            // A number, not an enum. Whatever else it says, the route asks again.
            (_, _) => {}
        }
    }
}

fn row(partition: &TopicPartition, current_leader_epoch: Option<LeaderEpoch>) -> Partition {
    Partition {
        topic: partition.topic.clone(),
        partition: partition.partition,
        current_leader_epoch,
        at: At::Latest,
    }
}

#[cfg(test)]
mod tests;
