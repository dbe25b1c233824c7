//! What a seed decides before a run begins: the cluster, the members, how long what lasts.

use std::time::Duration;

use nearside::assign::Assignor;
use nearside::embedded::{BrokerSettings, Settings};
use nearside::group;
use nearside::ids::{BrokerId, Moment, Rack, TopicPartition};
use nearside::routing;

use crate::chance::Chance;

pub(crate) const TOPIC: &str = "orders";
pub(crate) const GROUP: &str = "billing";
/// Round trip between a member and a broker.
pub(crate) const ROUND_TRIP: Duration = Duration::from_millis(2);
const RACKS: [&str; 3] = ["a", "b", "c"];

/// The make-up of one run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) brokers: i32,
    pub(crate) partitions: i32,
    pub(crate) replication: usize,
    pub(crate) members: Vec<Option<Rack>>,
    assignor: Assignor,
    commit_interval: Duration,
    /// Pause between two rounds of the producers.
    pub(crate) pace: Duration,
    /// When faults begin.
    pub(crate) faults_from: Moment,
    /// When everything is healed.
    pub(crate) heal_at: Moment,
    /// When the producers stop.
    pub(crate) produce_until: Moment,
    pub(crate) end: Moment,
    /// Mean time between two faults.
    pub(crate) fault_pause: Duration,
}

/// What one life of a member is made of.
#[derive(Clone, Debug)]
pub(crate) struct MemberPlan {
    pub(crate) seed: u64,
    pub(crate) life: u32,
    pub(crate) at: Moment,
    pub(crate) brokers: i32,
    pub(crate) rack: Option<Rack>,
    pub(crate) assignor: Assignor,
    pub(crate) commit_interval: Duration,
    pub(crate) request_timeout: Duration,
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed, 1);
        let brokers = i32::try_from(chance.within(3..6)).unwrap();
        let members = chance.within(2..4);
        let members = (0..members).map(|_| rack(&mut chance)).collect();
        let heal_at = Moment::from_ms(chance.within(32_000..44_000));
        Self {
            seed,
            brokers,
            partitions: i32::try_from(chance.within(6..10)).unwrap(),
            replication: if chance.one_in(4) { 2 } else { 3 },
            members,
            assignor: chance.pick(&[Assignor::CooperativeSticky, Assignor::Range]),
            commit_interval: chance.millis(500..5_000),
            pace: chance.millis(250..600),
            faults_from: Moment::from_ms(6_000),
            heal_at,
            produce_until: heal_at + Duration::from_secs(14),
            end: heal_at + Duration::from_secs(30),
            fault_pause: chance.millis(800..4_000),
        }
    }

    pub(crate) fn cluster(&self) -> Settings {
        let broker = |id: i32| BrokerSettings::new(id, rack_of(id));
        Settings {
            group_session_min: Duration::from_millis(100),
            history_max: 0,
            ..Settings::new((1..=self.brokers).map(broker))
        }
    }

    pub(crate) fn broker_ids(&self) -> Vec<BrokerId> {
        (1..=self.brokers).map(BrokerId).collect()
    }

    pub(crate) fn topic(&self) -> Vec<TopicPartition> {
        let partitions = 0..self.partitions;
        partitions
            .map(|index| TopicPartition::new(TOPIC, index))
            .collect()
    }

    /// A life of the member with this index.
    pub(crate) fn member(&self, index: usize, life: u32, at: Moment) -> MemberPlan {
        MemberPlan {
            seed: self.seed,
            life: 100 + life,
            at,
            brokers: self.brokers,
            rack: self.members[index].clone(),
            assignor: self.assignor,
            commit_interval: self.commit_interval,
            request_timeout: Duration::from_secs(8),
        }
    }
}

impl MemberPlan {
    pub(crate) fn routing(&self) -> routing::Settings {
        routing::Settings {
            client_rack: self.rack.clone(),
            ..Default::default()
        }
    }

    pub(crate) fn group(&self) -> group::Settings {
        group::Settings {
            rack: self.rack.clone(),
            assignors: vec![self.assignor],
            session_timeout: Duration::from_secs(6),
            heartbeat_interval: Duration::from_secs(1),
            rebalance_timeout: Duration::from_secs(12),
            request_timeout: self.request_timeout,
            revoke_budget: Duration::from_secs(10),
            join_jitter: Duration::from_millis(100),
            ..group::Settings::new(GROUP)
        }
    }

    pub(crate) fn handling(&self) -> nearside::handler::Settings {
        crate::member::host_settings()
    }
}

/// Mostly a rack that has brokers, sometimes none.
fn rack(chance: &mut Chance) -> Option<Rack> {
    (!chance.one_in(4)).then(|| chance.pick(&RACKS).into())
}

fn rack_of(broker: i32) -> &'static str {
    let index = usize::try_from(broker - 1).unwrap();
    RACKS[index % RACKS.len()]
}
