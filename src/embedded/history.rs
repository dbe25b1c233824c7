//! What brokers were asked, and how many record bytes they served: the evidence tests assert on.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::{Api, ConnectionId};
use crate::ids::{BrokerId, LeaderEpoch, Moment, Offset, Rack, TopicPartition};

/// One request as a broker received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When it was taken off its connection (not when it arrived behind a parked one).
    pub at: Moment,
    /// The broker.
    pub broker: BrokerId,
    /// The connection it came over.
    pub connection: ConnectionId,
    /// The API.
    pub api: Api,
    /// The request's version.
    pub version: i16,
    /// The client id of the request header.
    pub client_id: Option<String>,
    /// The contents of a Fetch.
    pub fetch: Option<FetchSeen>,
}

/// The contents of a Fetch request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchSeen {
    /// `rack_id`; `None` if blank.
    pub rack: Option<Rack>,
    /// Session id (KIP-227).
    pub session_id: i32,
    /// Session epoch.
    pub session_epoch: i32,
    /// `max_wait_ms`.
    pub wait_max: Duration,
    /// `min_bytes`.
    pub bytes_min: i32,
    /// `max_bytes`.
    pub bytes_max: i32,
    /// Partitions added or changed, in order. Partitions kept by the session are not repeated.
    pub rows: Vec<FetchSeenRow>,
    /// Partitions removed from the session.
    pub forgotten: Vec<TopicPartition>,
}

/// One partition of a Fetch request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchSeenRow {
    /// The partition.
    pub partition: TopicPartition,
    /// Offset asked for.
    pub offset: Offset,
    /// `current_leader_epoch`.
    pub current_epoch: Option<LeaderEpoch>,
    /// `last_fetched_epoch`.
    pub last_fetched_epoch: Option<LeaderEpoch>,
    /// `partition_max_bytes`.
    pub bytes_max: i32,
}

/// Bounded memory of requests plus counters that never forget.
#[derive(Debug, Default)]
pub(super) struct History {
    seen: VecDeque<Seen>,
    max: usize,
    record_bytes: BTreeMap<BrokerId, u64>,
    requests: BTreeMap<(BrokerId, Api), u64>,
}

impl History {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            ..Self::default()
        }
    }

    pub(super) fn keeps(&self) -> bool {
        self.max > 0
    }

    pub(super) fn count(&mut self, broker: BrokerId, api: Api) {
        *self.requests.entry((broker, api)).or_default() += 1;
    }

    pub(super) fn push(&mut self, seen: Seen) {
        if self.seen.len() >= self.max {
            self.seen.pop_front();
        }
        self.seen.push_back(seen);
    }

    pub(super) fn served(&mut self, broker: BrokerId, bytes: usize) {
        *self.record_bytes.entry(broker).or_default() += u64::try_from(bytes).unwrap_or(u64::MAX);
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Seen> {
        self.seen.iter()
    }

    pub(super) fn take(&mut self) -> Vec<Seen> {
        self.seen.drain(..).collect()
    }

    pub(super) fn record_bytes(&self, broker: BrokerId) -> u64 {
        self.record_bytes.get(&broker).copied().unwrap_or(0)
    }

    pub(super) fn requests(&self, broker: BrokerId, api: Api) -> u64 {
        self.requests.get(&(broker, api)).copied().unwrap_or(0)
    }
}
