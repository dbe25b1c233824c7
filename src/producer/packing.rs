//! Requests: several partitions' batches to one broker, one batch per partition (wire.md 10.1).

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::{Hint, HintLot};
use crate::ids::{BrokerId, PartitionIndex, TopicId, TopicIncarnation, TopicPartition};
use crate::wire::ErrorCode;
use crate::wire::api::TopicRef;
use crate::wire::api::produce::{Partition, Produced, Request, Response};

use super::message::SendToken;
use super::settings::Settings;

/// A request without an answer yet.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) broker: BrokerId,
    pub(super) rows: Vec<SentRow>,
}

/// One batch of a request.
#[derive(Debug)]
pub(super) struct SentRow {
    /// Index of its queue.
    pub(super) queue: usize,
    /// Id of the batch in that queue.
    pub(super) batch: u64,
    pub(super) partition: TopicPartition,
    pub(super) topic_id: Option<TopicId>,
    pub(super) incarnation: TopicIncarnation,
}

/// Requests in flight, by token and by broker.
#[derive(Debug, Default)]
pub(super) struct Flights {
    sent: BTreeMap<SendToken, Sent>,
    by_broker: BTreeMap<BrokerId, usize>,
    /// Queues that found no free place at a broker.
    blocked: BTreeMap<BrokerId, BTreeSet<usize>>,
}

impl Flights {
    /// Whether one more request may go to `broker`.
    pub(super) fn has_room(&self, broker: BrokerId, settings: &Settings) -> bool {
        self.by_broker.get(&broker).copied().unwrap_or(0) < settings.in_flight
    }

    /// Remembers that `queue` waits for a place at `broker`.
    pub(super) fn block(&mut self, broker: BrokerId, queue: usize) {
        self.blocked.entry(broker).or_default().insert(queue);
    }

    pub(super) fn begin(&mut self, token: SendToken, sent: Sent) {
        *self.by_broker.entry(sent.broker).or_default() += 1;
        self.sent.insert(token, sent);
    }

    /// Ends request `token`: what was sent, and the queues that waited for its place.
    pub(super) fn end(&mut self, token: SendToken) -> Option<(Sent, BTreeSet<usize>)> {
        let sent = self.sent.remove(&token)?;
        if let Some(count) = self.by_broker.get_mut(&sent.broker) {
            *count -= 1;
            if *count == 0 {
                self.by_broker.remove(&sent.broker);
            }
        }
        let waited = self.blocked.remove(&sent.broker).unwrap_or_default();
        Some((sent, waited))
    }
}

/// An empty request with the settings all requests share.
pub(super) fn request(settings: &Settings, partitions: Vec<Partition>) -> Request {
    Request {
        transactional_id: None,
        transactions_v2: false,
        acks: settings.acks,
        timeout: settings.request_timeout,
        partitions,
    }
}

/// The rows of an answer by partition, under the topic's name or id as the broker gave it.
pub(super) fn rows_of(response: &Response) -> BTreeMap<(&TopicRef, PartitionIndex), &Produced> {
    response
        .partitions
        .iter()
        .map(|row| ((&row.topic, row.partition), row))
        .collect()
}

/// The row about `sent`, if the answer has one.
pub(super) fn row_about<'a>(
    rows: &BTreeMap<(&TopicRef, PartitionIndex), &'a Produced>,
    sent: &SentRow,
) -> Option<&'a Produced> {
    let index = sent.partition.partition;
    let by_id = sent.topic_id.map(TopicRef::Id);
    let by_id = by_id.and_then(|id| rows.get(&(&id, index)).copied());
    by_id.or_else(|| {
        rows.get(&(&TopicRef::Name(sent.partition.topic.clone()), index))
            .copied()
    })
}

/// The new leaders that an answer names (KIP-951), if any.
pub(super) fn hints_of(sent: &Sent, response: &Response) -> Option<HintLot> {
    let moved = |row: &Produced| {
        matches!(
            row.error,
            ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::FENCED_LEADER_EPOCH
        )
    };
    let rows = rows_of(response);
    let hints: Vec<_> = sent
        .rows
        .iter()
        .filter_map(|about| {
            let row = row_about(&rows, about).filter(|row| moved(row))?;
            let current = row.current_leader?;
            Some(Hint {
                partition: about.partition.clone(),
                topic_id: about.topic_id,
                incarnation: about.incarnation,
                code: row.error,
                leader: current.leader,
                epoch: current.epoch,
            })
        })
        .collect();
    (!hints.is_empty()).then(|| HintLot {
        from: sent.broker,
        hints,
        endpoints: response.endpoints.clone(),
    })
}
