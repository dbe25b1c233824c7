//! Brokers and their endpoints: what Metadata lists, overlaid by what leadership hints tell
//! (metadata.md 5).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::diff::{Diff, EndpointChange, LeaderSource};
use super::output::{Counted, Target};
use super::settings::HintEndpoints;
use super::snapshot::{Broker, BrokerSource, Endpoint, Witness};
use super::topic::Partition;
use super::view::View;
use crate::ids::{BrokerId, Moment};
use crate::wire::api;
use crate::wire::api::metadata::Response;

impl View {
    /// Merges the brokers of an answer.
    pub(super) fn merge_brokers(&mut self, answer: &Response, from: Target, now: Moment) {
        let source = LeaderSource::Metadata(from);
        let offline: BTreeSet<BrokerId> = answer
            .topics
            .iter()
            .flat_map(|topic| &topic.partitions)
            .flat_map(|row| row.offline.iter().copied())
            .collect();
        for row in &answer.brokers {
            self.hosts.insert(Arc::clone(&row.host));
            let listed = Endpoint {
                host: Arc::clone(&row.host),
                port: row.port,
            };
            let Some(known) = self.work.broker(row.broker).cloned() else {
                self.add_broker(row, None, source, now);
                continue;
            };
            let mut broker = known;
            // A broker that lags behind the hint knows the old address, not a newer one.
            let lags = broker.witness.as_ref().is_some_and(|witness| {
                Self::epoch_in(answer, &witness.partition).is_some_and(|e| e < witness.epoch)
            });
            if !lags {
                self.hinted_failures.remove(&row.broker);
                broker.endpoint = listed.clone();
                broker.witness = None;
                broker.source = BrokerSource::Metadata;
                // While it restarts, a broker may be told without its rack (KIP-881).
                if row.rack.is_some() || !offline.contains(&row.broker) {
                    broker.rack.clone_from(&row.rack);
                }
            }
            broker.listed = Some(listed);
            broker.unlisted = false;
            broker.seen_at = now;
            self.replace_broker(broker);
        }
    }

    /// Removes the brokers that neither an answer nor a leadership has needed for long.
    pub(super) fn drop_unlisted_brokers(&mut self, answer: &Response, now: Moment) {
        let listed: BTreeSet<BrokerId> = answer.brokers.iter().map(|row| row.broker).collect();
        let missing = |id: &&BrokerId| !listed.contains(*id);
        let missing: Vec<BrokerId> = self.work.brokers.keys().filter(missing).copied().collect();
        if missing.is_empty() {
            return;
        }
        let keep = UNLISTED_MIN.max(self.settings.age_max * 2);
        let mut leading: Option<BTreeSet<BrokerId>> = None;
        for id in missing {
            let Some(broker) = self.work.broker(id) else {
                continue;
            };
            let (recent, unlisted) = (now.since(broker.seen_at) < keep, broker.unlisted);
            let leaders = || {
                self.work
                    .topics()
                    .flat_map(|topic| topic.partitions.values())
            };
            let leaders = || leaders().filter_map(Partition::leader).collect();
            let needed = recent || leading.get_or_insert_with(leaders).contains(&id);
            if !needed {
                Arc::make_mut(&mut self.work.brokers).remove(&id);
                self.diffs.push(Diff::BrokerRemoved { broker: id });
            } else if !unlisted && let Some(broker) = self.broker_mut(id) {
                broker.unlisted = true;
            }
        }
    }

    /// Takes the endpoint a hint brought for a leader it vouches for.
    pub(super) fn overlay(
        &mut self,
        hinted: &api::Endpoint,
        witness: Witness,
        from: BrokerId,
        now: Moment,
    ) {
        let endpoint = Endpoint {
            host: Arc::clone(&hinted.host),
            port: hinted.port,
        };
        let Some(mut broker) = self.work.broker(hinted.broker).cloned() else {
            if self.takes_address(hinted) {
                self.add_broker(hinted, Some(witness), LeaderSource::Hint(from), now);
            } else {
                self.counts.push(Counted::HintEndpointRefused);
            }
            return;
        };
        broker.seen_at = now;
        broker.rack = hinted.rack.clone().or(broker.rack);
        if broker.endpoint != endpoint {
            if self.takes_address(hinted) {
                broker.endpoint = endpoint;
                broker.source = BrokerSource::Hint;
                broker.witness = Some(witness);
                self.hinted_failures.remove(&hinted.broker);
            } else {
                self.counts.push(Counted::HintEndpointRefused);
            }
        }
        self.replace_broker(broker);
    }

