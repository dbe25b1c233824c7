//! What happens to the commit plan, and what it asks for.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::group::{Assigned, NoAnswer, Standing, To, Token};
use crate::ids::{
    AssignmentEpoch, Generation, GroupId, LeaderEpoch, Moment, Offset, PositionGeneration,
    TopicPartition,
};
use crate::wire::{ErrorCode, Request, Response};

/// Settings of a [`Committer`](super::Committer).
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// `group.id`.
    pub group: GroupId,
    /// `auto.commit.interval.ms`, 5 s by default: a moved watermark waits at most this long.
    pub interval: Duration,
    /// `request.timeout.ms`, 30 s by default.
    pub request_timeout: Duration,
    /// Finished offsets of one partition after which its commit is due at once, 10,000.
    pub records_max: u64,
    /// Estimated bytes of one request, 256 KiB: the coordinator writes a request as one batch, and
    /// refuses it whole above `max.message.bytes`.
    pub request_bytes_max: usize,
    /// Partitions of one request, 5,000.
    pub request_rows_max: usize,
    /// Requests out at a time, 4.
    pub in_flight_max: usize,
    /// Between attempts of a failed row: 100 ms, doubling to 1 s.
    pub retry: Backoff,
    /// Between attempts of a row without permission: 5 s, doubling to 60 s.
    pub forbidden: Backoff,
}

impl Settings {
    /// The defaults for `group`.
    pub fn new(group: impl Into<GroupId>) -> Self {
        Self {
            group: group.into(),
            interval: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            records_max: 10_000,
            request_bytes_max: 256 * 1_024,
            request_rows_max: 5_000,
            in_flight_max: 4,
            retry: Backoff::from_ms(100, 1_000),
            forbidden: Backoff::from_ms(5_000, 60_000),
        }
    }
}

/// The state of a ledger, ready to be committed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observed {
    /// Whose.
    pub partition: TopicPartition,
    /// Of which assignment.
    pub assignment_epoch: AssignmentEpoch,
    /// The ledger's position generation: within one, offsets never fall.
    pub generation: PositionGeneration,
    /// The watermark.
    pub offset: Offset,
    /// Epoch of the last finished record below it.
    pub leader_epoch: Option<LeaderEpoch>,
}

/// How soon an observed state is to be committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// At the partition's turn in the interval.
    Interval,
    /// At once: a position from the reset policy, so that a restart does not reset again (X8).
    Now,
}

/// Names a flush.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct FlushId(pub u64);

/// One input of a [`Committer`](super::Committer).
#[derive(Clone, Debug)]
pub enum Input {
    /// What may be said in the group's name now.
    Standing(Standing),
    /// Whether the coordinator is known.
    Coordinator(bool),
    /// A ledger moved.
    Observed(Observed, Due),
    /// Commit what these partitions showed, at once and as it comes, until all is accepted or
    /// `until` passes.
    Flush {
        /// For [`Output::Flushed`].
        id: FlushId,
        /// Which.
        partitions: Vec<Assigned>,
        /// When to give up.
        until: Moment,
    },
    /// These are released or lost: nothing leaves for them any more.
    Forget(Vec<Assigned>),
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

/// One output of a [`Committer`](super::Committer).
#[derive(Clone, Debug)]
pub enum Output {
    /// Send this request and answer it once.
    Send {
        /// The connection: control while a JoinGroup is out.
        to: To,
        /// What to send.
        request: Request,
        /// For the answer.
        token: Token,
        /// When to give up.
        timeout: Duration,
    },
    /// The coordinator stored this state.
    Committed(Observed),
    /// A flush is over.
    Flushed {
        /// Which.
        id: FlushId,
        /// What could not be committed; empty if all went well.
        unfinished: Vec<Assigned>,
    },
    /// The coordinator is elsewhere, or its connection was lost.
    CoordinatorMoved,
    /// A code that concerns the membership came for a request of this generation.
    Refused {
        /// The generation it was sent with.
        generation: Generation,
        /// The code.
        error: ErrorCode,
    },
    /// Something worth telling happened.
    Event(Event),
}

/// What the commit plan tells its observers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Nothing was accepted for three intervals while commits were due (L9).
    CommitLate {
        /// Partitions whose watermark is not committed.
        partitions: usize,
    },
    /// One partition's commit was refused; it is tried again.
    CommitFailed {
        /// Which.
        partition: TopicPartition,
        /// Why.
        error: ErrorCode,
    },
    /// One partition's commits fail for 60 s: it is unhealthy (L9).
    CommitStuck {
        /// Which.
        partition: TopicPartition,
        /// Why, at last.
        error: ErrorCode,
    },
    /// A request was too large for the coordinator and is sent again in halves.
    CommitSplit {
        /// Its partitions.
        partitions: usize,
        /// What the coordinator said.
        error: ErrorCode,
    },
    /// A state of a former assignment or position generation was dropped.
    StaleObservation(TopicPartition),
}
