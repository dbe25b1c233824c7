//! Produce (0), versions 3-13.
//!
//! - 8 record errors (KIP-467); 9 flexible; 10 current leader and endpoints on code 6 (KIP-951); 13
//!   topic ids.
//! - One v2 batch per partition. `acks=0` has no answer: an error closes the connection.
//! - A repeated batch among the last five of its producer is acknowledged with its first offset.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::produce_response::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{BrokerId as WireBroker, ProduceRequest, ProduceResponse};
use kafka_protocol::protocol::StrBytes;

use super::super::ConnectionId;
use super::super::batch::{BadBatch, Header};
use super::super::call::{Call, Reply};
use super::super::cluster::Cluster;
use super::super::connection::State;
use super::super::partition::Partition;
use super::super::topics::PartitionKey;
use crate::ids::{BrokerId, Moment, TopicPartition};

/// What a partition remembers of one idempotent producer (KIP-98).
#[derive(Clone, Debug, Default)]
pub(in super::super) struct ProducerState {
    epoch: i16,
    /// First sequence, last sequence and base offset of its last batches, oldest first.
    batches: VecDeque<(i32, i32, i64)>,
}

/// A Produce that waits for the in-sync replicas.
#[derive(Debug)]
pub(in super::super) struct Waiting {
    pub(in super::super) due: Moment,
    call: Call,
    response: ProduceResponse,
    /// Rows not yet replicated, by their place in the response.
    pending: Vec<Pending>,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    topic: usize,
    row: usize,
    key: PartitionKey,
    /// High watermark that acknowledges it.
    required: i64,
}

pub(super) fn handle(cluster: &mut Cluster, call: &Call, request: &ProduceRequest) -> Reply {
    let acks = request.acks;
    let mut response = ProduceResponse::default().with_throttle_time_ms(call.throttle_ms());
    let mut pending = Vec::new();
    for (topic_at, topic) in request.topic_data.iter().enumerate() {
        let (name, id) = (topic.name.clone(), topic.topic_id);
        let index = if id.is_nil() {
            cluster.topics.index_by_name(&name)
        } else {
            cluster.topics.index_by_id(&id)
        };
        let mut rows = Vec::new();
        for (row_at, data) in topic.partition_data.iter().enumerate() {
            let key = index.and_then(|index| cluster.topics.key_in(index, data.index));
            let records = data.records.clone().unwrap_or_default();
            let outcome = match key {
                Some(key) => write(cluster, call, key, acks, records),
                None if id.is_nil() => Err(ResponseError::UnknownTopicOrPartition.code()),
                None => Err(ResponseError::UnknownTopicId.code()),
            };
            if let (Ok(written), Some(key)) = (&outcome, key) {
                let required = written.required;
                pending.push(Pending {
                    topic: topic_at,
                    row: row_at,
                    key,
                    required,
                });
            }
            rows.push(row(cluster, call, key, data.index, outcome));
        }
        response.responses.push(
            TopicProduceResponse::default()
                .with_name(name)
                .with_topic_id(id)
                .with_partition_responses(rows),
        );
    }
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    conclude(cluster, call, acks, response, pending, timeout)
}

fn conclude(
    cluster: &mut Cluster,
    call: &Call,
    acks: i16,
    mut response: ProduceResponse,
    pending: Vec<Pending>,
    timeout: Duration,
) -> Reply {
    response.node_endpoints = endpoints(cluster, call, &response);
    let mut waiting = Waiting {
        due: cluster.now + timeout,
        call: call.clone(),
        response,
        pending,
    };
    match acks {
        0 if waiting.failed() => Reply::Close,
        0 => Reply::Nothing,
        -1 => {
            waiting.settle(cluster);
            if waiting.pending.is_empty() {
                return call.answer(&waiting.response);
            }
            cluster.producing.insert(call.connection);
            cluster.set_state(call.connection, State::Producing(Box::new(waiting)));
            Reply::Parked
        }
        _ => call.answer(&waiting.response),
    }
}

