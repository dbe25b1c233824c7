//! How partitions leave the host: drained, moved, or at once (runtime.md 8).

use crate::handler::host::agenda::Whose;
use crate::handler::host::slot::{Phase, Tries};
use crate::handler::host::{Host, Output, StintId, current};
use crate::ids::{AssignmentEpoch, Moment, Offset, TopicPartition};

impl Host {
    pub(super) fn drain(
        &mut self,
        partition: &TopicPartition,
        epoch: AssignmentEpoch,
        until: Moment,
        now: Moment,
    ) {
        let Some(slot) = current(&mut self.slots, partition, epoch) else {
            return self.stale(partition, epoch);
        };
        let until = match slot.phase {
            Phase::Draining { until: earlier } => earlier.min(until),
            Phase::Working | Phase::Backoff(_) | Phase::Drained | Phase::Halted => until,
        };
        slot.queue.drop_waiting();
        slot.phase = Phase::Draining { until };
        match slot.in_hand.and_then(|id| self.hands.get(&id)) {
            Some(hand) if hand.counts() => {
                hand.tether.close();
                self.agenda
                    .set(Whose::Partition(partition.clone()), Some(until.max(now)));
            }
            Some(_) | None => self.drained(partition, None),
        }
    }

    /// Notes that nothing of a draining partition is in hand any more.
    pub(super) fn drained(&mut self, partition: &TopicPartition, abandoned: Option<Offset>) {
        let Some(slot) = self.slots.get_mut(partition) else {
            return;
        };
        slot.phase = Phase::Drained;
        slot.queue.clear();
        slot.full = false;
        let epoch = slot.epoch();
        self.agenda.set(Whose::Partition(partition.clone()), None);
        self.outputs.push_back(Output::Drained {
            partition: partition.clone(),
            epoch,
            abandoned,
        });
    }

    pub(super) fn resume(&mut self, partition: &TopicPartition, epoch: AssignmentEpoch) {
        match current(&mut self.slots, partition, epoch) {
            Some(slot) if slot.phase == Phase::Drained => slot.phase = Phase::Working,
            Some(_) => {}
            None => self.stale(partition, epoch),
        }
    }

    pub(super) fn rewind(
        &mut self,
        partition: &TopicPartition,
        epoch: AssignmentEpoch,
        now: Moment,
    ) {
        let Some(slot) = current(&mut self.slots, partition, epoch) else {
            return self.stale(partition, epoch);
        };
        slot.queue.clear();
        slot.tries = Tries::default();
        let (in_hand, phase) = (slot.in_hand, slot.phase);
        match phase {
            Phase::Working | Phase::Backoff(_) | Phase::Halted => {
                slot.phase = Phase::Working;
                self.agenda.set(Whose::Partition(partition.clone()), None);
            }
            Phase::Drained => {}
            // Nothing in hand counts any more.
            Phase::Draining { .. } => self.drained(partition, None),
        }
        if let Some(stint) = in_hand {
            self.fence(stint, now);
        }
        self.tell_fullness(partition);
    }

    pub(super) fn end(&mut self, partition: &TopicPartition, epoch: AssignmentEpoch, now: Moment) {
        if current(&mut self.slots, partition, epoch).is_none() {
            return self.stale(partition, epoch);
        }
        let in_hand = self.slots.remove(partition).and_then(|slot| slot.in_hand);
        self.agenda.set(Whose::Partition(partition.clone()), None);
        match in_hand.and_then(|id| self.hands.get_mut(&id)) {
            Some(hand) if hand.epoch == epoch => hand.ends_assignment = true,
            Some(_) | None => {
                self.outputs.push_back(Output::Ended {
                    partition: partition.clone(),
                    epoch,
                });
            }
        }
        if let Some(stint) = in_hand {
            self.fence(stint, now);
        }
    }

    /// Ends the authority of a stint and asks it to end.
    fn fence(&mut self, stint: StintId, now: Moment) {
        let Some(hand) = self.hands.get_mut(&stint) else {
            return;
        };
        if hand.fence() {
            self.agenda
                .set(Whose::Stint(stint), Some(now + self.settings.cancel_grace));
        }
    }
}
