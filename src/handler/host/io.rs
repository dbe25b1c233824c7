//! What goes into the host and what comes out.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::handler::{Assignment, Cause, ErasedHandler, Handling, Pool, Stint, StintEnd};
use crate::ids::{AssignmentEpoch, Generation, LeaderEpoch, Moment, Offset, TopicPartition};
use crate::records::{BatchError, BatchView};

/// One stint, for as long as its task lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StintId(pub u64);

/// Something that happened. Inputs that name another assignment epoch than the one in force are
/// dropped and counted (runtime.md P1).
#[derive(Debug)]
pub enum Input {
    /// A partition was assigned; its records go to `handler`. Replaces an earlier assignment, whose
    /// attempts are fenced.
    Assign {
        /// Whom it belongs to.
        assignment: Assignment,
        /// What handles its records.
        handler: Arc<dyn ErasedHandler>,
        /// How they are handled.
        handling: Handling,
    },
    /// Batches were fetched, in offset order and behind those delivered before. They must be open,
    /// that is not compressed.
    Deliver {
        /// The partition.
        partition: TopicPartition,
        /// The assignment they were fetched under.
        epoch: AssignmentEpoch,
        /// The batches.
        views: Vec<BatchView>,
    },
    /// The task of a stint ended. `None` if it ended without a result: aborted, or destroyed by a
    /// panic in a destructor.
    Settled {
        /// The stint.
        stint: StintId,
        /// What its future returned.
        end: Option<StintEnd>,
    },
    /// A gate of a partition was shut or opened. While any is shut nothing starts.
    Gate {
        /// The partition.
        partition: TopicPartition,
        /// Which gate.
        gate: Gate,
        /// Whether it is shut now.
        shut: bool,
    },
    /// The group moved to another generation or member epoch; fencing tokens of later attempts
    /// carry it.
    Generation(Generation),
    /// Revoke or quiesce (runtime.md 8, steps 1 to 3): drop what was not started, wait for what is
    /// in hand, then cancel, then abandon. Answered by [`Output::Drained`]. A second one can only
    /// shorten the time.
    Drain {
        /// The partition.
        partition: TopicPartition,
        /// Its assignment.
        epoch: AssignmentEpoch,
        /// Until when work in hand may go on.
        until: Moment,
    },
    /// The end of a quiesce: work may go on with what is delivered from now on.
    Resume {
        /// The partition.
        partition: TopicPartition,
        /// Its assignment.
        epoch: AssignmentEpoch,
    },
    /// The position was moved by a seek, a reset or a truncation: drop the queue, fence what is in
    /// hand. What is delivered from now on belongs to the new position.
    Rewind {
        /// The partition.
        partition: TopicPartition,
        /// Its assignment.
        epoch: AssignmentEpoch,
    },
    /// The assignment ended. Whatever is in hand is fenced and cancelled, and aborted after the
    /// grace (runtime.md 8, lost). Answered by [`Output::Ended`] once nothing of it runs.
    End {
        /// The partition.
        partition: TopicPartition,
        /// Its assignment.
        epoch: AssignmentEpoch,
    },
    /// The moment named by `next_deadline` came.
    Tick,
}

/// Something to be done.
#[derive(Debug)]
pub enum Output {
    /// Run `handler.start(work)` on `pool` and report its end as [`Input::Settled`].
    Start {
        /// Name of the stint.
        stint: StintId,
        /// Where to run it.
        pool: Pool,
        /// Whose work it is.
        handler: Arc<dyn ErasedHandler>,
        /// The work.
        work: Stint,
    },
    /// Abort the task of a stint. On the blocking pool this has no effect; the task is waited for.
    Abort {
        /// The stint.
        stint: StintId,
    },
    /// Every offset in `from..to` is finished.
    Finished {
        /// The partition.
        partition: TopicPartition,
        /// Its assignment.
        epoch: AssignmentEpoch,
        /// First offset that became finished.
        from: Offset,
        /// First offset that did not.
        to: Offset,
        /// Leader epoch of the last finished record, if known.
        leader_epoch: Option<LeaderEpoch>,
    },
    /// The queue is full: deliver no more than what is under way.
    Full {
        /// The partition.
        partition: TopicPartition,
        /// Its assignment.
        epoch: AssignmentEpoch,
    },
    /// The queue has room again.
    Room {
        /// The partition.
        partition: TopicPartition,
        /// Its assignment.
        epoch: AssignmentEpoch,
    },
    /// The drain is over: nothing is in hand that could still count.
    Drained {
        /// The partition.
        partition: TopicPartition,
        /// Its assignment.
        epoch: AssignmentEpoch,
        /// Offset of the record that had to be abandoned, if one had.
        abandoned: Option<Offset>,
    },
    /// Nothing of this assignment runs any more, or what runs was abandoned and counts for nothing.
    Ended {
        /// The partition.
        partition: TopicPartition,
        /// The assignment that ended.
        epoch: AssignmentEpoch,
    },
    /// A batch cannot be read at this record. Nothing of the partition starts until it is rewound
    /// or ended.
    Unreadable {
        /// The partition.
        partition: TopicPartition,
        /// Its assignment.
        epoch: AssignmentEpoch,
        /// What is wrong.
        error: BatchError,
    },
    /// Stop the fleet in order. The partition starts nothing more.
    Stop(StopReason),
    /// Something worth telling.
    Event(Event),
}

