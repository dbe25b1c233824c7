//! What the diagnostics of a fleet would see of the rig.

use nearside::ids::{BrokerId, Rack};
use nearside::routing::broker::{Count, Traffic};
use nearside::routing::diagnostics::{BrokerSeen, Facts, Zones};

use super::Rig;

impl Rig {
    /// The facts of this moment.
    pub(crate) fn facts(&self) -> Facts {
        let brokers = self.metadata.snapshot().brokers().map(|broker| {
            let known = self.brokers.get(broker.id);
            let seen = BrokerSeen {
                rack: broker.rack.clone(),
                fetch_version: known.and_then(|facts| facts.fetch_version),
                v10: self.brokers.is_v10(broker.id),
                v10_unavailable: false,
            };
            (broker.id, seen)
        });
        let bytes = self.received();
        let reading = bytes
            .iter()
            .filter(|(_, traffic, _)| matches!(traffic, Traffic::Lane(_)));
        let readers = self.readers.iter();
        let cut_off = readers.filter(|(_, reader)| reader.route.health().leader_unreachable);
        Facts {
            brokers: brokers.collect(),
            received: self.zones(bytes.iter()),
            read: self.zones(reading),
            unreachable: cut_off.map(|(partition, _)| partition.clone()).collect(),
            partitions: self.readers.len(),
            ..Facts::default()
        }
    }

    /// Record bytes received: from whom, over what, how many.
    pub(crate) fn received(&self) -> Vec<(BrokerId, Traffic, u64)> {
        let bytes = |(broker, count): &(BrokerId, Count)| {
            let Count::Bytes { traffic, bytes } = count else {
                return None;
            };
            Some((*broker, *traffic, u64::try_from(*bytes).unwrap()))
        };
        self.link_counts.iter().filter_map(bytes).collect()
    }

    fn zones<'a>(&self, rows: impl Iterator<Item = &'a (BrokerId, Traffic, u64)>) -> Zones {
        let ours: Option<&Rack> = self.settings.client_rack.as_ref();
        let mut zones = Zones::default();
        for (broker, _, bytes) in rows {
            match (ours, self.brokers.rack(*broker)) {
                (Some(ours), Some(theirs)) if ours == theirs => zones.same += bytes,
                (Some(_), Some(_)) => zones.cross += bytes,
                (None, _) | (_, None) => zones.unknown += bytes,
            }
        }
        zones
    }
}