/// The partition's watermark or leader moved: produces that wait for it may be done.
pub(in super::super) fn wake(cluster: &mut Cluster, key: PartitionKey) {
    let parked: Vec<ConnectionId> = cluster.producing.iter().copied().collect();
    for connection in parked {
        let Some(open) = cluster.connections.get(&connection) else {
            continue;
        };
        let runs = cluster
            .brokers
            .get(&open.broker)
            .is_some_and(|broker| broker.runs());
        let concerned = match &open.state {
            State::Producing(waiting) => waiting.pending.iter().any(|row| row.key == key),
            State::Idle
            | State::Answering { .. }
            | State::Fetching(_)
            | State::Grouping
            | State::Muted(_)
            | State::Stuck => false,
        };
        if !concerned || !runs {
            continue;
        }
        if let Some(State::Producing(mut waiting)) = cluster.replace_state(connection, State::Idle)
        {
            waiting.settle(cluster);
            if waiting.pending.is_empty() {
                finish(cluster, *waiting);
            } else {
                cluster.set_state(connection, State::Producing(waiting));
            }
        }
    }
}

/// The request's timeout passed before the in-sync replicas had everything.
pub(in super::super) fn expire(cluster: &mut Cluster, mut waiting: Waiting) {
    waiting.settle(cluster);
    for pending in std::mem::take(&mut waiting.pending) {
        waiting.fail(pending, ResponseError::RequestTimedOut);
    }
    finish(cluster, waiting);
}

fn finish(cluster: &mut Cluster, mut waiting: Waiting) {
    cluster.producing.remove(&waiting.call.connection);
    waiting.response.node_endpoints = endpoints(cluster, &waiting.call, &waiting.response);
    let reply = waiting.call.answer(&waiting.response);
    cluster.complete(&waiting.call, reply);
}

impl Waiting {
    /// Drops the rows that are replicated, and fails those whose leader moved away.
    fn settle(&mut self, cluster: &Cluster) {
        for pending in std::mem::take(&mut self.pending) {
            let partition = cluster.topics.partition(pending.key);
            match partition.filter(|partition| partition.is_leader(self.call.broker)) {
                None => self.fail(pending, ResponseError::NotLeaderOrFollower),
                Some(partition) if partition.high_watermark() < pending.required => {
                    self.pending.push(pending);
                }
                Some(_) => {}
            }
        }
    }

    fn fail(&mut self, at: Pending, error: ResponseError) {
        let topic = self.response.responses.get_mut(at.topic);
        if let Some(row) = topic.and_then(|topic| topic.partition_responses.get_mut(at.row)) {
            row.error_code = error.code();
            row.base_offset = -1;
        }
    }

    fn failed(&self) -> bool {
        let rows = self
            .response
            .responses
            .iter()
            .flat_map(|topic| &topic.partition_responses);
        rows.into_iter().any(|row| row.error_code != 0)
    }
}

#[derive(Debug)]
struct Written {
    base_offset: i64,
    required: i64,
}

fn write(
    cluster: &mut Cluster,
    call: &Call,
    key: PartitionKey,
    acks: i16,
    records: Bytes,
) -> Result<Written, i16> {
    let at: Option<TopicPartition> = cluster.topics.partition(key).map(|p| p.at.clone());
    if let Some(code) = at.and_then(|at| cluster.faults.row_error(call, &at)) {
        return Err(code);
    }
    let size_max = cluster.settings.message_bytes_max;
    let in_sync_min = if acks == -1 {
        cluster.settings.min_in_sync
    } else {
        0
    };
    let Some(partition) = cluster.topics.partition_mut(key) else {
        return Err(ResponseError::UnknownTopicOrPartition.code());
    };
    if !partition.is_leader(call.broker) {
        return Err(ResponseError::NotLeaderOrFollower.code());
    }
    if partition.isr.len() < in_sync_min {
        return Err(ResponseError::NotEnoughReplicas.code());
    }
    let header = check_batch(&records, size_max).map_err(|error| error.code())?;
    let first = partition.log.end();
    match partition
        .sequence(&header, first)
        .map_err(|error| error.code())?
    {
        Some(base_offset) => Ok(Written {
            base_offset,
            required: base_offset,
        }),
        None => {
            let base = cluster.append_batches(key, records);
            let base = base.map_err(|_| ResponseError::CorruptMessage.code())?;
            cluster.appended(key);
            let end = cluster
                .topics
                .partition(key)
                .map_or(0, |partition| partition.log.end());
            Ok(Written {
                base_offset: base.0,
                required: end,
            })
        }
    }
}