/// Reasons that keep a partition from starting work (runtime.md B5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Gate {
    /// A user paused it.
    User,
    /// The coordinator is away, or the session nears its end.
    CoordinatorAway,
    /// Its fleet is stopping.
    Stopping,
    /// Too many offsets lie between the watermark and the highest started one.
    Span,
}

/// Why the fleet has to stop.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StopReason {
    /// The partition whose record led to it.
    pub partition: TopicPartition,
    /// The record, which stays unfinished.
    pub offset: Offset,
    /// Attempts made.
    pub attempts: u32,
    /// The handler's reason, or what went wrong.
    pub reason: String,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (partition {}, offset {}, attempt {})",
            self.reason, self.partition, self.offset, self.attempts
        )
    }
}

/// What operators and logs should know.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// An attempt failed; the unit runs again after `delay`.
    Retrying {
        /// The partition.
        partition: TopicPartition,
        /// First record of the unit.
        offset: Offset,
        /// Number of the failed attempt.
        attempt: u32,
        /// Why it failed.
        cause: Cause,
        /// Error or panic text.
        text: String,
        /// Time until the next attempt.
        delay: Duration,
    },
    /// An attempt passed its deadline and was asked to end.
    Overdue {
        /// The partition.
        partition: TopicPartition,
    },
    /// An attempt did not end within the grace and was aborted.
    Abandoned {
        /// The partition.
        partition: TopicPartition,
        /// First record of the unit.
        offset: Offset,
    },
    /// An aborted attempt is still alive: its handler blocks a thread. Unless the assignment ended,
    /// the partition stands still until it ends.
    Stuck {
        /// The partition.
        partition: TopicPartition,
        /// The record at its head, if it is still assigned.
        offset: Option<Offset>,
    },
    /// A stint ended after it was given up; its result was dropped.
    LateResult {
        /// The partition.
        partition: TopicPartition,
    },
    /// An input named an assignment that is not in force and was dropped.
    Stale {
        /// The partition.
        partition: TopicPartition,
        /// The epoch it named.
        epoch: AssignmentEpoch,
    },
}

/// Bounds of one host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Stints in hand on the handler pool (`handler.concurrency.max`; default 256).
    pub stints_max: usize,
    /// Stints in hand on the blocking pool (`blocking.threads`; default 8).
    pub blocking_max: usize,
    /// Bytes of batches given to one stint; one batch may exceed it (default 1 MiB).
    pub stint_bytes_max: usize,
    /// Time after which a stint begins no further unit (default 100 ms).
    pub stint_time: Duration,
    /// Unstarted records of one partition at which its queue is full (`max.poll.records`; default
    /// 500).
    pub queue_records: usize,
    /// Unstarted bytes of one partition at which its queue is full (default 1 MiB).
    pub queue_bytes: usize,
    /// Records in one unit of a batch handler (`max.poll.records`; default 500).
    pub unit_records: usize,
    /// Payload bytes in one unit of a batch handler; one record may exceed it (default 1 MiB).
    pub unit_bytes: usize,
    /// Time between cancelling an attempt and aborting it (`handler.cancel.grace.ms`; default 5 s).
    pub cancel_grace: Duration,
    /// Time an aborted attempt may live before it counts as stuck (`handler.abandon.wait.ms`;
    /// default 60 s).
    pub abandon_wait: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        const MIB: usize = 1 << 20;
        Self {
            stints_max: 256,
            blocking_max: 8,
            stint_bytes_max: MIB,
            stint_time: Duration::from_millis(100),
            queue_records: 500,
            queue_bytes: MIB,
            unit_records: 500,
            unit_bytes: MIB,
            cancel_grace: Duration::from_secs(5),
            abandon_wait: Duration::from_secs(60),
        }
    }
}
