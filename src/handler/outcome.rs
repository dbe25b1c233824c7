//! What a handler answers: the fate of a record, or of a batch of them.

use std::time::Duration;

/// The fate of one record (runtime.md 2). New outcomes may be added, so matching needs a wildcard
/// arm.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// Finished: the offset may be committed.
    Done,
    /// Try again later. Counts as an attempt and holds back what the ordering demands.
    Retry {
        /// Delay before the next attempt, cut to the schedule's cap; `None` follows the schedule.
        after: Option<Duration>,
    },
    /// Leave the record unfinished and stop the fleet in order: drain, commit, leave.
    Stop {
        /// Why; shown in the fleet's stop reason.
        reason: String,
    },
}

impl Outcome {
    /// Try again by the retry schedule.
    pub const fn retry() -> Self {
        Self::Retry { after: None }
    }

    /// Try again after `delay`, cut to the schedule's cap.
    pub const fn retry_after(delay: Duration) -> Self {
        Self::Retry { after: Some(delay) }
    }

    /// Stop the fleet in order, for `reason`.
    pub fn stop(reason: impl Into<String>) -> Self {
        Self::Stop {
            reason: reason.into(),
        }
    }
}

/// The fate of one batch (runtime.md 2, H3).
///
/// With partition ordering a record behind one that is not finished cannot be finished: entries of
/// [`Each`](Self::Each) behind the first that is not [`Outcome::Done`] are ignored, and those
/// records are offered again.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BatchOutcome {
    /// One outcome for every record of the batch.
    All(Outcome),
    /// The first `done` records are finished, the next one meets `then`, the rest were not tried.
    UpTo {
        /// Number of finished records. More than the batch holds is a permanent error.
        done: usize,
        /// What happened to the record behind them; of no effect if there is none.
        then: Outcome,
    },
    /// One outcome per record, in batch order. A wrong length is a permanent error.
    Each(Vec<Outcome>),
}

impl BatchOutcome {
    /// Every record is finished.
    pub const fn done() -> Self {
        Self::All(Outcome::Done)
    }
}

impl From<Outcome> for BatchOutcome {
    fn from(outcome: Outcome) -> Self {
        Self::All(outcome)
    }
}
