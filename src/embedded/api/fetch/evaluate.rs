//! What a broker would answer to a Fetch right now, row by row.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use kafka_protocol::ResponseError;

use super::super::super::batch::Header;
use super::super::super::call::Call;
use super::super::super::cluster::Cluster;
use super::super::super::faults::{RowEdit, RowFacts};
use super::super::super::partition::Partition;
use super::super::super::topics::PartitionKey;
use super::session::{Row, Rows};
use super::{Terms, select};
use crate::ids::{BrokerId, Offset};

/// The rows worth sending, and whether they may be sent at once.
#[derive(Debug, Default)]
pub(super) struct Evaluation {
    pub(super) rows: Vec<RowAnswer>,
    pub(super) bytes: u64,
    /// An error, a hint, a divergence, or nothing to wait for.
    pub(super) at_once: bool,
    pub(super) ready: BTreeMap<PartitionKey, u64>,
}

/// The answer for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowAnswer {
    pub(super) order: u64,
    pub(super) code: i16,
    pub(super) high_watermark: i64,
    pub(super) last_stable_offset: i64,
    pub(super) log_start: i64,
    pub(super) hint: Option<BrokerId>,
    pub(super) diverging: Option<(i32, i64)>,
    pub(super) current_leader: Option<(i32, i32)>,
    pub(super) records: Bytes,
    omit: bool,
}

/// Looks at every row in order, within the request's byte limits.
pub(super) fn evaluate(
    cluster: &mut Cluster,
    call: &Call,
    terms: &Terms,
    rows: &mut Rows,
) -> Evaluation {
    rows.resolve(&cluster.topics);
    let edited = cluster.faults.touches_fetch_rows();
    let mut evaluation = Evaluation::default();
    let mut fetchable = false;
    for (order, row) in rows.iter() {
        let budget = terms.bytes_max.saturating_sub(evaluation.bytes);
        let first = evaluation.bytes == 0;
        let mut answer = evaluate_row(cluster, call.broker, terms, (order, row), budget, first);
        let edits = if edited {
            edits(cluster, call, terms, row)
        } else {
            Vec::new()
        };
        for edit in &edits {
            answer.apply(edit);
        }
        // Rows of unknown topics never shorten the wait of the others.
        let known = row.key.is_some() || !edits.is_empty();
        fetchable |= known;
        evaluation.at_once |= known && answer.cannot_wait();
        evaluation.at_once |= edits.iter().any(|edit| edit.at_once);
        if answer.omit && terms.incremental {
            continue;
        }
        let size = u64::try_from(answer.records.len()).unwrap_or(u64::MAX);
        evaluation.bytes = evaluation.bytes.saturating_add(size);
        if let Some(key) = row.key.filter(|_| size > 0) {
            evaluation.ready.insert(key, size);
        }
        if !terms.incremental || answer.is_news(row) {
            evaluation.rows.push(answer);
        }
    }
    evaluation.at_once |= !fetchable;
    evaluation
}

fn evaluate_row(
    cluster: &mut Cluster,
    broker: BrokerId,
    terms: &Terms,
    (order, row): (u64, &Row),
    budget: u64,
    first: bool,
) -> RowAnswer {
    let Some(partition) = row.key.and_then(|key| cluster.topics.partition(key)) else {
        return RowAnswer::failed(order, row.topic.unknown());
    };
    if let Err(error) = check_role(partition, broker, terms.version, row.asked.current_epoch) {
        return RowAnswer::failed(order, error).with_leader(partition, terms.version);
    }
    let (high_watermark, end) = partition.bounds(broker).unwrap_or((0, 0));
    let log_start = partition.log.start();
    let stable = partition.stable_below(high_watermark);
    let visible = if terms.committed {
        stable
    } else {
        high_watermark
    };
    let served = RowAnswer {
        last_stable_offset: stable,
        ..RowAnswer::served(order, high_watermark, log_start)
    };
    let asked = row.asked;
    if terms.version >= 11 && partition.is_leader(broker) {
        let hint = select::preferred(cluster, partition, terms.rack.as_ref(), asked.offset);
        if hint.is_some() {
            return RowAnswer { hint, ..served };
        }
    }
    if terms.version >= 12 && asked.last_fetched_epoch >= 0 {
        match partition.end_of_epoch(asked.last_fetched_epoch, end) {
            None => return RowAnswer::failed(order, ResponseError::OffsetOutOfRange),
            Some((epoch, epoch_end))
                if epoch < asked.last_fetched_epoch || epoch_end < asked.offset =>
            {
                return RowAnswer {
                    diverging: Some((epoch, epoch_end)),
                    ..served
                };
            }
            Some(_) => {}
        }
    }
    if asked.offset < log_start || asked.offset > end {
        return RowAnswer::failed(order, ResponseError::OffsetOutOfRange);
    }
    let limit = u64::try_from(asked.bytes_max).unwrap_or(0).min(budget);
    let log = row
        .key
        .and_then(|key| cluster.topics.partition_mut(key))
        .map(|p| &mut p.log);
    let records = log.map(|log| log.read(asked.offset, visible, limit, first));
    RowAnswer {
        records: records.unwrap_or_default(),
        ..served
    }
}

