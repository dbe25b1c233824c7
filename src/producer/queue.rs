//! One partition of the producer: drafts, sealed batches, sequence, gate (wire.md 10.1, 10.3,
//! 10.4).

use std::collections::VecDeque;

use bytes::Bytes;

use crate::ids::{BrokerId, Moment, Offset, TopicIncarnation, TopicPartition};
use crate::wire::api::init_producer_id::Producer as Identity;

use super::batch::{Batch, Draft, Flight, Seal};
use super::leaders::Leader;
use super::message::{Counts, Outcome, Output, ProduceError, Record, RecordToken, SendToken};
use super::settings::{Kind, Settings};

/// Batches of one partition in flight once a leader has proved that it follows the sequence.
const GATE_OPEN: usize = 5;
/// Batches in flight until then (KAFKA-15591).
const GATE_ONE: usize = 1;

/// What a step of the machine brings about.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub(super) outputs: VecDeque<Output>,
    pub(super) counts: Counts,
    /// Bytes of the produce buffer given back since the machine last looked.
    pub(super) released: usize,
}

/// Whether the sequence must begin anew, which it can only with nothing in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Restart {
    /// It goes on.
    No,
    /// The topic was recreated: begin at 0.
    Zero,
    /// There is a gap or a doubt: begin at 0 under a higher epoch.
    Bump,
}

/// The machine of one partition.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) partition: TopicPartition,
    pub(super) incarnation: TopicIncarnation,
    /// Batches not sealed yet, oldest first; the last one takes records.
    drafts: VecDeque<Draft>,
    /// Sealed batches without a final answer, in sequence order.
    pub(super) sealed: VecDeque<Batch>,
    identity: Option<Identity>,
    sequence: i32,
    pub(super) restart: Restart,
    /// The leader now, if known.
    pub(super) leader: Option<Leader>,
    /// The leader known last.
    pub(super) led: Option<Leader>,
    /// A leader was asked for, and none is known yet.
    pub(super) asked: bool,
    /// Whether that leader has accepted a batch of this identity.
    pub(super) proven: bool,
    /// A former leader whose answers are waited for, and until when.
    drain: Option<(BrokerId, Moment)>,
    /// Last offset known to be written.
    pub(super) acked: Option<Offset>,
    flushing: bool,
    pub(super) next_id: u64,
}

impl Queue {
    pub(super) fn new(partition: TopicPartition, incarnation: TopicIncarnation) -> Self {
        Self {
            partition,
            incarnation,
            drafts: VecDeque::new(),
            sealed: VecDeque::new(),
            identity: None,
            sequence: 0,
            restart: Restart::No,
            leader: None,
            led: None,
            asked: false,
            proven: false,
            drain: None,
            acked: None,
            flushing: false,
            next_id: 0,
        }
    }

    /// Whether `record` would join a batch that was begun.
    pub(super) fn has_room_for(&self, record: &Record, settings: &Settings) -> bool {
        let open = self.drafts.back();
        open.is_some_and(|draft| draft.size_with(record) <= settings.batch_bytes)
    }

    /// Takes a record, into a new batch if there is none with room for it.
    pub(super) fn append(
        &mut self,
        token: RecordToken,
        record: &Record,
        settings: &Settings,
        now: Moment,
    ) -> Result<(), ProduceError> {
        if let Some(draft) = self.drafts.back_mut()
            && draft.size_with(record) <= settings.batch_bytes
        {
            return draft.push(token, record).map_err(ProduceError::Invalid);
        }
        let mut draft = Draft::new(settings, now);
        let size = draft.size_with(record);
        if size > settings.request_bytes {
            return Err(ProduceError::RecordTooLarge { size });
        }
        draft.push(token, record).map_err(ProduceError::Invalid)?;
        self.drafts.push_back(draft);
        Ok(())
    }

    /// Sends what is there without lingering.
    pub(super) fn flush(&mut self) {
        self.flushing = !self.drafts.is_empty();
    }

    pub(super) fn is_idle(&self) -> bool {
        self.drafts.is_empty() && self.sealed.is_empty() && self.restart == Restart::No
    }

    pub(super) fn identity(&self) -> Option<Identity> {
        self.identity
    }

    pub(super) fn out_count(&self) -> usize {
        self.sealed.iter().filter(|batch| batch.is_out()).count()
    }

