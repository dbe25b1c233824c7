//! From news about the cluster to inputs of the routes concerned.

use std::sync::Arc;

use super::messages::{BrokerNews, Told};
use super::supervisor::PartitionSupervisor;
use crate::cluster::{Diff, Snapshot};
use crate::ids::{BrokerId, TopicName, TopicPartition};
use crate::routing::{Breaker, Class, Input, Leadership, Link, LinkChange};

impl PartitionSupervisor {
    /// Takes a new snapshot and tells each route what changed for it.
    pub(super) fn diffs(&mut self, snapshot: Arc<Snapshot>, diffs: &[Diff]) {
        self.snapshot = snapshot;
        self.refresh_broker_facts();
        for diff in diffs {
            self.diff(diff);
        }
    }

    fn diff(&mut self, diff: &Diff) {
        match diff {
            Diff::LeaderChanged {
                partition,
                leader,
                epoch,
                addressable,
                ..
            } => {
                let leadership = Leadership {
                    leader: *leader,
                    epoch: *epoch,
                    addressable: *addressable,
                };
                self.route(partition, Input::LeaderChanged(leadership));
            }
            Diff::LeaderLost { partition, .. } => self.route(partition, Input::LeaderLost),
            Diff::IsrChanged {
                partition,
                isr,
                isr_epoch,
                ..
            } => {
                self.route(
                    partition,
                    Input::IsrChanged {
                        isr: Arc::clone(isr),
                        epoch: *isr_epoch,
                    },
                );
            }
            Diff::ReplicasChanged {
                partition,
                replicas,
                offline,
                ..
            } => {
                let (replicas, offline) = (Arc::clone(replicas), Arc::clone(offline));
                self.route(partition, Input::ReplicasChanged { replicas, offline });
            }
            Diff::MetadataVersion { version } => self.route_all(&Input::MetadataVersion(*version)),
            Diff::TopicRecreated {
                topic,
                new_id: Some(id),
                incarnation,
                ..
            } => {
                let input = Input::TopicRecreated {
                    incarnation: *incarnation,
                    id: *id,
                };
                self.route_topic(topic, &input);
            }
            Diff::TopicGone { topic, .. } => self.route_topic(topic, &Input::TopicGone),
            // The rest concerns others: links, the coordinator, the fleet.
            Diff::TopicRecreated { new_id: None, .. }
            | Diff::EndpointChanged { .. }
            | Diff::BrokerAdded { .. }
            | Diff::BrokerRemoved { .. }
            | Diff::TopicUnconfirmed { .. }
            | Diff::TopicError { .. }
            | Diff::PartitionsAdded { .. }
            | Diff::EpochRegressed { .. }
            | Diff::RebootstrapStarted { .. }
            | Diff::RebootstrapEnded
            | Diff::ClusterChanged { .. }
            | Diff::HintEndpointDistrusted { .. } => {}
        }
    }

    /// Address and rack of every broker, as the snapshot has them.
    fn refresh_broker_facts(&mut self) {
        let mut facts = self.thread.brokers.borrow_mut();
        for broker in self.snapshot.brokers() {
            let entry = facts.entry(broker.id);
            entry.addressable = true;
            entry.rack.clone_from(&broker.rack);
        }
    }

    /// Applies a fact about a broker, then tells the routes it may concern.
    pub(super) fn broker_news(&mut self, broker: BrokerId, news: BrokerNews) {
        let input = {
            let mut table = self.thread.brokers.borrow_mut();
            let facts = table.entry(broker);
            match news {
                BrokerNews::Link {
                    class,
                    link,
                    change,
                    fetch_version,
                } => {
                    facts.set_link(class, link);
                    facts.fetch_version = fetch_version.or(facts.fetch_version);
                    change.map(|change| Input::LinkChanged {
                        broker,
                        class,
                        change,
                    })
                }
                BrokerNews::Breaker(breaker) => {
                    facts.breaker = breaker;
                    matches!(breaker, Breaker::Open(_)).then_some(Input::BreakerOpened { broker })
                }
                BrokerNews::V10(dropped) => {
                    facts.v10 = dropped;
                    Some(if dropped {
                        Input::LaneDropped { broker }
                    } else {
                        Input::LaneRestored { broker }
                    })
                }
                BrokerNews::Muted(until) => Some(Input::Throttled { broker, until }),
                BrokerNews::Restarted => {
                    for class in CLASSES {
                        facts.set_link(class, Link::Down);
                    }
                    None
                }
            }
        };
        if let Some(input) = input {
            self.route_all(&input);
        } else if news == BrokerNews::Restarted {
            for class in CLASSES {
                let change = LinkChange::Lost;
                self.route_all(&Input::LinkChanged {
                    broker,
                    class,
                    change,
                });
            }
        }
    }

    fn route(&mut self, partition: &TopicPartition, input: Input) {
        self.tell(partition, Told::Route(Box::new(input)));
    }

    fn route_topic(&mut self, topic: &TopicName, input: &Input) {
        for (partition, slot) in &mut self.slots {
            if partition.topic == *topic {
                slot.life.tell(Told::Route(Box::new(input.clone())));
            }
        }
    }

    fn route_all(&mut self, input: &Input) {
        for slot in self.slots.values_mut() {
            slot.life.tell(Told::Route(Box::new(input.clone())));
        }
    }
}

const CLASSES: [Class; 3] = [Class::Rack, Class::NoRack, Class::Control];
