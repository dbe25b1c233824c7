//! The steps of the rebalance queue, one at a time, as the coordinator actor and the partition
//! supervisor carry them out together.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nearside::group::{self, Assigned, Step, StepId};
use nearside::ids::{AssignmentEpoch, Moment, TopicPartition};
use nearside::offsets::commit::{self, Due, FlushId};
use nearside::offsets::resolve;
use nearside::routing;

use super::{Member, Note, Slot};

/// The step under way. An `Assign` is over at once, so it is never one.
pub(super) struct Running {
    id: StepId,
    partitions: BTreeMap<TopicPartition, AssignmentEpoch>,
    waiting: BTreeSet<TopicPartition>,
    phase: Phase,
    until: Moment,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Draining,
    Committing,
    Ending,
}

impl Member {
    pub(super) fn run_step(&mut self, step: Step) {
        let rows = match &step {
            Step::Assign { added: rows, .. }
            | Step::Revoke {
                partitions: rows, ..
            }
            | Step::Lost {
                partitions: rows, ..
            } => rows,
        };
        let what = match &step {
            Step::Assign { .. } => "assigned",
            Step::Revoke { .. } => "revoked",
            Step::Lost { .. } => "lost",
        };
        let list: Vec<i32> = rows.iter().map(|row| row.partition.partition.0).collect();
        self.tell(format_args!("{what} {list:?}"));
        if let Some(running) = self.running.take() {
            self.forget(&running.assigned());
            self.end_all(running.partitions);
        }
        match step {
            Step::Assign { id, added } => {
                for row in added {
                    self.owned.insert(row.partition.clone(), row.epoch);
                    self.take_on(&row.partition, row.epoch);
                }
                self.owed.push_back(group::Input::StepDone(id));
            }
            Step::Revoke {
                id,
                partitions,
                until,
            } => self.revoke(id, &partitions, until),
            Step::Lost { id, partitions } => {
                self.forget(&partitions);
                let until = Moment(u64::MAX);
                self.running = Some(Running::new(id, &partitions, Phase::Ending, until));
                self.end_running();
            }
        }
    }

    /// A partition begins here, or as soon as its former assignment has ended.
    fn take_on(&mut self, partition: &TopicPartition, epoch: AssignmentEpoch) {
        if let Some(former) = self.slots.get_mut(partition) {
            former.successor = Some(epoch);
            return;
        }
        let slot = Slot::new(epoch, &self.routing, self.now);
        self.slots.insert(partition.clone(), slot);
        self.assign_host(partition, epoch);
        let input = routing::Assigned::by(&self.snapshot, partition, epoch, None);
        self.drive(partition, routing::Input::Assigned(input));
    }

    fn revoke(&mut self, id: StepId, partitions: &[Assigned], until: Moment) {
        self.running = Some(Running::new(id, partitions, Phase::Draining, until));
        let latest = until - (GRACE + COMMIT);
        let drained_by = (self.now + DRAIN).min(latest).max(self.now);
        for row in partitions {
            if !self.is_current(&row.partition, row.epoch) {
                self.settle_step(&row.partition, Phase::Draining);
                continue;
            }
            if let Some(slot) = self.slots.get_mut(&row.partition) {
                slot.draining = true;
            }
            self.drive(&row.partition, routing::Input::Pause);
            self.feed_host(nearside::handler::Input::Drain {
                partition: row.partition.clone(),
                epoch: row.epoch,
                until: drained_by,
            });
        }
    }

    fn is_current(&self, partition: &TopicPartition, epoch: AssignmentEpoch) -> bool {
        self.slots
            .get(partition)
            .is_some_and(|slot| slot.epoch == epoch)
    }

    /// The handler host has finished what was in hand.
    pub(super) fn drained(&mut self, partition: &TopicPartition, epoch: AssignmentEpoch) {
        if !self.is_current(partition, epoch) {
            return;
        }
        if let Some(state) = self.observed(partition) {
            self.feed_committer(commit::Input::Observed(state, Due::Now));
        }
        self.settle_step(partition, Phase::Draining);
    }

    /// Nothing of an assignment runs any more.
    pub(super) fn ended(&mut self, partition: &TopicPartition, epoch: AssignmentEpoch) {
        if !self.is_current(partition, epoch) {
            return;
        }
        let slot = self.slots.remove(partition).unwrap();
        assert!(slot.ending, "{partition} ended unasked");
        self.settle_step(partition, Phase::Ending);
        if let Some(epoch) = slot.successor {
            self.take_on(partition, epoch);
        }
    }

    fn settle_step(&mut self, partition: &TopicPartition, phase: Phase) {
        let Some(running) = self.running.as_mut().filter(|one| one.phase == phase) else {
            return;
        };
        running.waiting.remove(partition);
        if !running.waiting.is_empty() {
            return;
        }
        match phase {
            Phase::Draining => {
                running.phase = Phase::Committing;
                let id = FlushId(running.id.0);
                let until = (self.now + COMMIT).min(running.until);
                let partitions = running.assigned();
                self.feed_committer(commit::Input::Flush {
                    id,
                    partitions,
                    until,
                });
            }
            Phase::Ending => {
                let running = self.running.take().unwrap();
                self.forget(&running.assigned());
                self.owed.push_back(group::Input::StepDone(running.id));
            }
            Phase::Committing => {}
        }
    }

    pub(super) fn flushed(&mut self, id: FlushId) {
        let current = |one: &Running| one.id.0 == id.0 && one.phase == Phase::Committing;
        if self.running.as_ref().is_some_and(current) {
            self.end_running();
        }
    }

    fn end_running(&mut self) {
        let Some(running) = self.running.as_mut() else {
            return;
        };
        running.phase = Phase::Ending;
        running.waiting = running.partitions.keys().cloned().collect();
        let partitions = running.partitions.clone();
        self.end_all(partitions);
    }

    /// Ends assignments, drained or not.
    fn end_all(&mut self, partitions: BTreeMap<TopicPartition, AssignmentEpoch>) {
        for (partition, epoch) in partitions {
            if !self.is_current(&partition, epoch) {
                if let Some(slot) = self.slots.get_mut(&partition) {
                    slot.successor.take_if(|successor| *successor == epoch);
                }
                self.settle_step(&partition, Phase::Ending);
                continue;
            }
            self.drive(&partition, routing::Input::Revoked);
            if let Some(slot) = self.slots.get_mut(&partition) {
                slot.ending = true;
            }
            self.notes.push(Note::Ended {
                partition: partition.clone(),
            });
            self.feed_host(nearside::handler::Input::End { partition, epoch });
        }
    }

    /// Stops committing for partitions that are released or lost.
    fn forget(&mut self, partitions: &[Assigned]) {
        for row in partitions {
            if self.owned.get(&row.partition) == Some(&row.epoch) {
                self.owned.remove(&row.partition);
                self.asking.remove(&row.partition);
            }
        }
        self.feed_committer(commit::Input::Forget(partitions.to_vec()));
        self.feed_resolver(resolve::Input::Forget(partitions.to_vec()));
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
            waiting: partitions.keys().cloned().collect(),
            partitions,
            phase,
            until,
        }
    }

    fn assigned(&self) -> Vec<Assigned> {
        let rows = self.partitions.iter();
        rows.map(|(partition, epoch)| Assigned {
            partition: partition.clone(),
            epoch: *epoch,
        })
        .collect()
    }
}

/// Work in hand when a revoke begins.
const DRAIN: Duration = Duration::from_secs(5);
/// What was cancelled then.
const GRACE: Duration = Duration::from_secs(1);
/// The final commit.
const COMMIT: Duration = Duration::from_secs(3);