    /// Follows the leader. A new one has everything to prove, and its first retries cost no delay.
    pub(super) fn follow(
        &mut self,
        leader: Option<Leader>,
        settings: &Settings,
        now: Moment,
        effects: &mut Effects,
    ) {
        self.leader = leader;
        self.asked &= leader.is_none();
        if leader.is_none() || leader == self.led {
            return;
        }
        let former = std::mem::replace(&mut self.led, leader).map(|leader| leader.broker);
        self.proven = false;
        let moved_from = former.filter(|broker| leader.is_some_and(|it| it.broker != *broker));
        if let Some(broker) = moved_from
            && self
                .sealed
                .iter()
                .any(|batch| batch.out_to() == Some(broker))
        {
            self.drain = Some((broker, now + settings.move_drain));
        }
        let epoch = leader.and_then(|leader| leader.epoch);
        for batch in self.sealed.iter_mut().filter(|batch| !batch.is_out()) {
            if batch.take_free_retry(epoch, now) {
                batch.flight = Flight::Waiting { until: now };
                effects.counts.free_retries += 1;
            }
        }
    }

    /// Notes that the topic lives again under its name: its log knows no sequence of ours.
    pub(super) fn reincarnate(&mut self, incarnation: TopicIncarnation) {
        if incarnation != self.incarnation {
            self.incarnation = incarnation;
            self.acked = None;
            if self.restart == Restart::No && self.identity.is_some() {
                self.restart = Restart::Zero;
            }
        }
    }

    /// Size of the batch that may be sent now, if one may.
    pub(super) fn next_size(&self, settings: &Settings, now: Moment) -> Option<usize> {
        if self.leader.is_none() || self.restart != Restart::No {
            return None;
        }
        let out = self.out_count();
        match self.sealed.iter().find(|batch| !batch.is_out()) {
            // A retry goes alone, so the first waiting batch is the lowest sequence of all.
            Some(batch) => {
                let due = matches!(batch.flight, Flight::Waiting { until } if until <= now);
                (due && out < GATE_ONE).then_some(batch.bytes.len())
            }
            None => {
                let gate = if settings.idempotent && self.proven {
                    GATE_OPEN
                } else {
                    GATE_ONE
                };
                let draft = self.drafts.front().filter(|_| out < gate)?;
                self.is_ripe(draft, settings, now).then(|| draft.size())
            }
        }
    }

    /// Marks the next batch as sent and hands out its id and bytes. Call it only if
    /// [`Queue::next_size`] allows.
    pub(super) fn take(
        &mut self,
        identity: Option<Identity>,
        token: SendToken,
        effects: &mut Effects,
    ) -> Option<(u64, Bytes)> {
        let to = self.leader?;
        if let Some(batch) = self.sealed.iter_mut().find(|batch| !batch.is_out()) {
            batch.flight = Flight::Out { token, to };
            effects.counts.retries += 1;
            return Some((batch.id, batch.bytes.clone()));
        }
        if self.sealed.is_empty() && self.identity != identity {
            self.adopt(identity);
        }
        let draft = self.drafts.pop_front()?;
        self.flushing &= !self.drafts.is_empty();
        let seal = Seal {
            identity: self.identity,
            sequence: self.sequence,
        };
        self.next_id += 1;
        match draft.seal(self.next_id, seal) {
            Ok(mut batch) => {
                self.sequence = seal.behind(batch.tokens.len()).sequence;
                batch.flight = Flight::Out { token, to };
                let sent = (batch.id, batch.bytes.clone());
                self.sealed.push_back(batch);
                Some(sent)
            }
            Err((tokens, error)) => {
                give_up(tokens, 0, &ProduceError::Invalid(error), effects);
                None
            }
        }
    }

    /// Begins the sequence anew under `identity`; nothing may be in flight. What is left goes
    /// again, in order.
    pub(super) fn begin_anew(
        &mut self,
        identity: Option<Identity>,
        settings: &Settings,
        effects: &mut Effects,
    ) {
        let bumped = self.restart == Restart::Bump;
        self.adopt(identity);
        for mut batch in std::mem::take(&mut self.sealed) {
            if bumped && batch.outcome == Outcome::Unknown {
                if settings.kind == Kind::Changelog {
                    let error = ProduceError::OutcomeUnknown;
                    give_up(batch.tokens, batch.held, &error, effects);
                    continue;
                }
                effects.counts.possible_duplicates += 1;
            }
            let seal = Seal {
                identity,
                sequence: self.sequence,
            };
            batch.reseal(seal);
            self.sequence = seal.behind(batch.tokens.len()).sequence;
            self.sealed.push_back(batch);
        }
    }

