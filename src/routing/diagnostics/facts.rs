//! What the diagnostics are judged by.

use std::collections::BTreeMap;

use crate::ids::{BrokerId, Rack, TopicPartition};
use crate::routing::facts::FOLLOWER_FETCH;

/// A fleet and its cluster at one moment. Counters count from the start of the fleet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// The brokers of the latest snapshot; empty before the first.
    pub brokers: BTreeMap<BrokerId, BrokerSeen>,
    /// Record bytes received, by zone.
    pub received: Zones,
    /// Those of reading fetches alone: probes and hedges go to the leader wherever it is.
    pub read: Zones,
    /// Hints received.
    pub hints: u64,
    /// Whether some partition is read across zones although a replica in our rack is in sync.
    pub replica_passed_over: bool,
    /// Partitions whose leader is silent and that have neither candidate nor refuge, or whose
    /// position waits for it.
    pub unreachable: Vec<TopicPartition>,
    /// Partitions forced to the leader because the hinted replica is outside the ISR view.
    pub not_in_isr: usize,
    /// Partitions in all.
    pub partitions: usize,
}

/// One broker.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BrokerSeen {
    /// Its rack.
    pub rack: Option<Rack>,
    /// Highest Fetch version both sides speak; `None` before the first connection.
    pub fetch_version: Option<i16>,
    /// Whether its no-rack lane has dropped to Fetch v10.
    pub v10: bool,
    /// Whether it would have to, and serves no v10.
    pub v10_unavailable: bool,
}

/// Bytes by zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Zones {
    /// From brokers in our rack.
    pub same: u64,
    /// From brokers in others.
    pub cross: u64,
    /// From brokers without one, or to a client without one.
    pub unknown: u64,
}

impl Zones {
    /// All bytes.
    pub fn sum(&self) -> u64 {
        self.same + self.cross + self.unknown
    }
}

impl BrokerSeen {
    /// Whether it is known to compute no hints.
    pub fn is_legacy(&self) -> bool {
        self.fetch_version
            .is_some_and(|version| version < FOLLOWER_FETCH)
    }
}

impl Facts {
    pub(super) fn racks(&self) -> impl Iterator<Item = &Rack> {
        self.brokers.values().filter_map(|seen| seen.rack.as_ref())
    }

    pub(super) fn without_rack(&self) -> impl Iterator<Item = BrokerId> {
        self.brokers
            .iter()
            .filter(|(_, seen)| seen.rack.is_none())
            .map(|(id, _)| *id)
    }
}
