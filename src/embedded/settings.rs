//! What a cluster is made of, and the broker properties that shape its behaviour.

use std::time::Duration;

use super::Sasl;
use crate::ids::{BrokerId, Rack};

/// The make-up of a [`Cluster`](super::Cluster). Defaults are those of the real cluster the project
/// is tested against: short timeouts, a rack-aware replica selector, no automatic topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `cluster.id`, as Metadata reports it.
    pub cluster_id: String,
    /// The brokers. The first one is the controller.
    pub brokers: Vec<BrokerSettings>,
    /// `replica.selector.class`. Default: rack aware.
    pub selector: Selector,
    /// Pause between two fetches of a follower that has something to fetch. Default 1 ms; zero
    /// replicates within the append.
    pub replication_delay: Duration,
    /// `replica.lag.time.max.ms`: a replica that was not caught up for so long leaves the ISR.
    /// Default 4 s.
    pub replica_lag_max: Duration,
    /// `broker.session.timeout.ms`: how long the controller takes to notice a dead broker.
    /// Default 3 s.
    pub broker_session: Duration,
    /// `min.insync.replicas`. Default 1.
    pub min_in_sync: usize,
    /// `max.incremental.fetch.session.cache.slots` per broker. Default 1000.
    pub fetch_session_slots: usize,
    /// `fetch.max.bytes` of the broker: cap of one Fetch answer. Default 55 MiB.
    pub fetch_bytes_max: usize,
    /// `message.max.bytes`: cap of one produced batch, and of one OffsetCommit as the coordinator
    /// would write it. Default 1,048,588.
    pub message_bytes_max: usize,
    /// `group.initial.rebalance.delay.ms`. Default 0.
    pub group_initial_delay: Duration,
    /// `group.min.session.timeout.ms`. Default 1 s.
    pub group_session_min: Duration,
    /// `group.max.session.timeout.ms`. Default 30 min.
    pub group_session_max: Duration,
    /// `auto.create.topics.enable`: partitions of a topic made by asking for it. Default: none.
    pub auto_create_partitions: Option<u32>,
    /// What clients have to prove. Default: nothing.
    pub sasl: Option<Sasl>,
    /// Requests kept for inspection, oldest dropped first; 0 keeps none. Default 10,000.
    pub history_max: usize,
}

impl Settings {
    /// A cluster of `brokers`, with defaults for everything else.
    pub fn new(brokers: impl IntoIterator<Item = BrokerSettings>) -> Self {
        Self {
            cluster_id: "nearside-embedded-0000".to_owned(),
            brokers: brokers.into_iter().collect(),
            selector: Selector::RackAware,
            replication_delay: Duration::from_millis(1),
            replica_lag_max: Duration::from_secs(4),
            broker_session: Duration::from_secs(3),
            min_in_sync: 1,
            fetch_session_slots: 1_000,
            fetch_bytes_max: 55 * 1024 * 1024,
            message_bytes_max: 1_048_588,
            group_initial_delay: Duration::ZERO,
            group_session_min: Duration::from_secs(1),
            group_session_max: Duration::from_secs(30 * 60),
            auto_create_partitions: None,
            sasl: None,
            history_max: 10_000,
        }
    }
}

impl Default for Settings {
    /// Brokers 1, 2 and 3 in racks a, b and c.
    fn default() -> Self {
        Self::new([(1, "a"), (2, "b"), (3, "c")].map(|(id, rack)| BrokerSettings::new(id, rack)))
    }
}

/// One broker of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerSettings {
    /// `node.id`.
    pub id: BrokerId,
    /// `broker.rack`; `None` leaves it unset.
    pub rack: Option<Rack>,
    /// Advertised host. Default `broker-ID.embedded`.
    pub host: String,
    /// Advertised port. Default 9092.
    pub port: u16,
}

impl BrokerSettings {
    /// Broker `id` in `rack`.
    pub fn new(id: impl Into<BrokerId>, rack: impl Into<Rack>) -> Self {
        Self {
            rack: Some(rack.into()),
            ..Self::without_rack(id)
        }
    }

    /// Broker `id` with `broker.rack` unset.
    pub fn without_rack(id: impl Into<BrokerId>) -> Self {
        let id = id.into();
        Self {
            id,
            rack: None,
            host: format!("broker-{id}.embedded"),
            port: 9092,
        }
    }
}

/// How a leader picks the replica it hints at (KIP-392).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    /// `RackAwareReplicaSelector`: an in-sync replica in the consumer's rack, the leader itself if
    /// it is in that rack.
    RackAware,
    /// No selector: never a hint.
    LeaderOnly,
    /// A custom selector that names one broker whatever the rack, even none.
    Always(BrokerId),
}
