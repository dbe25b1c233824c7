//! A stint in hand, and what time does to it (runtime.md 9).

use std::sync::Arc;
use std::time::Duration;

use crate::handler::Pool;
use crate::handler::tether::{Began, Tether};
use crate::ids::{AssignmentEpoch, Moment, TopicPartition};

/// A stint whose task lives.
#[derive(Debug)]
pub(super) struct Hand {
    pub(super) partition: TopicPartition,
    pub(super) epoch: AssignmentEpoch,
    pub(super) pool: Pool,
    pub(super) tether: Arc<Tether>,
    pub(super) deadline: Option<Duration>,
    pub(super) phase: Phase,
    /// Its assignment ended: say so once it is gone.
    pub(super) ends_assignment: bool,
    /// It was fenced and lives on and on; its partition waits for it no longer.
    pub(super) released: bool,
}

/// What a stint is doing, as far as the host can tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Working.
    Running {
        /// The unit seen at the last look, and since when it is known to be in work.
        seen: Option<(u32, Moment)>,
    },
    /// Told to end the unit of this name.
    Overdue { unit: u32 },
    /// Told to end, because its partition is drained and time is up.
    Expelled,
    /// Given up; its result counts for nothing.
    Severed {
        /// Why.
        fate: Fate,
        /// Whether its task was aborted.
        aborted: bool,
    },
}

/// Why a stint was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// Its assignment or position ended.
    Fenced,
    /// Its unit passed the deadline and the grace.
    Overdue,
    /// Its partition had to be drained.
    Expelled,
    /// It moved on in the very moment in which it was given up for an overdue unit.
    Innocent,
}

/// What the host has to do about a stint whose deadline came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Look again later.
    Wait,
    /// The unit's time is over: it was cancelled.
    Cancelled,
    /// The grace is over too: it was given up after this many finished records.
    Abandoned { finished: u32 },
    /// Its task has to be aborted.
    Abort,
    /// It was aborted long ago and still lives.
    Stuck,
}

impl Hand {
    /// Whether its results still count.
    pub(super) fn counts(&self) -> bool {
        match self.phase {
            Phase::Running { .. } | Phase::Overdue { .. } | Phase::Expelled => true,
            Phase::Severed { .. } => false,
        }
    }

    pub(super) fn is_fenced(&self) -> bool {
        matches!(
            self.phase,
            Phase::Severed {
                fate: Fate::Fenced,
                ..
            }
        )
    }

    /// Whether nothing may start beside it in `partition`.
    pub(super) fn blocks(&self, partition: &TopicPartition) -> bool {
        !self.released && self.partition == *partition
    }

    /// Ends its authority for good: whatever it comes to, nothing follows from it. True if its task
    /// must be aborted after the grace.
    pub(super) fn fence(&mut self) -> bool {
        let (first, aborted) = match self.phase {
            Phase::Running { .. } | Phase::Overdue { .. } | Phase::Expelled => (true, false),
            Phase::Severed { aborted, .. } => (false, aborted),
        };
        self.tether.sever();
        self.phase = Phase::Severed {
            fate: Fate::Fenced,
            aborted,
        };
        first
    }

    /// What to do now that its time came, and when to look again.
    pub(super) fn step(
        &mut self,
        now: Moment,
        grace: Duration,
        wait: Duration,
    ) -> (Step, Option<Moment>) {
        match self.phase {
            Phase::Running { seen } => self.look(seen, now, grace),
            Phase::Overdue { unit } if self.tether.observe().finished > unit => {
                // It ended within the grace, and well: later units have their own time.
                self.look(None, now, grace)
            }
            Phase::Overdue { unit } => {
                let finished = self.tether.sever();
                let fate = if finished > unit {
                    Fate::Innocent
                } else {
                    Fate::Overdue
                };
                self.abandon(fate, finished, now + wait)
            }
            Phase::Expelled => {
                let finished = self.tether.sever();
                self.abandon(Fate::Expelled, finished, now + wait)
            }
            Phase::Severed {
                fate,
                aborted: false,
            } => {
                self.phase = Phase::Severed {
                    fate,
                    aborted: true,
                };
                (Step::Abort, Some(now + wait))
            }
            Phase::Severed { aborted: true, .. } => (Step::Stuck, None),
        }
    }

    /// Judges a working stint by its deadline.
    fn look(
        &mut self,
        seen: Option<(u32, Moment)>,
        now: Moment,
        grace: Duration,
    ) -> (Step, Option<Moment>) {
        let Some(deadline) = self.deadline else {
            return (Step::Wait, None);
        };
        let sight = self.tether.observe();
        let began = match sight.began {
            Began::At(began) => began,
            Began::NotYet => {
                self.phase = Phase::Running { seen: None };
                return (Step::Wait, Some(now + deadline));
            }
            Began::Untimed => match seen {
                Some((unit, since)) if unit == sight.finished => since,
                Some(_) | None => now,
            },
        };
        self.phase = Phase::Running {
            seen: Some((sight.finished, began)),
        };
        if began + deadline > now {
            return (Step::Wait, Some(began + deadline));
        }
        self.tether.cancel(sight.finished);
        self.phase = Phase::Overdue {
            unit: sight.finished,
        };
        (Step::Cancelled, Some(now + grace))
    }

    fn abandon(&mut self, fate: Fate, finished: u32, due: Moment) -> (Step, Option<Moment>) {
        self.phase = Phase::Severed {
            fate,
            aborted: true,
        };
        (Step::Abandoned { finished }, Some(due))
    }
}
