//! Carries out the steps of the rebalance queue, one at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::commits::observed;
use super::{CoordinatorActor, Owned};
use crate::actors::partition::{Assignment, Lot, Note, Progress};
use crate::actors::supervise::on_purpose;
use crate::fleet::{Event, Unfinished};
use crate::group::{self, Assigned, Step, StepId};
use crate::handler::Handling;
use crate::ids::{AssignmentEpoch, Moment, TopicPartition};
use crate::offsets::commit::{Due, FlushId, Input};

/// How long each part of giving partitions up may take (runtime.md 8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StepPlan {
    /// `drain.timeout.ms`: for work in hand.
    pub(crate) drain: Duration,
    /// `handler.cancel.grace.ms`: for what was cancelled then.
    pub(crate) grace: Duration,
    /// `drain.commit.timeout.ms`: for the final commit.
    pub(crate) commit: Duration,
}

/// The step under way. An `Assign` is over at once, so it is never one.
pub(super) struct Running {
    id: StepId,
    partitions: BTreeMap<TopicPartition, AssignmentEpoch>,
    waiting: BTreeMap<TopicPartition, AssignmentEpoch>,
    phase: Phase,
    until: Moment,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Work in hand finishes.
    Draining,
    /// The final commit is out.
    Committing,
    /// Actors and attempts end.
    Ending { lost: bool },
}

impl CoordinatorActor {
    /// Begins a step; a `Lost` ends the one before.
    pub(super) fn run_step(&mut self, step: Step) {
        self.give_up_running();
        match step {
            Step::Assign { id, added } => self.assign(id, added),
            Step::Revoke {
                id,
                partitions,
                until,
            } => self.revoke(id, &partitions, until),
            Step::Lost { id, partitions } => self.lose(id, &partitions),
        }
    }

    /// A step whose budget ended, or that a loss overtook: its partitions end now, and nobody waits
    /// for them.
    fn give_up_running(&mut self) {
        if let Some(running) = self.running.take() {
            self.forget(&running.assigned());
            self.threads
                .scatter(running.partitions, |one| &one.0, Lot::End);
        }
    }

    fn assign(&mut self, id: StepId, added: Vec<Assigned>) {
        let mut assignments = Vec::with_capacity(added.len());
        for assigned in &added {
            let progress = Arc::new(Progress::new());
            let owned = Owned {
                epoch: assigned.epoch,
                progress: Arc::clone(&progress),
                shown: 0,
            };
            self.owned.insert(assigned.partition.clone(), owned);
            let Some((subscription, handling)) = self.handling_of(&assigned.partition) else {
                continue;
            };
            assignments.push(Assignment {
                partition: assigned.partition.clone(),
                epoch: assigned.epoch,
                generation: self.generation,
                subscription,
                handling,
                progress,
            });
        }
        self.threads
            .scatter(assignments, |one| &one.partition, Lot::Assign);
        let partitions = added
            .into_iter()
            .map(|one| (one.partition, one.epoch))
            .collect();
        self.telemetry.emit(Event::Assigned { partitions });
        self.owed.push_back(group::Input::StepDone(id));
    }

    /// Index and handling of the first subscription that matches the topic.
    fn handling_of(&self, partition: &TopicPartition) -> Option<(usize, Handling)> {
        self.subscriptions
            .iter()
            .enumerate()
            .find(|(_, one)| one.matcher.matches(&partition.topic))
            .map(|(index, one)| (index, one.handling.clone()))
    }

    fn revoke(&mut self, id: StepId, partitions: &[Assigned], until: Moment) {
        let drained_by = self.drain_until(until);
        self.running = Some(Running::new(id, partitions, Phase::Draining, until));
        let pairs = partitions
            .iter()
            .map(|one| (one.partition.clone(), one.epoch));
        self.threads.scatter(
            pairs,
            |one| &one.0,
            |partitions| Lot::Revoke {
                partitions,
                until: drained_by,
            },
        );
    }

    /// What is left for work in hand once grace, commit and a margin are set aside.
    fn drain_until(&self, until: Moment) -> Moment {
        let now = self.now();
        let latest = until - (self.plan.grace + self.plan.commit);
        (now + self.plan.drain).min(latest).max(now)
    }

    fn lose(&mut self, id: StepId, partitions: &[Assigned]) {
        self.forget(partitions);
        let until = Moment(u64::MAX);
        self.running = Some(Running::new(
            id,
            partitions,
            Phase::Ending { lost: true },
            until,
        ));
        self.end_running();
    }