/// Exactly one whole batch that verifies.
fn check_batch(records: &Bytes, size_max: usize) -> Result<Header, ResponseError> {
    let of_bad = |bad: BadBatch| match bad {
        BadBatch::Corrupt => ResponseError::CorruptMessage,
        BadBatch::OldMagic => ResponseError::UnsupportedForMessageFormat,
    };
    if records.is_empty() {
        return Err(ResponseError::InvalidRecord);
    }
    let header = Header::read(records).map_err(of_bad)?;
    if header.size > size_max {
        return Err(ResponseError::MessageTooLarge);
    }
    if header.size != records.len() {
        return Err(ResponseError::InvalidRecord);
    }
    header.verify(records).map_err(of_bad)?;
    Ok(header)
}

impl Partition {
    /// Batches remembered per producer, as a broker does.
    const BATCHES_KEPT: usize = 5;

    /// Checks and notes the sequence of a batch that would start at `offset`: `Some` is the offset
    /// of a batch that was written before, `None` says to write it.
    fn sequence(&mut self, header: &Header, offset: i64) -> Result<Option<i64>, ResponseError> {
        if header.producer_id < 0 {
            return Ok(None);
        }
        let (first, last) = (
            header.base_sequence,
            step(header.base_sequence, header.last_delta),
        );
        let fresh = !self.producers.contains_key(&header.producer_id);
        let state = self.producers.entry(header.producer_id).or_default();
        if fresh {
            state.epoch = header.producer_epoch;
        }
        if header.producer_epoch < state.epoch {
            return Err(ResponseError::InvalidProducerEpoch);
        }
        if header.producer_epoch > state.epoch {
            if first != 0 {
                return Err(ResponseError::OutOfOrderSequenceNumber);
            }
            *state = ProducerState {
                epoch: header.producer_epoch,
                ..ProducerState::default()
            };
        }
        if let Some(&(.., known)) = state.batches.iter().find(|b| (b.0, b.1) == (first, last)) {
            return Ok(Some(known));
        }
        let expected = state
            .batches
            .back()
            .map(|&(_, previous, _)| step(previous, 1));
        if expected.is_some_and(|expected| expected != first) {
            let oldest = state.batches.front().map_or(0, |&(oldest, ..)| oldest);
            let repeats = last < oldest;
            return Err(if repeats {
                ResponseError::DuplicateSequenceNumber
            } else {
                ResponseError::OutOfOrderSequenceNumber
            });
        }
        state.batches.push_back((first, last, offset));
        if state.batches.len() > Self::BATCHES_KEPT {
            state.batches.pop_front();
        }
        Ok(None)
    }
}

impl ProducerState {
    /// Forgets batches from `offset` on: they were truncated.
    pub(in super::super) fn truncate(&mut self, offset: i64) {
        self.batches
            .retain(|&(.., base_offset)| base_offset < offset);
    }
}

/// Sequences wrap from `i32::MAX` to 0.
fn step(sequence: i32, by: i32) -> i32 {
    sequence
        .checked_add(by)
        .unwrap_or_else(|| by - (i32::MAX - sequence) - 1)
}

fn row(
    cluster: &Cluster,
    call: &Call,
    key: Option<PartitionKey>,
    index: i32,
    outcome: Result<Written, i16>,
) -> PartitionProduceResponse {
    let partition = key.and_then(|key| cluster.topics.partition(key));
    let row = PartitionProduceResponse::default()
        .with_index(index)
        .with_log_start_offset(partition.map_or(-1, |partition| partition.log.start()))
        .with_log_append_time_ms(-1);
    match outcome {
        Ok(written) => row.with_base_offset(written.base_offset),
        Err(code) => {
            let row = row.with_error_code(code).with_base_offset(-1);
            let moved = call.version >= 10 && code == ResponseError::NotLeaderOrFollower.code();
            match partition.filter(|_| moved) {
                Some(partition) => row.with_current_leader(current_leader(partition)),
                None => row,
            }
        }
    }
}

