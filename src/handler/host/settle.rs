//! What the host does when a stint ends, or its time does.

use std::time::Duration;

use crate::handler::Pool;
use crate::handler::host::agenda::Whose;
use crate::handler::host::hand::{Fate, Hand, Phase as HandPhase, Step};
use crate::handler::host::queue::LONG;
use crate::handler::host::slot::{Consequence, Phase, Slot, Tries};
use crate::handler::host::{Event, Host, Output, Settings, StintId, StopReason};
use crate::handler::stint::{Cause, Failure, Place, StintEnd, Verdict};
use crate::ids::{Draw, Moment, TopicPartition};

impl Host {
    /// The task of a stint is gone.
    pub(super) fn settle(
        &mut self,
        stint: StintId,
        end: Option<StintEnd>,
        draw: Draw,
        now: Moment,
    ) {
        let Some(hand) = self.hands.remove(&stint) else {
            return;
        };
        self.agenda.set(Whose::Stint(stint), None);
        match hand.pool {
            Pool::Handler => self.stints_in_hand = self.stints_in_hand.saturating_sub(1),
            Pool::Blocking => self.blocking_in_hand = self.blocking_in_hand.saturating_sub(1),
        }
        let slot = self.slots.get_mut(&hand.partition);
        if let Some(slot) = slot.filter(|slot| slot.in_hand == Some(stint)) {
            slot.in_hand = None;
        }
        match hand.phase {
            HandPhase::Severed { fate, .. } => self.bury(&hand, fate, end.as_ref(), draw, now),
            HandPhase::Running { .. } | HandPhase::Overdue { .. } | HandPhase::Expelled => {
                let (place, verdict) = self.read_end(&hand, end);
                self.finish_to(&hand.partition, place);
                self.judge(&hand.partition, verdict, draw, now);
            }
        }
        self.line_up(&hand.partition);
        self.tell_fullness(&hand.partition);
    }

    /// A stint that was given up earlier is gone: what waited for that goes on.
    fn bury(&mut self, hand: &Hand, fate: Fate, end: Option<&StintEnd>, draw: Draw, now: Moment) {
        let partition = hand.partition.clone();
        if end.is_some() {
            self.outputs.push_back(Output::Event(Event::LateResult {
                partition: partition.clone(),
            }));
        }
        if hand.ends_assignment {
            self.outputs.push_back(Output::Ended {
                partition,
                epoch: hand.epoch,
            });
        } else if fate == Fate::Overdue {
            let overdue = Failure::new(Cause::Deadline, "the handler did not end in time");
            self.judge(&hand.partition, Verdict::Failed(overdue), draw, now);
        }
    }

    /// How far a stint came and what ended it, also if its task vanished without a result.
    fn read_end(&self, hand: &Hand, end: Option<StintEnd>) -> (Place, Verdict) {
        if let Some(StintEnd { place, verdict, .. }) = end {
            return (place, verdict);
        }
        let finished = hand.tether.sever();
        let place = self.place_after(&hand.partition, finished);
        let vanished = Failure::new(
            Cause::Panic,
            "the task of the handler ended without a result",
        );
        (place, Verdict::Failed(vanished))
    }

    fn place_after(&self, partition: &TopicPartition, finished: u32) -> Place {
        let queue = self.slots.get(partition).map(|slot| &slot.queue);
        queue.map_or(
            Place {
                batches: 0,
                cursor: None,
            },
            |queue| queue.place_after(finished),
        )
    }

    /// Takes the lent batches back and reports what became finished.
    fn finish_to(&mut self, partition: &TopicPartition, place: Place) {
        let Some(slot) = self.slots.get_mut(partition) else {
            return;
        };
        let Some(span) = slot.queue.settle(place) else {
            return;
        };
        slot.tries = Tries::default();
        self.outputs.push_back(Output::Finished {
            partition: partition.clone(),
            epoch: slot.epoch(),
            from: span.from,
            to: span.to,
            leader_epoch: span.leader_epoch,
        });
    }

    /// Decides how the partition goes on.
    fn judge(&mut self, partition: &TopicPartition, verdict: Verdict, draw: Draw, now: Moment) {
        let Some(slot) = self.slots.get_mut(partition) else {
            return;
        };
        match verdict {
            Verdict::Well | Verdict::Late => {}
            Verdict::Unreadable(error) => {
                let (partition, epoch) = (partition.clone(), slot.epoch());
                slot.halt();
                self.outputs.push_back(Output::Unreadable {
                    partition,
                    epoch,
                    error,
                });
            }
            Verdict::Stop(reason) => {
                slot.tries.attempts = slot.tries.attempts.saturating_add(1);
                self.stop(partition, reason);
            }
            Verdict::Failed(failure) => match slot.fail(&failure, draw) {
                Consequence::Stop(reason) => self.stop(partition, reason),
                Consequence::Retry(delay) => self.back_off(partition, failure, delay, now),
            },
        }
        if self.slots.get(partition).is_some_and(Slot::is_draining) {
            self.drained(partition, None);
        }
    }

    fn stop(&mut self, partition: &TopicPartition, reason: String) {
        let Some(slot) = self.slots.get_mut(partition) else {
            return;
        };
        slot.halt();
        self.outputs.push_back(Output::Stop(StopReason {
            partition: partition.clone(),
            offset: slot.queue.head().unwrap_or_default(),
            attempts: slot.tries.attempts,
            reason,
        }));
    }

