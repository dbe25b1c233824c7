//! The host machine: queues per partition, attempts in hand, deadlines and retries.
//!
//! One host serves all partitions of a data arbiter. It never runs user code: it names the work
//! ([`Output::Start`]) and is told how it ended ([`Input::Settled`]). The contract is that of every
//! machine here: one input, then drain the outputs, then wait until the next deadline.

mod agenda;
mod fence;
mod hand;
mod io;
mod queue;
mod settle;
mod slot;
mod start;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::budget::Budget;
use crate::handler::message::Origin;
use crate::handler::{Assignment, Clock, ErasedHandler, Handling};
use crate::ids::{AssignmentEpoch, Draw, Generation, Moment, Offset, TopicPartition};
use crate::records::BatchView;

use agenda::Agenda;
use hand::Hand;
use slot::{Phase, Slot};

pub use io::{Event, Gate, Input, Output, Settings, StintId, StopReason};

/// Decides what is handled when. See the module's description.
#[derive(Debug)]
pub struct Host {
    settings: Settings,
    budget: Budget,
    clock: Arc<dyn Clock>,
    slots: BTreeMap<TopicPartition, Slot>,
    hands: BTreeMap<StintId, Hand>,
    agenda: Agenda,
    /// Partitions that could start, in the order in which they get permits (runtime.md P3).
    line: VecDeque<TopicPartition>,
    stints_in_hand: usize,
    blocking_in_hand: usize,
    last_stint: u64,
    outputs: VecDeque<Output>,
}

/// What can be told about one partition, for reports and for a partition actor that starts again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Everything below is finished; `None` before the first delivery. An actor that missed
    /// [`Output::Finished`] makes up for it with this.
    pub position: Option<Offset>,
    /// Records that no task has.
    pub queued_records: usize,
    /// Bytes that no task has.
    pub queued_bytes: usize,
    /// Whether a task works on it.
    pub in_hand: bool,
    /// Failed attempts of the record at the head.
    pub failed_attempts: u32,
    /// When that record runs again, if it waits for a retry.
    pub retry_at: Option<Moment>,
    /// Whether the queue is full.
    pub full: bool,
    /// When its handler last reported progress inside the stint in hand.
    pub stirred: Option<Moment>,
}

impl Host {
    /// A host without partitions. `clock` is what attempts read; the machine itself goes by the
    /// moments it is given.
    pub fn new(settings: Settings, clock: Arc<dyn Clock>) -> Self {
        Self {
            settings,
            budget: Budget::unlimited(),
            clock,
            slots: BTreeMap::new(),
            hands: BTreeMap::new(),
            agenda: Agenda::default(),
            line: VecDeque::new(),
            stints_in_hand: 0,
            blocking_in_hand: 0,
            last_stint: 0,
            outputs: VecDeque::new(),
        }
    }

    /// The same host; what it copies is charged to `budget`.
    #[must_use]
    pub fn charging(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// Takes one input.
    pub fn handle(&mut self, input: Input, draw: Draw, now: Moment) {
        match input {
            Input::Assign {
                assignment,
                handler,
                handling,
            } => {
                self.assign(assignment, handler, handling, now);
            }
            Input::Deliver {
                partition,
                epoch,
                views,
            } => self.deliver(&partition, epoch, views, now),
            Input::Settled { stint, end } => self.settle(stint, end, draw, now),
            Input::Gate {
                partition,
                gate,
                shut,
            } => self.gate(&partition, gate, shut),
            Input::Generation(generation) => self.adopt(generation),
            Input::Drain {
                partition,
                epoch,
                until,
            } => self.drain(&partition, epoch, until, now),
            Input::Resume { partition, epoch } => self.resume(&partition, epoch),
            Input::Rewind { partition, epoch } => self.rewind(&partition, epoch, now),
            Input::End { partition, epoch } => self.end(&partition, epoch, now),
            Input::Tick => self.tick(now),
        }
        self.start_all(now);
    }

    /// The next thing to be done, in order; `None` when the input is worked off.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Input::Tick`] is due.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.agenda.next()
    }

