//! Which replica a leader hints at (KIP-392; routing.md F3-F6).

use super::super::super::Selector;
use super::super::super::cluster::Cluster;
use super::super::super::partition::{Partition, Replica};
use crate::ids::{BrokerId, Rack};

/// The preferred read replica for a consumer in `rack` that reads at `offset`; `None` is "me".
pub(super) fn preferred(
    cluster: &Cluster,
    partition: &Partition,
    rack: Option<&Rack>,
    offset: i64,
) -> Option<BrokerId> {
    let leader = partition.leader?;
    let rack_of = |broker: BrokerId| {
        cluster
            .brokers
            .get(&broker)
            .and_then(|broker| broker.settings.rack.as_ref())
    };
    let can_serve = |replica: &&Replica| {
        let alive = cluster
            .brokers
            .get(&replica.broker)
            .is_some_and(|broker| !broker.fenced);
        let in_range = replica.seen_end >= offset && partition.log.start() <= offset;
        alive && in_range && partition.isr.contains(&replica.broker)
    };
    let candidates = partition.replicas.iter().filter(can_serve);
    match cluster.settings.selector {
        Selector::LeaderOnly => None,
        Selector::Always(broker) => {
            let named = candidates
                .map(|replica| replica.broker)
                .find(|&other| other == broker);
            named.filter(|&other| other != leader)
        }
        Selector::RackAware => {
            let rack = rack?;
            if rack_of(leader) == Some(rack) {
                return None;
            }
            let near = candidates.filter(|replica| rack_of(replica.broker) == Some(rack));
            near.rev()
                .max_by_key(|replica| replica.seen_end)
                .map(|replica| replica.broker)
        }
    }
}
