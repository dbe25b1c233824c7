//! The life of an assignment on its thread: taken on, restarted, drained, ended.

use std::sync::Arc;

use actix::prelude::*;

use super::messages::{Assignment, HostNews, HostSaid, Note, Told};
use super::supervisor::{Life, PartitionSupervisor, Slot};
use super::{Account, Cell};
use crate::actors::handler::HostRequest;
use crate::actors::status::PartitionStatus;
use crate::actors::supervise::{Death, DeathReason, guarded};
use crate::actors::telemetry::bump;
use crate::fleet::Event;
use crate::ids::{AssignmentEpoch, LeaderEpoch, Moment, Offset, TopicPartition};
use crate::routing::Assigned;
use crate::supervision::{Budget, Level, Verdict};

impl PartitionSupervisor {
    /// Takes a partition on: a cell, a place in the handler host, an actor.
    pub(super) fn assign(&mut self, assignment: Assignment) {
        let partition = assignment.partition.clone();
        if let Some(former) = self.slots.get_mut(&partition) {
            former.successor = Some(assignment);
            return;
        }
        let cell = Cell::new(assignment.epoch, Arc::clone(&assignment.progress));
        let status = Arc::new(PartitionStatus::new(Arc::clone(&assignment.progress)));
        self.thread
            .telemetry
            .partitions
            .insert(partition.clone(), Arc::clone(&status));
        self.thread.to_host(HostRequest::Assign {
            partition: partition.clone(),
            epoch: assignment.epoch,
            generation: assignment.generation,
            topic_id: self
                .snapshot
                .topic(&partition.topic)
                .and_then(|topic| topic.id),
            subscription: assignment.subscription,
            handling: assignment.handling.clone(),
        });
        let slot = Slot {
            cell,
            status,
            budget: Budget::new(Level::PartitionActor),
            life: Life::Gone,
            ending: false,
            draining: None,
            host_ended: false,
            room: true,
            hinted: None,
            successor: None,
            assignment,
        };
        self.slots.insert(partition.clone(), slot);
        self.start(&partition);
    }

    /// Starts a life of the partition's actor from its cell.
    fn start(&mut self, partition: &TopicPartition) {
        let Some(slot) = self.slots.get_mut(partition) else {
            return;
        };
        let position = slot.cell.account().as_ref().map(resume_at);
        let assigned = Assigned::by(&self.snapshot, partition, slot.assignment.epoch, position);
        slot.start(partition, &self.thread, &self.deaths, assigned);
        if !slot.room {
            slot.life.tell(Told::Room(false));
        }
        if slot.draining.is_some() {
            slot.life.tell(Told::Revoke);
        }
    }

    /// Steps 1 to 3 of a revoke (runtime.md 8): nothing new starts, what is in hand may finish.
    pub(super) fn revoke(
        &mut self,
        partitions: Vec<(TopicPartition, AssignmentEpoch)>,
        until: Moment,
    ) {
        for (partition, epoch) in partitions {
            if self.is_current(&partition, epoch) {
                if let Some(slot) = self.slots.get_mut(&partition) {
                    slot.draining = Some(until);
                    slot.life.tell(Told::Revoke);
                }
                self.thread.to_host(HostRequest::Drain {
                    partition,
                    epoch,
                    until,
                });
            } else {
                // Nobody is left to drain; the queue must not wait for it.
                self.report_drained(partition, epoch, false);
            }
        }
    }

    /// Ends assignments, drained or not.
    pub(super) fn end(&mut self, partitions: Vec<(TopicPartition, AssignmentEpoch)>) {
        for (partition, epoch) in partitions {
            if !self.is_current(&partition, epoch) {
                self.drop_successor(&partition, epoch);
                self.thread
                    .tell_coordinator(Note::Ended { partition, epoch });
                continue;
            }
            if let Some(slot) = self.slots.get_mut(&partition) {
                slot.ending = true;
                match &slot.life {
                    Life::Up(..) => slot.life.tell(Told::End),
                    Life::Down(_) | Life::Gone => slot.life = Life::Gone,
                }
            }
            self.thread.to_host(HostRequest::End {
                partition: partition.clone(),
                epoch,
            });
            self.finish_end(&partition);
        }
    }