    /// Gives up what the delivery timeout has reached. A batch in flight is only marked: its
    /// answer, or the end of its connection, tells what became of it.
    pub(super) fn expire(&mut self, settings: &Settings, now: Moment, effects: &mut Effects) {
        if let Some((broker, until)) = self.drain
            && until <= now
        {
            self.drain = None;
            if self
                .sealed
                .iter()
                .any(|batch| batch.out_to() == Some(broker))
            {
                effects.outputs.push_back(Output::Abandon { broker });
            }
        }
        let Some(timeout) = settings.give_up_after() else {
            return;
        };
        for batch in &mut self.sealed {
            batch.expired |= batch.since + timeout <= now;
        }
        while let Some(index) = self.sealed.iter().position(|it| it.expired && !it.is_out()) {
            self.give_up_sealed(index, None, settings, effects);
        }
        while self
            .drafts
            .front()
            .is_some_and(|draft| draft.since + timeout <= now)
        {
            let draft = self.drafts.pop_front();
            let (tokens, held) = draft.map(Draft::into_parts).unwrap_or_default();
            give_up(tokens, held, &ProduceError::Timeout, effects);
        }
        self.flushing &= !self.drafts.is_empty();
    }

    /// Gives up all that was not sealed.
    pub(super) fn give_up_drafts(&mut self, error: &ProduceError, effects: &mut Effects) {
        for draft in std::mem::take(&mut self.drafts) {
            let (tokens, held) = draft.into_parts();
            give_up(tokens, held, error, effects);
        }
        self.flushing = false;
    }

    /// Gives up a sealed batch with `error`, or for want of time; in doubt if it may have been
    /// written. Its sequence range becomes a gap.
    pub(super) fn give_up_sealed(
        &mut self,
        index: usize,
        error: Option<ProduceError>,
        settings: &Settings,
        effects: &mut Effects,
    ) {
        let Some(batch) = self.sealed.remove(index) else {
            return;
        };
        // What is in doubt stays so until it is known to be written: a refusal speaks of its own
        // attempt only.
        let error = match batch.outcome {
            Outcome::NotWritten => error.unwrap_or(ProduceError::Timeout),
            Outcome::Unknown | Outcome::Written => ProduceError::OutcomeUnknown,
        };
        give_up(batch.tokens, batch.held, &error, effects);
        self.mark_gap(settings);
    }

    /// A part of the sequence will never be written.
    pub(super) fn mark_gap(&mut self, settings: &Settings) {
        if settings.idempotent {
            self.restart = Restart::Bump;
        }
    }

    /// The next moment at which something is due by time alone.
    pub(super) fn next_deadline(&self, settings: &Settings, now: Moment) -> Option<Moment> {
        let timeout = settings.give_up_after();
        let draft = self.drafts.front();
        let linger = draft.map(|draft| draft.since + settings.linger);
        let oldest = draft.and_then(|draft| Some(draft.since + timeout?));
        let sealed = self.sealed.iter().filter(|batch| !batch.expired);
        let expiry = sealed
            .filter_map(|batch| Some(batch.since + timeout?))
            .min();
        let retry = self.sealed.iter().find_map(|batch| match batch.flight {
            Flight::Out { .. } => None,
            Flight::Waiting { until } => Some(until),
        });
        let drain = self.drain.map(|(_, until)| until);
        // What is due already waits for an answer, a leader or a slot, and not for time.
        let due = [linger, oldest, expiry, retry, drain].into_iter().flatten();
        due.filter(|due| *due > now).min()
    }

    fn is_ripe(&self, draft: &Draft, settings: &Settings, now: Moment) -> bool {
        self.flushing
            || self.drafts.len() > 1
            || draft.size() >= settings.batch_bytes
            || draft.since + settings.linger <= now
    }

    fn adopt(&mut self, identity: Option<Identity>) {
        self.identity = identity;
        self.sequence = 0;
        self.proven = false;
        self.restart = Restart::No;
    }
}

/// Fails every record of a batch with one error.
pub(super) fn give_up(
    tokens: Vec<RecordToken>,
    held: usize,
    error: &ProduceError,
    effects: &mut Effects,
) {
    effects.released += held;
    for token in tokens {
        effects.counts.failed += 1;
        effects.outputs.push_back(Output::Failed {
            token,
            error: error.clone(),
        });
    }
}