fn current_leader(partition: &Partition) -> LeaderIdAndEpoch {
    LeaderIdAndEpoch::default()
        .with_leader_id(WireBroker(partition.leader.map_or(-1, |leader| leader.0)))
        .with_leader_epoch(partition.epoch)
}

/// Endpoints of the leaders that the rows name (KIP-951).
fn endpoints(cluster: &Cluster, call: &Call, response: &ProduceResponse) -> Vec<NodeEndpoint> {
    if call.version < 10 {
        return Vec::new();
    }
    let rows = response
        .responses
        .iter()
        .flat_map(|topic| &topic.partition_responses);
    let named: BTreeSet<i32> = rows.map(|row| row.current_leader.leader_id.0).collect();
    let known = named
        .into_iter()
        .filter_map(|id| cluster.brokers.get(&BrokerId(id)));
    let endpoint = |broker: &super::super::broker::Broker| {
        let rack = broker.settings.rack.as_ref();
        NodeEndpoint::default()
            .with_node_id(WireBroker(broker.settings.id.0))
            .with_host(StrBytes::from_string(broker.settings.host.clone()))
            .with_port(i32::from(broker.settings.port))
            .with_rack(rack.map(|rack| StrBytes::from_string(rack.to_string())))
    };
    known
        .filter(|broker| !broker.fenced)
        .map(endpoint)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(first: i32, count: i32, epoch: i16) -> Header {
        Header {
            size: Header::BYTES,
            base_offset: 0,
            last_delta: count - 1,
            max_timestamp: 0,
            producer_id: 7,
            producer_epoch: epoch,
            base_sequence: first,
        }
    }

    fn partition() -> Partition {
        Partition::new(TopicPartition::new("t", 0), &[BrokerId(1)], Moment::ZERO)
    }

    #[test]
    fn a_repeated_batch_is_acknowledged_with_its_first_offset() {
        let mut partition = partition();
        assert_eq!(partition.sequence(&header(0, 3, 0), 10), Ok(None));
        assert_eq!(partition.sequence(&header(3, 2, 0), 13), Ok(None));
        assert_eq!(partition.sequence(&header(0, 3, 0), 15), Ok(Some(10)));
    }

    #[test]
    fn a_gap_is_out_of_order_and_a_forgotten_repeat_is_a_duplicate() {
        let mut partition = partition();
        for n in 0..7 {
            assert_eq!(partition.sequence(&header(n, 1, 0), i64::from(n)), Ok(None));
        }
        let gap = partition.sequence(&header(9, 1, 0), 7);
        assert_eq!(gap, Err(ResponseError::OutOfOrderSequenceNumber));
        let old = partition.sequence(&header(0, 1, 0), 7);
        assert_eq!(old, Err(ResponseError::DuplicateSequenceNumber));
    }

    #[test]
    fn a_new_epoch_starts_at_zero_and_fences_the_old_one() {
        let mut partition = partition();
        assert_eq!(partition.sequence(&header(0, 5, 1), 0), Ok(None));
        let late = partition.sequence(&header(5, 1, 0), 5);
        assert_eq!(late, Err(ResponseError::InvalidProducerEpoch));
        let wrong = partition.sequence(&header(5, 1, 2), 5);
        assert_eq!(wrong, Err(ResponseError::OutOfOrderSequenceNumber));
        assert_eq!(partition.sequence(&header(0, 1, 2), 5), Ok(None));
    }

    #[test]
    fn sequences_wrap_to_zero() {
        let mut partition = partition();
        assert_eq!(partition.sequence(&header(i32::MAX - 1, 4, 0), 0), Ok(None));
        assert_eq!(partition.sequence(&header(2, 1, 0), 4), Ok(None));
    }
}