    /// What can be told about `partition`.
    pub fn facts(&self, partition: &TopicPartition) -> Option<Facts> {
        let slot = self.slots.get(partition)?;
        let retry_at = match slot.phase {
            Phase::Backoff(due) => Some(due),
            Phase::Working | Phase::Draining { .. } | Phase::Drained | Phase::Halted => None,
        };
        Some(Facts {
            position: slot.queue.position(),
            queued_records: slot.queue.waiting_records(),
            queued_bytes: slot.queue.waiting_bytes(),
            in_hand: slot.in_hand.is_some(),
            failed_attempts: slot.tries.attempts,
            retry_at,
            full: slot.full,
            stirred: slot
                .in_hand
                .and_then(|id| self.hands.get(&id)?.tether.stirred()),
        })
    }

    /// Stints whose tasks live.
    pub fn stints_in_hand(&self) -> usize {
        self.hands.len()
    }

    /// Stints that were given up and whose tasks still live (runtime.md A1).
    pub fn stints_abandoned(&self) -> usize {
        self.hands.values().filter(|hand| !hand.counts()).count()
    }

    fn assign(
        &mut self,
        assignment: Assignment,
        handler: Arc<dyn ErasedHandler>,
        handling: Handling,
        now: Moment,
    ) {
        let partition = assignment.partition.clone();
        let mut slot = Slot::new(assignment, handler, handling);
        if let Some(former) = self.slots.get(&partition) {
            let epoch = former.epoch();
            self.end(&partition, epoch, now);
        }
        // A task of an earlier assignment may still live; nothing starts beside it.
        slot.in_hand = self
            .hands
            .iter()
            .find(|(_, hand)| hand.blocks(&partition))
            .map(|(id, _)| *id);
        self.slots.insert(partition, slot);
    }

    fn deliver(
        &mut self,
        partition: &TopicPartition,
        epoch: AssignmentEpoch,
        views: Vec<BatchView>,
        since: Moment,
    ) {
        let Some(slot) = current(&mut self.slots, partition, epoch) else {
            return self.stale(partition, epoch);
        };
        if !slot.takes_records() {
            return;
        }
        for view in views {
            let assignment = Arc::clone(&slot.assignment);
            slot.queue.push(Arc::new(Origin {
                assignment,
                view,
                since,
            }));
        }
        self.look_through_queues(since);
        self.line_up(partition);
        self.tell_fullness(partition);
    }

    fn gate(&mut self, partition: &TopicPartition, gate: Gate, shut: bool) {
        let Some(slot) = self.slots.get_mut(partition) else {
            return;
        };
        if shut {
            slot.gates.insert(gate);
            if let Some(hand) = slot.in_hand.and_then(|id| self.hands.get(&id)) {
                hand.tether.close();
            }
        } else {
            slot.gates.remove(&gate);
            self.line_up(partition);
        }
    }

    fn adopt(&mut self, generation: Generation) {
        for slot in self.slots.values_mut() {
            if slot.assignment.generation != generation {
                let assignment = Assignment {
                    generation,
                    ..(*slot.assignment).clone()
                };
                slot.assignment = Arc::new(assignment);
            }
        }
    }

    /// Says so if the queue became full, or got room again at half of that.
    fn tell_fullness(&mut self, partition: &TopicPartition) {
        let Some(slot) = self.slots.get_mut(partition) else {
            return;
        };
        debug_assert!(slot.queue.counts_add_up(), "{:?}", slot.queue);
        let (records, bytes) = (slot.queue.waiting_records(), slot.queue.waiting_bytes());
        let Settings {
            queue_records,
            queue_bytes,
            ..
        } = self.settings;
        let (partition, epoch) = (partition.clone(), slot.epoch());
        if !slot.full && (records >= queue_records || bytes >= queue_bytes) {
            slot.full = true;
            self.outputs.push_back(Output::Full { partition, epoch });
        } else if slot.full && records <= queue_records / 2 && bytes <= queue_bytes / 2 {
            slot.full = false;
            self.outputs.push_back(Output::Room { partition, epoch });
        }
    }

    fn stale(&mut self, partition: &TopicPartition, epoch: AssignmentEpoch) {
        self.outputs.push_back(Output::Event(Event::Stale {
            partition: partition.clone(),
            epoch,
        }));
    }
}

/// The slot of `partition`, if `epoch` is in force.
fn current<'a>(
    slots: &'a mut BTreeMap<TopicPartition, Slot>,
    partition: &TopicPartition,
    epoch: AssignmentEpoch,
) -> Option<&'a mut Slot> {
    slots
        .get_mut(partition)
        .filter(|slot| slot.epoch() == epoch)
}
