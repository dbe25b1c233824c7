//! What happens to the resolver, and what it asks for.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::cluster::Snapshot;
use crate::group::{Assigned, NoAnswer, Standing, Token};
use crate::ids::{
    AssignmentEpoch, BrokerId, GroupId, LeaderEpoch, Offset, PositionGeneration, TopicId,
    TopicName, TopicPartition,
};
use crate::wire::api::Isolation;
use crate::wire::{ErrorCode, Request, Response};

/// Where to start without a commit, or past a bound of the log: `auto.offset.reset`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reset {
    /// At the first record kept.
    Earliest,
    /// At the end.
    Latest,
    /// Nowhere: the partition halts.
    None,
    /// At the first record not older than this (KIP-1106).
    ByDuration(Duration),
}

/// Settings of a [`Resolver`](super::Resolver).
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// `group.id`; none reads without commits.
    pub group: Option<GroupId>,
    /// `auto.offset.reset`, `latest` by default.
    pub reset: Reset,
    /// `nearside.reset.new.partitions`, `earliest` by default: for partitions that appear later
    /// (X8).
    pub reset_new_partitions: Reset,
    /// `isolation.level`, `read_uncommitted` by default.
    pub isolation: Isolation,
    /// `request.timeout.ms`, 30 s by default.
    pub request_timeout: Duration,
    /// `default.api.timeout.ms`, 60 s by default: after that a resolve is told as late; it goes on.
    pub late_after: Duration,
    /// How long questions for one broker are gathered, 10 ms.
    pub window: Duration,
    /// Between attempts: 50 ms, doubling to 1 s.
    pub retry: Backoff,
    /// Between attempts once late: 1 s, doubling to 10 s.
    pub late_retry: Backoff,
    /// Between attempts without permission: 5 s, doubling to 60 s.
    pub forbidden: Backoff,
    /// After that time without an answer of its leader a position is told as
    /// [unanswered](Output::Unanswered): the hedge deadline of a fetch, 2.5 s.
    pub unanswered_after: Duration,
    /// Between the two answers that confirm a truncation, 250 ms (routing.md 12).
    pub confirm_after: Duration,
    /// How long a position above the leader's end is held, 10 s: the high watermark trails after an
    /// election.
    pub above_max: Duration,
    /// Partitions of one OffsetFetch, 1,000 (X2).
    pub fetch_rows_max: usize,
    /// OffsetFetch requests out at a time, 4.
    pub fetch_in_flight_max: usize,
}

impl Settings {
    /// The defaults for `group`.
    pub fn new(group: Option<GroupId>) -> Self {
        Self {
            group,
            reset: Reset::Latest,
            reset_new_partitions: Reset::Earliest,
            isolation: Isolation::ReadUncommitted,
            request_timeout: Duration::from_secs(30),
            late_after: Duration::from_secs(60),
            window: Duration::from_millis(10),
            retry: Backoff::from_ms(50, 1_000),
            late_retry: Backoff::from_ms(1_000, 10_000),
            forbidden: Backoff::from_ms(5_000, 60_000),
            unanswered_after: Duration::from_millis(2_500),
            confirm_after: Duration::from_millis(250),
            above_max: Duration::from_secs(10),
            fetch_rows_max: 1_000,
            fetch_in_flight_max: 4,
        }
    }
}

/// What the resolver reads of the cluster. The metadata snapshot is one; tests write their own.
pub trait LeaderView {
    /// The leader of a partition, and its epoch; `None` while there is none, or its address is
    /// unknown.
    fn leader(&self, partition: &TopicPartition) -> Option<(BrokerId, Option<LeaderEpoch>)>;

    /// Number of partitions; `None` while the topic is not known.
    fn partition_count(&self, topic: &TopicName) -> Option<usize>;

    /// The id of a topic (KIP-516); `None` while it is not known, or on clusters without ids.
    fn topic_id(&self, topic: &TopicName) -> Option<TopicId>;
}

impl LeaderView for Snapshot {
    fn leader(&self, partition: &TopicPartition) -> Option<(BrokerId, Option<LeaderEpoch>)> {
        let leader = Self::leader(self, partition)?;
        Some((leader.broker.id, leader.epoch))
    }

    fn partition_count(&self, topic: &TopicName) -> Option<usize> {
        crate::group::TopicView::partition_count(self, topic)
    }

    fn topic_id(&self, topic: &TopicName) -> Option<TopicId> {
        self.topic(topic).and_then(|topic| topic.id)
    }
}

/// A question about one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// Where to start: the commit, else the reset policy.
    Start,
    /// Where a reset policy points to.
    Reset(Reset),
    /// The first record at or after this time, in milliseconds since 1970; the end if there is
    /// none.
    Timestamp(i64),
    /// Whether the leader's history still holds the record before `offset` (KIP-320).
    Validate {
        /// Next offset to fetch.
        offset: Offset,
        /// Epoch of the record before it.
        epoch: LeaderEpoch,
        /// Leader epoch known to whoever asks: no leader of a lower one is asked.
        leader_epoch: Option<LeaderEpoch>,
        /// A divergence that a Fetch row told of: the first of the two answers that count.
        told: Option<(LeaderEpoch, Offset)>,
    },
    /// The leader says that this position is out of range (routing.md 11, right column).
    OutOfRange {
        /// The offset refused.
        offset: Offset,
        /// Epoch of the record before it, if known.
        epoch: Option<LeaderEpoch>,
    },
    /// The end of the log. May be asked beside another question.
    End,
}