    /// What the data threads say.
    pub(super) fn note(&mut self, note: Note) {
        match note {
            Note::Questions(questions) => self.questions(questions),
            Note::Drained {
                partition,
                epoch,
                commit,
                overrun,
            } => {
                if let Some(state) = commit.filter(|_| self.owns(&partition, epoch)) {
                    let state = observed(partition.clone(), epoch, state);
                    self.feed_committer(Input::Observed(state, Due::Now));
                }
                if overrun {
                    self.note_unfinished(&partition);
                }
                self.settle_one(&partition, epoch, Phase::Draining);
            }
            Note::Ended { partition, epoch } => {
                let lost = self.running.as_ref().is_some_and(Running::is_lost);
                self.settle_one(&partition, epoch, Phase::Ending { lost });
            }
            Note::Crash => on_purpose(),
        }
    }

    pub(super) fn owns(&self, partition: &TopicPartition, epoch: AssignmentEpoch) -> bool {
        self.owned
            .get(partition)
            .is_some_and(|owned| owned.epoch == epoch)
    }

    fn note_unfinished(&self, partition: &TopicPartition) {
        let state = self
            .owned
            .get(partition)
            .and_then(|owned| owned.progress.read());
        if let Some(state) = state {
            let partition = partition.clone();
            self.telemetry.unfinished(Unfinished {
                partition,
                offset: state.offset,
            });
        }
    }

    /// One partition is through a phase; after the last one the next phase begins.
    fn settle_one(&mut self, partition: &TopicPartition, epoch: AssignmentEpoch, phase: Phase) {
        let Some(running) = self
            .running
            .as_mut()
            .filter(|running| running.phase == phase)
        else {
            return;
        };
        if running.waiting.get(partition) == Some(&epoch) {
            running.waiting.remove(partition);
        }
        if !running.waiting.is_empty() {
            return;
        }
        match phase {
            Phase::Draining => self.commit_running(),
            Phase::Ending { lost } => self.finish_step(lost),
            Phase::Committing => {}
        }
    }

    fn commit_running(&mut self) {
        let Some(running) = self.running.as_mut() else {
            return;
        };
        running.phase = Phase::Committing;
        let (id, until) = (FlushId(running.id.0), running.until);
        let partitions = running.assigned();
        let until = (self.now() + self.plan.commit).min(until);
        self.feed_committer(Input::Flush {
            id,
            partitions,
            until,
        });
    }

    /// The final commit is over, whole or not.
    pub(super) fn flushed(&mut self, id: FlushId, unfinished: &[Assigned]) {
        for assigned in unfinished {
            self.note_unfinished(&assigned.partition);
        }
        let current = self
            .running
            .as_ref()
            .is_some_and(|running| running.id.0 == id.0 && running.phase == Phase::Committing);
        if current {
            self.end_running();
        }
    }

    /// Ends actors and attempts of the running step.
    fn end_running(&mut self) {
        let Some(running) = self.running.as_mut() else {
            return;
        };
        if running.phase == Phase::Committing {
            running.phase = Phase::Ending { lost: false };
        }
        running.waiting.clone_from(&running.partitions);
        let pairs: Vec<_> = running
            .partitions
            .iter()
            .map(|(one, epoch)| (one.clone(), *epoch))
            .collect();
        self.threads.scatter(pairs, |one| &one.0, Lot::End);
    }

    fn finish_step(&mut self, lost: bool) {
        let Some(running) = self.running.take() else {
            return;
        };
        let assigned = running.assigned();
        let partitions = running.partitions.into_keys().collect();
        if lost {
            self.telemetry.emit(Event::Lost { partitions });
        } else {
            self.forget(&assigned);
            self.telemetry.emit(Event::Revoked { partitions });
        }
        self.owed.push_back(group::Input::StepDone(running.id));
    }
}

impl Running {
    fn new(id: StepId, partitions: &[Assigned], phase: Phase, until: Moment) -> Self {
        let partitions: BTreeMap<_, _> = partitions
            .iter()
            .map(|one| (one.partition.clone(), one.epoch))
            .collect();
        Self {
            id,
            waiting: partitions.clone(),
            partitions,
            phase,
            until,
        }
    }

    fn is_lost(&self) -> bool {
        self.phase == Phase::Ending { lost: true }
    }

    fn assigned(&self) -> Vec<Assigned> {
        self.partitions
            .iter()
            .map(|(partition, epoch)| Assigned {
                partition: partition.clone(),
                epoch: *epoch,
            })
            .collect()
    }
}
