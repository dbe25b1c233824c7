//! One partition at the host.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::handler::host::queue::Queue;
use crate::handler::host::{Gate, StintId};
use crate::handler::stint::Failure;
use crate::handler::{Assignment, Cause, ErasedHandler, Exhausted, Handling};
use crate::ids::{AssignmentEpoch, Draw, Moment};

/// A partition with its queue and the account of its failed attempts.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) assignment: Arc<Assignment>,
    pub(super) handler: Arc<dyn ErasedHandler>,
    pub(super) handling: Handling,
    pub(super) queue: Queue,
    pub(super) gates: BTreeSet<Gate>,
    pub(super) phase: Phase,
    pub(super) tries: Tries,
    /// The stint in hand, one given up included as long as it lives: no second attempt of a record
    /// starts beside it (runtime.md A1).
    pub(super) in_hand: Option<StintId>,
    /// Whether it waits in line for a permit.
    pub(super) in_line: bool,
    /// Whether it was said to be full.
    pub(super) full: bool,
}

/// What a partition is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Working, or waiting for records.
    Working,
    /// Its head failed and runs again at this moment.
    Backoff(Moment),
    /// Nothing new starts; work in hand may go on.
    Draining {
        /// Until this moment.
        until: Moment,
    },
    /// Drained: nothing is in hand, nothing starts.
    Drained,
    /// Its head asks the fleet to stop, or cannot be read.
    Halted,
}

/// Failed attempts of the record at the head.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tries {
    pub(super) attempts: u32,
    /// Attempts as the ceiling counts them: a panic counts twice (runtime.md H1).
    pub(super) strikes: u32,
}

/// What becomes of a failed record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Consequence {
    Retry(Duration),
    Stop(String),
}

impl Slot {
    pub(super) fn new(
        assignment: Assignment,
        handler: Arc<dyn ErasedHandler>,
        handling: Handling,
    ) -> Self {
        Self {
            assignment: Arc::new(assignment),
            handler,
            handling,
            queue: Queue::default(),
            gates: BTreeSet::new(),
            phase: Phase::Working,
            tries: Tries::default(),
            in_hand: None,
            in_line: false,
            full: false,
        }
    }

    pub(super) fn epoch(&self) -> AssignmentEpoch {
        self.assignment.epoch
    }

    /// Whether a stint could start, permits aside.
    pub(super) fn is_startable(&self) -> bool {
        self.phase == Phase::Working
            && self.gates.is_empty()
            && self.in_hand.is_none()
            && !self.queue.is_empty()
    }

    /// Whether it takes deliveries; a draining partition would only drop them.
    pub(super) fn takes_records(&self) -> bool {
        match self.phase {
            Phase::Working | Phase::Backoff(_) | Phase::Halted => true,
            Phase::Draining { .. } | Phase::Drained => false,
        }
    }

    pub(super) fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Draining { .. })
    }

    /// Starts nothing more; a drain goes on.
    pub(super) fn halt(&mut self) {
        match self.phase {
            Phase::Working | Phase::Backoff(_) => self.phase = Phase::Halted,
            Phase::Draining { .. } | Phase::Drained | Phase::Halted => {}
        }
    }

    /// Judges a failed attempt of the head.
    pub(super) fn fail(&mut self, failure: &Failure, draw: Draw) -> Consequence {
        self.tries.attempts = self.tries.attempts.saturating_add(1);
        let strikes = if failure.cause == Cause::Panic { 2 } else { 1 };
        self.tries.strikes = self.tries.strikes.saturating_add(strikes);
        let retry = &self.handling.retry;
        if !failure.cause.is_final() && !retry.is_exhausted(self.tries.strikes) {
            return Consequence::Retry(retry.delay(self.tries.attempts, failure.after, draw));
        }
        match self.handling.exhausted {
            Exhausted::Stop => {
                Consequence::Stop(format!("{}: {}", failure.cause.label(), failure.text))
            }
        }
    }
}