    /// A dial of `broker` failed: twice at a hinted address where Metadata has another, and the
    /// hint is dropped.
    pub(super) fn dial_failed(&mut self, id: BrokerId) {
        let Some(broker) = self.work.broker(id) else {
            return;
        };
        let Some(listed) = broker.listed.clone() else {
            return;
        };
        if broker.source != BrokerSource::Hint || listed == broker.endpoint {
            return;
        }
        let failures = self.hinted_failures.entry(id).or_default();
        *failures += 1;
        if *failures < HINTED_FAILURES_MAX {
            return;
        }
        let broker = Broker {
            endpoint: listed,
            source: BrokerSource::Metadata,
            witness: None,
            ..broker.clone()
        };
        self.hint_ids_only.insert(id);
        self.replace_broker(broker);
        self.diffs.push(Diff::HintEndpointDistrusted { broker: id });
    }

    /// Forgets what hints told about addresses and makes every broker due for removal.
    pub(super) fn distrust_brokers(&mut self) {
        let brokers: Vec<Broker> = self.work.brokers().cloned().collect();
        for mut broker in brokers {
            broker.endpoint = broker.listed.clone().unwrap_or(broker.endpoint);
            broker.source = BrokerSource::Metadata;
            broker.witness = None;
            broker.unlisted = true;
            broker.seen_at = Moment::ZERO;
            self.replace_broker(broker);
        }
        self.hinted_failures.clear();
        self.hint_ids_only.clear();
    }

    fn add_broker(
        &mut self,
        row: &api::Endpoint,
        witness: Option<Witness>,
        told: LeaderSource,
        now: Moment,
    ) {
        let source = match told {
            LeaderSource::Metadata(_) => BrokerSource::Metadata,
            LeaderSource::Hint(_) => BrokerSource::Hint,
        };
        let endpoint = Endpoint {
            host: Arc::clone(&row.host),
            port: row.port,
        };
        let listed = (source == BrokerSource::Metadata).then(|| endpoint.clone());
        let broker = Broker {
            id: row.broker,
            endpoint,
            rack: row.rack.clone(),
            source,
            listed,
            witness,
            seen_at: now,
            unlisted: false,
        };
        Arc::make_mut(&mut self.work.brokers).insert(row.broker, broker);
        self.diffs.push(Diff::BrokerAdded { broker: row.broker });
        self.reach(row.broker, told);
    }

    /// Tells the partitions that were waiting for the address of `broker`.
    fn reach(&mut self, broker: BrokerId, told: LeaderSource) {
        let leads = |row: &Partition| row.leader() == Some(broker);
        let work = &self.work;
        let waiting: Vec<_> = self
            .unaddressable
            .iter()
            .filter(|partition| work.partition(partition).is_some_and(leads))
            .cloned()
            .collect();
        for partition in waiting {
            let Some(mut row) = self.work.partition(&partition).cloned() else {
                continue;
            };
            row.addressable = true;
            self.store(&partition, row.clone());
            self.tell_leader(&partition, &row, told);
        }
    }

    /// Writes a broker back and tells what changed.
    fn replace_broker(&mut self, broker: Broker) {
        let Some(known) = self.work.broker(broker.id) else {
            return;
        };
        let kind = if known.endpoint != broker.endpoint {
            Some(EndpointChange::Address)
        } else if known.rack != broker.rack {
            Some(EndpointChange::Rack)
        } else {
            None
        };
        if let Some(kind) = kind {
            self.diffs.push(Diff::EndpointChanged {
                broker: broker.id,
                old: known.endpoint.clone(),
                new: broker.endpoint.clone(),
                kind,
            });
        }
        Arc::make_mut(&mut self.work.brokers).insert(broker.id, broker);
    }

    fn broker_mut(&mut self, id: BrokerId) -> Option<&mut Broker> {
        let brokers: &mut BTreeMap<_, _> = Arc::make_mut(&mut self.work.brokers);
        brokers.get_mut(&id)
    }

    fn takes_address(&self, hinted: &api::Endpoint) -> bool {
        if self.hint_ids_only.contains(&hinted.broker) {
            return false;
        }
        let suffix = |suffix: &String| hinted.host.ends_with(suffix.as_str());
        match self.settings.hint_endpoints {
            HintEndpoints::Accept => true,
            HintEndpoints::KnownHosts => {
                self.hosts.contains(&hinted.host) || self.settings.hint_suffixes.iter().any(suffix)
            }
            HintEndpoints::IdsOnly => false,
        }
    }
}

/// Failed dials of a hinted address after which Metadata's is used.
const HINTED_FAILURES_MAX: u32 = 2;
/// Shortest time an unlisted broker is kept.
const UNLISTED_MIN: Duration = Duration::from_secs(600);
