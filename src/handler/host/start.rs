//! Permits, and whose turn it is (runtime.md P3).

use std::sync::Arc;

use crate::handler::Pool;
use crate::handler::host::agenda::Whose;
use crate::handler::host::hand::{Hand, Phase};
use crate::handler::host::{Host, Output, StintId};
use crate::handler::stint::{Limits, Stint};
use crate::handler::tether::Tether;
use crate::ids::{Moment, TopicPartition};

impl Host {
    /// Puts a partition in line for a permit, if it could start.
    pub(super) fn line_up(&mut self, partition: &TopicPartition) {
        let slot = self.slots.get_mut(partition);
        if let Some(slot) = slot.filter(|slot| slot.is_startable() && !slot.in_line) {
            slot.in_line = true;
            self.line.push_back(partition.clone());
        }
    }

    /// Starts what is in line, as far as permits go. A partition whose pool is used up goes to the
    /// end.
    pub(super) fn start_all(&mut self, now: Moment) {
        for _ in 0..self.line.len() {
            if self.stints_in_hand >= self.settings.stints_max
                && self.blocking_in_hand >= self.settings.blocking_max
            {
                return;
            }
            let Some(partition) = self.line.pop_front() else {
                return;
            };
            self.start_or_requeue(partition, now);
        }
    }

    fn start_or_requeue(&mut self, partition: TopicPartition, now: Moment) {
        let Some(slot) = self.slots.get_mut(&partition) else {
            return;
        };
        let (in_hand, max) = match slot.handler.pool() {
            Pool::Handler => (&mut self.stints_in_hand, self.settings.stints_max),
            Pool::Blocking => (&mut self.blocking_in_hand, self.settings.blocking_max),
        };
        slot.in_line = false;
        if !slot.is_startable() {
            return;
        }
        if *in_hand >= max {
            slot.in_line = true;
            self.line.push_back(partition);
            return;
        }
        *in_hand += 1;
        self.start(&partition, now);
    }

    fn start(&mut self, partition: &TopicPartition, now: Moment) {
        let Some(slot) = self.slots.get_mut(partition) else {
            return;
        };
        self.last_stint += 1;
        let stint = StintId(self.last_stint);
        let deadline = slot.handling.deadline;
        let tether = Tether::new(Arc::clone(&slot.assignment), Arc::clone(&self.clock));
        let tether = Arc::new(tether);
        let (origins, start) = slot.queue.lend(self.settings.stint_bytes_max);
        let limits = Limits {
            unit_records: self.settings.unit_records,
            unit_bytes: self.settings.unit_bytes,
            deadline,
            stint_time: self.settings.stint_time,
        };
        let attempt = slot.tries.attempts.saturating_add(1);
        let work = Stint {
            tether: Arc::clone(&tether),
            origins,
            start,
            attempt,
            limits,
        };
        slot.in_hand = Some(stint);
        let (epoch, pool) = (slot.epoch(), slot.handler.pool());
        let handler = Arc::clone(&slot.handler);
        let hand = Hand {
            partition: partition.clone(),
            epoch,
            pool,
            tether,
            deadline,
            phase: Phase::Running { seen: None },
            ends_assignment: false,
            released: false,
        };
        self.hands.insert(stint, hand);
        self.agenda
            .set(Whose::Stint(stint), deadline.map(|deadline| now + deadline));
        self.outputs.push_back(Output::Start {
            stint,
            pool,
            handler,
            work,
        });
        self.tell_fullness(partition);
    }
}