/// Hosting first, then the epoch (F8), then the role (F5), as a broker checks them.
fn check_role(
    partition: &Partition,
    broker: BrokerId,
    version: i16,
    current_epoch: i32,
) -> Result<(), ResponseError> {
    if partition.replica(broker).is_none() {
        return Err(ResponseError::NotLeaderOrFollower);
    }
    if current_epoch >= 0 && current_epoch < partition.epoch {
        return Err(ResponseError::FencedLeaderEpoch);
    }
    if current_epoch > partition.epoch {
        return Err(ResponseError::UnknownLeaderEpoch);
    }
    if version < 11 && !partition.is_leader(broker) {
        return Err(ResponseError::NotLeaderOrFollower);
    }
    Ok(())
}

fn edits(cluster: &mut Cluster, call: &Call, terms: &Terms, row: &Row) -> Vec<RowEdit> {
    let name = row.topic.name(&cluster.topics);
    let partition = crate::ids::TopicPartition::new(name, row.partition);
    let leader = row
        .key
        .and_then(|key| cluster.topics.partition(key))
        .is_some_and(|partition| partition.is_leader(call.broker));
    cluster.faults.row_edits(&RowFacts {
        broker: call.broker,
        partition: &partition,
        offset: Offset(row.asked.offset),
        rack: terms.rack.as_ref(),
        version: terms.version,
        leader,
        incremental: terms.incremental,
    })
}

impl RowAnswer {
    fn served(order: u64, high_watermark: i64, log_start: i64) -> Self {
        Self {
            order,
            code: 0,
            high_watermark,
            last_stable_offset: high_watermark,
            log_start,
            hint: None,
            diverging: None,
            current_leader: None,
            records: Bytes::new(),
            omit: false,
        }
    }

    /// An error row: F10, no bounds.
    fn failed(order: u64, error: ResponseError) -> Self {
        Self {
            code: error.code(),
            ..Self::served(order, -1, -1)
        }
    }

    /// KIP-951: codes 6 and 74 name the leader from version 16 on, followers included.
    fn with_leader(mut self, partition: &Partition, version: i16) -> Self {
        let named = self.code == ResponseError::NotLeaderOrFollower.code()
            || self.code == ResponseError::FencedLeaderEpoch.code();
        if version >= 16 && named {
            let leader = partition.leader.map_or(-1, |leader| leader.0);
            self.current_leader = Some((leader, partition.epoch));
        }
        self
    }

    fn apply(&mut self, edit: &RowEdit) {
        if let Some(code) = edit.error {
            self.code = code;
            if code != 0 {
                (self.high_watermark, self.last_stable_offset, self.log_start) = (-1, -1, -1);
                (self.hint, self.diverging, self.records) = (None, None, Bytes::new());
            }
        }
        self.hint = edit.hint.unwrap_or(self.hint);
        self.high_watermark = edit.high_watermark.unwrap_or(self.high_watermark);
        self.last_stable_offset = edit.last_stable_offset.unwrap_or(self.last_stable_offset);
        self.log_start = edit.log_start.unwrap_or(self.log_start);
        self.current_leader = edit.current_leader.or(self.current_leader);
        self.diverging = edit.diverging_epoch.or(self.diverging);
        if let Some(records) = &edit.records {
            self.records = records.clone();
        }
        if edit.corrupt {
            self.records = flip_a_bit(&self.records);
        }
        self.omit |= edit.omit;
    }

    fn cannot_wait(&self) -> bool {
        self.code != 0 || self.hint.is_some() || self.diverging.is_some()
    }

    /// Whether an incremental answer must carry it (KIP-227).
    fn is_news(&self, row: &Row) -> bool {
        self.cannot_wait()
            || !self.records.is_empty()
            || row.sent != Some((self.high_watermark, self.log_start))
    }
}

fn flip_a_bit(records: &Bytes) -> Bytes {
    let mut copy = BytesMut::from(&records[..]);
    if let Some(byte) = copy.get_mut(Header::BYTES) {
        *byte ^= 1;
    }
    copy.freeze()
}