/// The answer to a [`Question`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The group's commit. With an epoch it is to be validated before the first fetch.
    Committed {
        /// Offset to fetch next.
        offset: Offset,
        /// Epoch of the record before it, if the committer knew it.
        epoch: Option<LeaderEpoch>,
    },
    /// The reset policy decided.
    Reset {
        /// Offset to fetch next.
        offset: Offset,
        /// Why it was asked.
        cause: ResetCause,
    },
    /// The offset of a time or of a policy asked for directly.
    At(Offset),
    /// The end of the log.
    End(Offset),
    /// The position refused lies within the leader's log.
    Inside,
    /// The leader's history agrees with ours.
    Agrees,
    /// The leader cannot say: no epochs, an undefined answer, or a broker too old.
    Unknown,
    /// Our history ends here; answered twice in a row.
    Truncated {
        /// First offset that is not ours any more.
        to: Offset,
        /// Epoch of the record before it, if the leader told.
        epoch: Option<LeaderEpoch>,
    },
    /// The policy `none` forbids to go on: no commit, out of range, or truncated.
    Halt,
}

/// Why the reset policy was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResetCause {
    /// The group never committed this partition.
    NoCommit,
    /// The position lies below the first record kept.
    BelowStart {
        /// The first offset kept.
        log_start: Offset,
    },
    /// The position lies above the end, and stayed there.
    AboveEnd {
        /// The end.
        log_end: Offset,
    },
}

/// Which connection a request takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum To {
    /// The coordinator connection of the group.
    Coordinator,
    /// The control connection of the coordinator's node.
    CoordinatorControl,
    /// The control connection of this broker.
    Broker(BrokerId),
}

/// One input of a [`Resolver`](super::Resolver).
#[derive(Clone, Debug)]
pub enum Input {
    /// A partition asks. Replaces its former question, unless one of the two is [`Question::End`].
    Resolve {
        /// Which.
        partition: TopicPartition,
        /// In which assignment.
        assignment_epoch: AssignmentEpoch,
        /// Names the question.
        generation: PositionGeneration,
        /// What.
        question: Question,
        /// Wall-clock time in milliseconds since 1970, for [`Reset::ByDuration`].
        unix_ms: i64,
    },
    /// These are released or lost: their questions are void.
    Forget(Vec<Assigned>),
    /// What may be said in the group's name now.
    Standing(Standing),
    /// Whether the coordinator is known.
    Coordinator(bool),
    /// The view given along shows another cluster than before.
    MetadataChanged,
    /// A request ended.
    Answer {
        /// Which.
        token: Token,
        /// How.
        result: Result<Response, NoAnswer>,
    },
    /// A deadline passed.
    Tick,
}

/// One output of a [`Resolver`](super::Resolver).
#[derive(Clone, Debug)]
pub enum Output {
    /// Send this request and answer it once.
    Send {
        /// The connection.
        to: To,
        /// What to send.
        request: Request,
        /// For the answer.
        token: Token,
        /// When to give up.
        timeout: Duration,
    },
    /// A question is answered. Counts only while assignment epoch and generation are current.
    Resolved {
        /// Which.
        partition: TopicPartition,
        /// In which assignment.
        assignment_epoch: AssignmentEpoch,
        /// Names the question.
        generation: PositionGeneration,
        /// The answer.
        outcome: Outcome,
    },
    /// The leader owes the answer to this question for longer than it may take. Counts only while
    /// assignment epoch and generation are current.
    Unanswered {
        /// Which.
        partition: TopicPartition,
        /// In which assignment.
        assignment_epoch: AssignmentEpoch,
        /// Names the question.
        generation: PositionGeneration,
    },
    /// Refresh the metadata of this partition: its leader is unknown, or not the leader any more.
    Refresh(TopicPartition),
    /// The coordinator is elsewhere, or its connection was lost.
    CoordinatorMoved,
    /// The coordinator refuses the group for good with this code: hand it to the member as
    /// [`Input::Refused`](crate::group::Input::Refused).
    Refused(ErrorCode),
    /// Something worth telling happened.
    Event(Event),
}

/// What the resolver tells its observers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A question is open for longer than `default.api.timeout.ms`; it is tried on (X5).
    ResolveLate {
        /// Which.
        partition: TopicPartition,
        /// What it waits for.
        waiting_for: &'static str,
    },
    /// No permission to read or describe the topic: tried again, unhealthy meanwhile.
    Forbidden(TopicPartition),
    /// An offset came with text that is not ours; ignored.
    ForeignMetadata(TopicPartition),
    /// An answer for a question that is over was dropped.
    StaleAnswer(TopicPartition),
}
