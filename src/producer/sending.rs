//! Sending: which queues may send, and how their batches share requests.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::cluster::{Reason, Want};
use crate::ids::{BrokerId, Moment};
use crate::wire::api::produce;

use super::leaders::Leaders;
use super::machine::Producer;
use super::message::{Output, SendToken};
use super::packing::{Sent, SentRow, request};
use super::queue::{Queue, Restart};

impl Producer {
    /// Sends whatever the queues looked at in this step may send, a batch of each per round.
    pub(super) fn pump(&mut self, leaders: &dyn Leaders, now: Moment) {
        let mut round = std::mem::take(&mut self.dirty);
        while !round.is_empty() {
            let mut lots: BTreeMap<BrokerId, Vec<usize>> = BTreeMap::new();
            for index in std::mem::take(&mut round) {
                if let Some(broker) = self.prepare(index, leaders, now) {
                    lots.entry(broker).or_default().push(index);
                }
            }
            for (broker, queues) in lots {
                self.send_lot((broker, &queues), leaders, now, &mut round);
            }
        }
    }

    /// Brings one queue up to date; the broker to send to if it has a batch to send.
    fn prepare(&mut self, index: usize, leaders: &dyn Leaders, now: Moment) -> Option<BrokerId> {
        let (settings, effects) = (&self.settings, &mut self.effects);
        let queue = self.queues.get_mut(index)?;
        queue.reincarnate(leaders.incarnation(&queue.partition.topic));
        let leader = leaders.leader(&queue.partition);
        queue.follow(leader, settings, now, effects);
        queue.expire(settings, now, effects);
        if queue.restart != Restart::No && queue.out_count() == 0 {
            self.begin_anew(index);
        }
        let (settings, effects) = (&self.settings, &mut self.effects);
        let queue = self.queues.get_mut(index)?;
        self.deadlines
            .set(index, queue.next_deadline(settings, now));
        if queue.is_idle() {
            return None;
        }
        if leader.is_none() && !std::mem::replace(&mut queue.asked, true) {
            let failed = queue.led.and_then(|leader| leader.epoch);
            let want = Want::Leader {
                partition: queue.partition.clone(),
                failed,
            };
            effects.outputs.push_back(Output::Refresh {
                reason: Reason::NotHosted,
                want,
            });
        }
        let ready = queue.next_size(settings, now).is_some();
        if settings.idempotent && self.identity.current().is_none() {
            self.ask_identity(now);
            return None;
        }
        leader.filter(|_| ready).map(|leader| leader.broker)
    }

    /// Restarts a sequence, under a higher epoch where that is needed and nobody raised it already.
    fn begin_anew(&mut self, index: usize) {
        let Some(queue) = self.queues.get_mut(index) else {
            return;
        };
        if queue.restart == Restart::Bump && queue.identity() == self.identity.current() {
            self.identity.bump();
            self.effects.counts.epoch_bumps += 1;
        }
        if let Some(identity) = self.identity.current() {
            queue.begin_anew(Some(identity), &self.settings, &mut self.effects);
        }
    }

    fn ask_identity(&mut self, now: Moment) {
        let token = SendToken(self.next_token);
        if let Some(request) = self.identity.ask(token, now) {
            self.next_token += 1;
            self.effects
                .outputs
                .push_back(Output::Identify { request, token });
        }
    }

    /// Sends one batch of each of `queues` to `broker`, in as few requests as they fit.
    /// Those that sent come back in `moved`; those that found no room wait for an answer.
    fn send_lot(
        &mut self,
        (broker, queues): (BrokerId, &[usize]),
        leaders: &dyn Leaders,
        now: Moment,
        moved: &mut BTreeSet<usize>,
    ) {
        let mut draft = RequestDraft::default();
        for index in queues.iter().copied() {
            let Some(queue) = self.queues.get_mut(index) else {
                continue;
            };
            let Some(next) = queue.next_size(&self.settings, now) else {
                continue;
            };
            if !draft.rows.is_empty() && draft.size + next > self.settings.request_bytes {
                self.dispatch(broker, std::mem::take(&mut draft));
            }
            if draft.rows.is_empty() && !self.flights.has_room(broker, &self.settings) {
                self.flights.block(broker, index);
                continue;
            }
            let token = SendToken(self.next_token);
            let Some(queue) = self.queues.get_mut(index) else {
                continue;
            };
            moved.insert(index);
            let taken = queue.take(self.identity.current(), token, &mut self.effects);
            let Some((batch, records)) = taken else {
                continue;
            };
            draft.add(index, batch, queue, records, leaders);
            self.deadlines
                .set(index, queue.next_deadline(&self.settings, now));
        }
        if !draft.rows.is_empty() {
            self.dispatch(broker, draft);
        }
    }

    fn dispatch(&mut self, broker: BrokerId, draft: RequestDraft) {
        let token = SendToken(self.next_token);
        self.next_token += 1;
        let request = request(&self.settings, draft.partitions);
        self.flights.begin(
            token,
            Sent {
                broker,
                rows: draft.rows,
            },
        );
        self.effects.outputs.push_back(Output::Send {
            broker,
            request,
            token,
        });
    }
}

/// A request in the making.
#[derive(Debug, Default)]
struct RequestDraft {
    rows: Vec<SentRow>,
    partitions: Vec<produce::Partition>,
    size: usize,
}

impl RequestDraft {
    fn add(
        &mut self,
        index: usize,
        batch: u64,
        queue: &Queue,
        records: Bytes,
        leaders: &dyn Leaders,
    ) {
        let partition = queue.partition.clone();
        let topic_id = leaders.topic_id(&partition.topic);
        self.size += records.len();
        self.partitions.push(produce::Partition {
            topic: partition.topic.clone(),
            topic_id,
            partition: partition.partition,
            records,
        });
        let incarnation = queue.incarnation;
        self.rows.push(SentRow {
            queue: index,
            batch,
            partition,
            topic_id,
            incarnation,
        });
    }
}