    /// Lets the head wait for its next attempt, and the partition with it. A drain does not wait
    /// for that.
    fn back_off(
        &mut self,
        partition: &TopicPartition,
        failure: Failure,
        delay: Duration,
        now: Moment,
    ) {
        let Some(slot) = self.slots.get_mut(partition) else {
            return;
        };
        if slot.phase == Phase::Working {
            slot.phase = Phase::Backoff(now + delay);
            slot.queue.shed(now + delay, &self.budget);
            self.agenda
                .set(Whose::Partition(partition.clone()), Some(now + delay));
        }
        self.outputs.push_back(Output::Event(Event::Retrying {
            partition: partition.clone(),
            offset: slot.queue.head().unwrap_or_default(),
            attempt: slot.tries.attempts,
            cause: failure.cause,
            text: failure.text,
            delay,
        }));
    }

    /// Works off the deadlines that passed.
    pub(super) fn tick(&mut self, now: Moment) {
        while let Some(whose) = self.agenda.expire(now) {
            match whose {
                Whose::Stint(stint) => self.stint_due(stint, now),
                Whose::Partition(partition) => self.partition_due(&partition, now),
                Whose::Queues => self.shed_all(now),
            }
        }
    }

    /// Frees what waits, behind a gate or for whatever else, from frames that others are done with.
    fn shed_all(&mut self, now: Moment) {
        for slot in self.slots.values() {
            slot.queue.tell_wanted(&self.budget);
        }
        for slot in self.slots.values_mut() {
            slot.queue.shed(now, &self.budget);
        }
        if self.slots.values().any(|slot| !slot.queue.is_empty()) {
            self.look_through_queues(now);
        }
    }

    /// Has all queues looked through when what is in them has waited for long.
    pub(super) fn look_through_queues(&mut self, now: Moment) {
        if !self.agenda.has(&Whose::Queues) {
            self.agenda.set(Whose::Queues, Some(now + LONG));
        }
    }

    fn partition_due(&mut self, partition: &TopicPartition, now: Moment) {
        let Some(slot) = self.slots.get_mut(partition) else {
            return;
        };
        match slot.phase {
            Phase::Backoff(_) => {
                slot.phase = Phase::Working;
                self.line_up(partition);
            }
            Phase::Draining { .. } => {
                let in_hand = slot.in_hand;
                self.expel(in_hand, now);
            }
            Phase::Working | Phase::Drained | Phase::Halted => {}
        }
    }

    /// The time of a drain is up: cancel what is in hand.
    fn expel(&mut self, in_hand: Option<StintId>, now: Moment) {
        let Some((stint, hand)) = in_hand.and_then(|id| Some((id, self.hands.get_mut(&id)?)))
        else {
            return;
        };
        if hand.counts() {
            hand.tether.cancel_all();
            hand.phase = HandPhase::Expelled;
            self.agenda
                .set(Whose::Stint(stint), Some(now + self.settings.cancel_grace));
        }
    }

    fn stint_due(&mut self, stint: StintId, now: Moment) {
        let Some(hand) = self.hands.get_mut(&stint) else {
            return;
        };
        let Settings {
            cancel_grace,
            abandon_wait,
            ..
        } = self.settings;
        let (step, due) = hand.step(now, cancel_grace, abandon_wait);
        let partition = hand.partition.clone();
        self.agenda.set(Whose::Stint(stint), due);
        match step {
            Step::Wait => {}
            Step::Cancelled => {
                self.outputs
                    .push_back(Output::Event(Event::Overdue { partition }));
            }
            Step::Abandoned { finished } => self.abandon(stint, &partition, finished),
            Step::Abort => self.outputs.push_back(Output::Abort { stint }),
            Step::Stuck => self.stuck(stint, &partition),
        }
    }

    /// A stint was given up: what it finished counts, its task is aborted.
    fn abandon(&mut self, stint: StintId, partition: &TopicPartition, finished: u32) {
        let place = self.place_after(partition, finished);
        self.finish_to(partition, place);
        let Some(slot) = self.slots.get(partition) else {
            return;
        };
        let offset = slot.queue.head().unwrap_or_default();
        let draining = slot.is_draining();
        let event = Event::Abandoned {
            partition: partition.clone(),
            offset,
        };
        self.outputs.push_back(Output::Event(event));
        self.outputs.push_back(Output::Abort { stint });
        if draining {
            self.drained(partition, Some(offset));
        }
    }

    /// An aborted task still lives. A fenced one is waited for no longer; beside one whose record
    /// is still ours nothing may start, since the record would be in work twice.
    fn stuck(&mut self, stint: StintId, partition: &TopicPartition) {
        let Some(hand) = self.hands.get_mut(&stint) else {
            return;
        };
        let slot = self.slots.get_mut(partition);
        let offset = slot.as_ref().and_then(|slot| slot.queue.head());
        self.outputs.push_back(Output::Event(Event::Stuck {
            partition: partition.clone(),
            offset,
        }));
        if !hand.is_fenced() {
            return;
        }
        hand.released = true;
        if std::mem::take(&mut hand.ends_assignment) {
            let (partition, epoch) = (partition.clone(), hand.epoch);
            self.outputs.push_back(Output::Ended { partition, epoch });
        }
        if let Some(slot) = slot.filter(|slot| slot.in_hand == Some(stint)) {
            slot.in_hand = None;
        }
        self.line_up(partition);
    }
}
