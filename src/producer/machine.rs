//! The producer of all partitions: routes records, packs requests, hands answers to the queues.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::ids::{Draw, Moment, TopicName, TopicPartition};
use crate::wire::api::produce;

use super::identity::IdentityKeeper;
use super::leaders::Leaders;
use super::message::{Counts, Input, Outcome, Output, ProduceError, RecordToken, SendToken};
use super::packing::{Flights, SentRow, hints_of, row_about, rows_of};
use super::partitioner::Sticky;
use super::placing::Unplaced;
use super::queue::{Effects, Queue};
use super::settings::Settings;
use super::settle::{Reply, Step};

/// The idempotent producer. One input, then drain the outputs, then wait until the next deadline.
#[derive(Debug)]
pub struct Producer {
    pub(super) settings: Settings,
    pub(super) queues: Vec<Queue>,
    pub(super) index: BTreeMap<TopicPartition, usize>,
    /// Records of topics whose partitions are not known yet.
    pub(super) unplaced: BTreeMap<TopicName, VecDeque<Unplaced>>,
    pub(super) sticky: Sticky,
    pub(super) identity: IdentityKeeper,
    pub(super) flights: Flights,
    /// Queues to look at in this step.
    pub(super) dirty: BTreeSet<usize>,
    pub(super) deadlines: Deadlines,
    pub(super) held: usize,
    pub(super) next_token: u64,
    pub(super) effects: Effects,
}

/// Each queue's next deadline, ordered.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    ordered: BTreeSet<(Moment, usize)>,
    of: Vec<Option<Moment>>,
}