    /// What the handler host said. The ledger is written here, so that a completion is not lost
    /// with an actor's life.
    pub(super) fn host_says(&mut self, news: HostNews) {
        let HostNews {
            partition,
            epoch,
            rewinds,
            said,
        } = news;
        if !self.is_current(&partition, epoch) {
            bump(&self.thread.telemetry.counts.mismatched, 1);
            return;
        }
        let Some(slot) = self.slots.get_mut(&partition) else {
            return;
        };
        match said {
            // Said before the position moved back: those offsets may be other records by now.
            HostSaid::Finished { .. } | HostSaid::Unreadable(_)
                if rewinds != slot.cell.rewinds() =>
            {
                bump(&self.thread.telemetry.counts.late_results, 1);
            }
            HostSaid::Finished {
                from,
                to,
                leader_epoch,
            } => {
                slot.cell.finish(from, to, leader_epoch);
                let records = u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0);
                bump(&self.thread.telemetry.counts.records_finished, records);
            }
            HostSaid::Room(room) => {
                slot.room = room;
                slot.life.tell(Told::Room(room));
            }
            HostSaid::Drained { abandoned } => self.host_drained(partition, epoch, abandoned),
            HostSaid::Ended => {
                slot.host_ended = true;
                self.finish_end(&partition);
            }
            HostSaid::Unreadable(error) => slot.life.tell(Told::Unreadable { error, rewinds }),
        }
    }

    /// A life ended: by order, or by a crash that the budget judges.
    pub(super) fn died(&mut self, death: Death<TopicPartition>, ctx: &mut Context<Self>) {
        let (now, draw) = (self.thread.now(), self.thread.entropy.draw());
        let Some(slot) = self.slots.get_mut(&death.id) else {
            return;
        };
        if slot.cell.incarnation() != death.incarnation {
            return;
        }
        let reason = match death.reason {
            DeathReason::Stopped => "stopped".to_owned(),
            DeathReason::Panicked(text) => text,
        };
        if slot.ending {
            slot.life = Life::Gone;
            self.finish_end(&death.id);
            return;
        }
        self.thread.wheel.borrow_mut().clear(&death.id);
        self.thread.withdraw(&death.id);
        match slot.budget.died(draw, now) {
            Verdict::Restart { after } => {
                bump(&self.thread.telemetry.counts.restarts, 1);
                slot.life = Life::Down(Vec::new());
                let partition = death.id.clone();
                ctx.run_later(after, move |actor, ctx| {
                    guarded(actor, ctx, |actor, _| actor.restart(&partition));
                });
                let actor = format!("partition {}", death.id);
                self.thread
                    .telemetry
                    .emit(Event::ActorRestarted { actor, reason });
            }
            Verdict::Escalate => {
                slot.life = Life::Gone;
                slot.status.fail();
                let partition = death.id;
                self.thread
                    .telemetry
                    .emit(Event::PartitionFailed { partition, reason });
            }
        }
    }

    fn restart(&mut self, partition: &TopicPartition) {
        let down = self
            .slots
            .get(partition)
            .is_some_and(|slot| matches!(slot.life, Life::Down(_)) && !slot.ending);
        if down {
            self.start(partition);
            self.thread.flush();
        }
    }

    /// An assignment that ended before it began.
    fn drop_successor(&mut self, partition: &TopicPartition, epoch: AssignmentEpoch) {
        if let Some(slot) = self.slots.get_mut(partition) {
            slot.successor.take_if(|successor| successor.epoch == epoch);
        }
    }

    pub(super) fn is_current(&self, partition: &TopicPartition, epoch: AssignmentEpoch) -> bool {
        self.slots
            .get(partition)
            .is_some_and(|slot| slot.assignment.epoch == epoch)
    }

    pub(super) fn report_drained(
        &self,
        partition: TopicPartition,
        epoch: AssignmentEpoch,
        overrun: bool,
    ) {
        let commit = self
            .slots
            .get(&partition)
            .filter(|slot| slot.assignment.epoch == epoch)
            .and_then(|slot| slot.cell.commit());
        self.thread.tell_coordinator(Note::Drained {
            partition,
            epoch,
            commit,
            overrun,
        });
    }

    /// Once actor and handler host are both done with an ended assignment, it is forgotten and the
    /// coordinator told.
    fn finish_end(&mut self, partition: &TopicPartition) {
        let over = self
            .slots
            .get(partition)
            .is_some_and(|slot| slot.ending && slot.host_ended && matches!(slot.life, Life::Gone));
        if !over {
            return;
        }
        if let Some(slot) = self.slots.remove(partition) {
            self.thread.wheel.borrow_mut().clear(partition);
            self.thread.telemetry.ended(partition);
            let (partition, epoch) = (partition.clone(), slot.assignment.epoch);
            self.thread
                .tell_coordinator(Note::Ended { partition, epoch });
            if let Some(successor) = slot.successor {
                self.assign(successor);
            }
        }
    }
}

/// Where a new life reads on.
fn resume_at(account: &Account) -> (Offset, Option<LeaderEpoch>) {
    (account.delivered, account.delivered_epoch)
}