impl Producer {
    /// A producer that has nothing to do yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            queues: Vec::new(),
            index: BTreeMap::new(),
            unplaced: BTreeMap::new(),
            sticky: Sticky::default(),
            identity: IdentityKeeper::default(),
            flights: Flights::default(),
            dirty: BTreeSet::new(),
            deadlines: Deadlines::default(),
            held: 0,
            next_token: 0,
            effects: Effects::default(),
        }
    }

    /// Takes one input. `leaders` is the newest cluster view at `now`.
    pub fn handle(&mut self, input: Input, leaders: &dyn Leaders, draw: Draw, now: Moment) {
        match input {
            Input::Append { token, record } => {
                let since = now;
                self.append(
                    Unplaced {
                        token,
                        record,
                        since,
                    },
                    (leaders, draw),
                );
            }
            Input::Answered { token, response } => self.answered(token, &response, draw, now),
            Input::Lost { token, outcome } => self.lost(token, outcome, draw, now),
            Input::Identified { token, response } => {
                let backoff = self.settings.retry_backoff;
                if let Err(code) = self
                    .identity
                    .answered(token, response, &backoff, (draw, now))
                {
                    self.refuse_all(&ProduceError::Refused {
                        code,
                        message: None,
                    });
                }
                self.wake_all();
            }
            Input::ClusterChanged => {
                self.place_waiting((leaders, draw));
                self.wake_all();
            }
            Input::Flush => {
                self.queues.iter_mut().for_each(Queue::flush);
                self.wake_all();
            }
            Input::Tick => self.tick(now),
        }
        self.pump(leaders, now);
        self.held = self
            .held
            .saturating_sub(std::mem::take(&mut self.effects.released));
    }

    /// The next thing to do; `None` once all is said.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.effects.outputs.pop_front()
    }

    /// When to hand in [`Input::Tick`] if nothing else happens before.
    pub fn next_deadline(&self) -> Option<Moment> {
        let timeout = self.settings.give_up_after();
        let unplaced = self.unplaced.values().filter_map(|waiting| waiting.front());
        let unplaced = unplaced
            .filter_map(|first| Some(first.since + timeout?))
            .min();
        [
            self.deadlines.next(),
            unplaced,
            self.identity.next_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Bytes of the produce buffer that are free: append no more than that.
    pub fn room(&self) -> usize {
        self.settings.buffer_bytes.saturating_sub(self.held)
    }

    /// Whether every record that was appended has met its fate.
    pub fn is_idle(&self) -> bool {
        self.held == 0 && self.unplaced.is_empty() && self.queues.iter().all(Queue::is_idle)
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.effects.counts
    }

    fn answered(
        &mut self,
        token: SendToken,
        response: &produce::Response,
        draw: Draw,
        now: Moment,
    ) {
        let Some((sent, waited)) = self.flights.end(token) else {
            return;
        };
        self.dirty.extend(waited);
        self.effects
            .outputs
            .extend(hints_of(&sent, response).map(Output::Hints));
        let rows = rows_of(response);
        for about in &sent.rows {
            // A batch the broker says nothing about may have been written all the same.
            let reply =
                row_about(&rows, about).map_or(Reply::Nothing(Outcome::Unknown), Reply::Row);
            self.settle(about, token, reply, (draw, now));
        }
    }

    fn lost(&mut self, token: SendToken, outcome: Outcome, draw: Draw, now: Moment) {
        let Some((sent, waited)) = self.flights.end(token) else {
            return;
        };
        self.dirty.extend(waited);
        for about in &sent.rows {
            self.settle(about, token, Reply::Nothing(outcome), (draw, now));
        }
    }

    fn settle(
        &mut self,
        about: &SentRow,
        token: SendToken,
        reply: Reply<'_>,
        (draw, now): (Draw, Moment),
    ) {
        self.dirty.insert(about.queue);
        let step = Step {
            settings: &self.settings,
            draw,
            now,
        };
        if let Some(queue) = self.queues.get_mut(about.queue) {
            queue.settle((about.batch, token), reply, step, &mut self.effects);
        }
    }

    fn tick(&mut self, now: Moment) {
        self.dirty.extend(self.deadlines.expired(now));
        if self.identity.next_deadline().is_some_and(|due| due <= now) {
            self.wake_all();
        }
        let Some(timeout) = self.settings.give_up_after() else {
            return;
        };
        let mut late = Vec::new();
        self.unplaced.retain(|_, waiting| {
            while waiting
                .front()
                .is_some_and(|first| first.since + timeout <= now)
            {
                late.extend(waiting.pop_front());
            }
            !waiting.is_empty()
        });
        for Unplaced { token, record, .. } in late {
            self.effects.released += record.held_bytes();
            self.fail(token, ProduceError::Timeout);
        }
    }

    /// Without a producer id nothing can be sent: what was not sealed fails.
    fn refuse_all(&mut self, error: &ProduceError) {
        for queue in &mut self.queues {
            queue.give_up_drafts(error, &mut self.effects);
        }
    }

    fn wake_all(&mut self) {
        let busy = self
            .queues
            .iter()
            .enumerate()
            .filter(|(_, queue)| !queue.is_idle());
        self.dirty.extend(busy.map(|(index, _)| index));
    }

    pub(super) fn fail(&mut self, token: RecordToken, error: ProduceError) {
        self.effects.counts.failed += 1;
        self.effects
            .outputs
            .push_back(Output::Failed { token, error });
    }
}

impl Deadlines {
    pub(super) fn set(&mut self, index: usize, due: Option<Moment>) {
        if self.of.len() <= index {
            self.of.resize(index + 1, None);
        }
        let Some(slot) = self.of.get_mut(index) else {
            return;
        };
        if let Some(old) = std::mem::replace(slot, due) {
            self.ordered.remove(&(old, index));
        }
        self.ordered.extend(due.map(|due| (due, index)));
    }

    fn next(&self) -> Option<Moment> {
        self.ordered.first().map(|(due, _)| *due)
    }

    fn expired(&self, now: Moment) -> impl Iterator<Item = usize> {
        self.ordered
            .iter()
            .take_while(move |(due, _)| *due <= now)
            .map(|(_, index)| *index)
    }
}
